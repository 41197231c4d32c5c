"""Looks at the cluster again and again in a thread of its own, and hands each look to all who watch."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from psp.watch.changes import Event, changes
from psp.watch.judged import as_dict
from psp.watch.model import View

EVENTS_KEPT = 50


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
        """One look."""
        view = self._look()
        self._events.extendleft(changes(self._view, view))
        told = {**as_dict(view), "events": [asdict(event) for event in self._events]}
        line = json.dumps(told, default=str).encode()
        with self._changed:
            self._view = view
            self._number += 1
            self._line = line
            self._changed.notify_all()

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
