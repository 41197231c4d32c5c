"""What the way of a transaction says to people: details of steps, and remarks below the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psp.trace.lines import Event
from psp.trace.way import (
    ANSWERED,
    APPLIED,
    ARRIVED,
    BATCH,
    DECIDED,
    OUTCOME_TOLD,
    PARKED,
    RECEIVED,
    Step,
    Way,
)

IN_DOUBT = "in_doubt"
COMMITTED = "committed"


def details(step: Step) -> str:
    """What the line tells beside the step's name; empty: nothing."""
    fields = step.fields
    if step.name == RECEIVED and "rows" in fields:
        return f"{_many(fields['rows'], 'key')}, snapshot at {fields.get('watermark', '?')}"
    if step.name == PARKED:
        return _PARKED_FOR.get(fields.get("for", ""), "")
    if step.name == BATCH and "batch" in fields:
        return f"batch {fields['batch']} of {_many(fields.get('transactions', '?'), 'transaction')}"
    if step.name in (DECIDED, ANSWERED, OUTCOME_TOLD):
        return outcome(fields)
    if step.name == APPLIED and "global_t" in fields:
        return f"global_t {fields['global_t']}"
    return ""


_PARKED_FOR = {
    "hold": "a table of it is being changed",
    "reservation": "a key of it is reserved for another semi-primary",
    "unknown_tables": "it has tables that the primary reads first",
}


def outcome(fields: dict[str, str]) -> str:
    """How it ended, by one daemon's line."""
    told = fields.get("outcome", "?")
    if told == COMMITTED:
        return f"committed as {fields.get('global_t', '?')}"
    if told == "lost":
        winner = f" to {fields['winner_t']}" if "winner_t" in fields else ""
        return f"lost{winner}" + (f" of {fields['winner_sp']}" if "winner_sp" in fields else "")
    why = fields.get("why") or fields.get("sqlstate")
    return told.replace("_", " ") + (f" ({why})" if why else "")


def decision_of(way: Way) -> Step | None:
    """The primary's word."""
    return way.last(DECIDED) or way.last(OUTCOME_TOLD)


def end_of(way: Way) -> dict[str, str]:
    """The fields that tell the outcome; empty: nobody tells it. The primary's word counts more."""
    decided, answered, applied = decision_of(way), way.last(ANSWERED), way.last(APPLIED)
    has_committed = answered is not None and answered.fields.get("outcome") == COMMITTED
    end = answered if has_committed or decided is None else decided
    if end is not None:
        return end.fields
    return {**applied.fields, "outcome": COMMITTED} if applied else {}


def remarks(way: Way) -> Iterator[str]:
    """What a reader should know about this way."""
    decided, answered = decision_of(way), way.last(ANSWERED)
    if answered is not None and answered.fields.get("outcome") == IN_DOUBT:
        if decided is None:
            yield (
                "The application was told that the outcome is not known (08007), and no log here has the "
                "decision. psp.outcome tells it for good."
            )
        else:
            told = outcome(decided.fields)
            yield f"The application was told that the outcome is not known (08007). It is: {told}."
    if not any(one.step.is_at_primary for one in way.steps):
        yield "No file here is the primary's log, or it does not tell of this transaction."
    elif way.last(ARRIVED) is not None and decided is None:
        yield "The primary has not told a decision here: it was busy, or ended, when the log ends."
    if answered is None and way.last(RECEIVED) is None:
        yield "No file here is the log of the semi-primary that was asked to commit it, or it does not tell."
    elif answered is None:
        yield "No answer to the application is told: its session or the daemon had ended before."
    if any(one.step.is_reckoned for one in way.steps):
        yield "~ a time that is reckoned from the durations in a later line of the same log."


def clock_lines(way: Way) -> Iterator[str]:
    """What is known about the clocks of the files."""
    first, *others = way.clocks
    yield f"{first}: the clock of the first column"
    for file in others:
        ahead = way.clocks[file]
        if ahead.is_known:
            middle, wrong = ahead.middle * 1000, ahead.uncertainty * 1000
            side = "ahead" if middle >= 0 else "behind"
            yield f"{file}: {abs(middle):,.3f} ms {side}, give or take {wrong:,.3f} ms"
        else:
            yield (
                f"{file}: not known how far ahead or behind; the table takes "
                f"{ahead.middle * 1000:,.3f} ms (needs requests both ways in the logs)"
            )


def not_found(wanted: str, files: Sequence[str], events: Sequence[Event]) -> tuple[str, str]:
    """The error and its hint."""
    error = f"no line of {', '.join(files)} tells of {wanted}"
    if not events:
        return error, (
            "these logs have no lines of single transactions: set log_commits_one_in: 1 in the daemons' "
            "configurations (or log_commits_over_ms: 0 for one line in each daemon), and restart them"
        )
    begins, ends = min(one.time for one in events), max(one.time for one in events)
    known = len({one.tx for one in events})
    return error, (
        f"they tell of {_many(str(known), 'other transaction')} from {begins:%Y-%m-%d %H:%M:%S} to "
        f"{ends:%H:%M:%S} UTC. It may be older or younger, faster than log_commits_over_ms, or none of those "
        f"that log_commits_one_in chooses"
    )


def _many(number: str, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == "1" else "s")
