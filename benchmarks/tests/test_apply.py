"""The arithmetic of the apply benchmark."""

import pytest

from benchmarks.apply import targets
from benchmarks.apply.pair import CatchUp
from benchmarks.overhead.sums import Sum


def test_row() -> None:
    plain = Sum(transactions=1000, seconds=10, cpu_s={"postgres": 1.0})
    applier = Sum(transactions=500, seconds=10, cpu_s={"applier_postgres": 0.04, "applier_daemon": 0.02})
    row = targets.row(4, plain, applier)
    assert row["applied_tps"] == 50
    assert row["cpu_ms_per_transaction"] == {
        "postgres": 1.0, "applier_postgres": pytest.approx(0.08), "applier_daemon": pytest.approx(0.04),
    }  # fmt: skip
    assert row["apply_cpu_ratio"] == pytest.approx(0.12)


def test_catch_up() -> None:
    away = CatchUp(1000, 17_000, 0.5, {"applier_postgres": 0.06, "applier_daemon": 0.02})
    found = targets.caught_up(away, 1.6)
    assert found["rows_per_s"] == 34_000
    assert found["transactions_per_s"] == 2000
    assert found["catch_up_cpu_ratio"] == pytest.approx(0.05)


def test_targets() -> None:
    rows = [{"threads": 1, "apply_cpu_ratio": 0.16}, {"threads": 4, "apply_cpu_ratio": 0.02}]
    looks = {"fresh": 4.0, "after_moves": 5.0, "long_snapshot_open": 8.0}
    found = targets.targets(rows, {"catch_up_cpu_ratio": 0.05}, looks)
    assert found["apply_cpu_ratio"] == {
        "measured": pytest.approx(0.09), "target": 0.10, "kind": "at most", "holds": True,
        "by_threads": {"1": 0.16, "4": 0.02},
    }  # fmt: skip
    assert found["watermark_age_ratio"]["measured"] == 1.25
    assert found["watermark_age_ratio"]["holds"] is True
    assert found["watermark_long_snapshot_ratio"]["holds"] is False
