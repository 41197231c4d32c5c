"""`make fuzz`: cases one after the other, until the time is over or one of them fails."""

import sys

from tests.fuzz.cases import Case, Tally, make_case, run_case
from tests.fuzz.command import run
from tests.fuzz.shrink import shrink, whole
from tests.fuzz.world import World


def main() -> int:
    tally = Tally()
    with World() as world:

        def show(case: Case, smaller: bool) -> str:
            text = shrink(world, case) if smaller else whole(case)
            world.renew()
            return text

        return run(
            __doc__,
            lambda seed, _short: make_case(seed),
            lambda case: run_case(world, case, tally),
            show,
            tally,
        )


if __name__ == "__main__":
    sys.exit(main())
