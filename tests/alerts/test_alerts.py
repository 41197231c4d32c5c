"""The alert rules: promtool takes them, and the documents tell of each. Without it: make test-alerts."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from psp import paths

RULES = "psp.rules.yml"
TESTS = Path(__file__).parent / "psp.rules.test.yml"
_METRIC = re.compile(r"\bpsp_[a-z_]+")
_HISTOGRAM_PARTS = re.compile(r"_(bucket|sum|count)$")


def rules() -> dict[str, str]:
    """The lines of each alert by its name; promtool knows that they are well-formed."""
    text = (paths.home() / "deploy" / "prometheus" / RULES).read_text()
    return {part.split("\n")[0]: part for part in text.split("- alert: ")[1:]}


def page(name: str) -> str:
    return (paths.home() / "docs" / name).read_text()


def known_metrics() -> set[str]:
    return set(re.findall(r"^\| `(psp_\w+)` \|", page("metrics.md"), re.MULTILINE))


def metrics_in(text: str) -> set[str]:
    return {_HISTOGRAM_PARTS.sub("", name) for name in _METRIC.findall(text)}


def promtool() -> Path:
    return paths.binary("psp-primary").parents[1] / "promtool" / "usr" / "bin" / "promtool"


@pytest.mark.parametrize("command", [("check", RULES), ("test", TESTS.name)])
def test_promtool_takes_them(tmp_path: Path, command: tuple[str, str]) -> None:
    for file in (paths.home() / "deploy" / "prometheus" / RULES, TESTS):
        shutil.copy(file, tmp_path)
    run = [str(promtool()), command[0], "rules", command[1]]
    ended = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("alert", list(rules()))
def test_a_rule_is_whole(alert: str) -> None:
    """It asks for metrics that exist, says what to do, has a test, and is in docs/alerts.md."""
    rule = rules()[alert]
    names = metrics_in(rule)
    assert names or "expr: up{" in rule
    assert names <= known_metrics()
    annotations = re.findall(r"^ {10}(\w+): .", rule, re.MULTILINE)
    assert annotations[-3:] == ["summary", "reason", "remedy"]
    severity = re.findall(r"labels: \{severity: (page|ticket)\}", rule)
    assert len(severity) == 1
    assert f'alertname="{alert}"' in TESTS.read_text()
    assert f"| `{alert}` | {severity[0]} |" in page("alerts.md")


def test_the_page_has_no_other_alert() -> None:
    named = set(re.findall(r"\bPsp[A-Z]\w+", page("alerts.md")))
    assert named == set(rules())
