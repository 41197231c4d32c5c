"""The one place that waits by looking again: every wait has a deadline and says what it waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

from psp.output import PspError

T = TypeVar("T")

POLL_INTERVAL_S = 0.05


class WaitTimeout(PspError):
    """The condition did not hold before the deadline."""


def wait_until(
    what: str, look: Callable[[], T | None], timeout_s: float, interval_s: float = POLL_INTERVAL_S
) -> T:
    """Calls `look` until it returns something true, and returns that.

    `look` is always called at least once. Its exceptions are not caught: a condition that cannot be
    looked at is an error, not a reason to wait.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = look()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"waited {timeout_s:g} s for {what}; last seen: {result!r}")
        time.sleep(interval_s)
