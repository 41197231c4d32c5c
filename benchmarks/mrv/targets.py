"""From the rounds' reports to rows and targets. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.mrv.pgbench import Report

PLAIN = "plain"
VIEW = "view"  # the same statement as on the plain table
SUB = "sub"  # the fast function


@dataclass(frozen=True)
class Point:
    """Where on the grid: what is done, with how many clients, products and records of each value."""

    work: str
    isolation: str
    clients: int
    items: int
    records: int
    commit_delay_ms: float


def combine(reports: Sequence[Report]) -> dict[str, Any]:
    """Rounds of equal length, of one form. The median: on a shared machine single rounds are disturbed."""
    transactions = sum(report.transactions for report in reports)
    aborts = sum(report.aborts for report in reports)
    attempts = transactions + aborts
    return {
        "tps": median(report.tps for report in reports),
        "round_tps": [report.tps for report in reports],
        "latency_ms": median(report.latency_ms for report in reports),
        "transactions": transactions,
        "aborts": aborts,
        "abort_rate": aborts / attempts if attempts else 0.0,
    }


def row(point: Point, reports: Mapping[str, Sequence[Report]], cpu_busy: float) -> dict[str, Any]:
    """One point: all forms, and their ratios to the plain table. To no aborts there is no ratio."""
    forms = {form: combine(found) for form, found in reports.items()}
    plain = forms[PLAIN]
    ratios = {
        form: {
            "throughput": _ratio(found["tps"], plain["tps"]),
            "aborts": _ratio(found["abort_rate"], plain["abort_rate"]),
            "response_time": _ratio(found["latency_ms"], plain["latency_ms"]),
        }
        for form, found in forms.items()
        if form != PLAIN
    }
    return {**vars(point), "cpu_busy": cpu_busy, "forms": forms, "ratios": ratios}


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def targets(
    grid: Sequence[Mapping[str, Any]], cold: Mapping[str, Any], read_64: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The smaller ratio of the forms counts; `by_form` tells each. Hot: one product, the most clients."""
    clients = max(found["clients"] for found in grid)
    result = {}
    for isolation in dict.fromkeys(found["isolation"] for found in grid):
        hot = next(
            (
                found
                for found in grid
                if (found["isolation"], found["clients"], found["items"]) == (isolation, clients, 1)
            ),
            None,
        )
        if hot is not None:
            result[f"hot_item_{isolation.replace(' ', '_')}"] = _target(hot, 10)
    result["cold_ratio"] = _target(cold, 0.95)
    result["read_ratio_64"] = _target(read_64, 0.75)
    return result


def _target(found: Mapping[str, Any], target: float) -> dict[str, Any]:
    by_form = {form: ratios["throughput"] or 0.0 for form, ratios in found["ratios"].items()}
    measured = min(by_form.values())
    return {
        "measured": measured,
        "target": target,
        "kind": "at least",
        "holds": measured >= target,
        "by_form": by_form,
        "clients": found["clients"],
        "commit_delay_ms": found["commit_delay_ms"],
    }
