"""What has changed between two views, for people who look later: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from psp.watch.headline import headline, why_not
from psp.watch.limits import HOT_LOSSES
from psp.watch.model import HotKey, State, View

_TEXT_MAX = 120
_JOB_STATES: dict[str, tuple[State, str]] = {
    "waiting": ("ok", "Job waits at"),
    "running": ("ok", "Job runs at"),
    "done": ("ok", "Job is done at"),
    "failed": ("warn", "Job has failed at"),
}


@dataclass(frozen=True)
class Event:
    at: datetime
    state: State
    what: str
    more: str = ""


def changes(before: View | None, after: View) -> Iterator[Event]:
    """The first view tells its headline."""
    at = after.taken_at
    told = headline(after)
    old = headline(before) if before is not None else None
    if old is None or old.sentence != told.sentence:
        yield Event(at, told.state, told.sentence, told.detail)
    if before is None:
        return
    yield from _of_zones(before, after)
    if before.primary and after.primary:
        if before.primary.epoch != after.primary.epoch:
            yield Event(at, "ok", f"Epoch {after.primary.epoch} begins", "psp-primary was started")
        if before.primary.catalog_version != after.primary.catalog_version:
            yield Event(at, "ok", f"Schema version {after.primary.catalog_version}")
    yield from _of_jobs(before, after)
    yield from _of_keys(before, after)


def _of_zones(before: View, after: View) -> Iterator[Event]:
    at = after.taken_at
    was = {zone.name: zone for zone in before.zones}
    for zone in after.zones:
        earlier = was.get(zone.name)
        if earlier is None:
            yield Event(at, "ok", f"{zone.name} is there", zone.state)
        elif earlier.state != zone.state:
            good = zone.can_commit is True or zone.state == "connected"
            yield Event(
                at, "ok" if good else "warn", f"{zone.name}: {zone.state}", "" if good else why_not(zone)
            )
    for name in was.keys() - {zone.name for zone in after.zones}:
        yield Event(at, "warn", f"{name} is no member any more")


def _of_jobs(before: View, after: View) -> Iterator[Event]:
    """A semi-primary that did not tell before has no news."""
    was = {(job.change, job.statement_n): job.states for job in before.jobs}
    told_before = {zone.name for zone in before.zones if zone.answers}
    for job in after.jobs:
        states = was.get((job.change, job.statement_n), {})
        news: dict[str, list[str]] = {}
        for name, state in job.states.items():
            if name in told_before and states.get(name) != state:
                news.setdefault(state, []).append(name)
        for state, names in news.items():
            kind, what = _JOB_STATES.get(state, ("ok", f"Job is {state} at"))
            more = job.last_error if state == "failed" and job.last_error else job.statement
            yield Event(after.taken_at, kind, f"{what} {', '.join(sorted(names))}", _short(more))


def _of_keys(before: View, after: View) -> Iterator[Event]:
    """A key begins or ends to be lost often."""
    hot, was = _hot(after), _hot(before)
    for name in hot.keys() - was.keys():
        yield Event(after.taken_at, "warn", f"Hot key: {hot[name].losses} losses in a minute", _short(name))
    for name in was.keys() - hot.keys():
        yield Event(after.taken_at, "ok", "A key is hot no more", _short(name))


def _hot(view: View) -> dict[str, HotKey]:
    keys = (key for key in view.hot_within(60) if key.losses >= HOT_LOSSES)
    return {f"{key.table or 'all tables'} {key.key or '(not shown)'}": key for key in keys}


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
