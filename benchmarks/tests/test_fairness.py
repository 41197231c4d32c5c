"""The arithmetic of the fairness benchmark."""

import pytest

from benchmarks.fairness import one_row, shared_tpcc
from benchmarks.fairness.zones import ZoneCount


def test_fair_shares_follow_the_round_trips() -> None:
    assert one_row.fair_shares([30, 90, 0], 45) == pytest.approx([500, 1500 / 9, 15000])


def test_targets_of_the_row() -> None:
    forms = {
        "without": [ZoneCount("near", 50, 1000), ZoneCount("far", 100, 0)],
        "with": [ZoneCount("near", 50, 740), ZoneCount("far", 100, 60)],
    }
    targets = one_row.result_of(forms, 40)["targets"]
    assert targets["least_of_fair_share"] == {"measured": 0.3, "at_least": 0.333, "holds": False}
    assert targets["throughput"] == {"measured": 0.8, "at_least": 0.8, "holds": True}


def test_targets_of_the_tpcc() -> None:
    forms = {
        "without": [ZoneCount("near", 50, 100, 0), ZoneCount("far", 100, 10, 90)],
        "with": [ZoneCount("near", 50, 60, 20), ZoneCount("far", 100, 20, 60)],
    }
    result = shared_tpcc.result_of(forms)
    assert result["worst_to_mean"] == {"without": 2.0, "with": 1.5}
    assert result["targets"]["worst_to_mean"] == {"measured": 1.5, "at_most": 1.5, "holds": True}
    assert result["targets"]["throughput"] == {"measured": 0.727, "at_least": 0.8, "holds": False}


def test_nobody_loses() -> None:
    assert shared_tpcc.worst_to_mean([ZoneCount("near", 50, 100), ZoneCount("far", 100, 100)]) == 1.0


def test_rounds_are_added_up() -> None:
    count = ZoneCount("near", 50, 10, 2)
    count.add(ZoneCount("near", 50, 30, 8))
    assert count.row() == {
        "zone": "near",
        "round_trip_ms": 50,
        "commits": 40,
        "aborts": 10,
        "abort_rate": 0.2,
    }
