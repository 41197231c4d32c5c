"""From the rounds to rows and targets. Pure."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.apply.pair import CatchUp
from benchmarks.overhead.sums import Sum
from benchmarks.results import Target

APPLIER_PARTS = ("applier_postgres", "applier_daemon")
TARGETS = {
    "apply_cpu_ratio": Target(0.10, "at most"),
    "catch_up_cpu_ratio": Target(0.10, "at most"),
    # One look at W, to one in a fresh database.
    "watermark_age_ratio": Target(1.5, "at most"),
    "watermark_long_snapshot_ratio": Target(1.5, "at most"),
}


def row(threads: int, plain: Sum, applier: Sum) -> dict[str, Any]:
    """One thread count. Every transaction of the mix counts, those that only read, too."""
    plain_ms, applier_ms = plain.cpu_ms_per_transaction(), applier.cpu_ms_per_transaction()
    return {
        "threads": threads,
        "plain_tps": plain.tps,
        "applied_tps": applier.tps,
        "cpu_ms_per_transaction": plain_ms | applier_ms,
        "apply_cpu_ratio": sum(applier_ms[part] for part in APPLIER_PARTS) / plain_ms["postgres"],
    }


def caught_up(found: CatchUp, plain_ms: float) -> dict[str, Any]:
    """`plain_ms`: what executing one of these transactions costs plain PostgreSQL."""
    cpu_ms = {part: 1000 * seconds / found.transactions for part, seconds in found.cpu_s.items()}
    return {
        "transactions": found.transactions,
        "rows": found.rows,
        "seconds": found.seconds,
        "transactions_per_s": found.transactions / found.seconds,
        "rows_per_s": found.rows / found.seconds,
        "cpu_ms_per_transaction": cpu_ms,
        "catch_up_cpu_ratio": sum(cpu_ms.values()) / plain_ms,
    }


def targets(
    rows: Sequence[Mapping[str, Any]], catch_up: Mapping[str, Any], watermark_us: Mapping[str, float]
) -> dict[str, Any]:
    """The ratio of applying is the mean over the thread counts; `by_threads` tells the single ones."""
    measured = {
        "apply_cpu_ratio": mean(found["apply_cpu_ratio"] for found in rows),
        "catch_up_cpu_ratio": catch_up["catch_up_cpu_ratio"],
        "watermark_age_ratio": watermark_us["after_moves"] / watermark_us["fresh"],
        "watermark_long_snapshot_ratio": watermark_us["long_snapshot_open"] / watermark_us["fresh"],
    }
    result = {name: target.against(measured[name]) for name, target in TARGETS.items()}
    result["apply_cpu_ratio"]["by_threads"] = {
        str(found["threads"]): found["apply_cpu_ratio"] for found in rows
    }
    return result
