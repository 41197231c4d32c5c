"""The simulation of the thesis's figures 21 and 22."""

import json
import random
from pathlib import Path

import pytest

from benchmarks.mrv import records
from benchmarks.mrv.simulation import Limits, abort_rate, change, converge, records_needed, seconds_to_settle


def test_one_record_lets_through_one_transaction_at_a_time() -> None:
    rate = abort_rate(random.Random(1), 1000, 1)
    assert 1 - rate <= 200 / 1000  # 5 ms each
    assert abort_rate(random.Random(1), 1, 1) == 0
    assert abort_rate(random.Random(1), 0, 1) == 0


def test_more_load_and_lower_goals_need_more_records() -> None:
    needed = {
        (load, goal): records_needed(random.Random(1), load, goal)
        for load in (200, 800)
        for goal in (0.05, 0.2)
    }
    assert needed[200, 0.2] < needed[200, 0.05] < needed[800, 0.05]
    assert needed[200, 0.2] < needed[800, 0.2] < needed[800, 0.05]


@pytest.mark.parametrize(
    ("strategy", "rate", "count", "expected"),
    [
        ("binary", 0.5, 10, 1),
        ("linear", 0.5, 10, 6),
        ("quadratic", 0.5, 10, 26),
        ("linear", 0.5, 1020, 4),
        ("linear", 0.03, 10, 0),
        ("linear", 0.009, 200, -2),
        ("quadratic", 0.009, 400, -13),
        ("quadratic", 0.0, 1, 0),
    ],
)
def test_the_strategies_are_those_of_the_worker(
    strategy: str, rate: float, count: int, expected: int
) -> None:
    """The same numbers as in mrv/adjust_test.cc."""
    assert change(strategy, rate, count, Limits()) == expected


def test_linear_follows_the_load() -> None:
    history = converge(random.Random(2), "linear", 200, 60, 1.0, Limits())
    assert seconds_to_settle(history[:30], 0.07) is not None
    assert history[-1].records > history[29].records


def test_the_files_are_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LOADS", (100, 200))
    for folder in ("one", "two"):
        records.main(["--runs", "2", "--results", str(tmp_path / folder)])
    texts = [(tmp_path / folder / "mrv_records.json").read_text() for folder in ("one", "two")]
    assert texts[0] == texts[1]
    assert set(json.loads(texts[0])["targets"]["linear_abort_rate_at_end"]) == {"measured", "target", "holds"}
    assert (tmp_path / "one" / "mrv_records.png").stat().st_size > 0
