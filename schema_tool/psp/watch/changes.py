"""What has changed between two views, for people who look later: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from psp.watch.headline import headline, why_not
from psp.watch.model import State, View


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
    if before.primary and after.primary:
        if before.primary.epoch != after.primary.epoch:
            yield Event(at, "ok", f"Epoch {after.primary.epoch} begins", "psp-primary was started")
        if before.primary.catalog_version != after.primary.catalog_version:
            yield Event(at, "ok", f"Schema version {after.primary.catalog_version}")
