"""From the rounds' reports to rows and targets. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.mrv.pgbench import Report

PLAIN = "plain"
VIEW = "view"  # the same statement as on the plain table
SUB = "sub"  # the fast function
HOT_CLIENTS = 32


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


def row(
    point: Point, reports: Mapping[str, Sequence[Report]], cpu_busy: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """One point: all forms, and their ratios to the plain table. To no aborts there is no ratio."""
    forms = {form: {**combine(found), "cpu_busy": median(cpu_busy[form])} for form, found in reports.items()}
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
    return {**vars(point), "forms": forms, "ratios": ratios}


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def targets(
    grid: Sequence[Mapping[str, Any]], cold: Sequence[Mapping[str, Any]], read_64: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The smaller ratio of the forms counts; `by_form` tells each.

    Hot is one product and 32 clients, if the grid has that point. Cold values whose commits wait have a
    target of their own, since a commit that takes next to no time shows the processor's work alone.
    """
    result = {}
    for found in grid:
        if (found["clients"], found["items"]) == (HOT_CLIENTS, 1):
            result[f"hot_item_{found['isolation'].replace(' ', '_')}"] = _target(found, 10)
    for found in cold:
        name = "cold_ratio_commits_wait" if found["commit_delay_ms"] else "cold_ratio"
        result[name] = _target(found, 0.95)
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
