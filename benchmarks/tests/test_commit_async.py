"""The arithmetic of the commit_async benchmark; the benchmark itself is `make bench-commit_async`."""

from typing import Any

import pytest

from benchmarks.commit_async.__main__ import parse, targets


def _point(in_flight: int, tps: float, mode: str = "views") -> dict[str, Any]:
    return {"mode": mode, "in_flight": in_flight, "tps": tps}


def test_targets() -> None:
    found = targets([_point(1, 9.5, "native"), _point(1, 10), _point(4, 39), _point(16, 80)])
    assert found["speedup_4"]["measured"] == pytest.approx(3.9)
    assert found["speedup_4"]["holds"] is True
    assert found["speedup_16"]["target"] == pytest.approx(11.2)
    assert found["speedup_16"]["holds"] is False


def test_options() -> None:
    assert parse(["--in-flight", "1,2"]).in_flight == "1,2"
    assert parse([]).rtt_ms == 100
