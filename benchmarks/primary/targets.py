"""The targets of `make bench-primary`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

UPSERT_RATIO = 0.9
TPCC_PER_CPU_S = 3000


def targets(rows: Sequence[Mapping[str, Any]], tpcc: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each against its mean; `by_…` has the single values."""
    ratios = {_name(row): row["upsert_ratio"] for row in rows}
    tpcc_per_s = {name: found["transactions_per_cpu_s"] for name, found in tpcc.items()}
    return {
        "upsert_ratio": _at_least(UPSERT_RATIO, ratios) | {"by_load": ratios},
        "tpcc_per_cpu_s": _at_least(TPCC_PER_CPU_S, tpcc_per_s) | {"by_cluster": tpcc_per_s},
    }


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['transactions']} x {row['rows']} rows, {row['conflicts_percent']} % conflicts"


def _at_least(target: float, found: Mapping[str, float]) -> dict[str, Any]:
    measured = sum(found.values()) / len(found)
    return {"measured": measured, "target": target, "kind": "at least", "holds": measured >= target}
