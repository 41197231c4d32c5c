"""The targets of `make bench-primary`. Pure."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.results import Target

UPSERT_RATIO = Target(0.9, "at least")
TPCC_PER_CPU_S = Target(3000, "at least")


def targets(rows: Sequence[Mapping[str, Any]], tpcc: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each against its mean; `by_…` has the single values."""
    ratios = {_name(row): row["upsert_ratio"] for row in rows}
    tpcc_per_s = {name: found["transactions_per_cpu_s"] for name, found in tpcc.items()}
    return {
        "upsert_ratio": UPSERT_RATIO.against(mean(ratios.values())) | {"by_load": ratios},
        "tpcc_per_cpu_s": TPCC_PER_CPU_S.against(mean(tpcc_per_s.values())) | {"by_cluster": tpcc_per_s},
    }


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['transactions']} x {row['rows']} rows, {row['conflicts_percent']} % conflicts"
