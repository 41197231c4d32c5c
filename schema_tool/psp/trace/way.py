"""The steps of one transaction, in order, from the lines of several logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psp.trace import lines
from psp.trace.clocks import Bounds, narrowest
from psp.trace.lines import Event

NEAR = timedelta(minutes=5)
"""Transactions that tell of the clocks, by the clock of each file: clocks drift."""

RECEIVED = "COMMIT received"
SENT = "sent to the primary"
CAME_BACK = "decision received"
ANSWERED = "answered"
ARRIVED = "request received"
PARKED = "parked"
ADMITTED = "admitted"
BATCH = "batch sent to PostgreSQL"
DECIDED = "decided"
OUTCOME_TOLD = "outcome told"
STREAMED = "received from the stream"
APPLIED = "applied"
REFUSED = "refused"

_OWN_LINES = {
    lines.COMMIT_RECEIVED: RECEIVED,
    lines.COMMIT_SENT: SENT,
    lines.COMMIT_ANSWERED: ANSWERED,
    lines.REQUEST_RECEIVED: ARRIVED,
    lines.REQUEST_PARKED: PARKED,
    lines.REQUEST_REFUSED: REFUSED,
    lines.BATCH_SENT: BATCH,
    lines.DECIDED: DECIDED,
    lines.OUTCOME_TOLD: OUTCOME_TOLD,
    lines.APPLIED: APPLIED,
}
_AT_PRIMARY = frozenset((ARRIVED, REFUSED, PARKED, ADMITTED, BATCH, DECIDED, OUTCOME_TOLD))
_ORDER = (
    RECEIVED, SENT, ARRIVED, REFUSED, PARKED, ADMITTED, BATCH, DECIDED, CAME_BACK, ANSWERED, OUTCOME_TOLD,
    STREAMED, APPLIED,
)  # fmt: skip
"""Of steps that no clock tells apart."""


@dataclass(frozen=True)
class Step:
    """One step, by the clock of the server where it was."""

    file: str
    where: str  # a semi-primary's name, or "primary"
    name: str
    time: datetime
    fields: dict[str, str] = field(default_factory=dict)
    is_reckoned: bool = False  # from the durations in a later line

    @property
    def is_at_primary(self) -> bool:
        """A semi-primary may be called primary, too."""
        return self.name in _AT_PRIMARY


@dataclass(frozen=True)
class Placed:
    """A step on the clock of the table."""

    step: Step
    ms: float  # since the first step of the table
    uncertainty_ms: float  # 0: the same clock; infinite: not known
    in_file_ms: float  # since the first step of this file: exact


@dataclass(frozen=True)
class Way:
    """All that the logs tell of a transaction."""

    tx: str
    steps: list[Placed]
    clocks: dict[str, Bounds]  # of each file, ahead of the first file's; of the first one 0

    def last(self, name: str) -> Step | None:
        """The last step of that name."""
        return next((one.step for one in reversed(self.steps) if one.step.name == name), None)


def way_of(tx: str, events: Sequence[Event]) -> Way | None:
    """The way of the transaction; None: no event tells of it. `events`: of all, since they tell of clocks."""
    steps = _steps(event for event in events if event.tx == tx)
    if not steps:
        return None
    steps.sort(key=lambda step: (step.time, _ORDER.index(step.name)))
    first = _reference(steps)
    ahead = {file: _ahead(file, first, steps, events) for file in {step.file for step in steps}}
    order = [first, *sorted(set(ahead) - {first})]

    def moment(step: Step) -> float:
        return step.time.timestamp() - ahead[step.file].middle

    steps.sort(key=lambda step: (round(moment(step), 6), _ORDER.index(step.name)))
    begins = moment(steps[0])
    begins_in = {file: min(step.time for step in steps if step.file == file) for file in order}
    placed = [
        Placed(
            step,
            (moment(step) - begins) * 1000,
            ahead[step.file].uncertainty * 1000,
            (step.time - begins_in[step.file]).total_seconds() * 1000,
        )
        for step in steps
    ]
    return Way(tx, placed, {file: ahead[file] for file in order})


def _steps(events: Iterable[Event]) -> list[Step]:
    """What has lines of its own is not reckoned."""
    told: list[Step] = []
    reckoned: list[Step] = []
    for event in events:
        name = _OWN_LINES[event.name]
        where = "primary" if name in _AT_PRIMARY else event.fields.get("sp", "?")
        told.append(Step(event.file, where, name, event.time, event.fields))
        reckoned += (
            Step(event.file, where, earlier, time, {}, is_reckoned=True) for earlier, time in _earlier(event)
        )
    have_lines = {(step.file, step.where, step.name) for step in told}
    return told + [step for step in reckoned if (step.file, step.where, step.name) not in have_lines]


def _earlier(event: Event) -> Iterable[tuple[str, datetime]]:
    """The steps before the end that a line tells of, from the durations in it."""
    total = event.number("total_ms")
    if total is None:
        return
    first, after = {
        lines.COMMIT_ANSWERED: (RECEIVED, (("check_ms", SENT), ("away_ms", CAME_BACK))),
        lines.DECIDED: (ARRIVED, (("parked_ms", ADMITTED), ("queue_ms", BATCH))),
        lines.APPLIED: (STREAMED, ()),
    }.get(event.name, ("", ()))
    if not first:
        return
    try:
        time = event.time - timedelta(milliseconds=total)
        yield first, time
        for part, name in after:
            took = event.number(part)
            if took is None:
                return
            time += timedelta(milliseconds=took)
            if name != ADMITTED or took > 0:
                yield name, time
    except (OverflowError, ValueError):
        return


def _reference(steps: Sequence[Step]) -> str:
    """The file whose clock the table has: the log of the semi-primary that was asked to commit, if given."""
    for names in ((RECEIVED, SENT, ANSWERED), (ARRIVED, DECIDED)):
        found = next((step.file for step in steps if step.name in names), None)
        if found:
            return found
    return steps[0].file


def _ahead(file: str, first: str, steps: Sequence[Step], events: Sequence[Event]) -> Bounds:
    """The clock of `file`, ahead of that of `first`: through the primary's if both are semi-primaries'."""
    if file == first:
        return Bounds(0, 0)
    primaries = [step.file for step in steps if step.is_at_primary]
    primary = primaries[0] if primaries else None
    if primary is None:
        return _between(file, first, steps, events)
    if first == primary:
        return _between(primary, file, steps, events).reversed()
    ahead_of_first = _between(primary, first, steps, events)
    if file == primary:
        return ahead_of_first
    return _between(primary, file, steps, events).reversed().plus(ahead_of_first)


def _between(primary: str, other: str, steps: Sequence[Step], events: Sequence[Event]) -> Bounds:
    """The primary's clock, ahead of a semi-primary's."""
    moments = {step.file: step.time for step in steps if step.file in (primary, other)}
    by_tx: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.file in moments and abs(event.time - moments[event.file]) <= NEAR:
            by_tx[event.tx].append(event)
    bounds = [_of_one(primary, other, _steps(some)) for some in by_tx.values()]
    return narrowest(bounds) or narrowest([_of_one(primary, other, steps)]) or Bounds()


def _of_one(primary: str, other: str, steps: Sequence[Step]) -> Bounds:
    """What one transaction tells. A request that was sent twice tells less: which one arrived?"""

    def times(file: str, *names: str) -> list[float]:
        return [step.time.timestamp() for step in steps if step.file == file and step.name in names]

    sent, arrived = times(other, SENT), times(primary, ARRIVED)
    decided = times(primary, DECIDED)
    told = times(other, CAME_BACK) or times(other, STREAMED)
    most = max(arrived) - min(sent) if sent and arrived else float("inf")
    least = min(decided) - max(told) if decided and told else float("-inf")
    return Bounds(least, most)
