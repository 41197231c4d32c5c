"""`make fuzz-changes`: schema changes, until the time is over or a case fails."""

import sys
import time
from collections.abc import Sequence

from tests.fuzz.cases import Difference
from tests.fuzz.changes.cases import Case, Tally, make_case, run_case, shown
from tests.fuzz.changes.steps import Step
from tests.fuzz.changes.world import World
from tests.fuzz.command import run

SHRINK_S = 240


def main() -> int:
    tally = Tally()
    with World() as world:
        return run(
            __doc__,
            make_case,
            lambda case: run_case(world, case, tally),
            lambda case, small: shrink(world, case) if small else shown(case.steps),
            tally,
        )


def shrink(world: World, case: Case) -> str:
    """Steps are left out as long as it still fails."""
    steps: Sequence[Step] = case.steps
    end, size = time.monotonic() + SHRINK_S, max(1, len(steps) // 2)
    failure = ""
    while True:
        start = 0
        while start < len(steps) and time.monotonic() < end:
            rest = [*steps[:start], *steps[start + size :]]
            if rest and (found := _failure(world, Case(tuple(rest), case.joins))):
                steps, failure = rest, found
            else:
                start += size
        if size == 1 or time.monotonic() > end:
            return f"The smallest case found:\n{shown(steps)}\n{failure}"
        size //= 2


def _failure(world: World, case: Case) -> str:
    try:
        run_case(world, case, Tally())
    except Difference as problem:
        return str(problem)
    return ""


if __name__ == "__main__":
    sys.exit(main())
