"""Forms of one load, measured in turns, and their ratios to the plain table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.mrv.watch import Watch

PLAIN = "plain"
VIEW = "view"  # the same statements as on the plain table
SATURATED = 0.9  # of the processors' time
MANY = 0.25  # of the clients


@dataclass(frozen=True)
class Report:
    """What became of one load. `aborts`: attempts that the database refused, whether retried or given up."""

    transactions: int
    tps: float
    latency_ms: float
    aborts: int


@dataclass(frozen=True)
class Round:
    """One form's load, and what was seen while it ran."""

    report: Report
    cpu_busy: float
    lock_waiters: float


def in_turns(
    dsns: Mapping[str, str], run: Callable[[str, str], Report], rounds: int
) -> dict[str, list[Round]]:
    """Runs each form (`run(form, dsn)`) once a round: what disturbs the machine disturbs all of them."""
    found: dict[str, list[Round]] = {form: [] for form in dsns}
    for _ in range(rounds):
        for form, dsn in dsns.items():
            with Watch(dsn) as watch:
                report = run(form, dsn)
            found[form].append(Round(report, watch.cpu_busy, watch.lock_waiters))
    return found


def combine(rounds: Sequence[Round]) -> dict[str, Any]:
    """Rounds of equal length, of one form. The median: on a shared machine single rounds are disturbed."""
    reports = [found.report for found in rounds]
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
        "cpu_busy": median(found.cpu_busy for found in rounds),
        "lock_waiters": median(found.lock_waiters for found in rounds),
    }


def row(point: object, rounds: Mapping[str, Sequence[Round]]) -> dict[str, Any]:
    """One point (a dataclass): all forms, and their ratios to plain. To no aborts there is no ratio."""
    forms = {form: combine(found) for form, found in rounds.items()}
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


def limits(found: Mapping[str, Any]) -> dict[str, Any]:
    """What limited each form of one row: how busy the processors were, how many clients waited for locks."""
    forms = found["forms"]
    return {
        **{
            name: {form: measured[name] for form, measured in forms.items()}
            for name in ("cpu_busy", "lock_waiters")
        },
        "limited_by": {form: limited_by(measured, found["clients"]) for form, measured in forms.items()},
    }


def limited_by(measured: Mapping[str, Any], clients: int) -> str:
    """In a word. Processors come first: the holder of the only lock works, too."""
    if measured["cpu_busy"] >= SATURATED:
        return "processors"
    return "locks" if measured["lock_waiters"] >= clients * MANY else "commits"


def target(found: Mapping[str, Any], limit: float) -> dict[str, Any]:
    """A target for the throughput of one row. The smaller ratio of the forms counts; `by_form` tells each."""
    by_form = {form: ratios["throughput"] or 0.0 for form, ratios in found["ratios"].items()}
    measured = min(by_form.values())
    return {
        "measured": measured,
        "target": limit,
        "kind": "at least",
        "holds": measured >= limit,
        "by_form": by_form,
        "clients": found["clients"],
        "commit_delay_ms": found["commit_delay_ms"],
    }
