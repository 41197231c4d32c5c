"""The demonstration's options and what it shows; the demonstration itself is `make demo`."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from psp.cluster.local import Zone

from benchmarks.demo import report
from benchmarks.demo.__main__ import parse, parse_zones
from benchmarks.demo.scenario import SYSTEMS_OF_MODE, Demo
from benchmarks.results import write_json


def _measured(tps: float) -> dict[str, Any]:
    return {"tps": tps, "p50_ms": 10.0, "p95_ms": 20.0, "aborts": 1, "commit_p50_ms": 31.5}


RESULT: dict[str, Any] = {
    "load": {"isolation": {"postgres": "read committed", "psp": "read committed"}},
    "zones": [{"name": "near", "rtt_ms": 30.0, "postgres": _measured(10), "psp": _measured(50)}],
    "capture": {"psp": "the server module"},
    "throughput_ratio": 5.0,
    "throughput_ratios": {"psp": 5.0},
    "errors": 0,
    "consistent": True,
    "conditions_hold": False,
    "violated_conditions": {"psp": {"near": ["1: W_YTD is the sum of its D_YTD (1 violations)"]}},
    "verification": {"psp": {"differing": []}},
}


def test_zones() -> None:
    assert parse_zones("near:30,far:190.5") == [Zone("near", 30), Zone("far", 190.5)]
    for bad in ("near", "near:", "near:x", ":3", "near:-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_zones(bad)


def test_each_zone_is_at_home_in_its_own_warehouses() -> None:
    options = parse(["--seconds", "10"])
    demo = Demo(options.zones, options.seconds, 4, 2, 1000, options.isolation, False)
    homes = [(demo.load(i).home_first, demo.load(i).home_last) for i in range(3)]
    assert homes == [(1, 2), (3, 4), (5, 6)]
    assert demo.load(0).scale.warehouses == 6
    assert demo.load(0).seconds - demo.load(0).warmup_s == 10


def test_a_load_too_short_for_any_commit_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"tps": 0.0, "p50_ms": None, "p95_ms": None, "aborts": 0, "commit_p50_ms": None}
    zones = [{"name": "far", "rtt_ms": 190.0, "postgres": nothing, "psp": _measured(50)}]
    result = {**RESULT, "zones": zones, "throughput_ratios": {"psp": None}}
    report.show(result)
    assert "? times" in capsys.readouterr().out
    report.plot(result, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").exists()


def test_results_are_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.show(RESULT)
    shown = capsys.readouterr().out
    assert "5.0 times" in shown
    assert "W_YTD" in shown
    assert "psp: rows captured by the server module" in shown
    write_json(RESULT, tmp_path / "results" / "demo.json")
    assert json.loads((tmp_path / "results" / "demo.json").read_text()) == RESULT
    report.plot(RESULT, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_three_systems_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zones = [{**RESULT["zones"][0], "views": _measured(40)}]
    ratios = {"views": 4.0, "psp": 5.0}
    isolation = {**RESULT["load"]["isolation"], "views": "repeatable read"}
    result = {**RESULT, "load": {"isolation": isolation}, "zones": zones, "throughput_ratios": ratios}
    report.show(result)
    shown = capsys.readouterr().out
    assert "psp (views): 4.0 times" in shown
    assert "psp (native): 5.0 times" in shown
    assert "PostgreSQL: read committed; psp (views): repeatable read; psp (native): read committed" in shown
    report.plot(result, tmp_path / "demo.png")


@pytest.mark.parametrize(("mode", "systems"), [("views", ["views"]), ("both", ["views", "psp"])])
def test_modes(mode: str, systems: list[str]) -> None:
    assert parse(["--mode", mode]).mode == mode
    assert list(SYSTEMS_OF_MODE[mode]) == systems
    demo = Demo([Zone("near", 30)], 1, 1, 1, 100, "read committed", False, systems)
    assert "--psp-mode=views" in demo.load(0, "views").arguments()
    assert "--psp-mode=" in demo.load(0, "native").arguments()
