"""The arithmetic of the benchmark of statements that are run again."""

from benchmarks.autocommit.touches import Touches


def test_points_and_errors() -> None:
    touches = Touches()
    for ms in 30.0, 31.0, 200.0:
        touches.committed("near", ms)
    touches.committed("far", 190.0)
    touches.lost("far")
    assert touches.errors_per_thousand() == 200.0
    far, near = touches.points()
    assert far == {
        "zone": "far", "commits": 1, "errors": 1, "per_thousand": 500.0, "p50_ms": 190.0, "p99_ms": 190.0,
    }  # fmt: skip
    assert (near["errors"], near["p50_ms"], near["p99_ms"]) == (0, 31.0, 200.0)


def test_a_zone_without_a_commit() -> None:
    touches = Touches()
    touches.lost("far")
    assert touches.points()[0]["p50_ms"] is None
    assert Touches().errors_per_thousand() == 0
