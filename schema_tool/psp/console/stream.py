"""Looks at the cluster again and again in a thread of its own, and hands each look to all who watch."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from psp.watch.changes import Event, changes
from psp.watch.judged import as_dict
from psp.watch.model import Headline, View

EVENTS_KEPT = 50
LOG_EVERY_S = 10
LOG_KEPT = 360
RATES_KEPT = 120


class Feed:
    """The newest look, as one line of JSON. `run` is for one thread, `next` for any number of others."""

    def __init__(self, look: Callable[[], View], interval_s: float) -> None:
        self._look = look
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._number = 0
        self._line = b""
        self._view: View | None = None
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._log_sizes: deque[tuple[datetime, int]] = deque(maxlen=LOG_KEPT)
        self._rates: dict[str, deque[float]] = {}
        self._failure: str | None = None
        self._ends = False

    def run(self) -> None:
        """Until `end`."""
        while True:
            begun = time.monotonic()
            self.step()
            rest = max(self._interval_s - (time.monotonic() - begun), 0.05)
            with self._changed:
                if self._changed.wait_for(lambda: self._ends, rest):
                    return

    def step(self) -> None:
        """One look. One that fails is told, and the next one follows: what a server tells may be odd."""
        try:
            view = self._look()
            told = as_dict(view)
            self._events.extendleft(changes(self._view, view))
            self._keep_log_size(view)
            self._keep_rates(view)
            self._view, self._failure = view, None
        except Exception as error:
            told = self._failed(f"{type(error).__name__}: {error}")
        told["events"] = [asdict(event) for event in self._events]
        told["log_sizes"] = list(self._log_sizes)
        told["rates"] = {name: list(rates) for name, rates in self._rates.items()}
        line = json.dumps(told, default=str).encode()
        with self._changed:
            self._number += 1
            self._line = line
            self._changed.notify_all()

    def _failed(self, why: str) -> dict[str, Any]:
        """What was seen last, under a headline that says so."""
        now = datetime.now(UTC)
        told = (self._view or View(now)).as_dict()
        answer = Headline(
            "unknown", "psp console could not look.", f"{why}. What stands below is old; it tries again."
        )
        if why != self._failure:
            self._events.appendleft(Event(now, answer.state, answer.sentence, why))
        self._failure = why
        return {**told, "headline": asdict(answer), "advice": []}

    def _keep_log_size(self, view: View) -> None:
        if view.primary is None:
            return
        due = not self._log_sizes or (view.taken_at - self._log_sizes[-1][0]).total_seconds() >= LOG_EVERY_S
        if due:
            self._log_sizes.append((view.taken_at, view.primary.log_bytes))

    def _keep_rates(self, view: View) -> None:
        """Commits a second of each look; of members only."""
        for zone in view.zones:
            rates = self._rates.setdefault(zone.name, deque(maxlen=RATES_KEPT))
            rates.append(zone.commits_per_s or 0)
        for name in self._rates.keys() - {zone.name for zone in view.zones}:
            del self._rates[name]

    def next(self, seen: int, timeout_s: float) -> tuple[int, bytes] | None:
        """A look that is newer than number `seen`, and its number. None: there is none in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._number > seen or self._ends, timeout_s) or self._ends:
                return None
            return self._number, self._line

    @property
    def ended(self) -> bool:
        return self._ends

    def end(self) -> None:
        with self._changed:
            self._ends = True
            self._changed.notify_all()
