"""What a long measurement says while it runs: one line for each step, and a spinner with what it does now."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from psp.output import console, error_console
from rich.markup import escape


class Steps:
    """Prints each step with the seconds since the start. Without a terminal only finished lines appear."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._status = console.status("")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A spinner while the step runs, a line with its duration when it is done."""
        begin = time.monotonic()
        with self._status:
            self._status.update(escape(what))
            yield
        console.print(
            f"[dim]{begin - self._start:5.0f} s[/]  {escape(what)} ({time.monotonic() - begin:.0f} s)"
        )

    def progress(self, what: str, done: int, total: int) -> None:
        """Shows how far the running step is."""
        percent = f" {100 * done // total} %" if total else ""
        self._status.update(escape(f"{what}: {done:,} of about {total:,} rows{percent}"))


def exit_code(work: Callable[[], int], *errors: type[Exception]) -> int:
    """What `work` returns. 130: it was interrupted; 2: it could not run, and one of `errors` says why."""
    _end_on_sigterm()
    try:
        return work()
    except KeyboardInterrupt:
        error_console.print("Interrupted; everything that was started is stopped and removed.")
        return 130
    except errors as error:
        error_console.print(f"error: {error}", markup=False)
        hint = getattr(error, "hint", None)
        if hint:
            error_console.print(f"hint:  {hint}", markup=False)
        return 2


def _end_on_sigterm() -> None:
    """SIGTERM unwinds like Ctrl-C, so that everything that was made is removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
