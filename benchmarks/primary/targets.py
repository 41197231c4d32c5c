"""The targets of `make bench-primary`. Pure."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.primary.batches import FORMS
from benchmarks.results import Target

UPSERT_RATIO = Target(0.9, "at least")
TPCC_PER_CPU_S = Target(3000, "at least")


def targets(rows: Sequence[Mapping[str, Any]], tpcc: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each against its mean by the server module; `by_…` has the single values, `sql` the mean by SQL."""
    ratios = {form: {_name(row): row[form]["upsert_ratio"] for row in rows} for form in FORMS}
    tpcc_per_s = {
        form: {name: found[form]["transactions_per_cpu_s"] for name, found in tpcc.items()} for form in FORMS
    }
    return {
        "upsert_ratio": UPSERT_RATIO.against(mean(ratios["module"].values()))
        | {"sql": mean(ratios["sql"].values()), "by_load": ratios["module"]},
        "tpcc_per_cpu_s": TPCC_PER_CPU_S.against(mean(tpcc_per_s["module"].values()))
        | {"sql": mean(tpcc_per_s["sql"].values()), "by_cluster": tpcc_per_s["module"]},
    }


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['transactions']} x {row['rows']} rows, {row['conflicts_percent']} % conflicts"
