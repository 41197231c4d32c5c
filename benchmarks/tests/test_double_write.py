"""The least that writing twice costs: that it is measured, not what comes out."""

import json
from pathlib import Path

from benchmarks.double_write import __main__ as double_write
from benchmarks.tpcc.runner import Scale


def test_all_parts_are_measured(tmp_path: Path) -> None:
    medians_us = double_write.measure(double_write.COLLECT_EVERY, Scale(items=500, customers=30))
    assert set(medians_us) == {"plain", "client", "take", "apply", "collect"}
    assert min(medians_us.values()) > 0
    double_write.report(medians_us, tmp_path)
    assert json.loads((tmp_path / "double_write.json").read_text())["ratio"] > 0
