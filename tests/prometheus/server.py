"""A Prometheus that scrapes a local cluster, with a copy of the alert rules in which minutes are seconds."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from psp import paths
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.servers.ports import PortAllocator
from psp.waiting import wait_until

PROGRAM = paths.binary("psp-primary").parents[1] / "promtool" / "usr" / "bin" / "prometheus"
RULES = Path("deploy") / "prometheus" / "psp.rules.yml"
FOR_S = 5
"""In place of each rule's own minutes."""
START_S = 60


def hastened(rules: str, thresholds: Mapping[str, str]) -> str:
    """The rules with FOR_S for every `for:`, and texts in place of others, each of which is there once."""
    shorter, pauses = re.subn(r"^( +for:) \w+$", rf"\1 {FOR_S}s", rules, flags=re.MULTILINE)
    assert pauses > 10
    for old, new in thresholds.items():
        assert shorter.count(old) == 1, old
        shorter = shorter.replace(old, new)
    return shorter


class Prometheus:
    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: object) -> Any:
        with urlopen(f"{self._address}/{path}?{urlencode(parameters)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, text: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series."""
        when = {} if at is None else {"time": at}
        found = self.ask("query", query=text, **when)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def value(self, text: str) -> float | None:
        """Of the only series; None: there is none."""
        found = self.query(text)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def has_fired(self, alert: str, until: float) -> bool:
        return bool(
            self.query(f'count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[1h])', until)
        )

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """The labels of the alerts that fire, by name."""
        found: dict[str, list[dict[str, str]]] = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def is_ready(self) -> bool:
        try:
            return len(self.ask("rules")["groups"]) > 0
        except (URLError, OSError):
            return False


@contextmanager
def scraping(cluster: LocalCluster, rules: str) -> Iterator[Prometheus]:
    """Each second, until it is left."""
    port = PortAllocator(taken=cluster.state.ports()).take()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "psp.rules.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(_config(cluster))
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            [
                PROGRAM, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            made = Prometheus(port)
            wait_until("Prometheus", lambda: process.poll() is not None or made.is_ready(), START_S)
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()


def _config(cluster: LocalCluster) -> str:
    """The jobs as docs/metrics.md names them."""

    def targets(*names: str) -> list[str]:
        return [f"127.0.0.1:{cluster.state.node(name).metrics_port}" for name in names]

    jobs = {"psp-primary": targets(PRIMARY), "psp-semi-primary": targets(*(sp.name for sp in cluster.sps))}
    scrapes = "\n".join(
        f"  - job_name: {name}\n    static_configs: [{{targets: {json.dumps(found)}}}]"
        for name, found in jobs.items()
    )
    return (
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [psp.rules.yml]\nscrape_configs:\n{scrapes}\n"
    )


def now(prometheus: Prometheus) -> float:
    """The time of the last evaluation of all rules: what is asked up to then is complete."""
    return min(_seconds(group["lastEvaluation"]) for group in prometheus.ask("rules")["groups"])


def _seconds(text: str) -> float:
    whole, _, _ = text.partition(".")
    return time.mktime(time.strptime(whole.rstrip("Z")[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
