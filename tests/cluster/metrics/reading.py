"""Reads what a daemon answers under its metrics port."""

import http.client
import re
from pathlib import Path

from psp import paths
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster

PAGE = Path("docs") / "metrics.md"
_ROW = re.compile(r"^\| `(psp_\w+)` \| (counter|gauge|histogram) \| ([^|]*) \|")
_SAMPLE = re.compile(r"^(psp_\w+)(\{[^}]*\})? (\S+)$")

Samples = dict[str, float]
"""Values by name and labels, as they are written: psp_decisions_total{sp="north",outcome="lost"}."""


def get(cluster: LocalCluster, name: str, path: str) -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.state.node(name).metrics_port, timeout=20)
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
    rows = [line.split() for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len({row[2] for row in rows}) == len(rows)
    return {row[2]: row[3] for row in rows}


def documented(name: str) -> dict[str, str]:
    """The same as docs/metrics.md tells, for the primary or an SP."""
    column = "primary" if name == PRIMARY else "semi-primary"
    lines = (paths.home() / PAGE).read_text().splitlines()
    rows = [row for row in map(_ROW.match, lines) if row]
    return {row[1]: row[2] for row in rows if row[3] in (column, "both")}
