"""`make fuzz-wire`: a semi-primary that was taken over, until the time is over or a case fails."""

import sys

from psp.output import PspError

from tests.fuzz.cases import Difference
from tests.fuzz.command import run
from tests.fuzz.wire.cases import Tally, run_case
from tests.fuzz.wire.world import World


def main() -> int:
    tally = Tally()
    with World() as world:

        def judge(case: tuple[int, bool]) -> None:
            try:
                run_case(world, *case, tally)
            except (Difference, PspError):
                world.renew()
                raise

        return run(
            __doc__, lambda seed, short: (seed, short), judge, lambda case, _: f"seed {case[0]}", tally
        )


if __name__ == "__main__":
    sys.exit(main())
