"""From the rounds' sums to rows and targets. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.overhead.sums import Sum
from benchmarks.results import Target

CLIENT = "client"
SP_PARTS = ("sp_postgres", "sp_daemon")
PRIMARY_PARTS = ("primary_postgres", "primary_daemon")
PSP_PARTS = (*SP_PARTS, *PRIMARY_PARTS)


TARGETS = {
    "sp_cpu_ratio": Target(1.15, "at most"),
    "total_cpu_ratio": Target(1.6, "at most"),
    "throughput_ratio": Target(0.7, "at least"),
    "read_ratio": Target(0.98, "at least"),
    # What foreign keys cost at the SP, to what they cost plain PostgreSQL; at the primary, to the rest there.
    "foreign_keys_sp_ratio": Target(1.1, "at most"),
    "foreign_keys_primary_ratio": Target(1.05, "at most"),
    "sql_sp_cpu_ratio": Target(1.9, "at most"),  # without the server module
    # The thesis's 45 % of plain PostgreSQL's throughput, as CPU.
    "views_sp_cpu_ratio": Target(2.2, "at most"),
}


def row(threads: int, mix: str, sums: Mapping[str, Sum]) -> dict[str, Any]:
    """One thread count: the systems (`plain`, `psp` and maybe others), and their ratios."""
    plain = sums["plain"]
    result: dict[str, Any] = {"threads": threads, "mix": mix}
    result |= {name: _system(total, total.cpu_ms_per_transaction()) for name, total in sums.items()}
    result |= _ratios(plain, sums["psp"])
    for other, prefix in (("views", "views"), ("psp_sql", "sql")):
        if other in sums:
            result |= {f"{prefix}_{name}": ratio for name, ratio in _ratios(plain, sums[other]).items()}
    if "psp_fk" in sums:
        result |= _foreign_key_ratios(sums)
    return result


def _foreign_key_ratios(sums: Mapping[str, Sum]) -> dict[str, float]:
    def ms(name: str, parts: Sequence[str]) -> float:
        found = sums[name].cpu_ms_per_transaction()
        return sum(found[part] for part in parts)

    plain = ms("plain_fk", ("postgres",)) / ms("plain", ("postgres",))
    return {
        "foreign_keys_plain_ratio": plain,
        "foreign_keys_sp_ratio": ms("psp_fk", SP_PARTS) / ms("psp", SP_PARTS) / plain,
        "foreign_keys_primary_ratio": ms("psp_fk", PRIMARY_PARTS) / ms("psp", PRIMARY_PARTS),
    }


def _ratios(plain: Sum, psp: Sum) -> dict[str, float]:
    plain_ms, psp_ms = plain.cpu_ms_per_transaction(), psp.cpu_ms_per_transaction()
    return {
        "throughput_ratio": psp.tps / plain.tps,
        "sp_cpu_ratio": sum(psp_ms[part] for part in SP_PARTS) / plain_ms["postgres"],
        "total_cpu_ratio": sum(psp_ms[part] for part in PSP_PARTS) / plain_ms["postgres"],
    }


def _system(total: Sum, cpu_ms: Mapping[str, float]) -> dict[str, Any]:
    return {
        "tps": total.tps,
        "round_tps": total.round_tps,
        "p50_ms": median(total.p50_ms),
        "p95_ms": median(total.p95_ms),
        "commit_p50_ms": median([ms for ms in total.commit_p50_ms if ms is not None] or [0.0]),
        "aborts": total.aborts,
        "transactions": total.transactions,
        "cpu_ms_per_transaction": dict(cpu_ms),
    }


def targets(
    write_rows: Sequence[Mapping[str, Any]], read_rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Each target against the mean over the thread counts; `by_threads` tells the single ones."""
    result = {}
    for name, target in TARGETS.items():
        rows, column = (read_rows, "throughput_ratio") if name == "read_ratio" else (write_rows, name)
        if any(column not in found for found in rows):
            continue  # views mode or foreign keys were not measured
        by_threads = {str(found["threads"]): found[column] for found in rows}
        measured = sum(by_threads.values()) / len(by_threads)
        result[name] = target.against(measured) | {"by_threads": by_threads}
    return result
