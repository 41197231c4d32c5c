"""The panels of deploy/grafana ask only for metrics that exist, and promtool can read what they ask."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from psp import paths

from tests.alerts.test_alerts import known_metrics, metrics_in, promtool


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((paths.home() / "deploy" / "grafana" / "psp.json").read_text())
    return document


PANELS = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_exists(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        names = metrics_in(target["expr"])
        assert names
        assert names <= known_metrics()


def test_the_queries_are_well_formed(tmp_path: Path) -> None:
    """As recording rules, which promtool checks; Grafana puts a time in the place of its variable."""
    rules = [
        f"  - record: panel:{number}\n    expr: >-\n      {query}" for number, query in enumerate(QUERIES)
    ]
    text = "groups:\n- name: panels\n  rules:\n" + "\n".join(rules) + "\n"
    (tmp_path / "panels.yml").write_text(re.sub(r"\$__\w+", "5m", text))
    ended = subprocess.run(
        [str(promtool()), "check", "rules", "--lint=none", "panels.yml"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_panels_do_not_lie_over_each_other() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    cells = [
        (x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(places)
