"""Reads what a daemon answers under its metrics port."""

import http.client
import re
from pathlib import Path

from psp import paths
from psp.cluster.configs import PRIMARY
from psp.cluster.daemons import MRV
from psp.cluster.local import LocalCluster

PAGE = Path("docs") / "metrics.md"
_ROW = re.compile(r"^\| `(psp_\w+)` \| (counter|gauge|histogram) \| ([^|]*) \|")
_SAMPLE = re.compile(r"^(psp_\w+)(\{[^}]*\})? (\S+)$")

Samples = dict[str, float]
"""Values by name and labels, as they are written: psp_decisions_total{sp="north",outcome="lost"}."""


def get(cluster: LocalCluster, name: str, path: str) -> tuple[int, str]:
    """Status and body of an SP's daemon or the primary's."""
    return get_from(cluster.state.node(name).metrics_port, path)


def get_from(port: int, path: str) -> tuple[int, str]:
    """Status and body of a daemon on this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(cluster: LocalCluster, name: str) -> Samples:
    """All samples of a daemon; asserts that the text is well-formed."""
    status, text = get(cluster, name, "/metrics")
    assert status == 200
    return samples_in(text)


def samples_in(text: str) -> Samples:
    """All samples of a text; asserts that it is well-formed."""
    found: Samples = {}
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        sample = _SAMPLE.match(line)
        assert sample, line
        key = sample[1] + (sample[2] or "")
        assert key not in found, line
        found[key] = float(sample[3])
    return found


def types(cluster: LocalCluster, name: str) -> dict[str, str]:
    """The type of each metric that a daemon has, with samples or without."""
    _, text = get(cluster, name, "/metrics")
    return types_in(text)


def types_in(text: str) -> dict[str, str]:
    """The type of each metric of a text."""
    rows = [line.split() for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len({row[2] for row in rows}) == len(rows)
    return {row[2]: row[3] for row in rows}


def documented(name: str) -> dict[str, str]:
    """The same as docs/metrics.md tells, for the primary, an SP or psp-mrv."""
    column = {PRIMARY: "primary", MRV: "psp-mrv"}.get(name, "semi-primary")
    shared = ("all",) if name == MRV else ("all", "both")
    lines = (paths.home() / PAGE).read_text().splitlines()
    rows = [row for row in map(_ROW.match, lines) if row]
    return {row[1]: row[2] for row in rows if row[3] in (column, *shared)}
