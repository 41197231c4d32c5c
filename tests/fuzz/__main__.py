"""`make fuzz`: cases one after the other, until the time is over or one of them fails."""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from random import SystemRandom

from psp.output import PspError

from tests.fuzz.cases import Difference, Tally, make_case, run_case
from tests.fuzz.shrink import shrink, whole
from tests.fuzz.world import World


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="without --seeds: how long")
    parser.add_argument("--seeds", help="a number, or the first and the last: 1-50; otherwise random ones")
    parser.add_argument("--keep-going", action="store_true", help="after a failing case, too")
    parser.add_argument("--no-shrink", action="store_true", help="print failing cases as they are")
    options = parser.parse_args()
    tally, began, failed = Tally(), time.monotonic(), []
    seeds = _numbers(options.seeds) if options.seeds else _random_seeds(began + options.seconds)
    with World() as world:
        for seed in seeds:
            print(f"seed {seed}", flush=True)
            case = make_case(seed)
            try:
                run_case(world, case, tally)
            except (Difference, PspError) as problem:
                failed.append(seed)
                print(f"seed {seed} fails after {time.monotonic() - began:.0f} s:\n{problem}\n", flush=True)
                print(whole(case) if options.no_shrink else shrink(world, case), flush=True)
                if not options.keep_going:
                    break
                world.renew()
    print(f"{tally} in {time.monotonic() - began:.0f} s; failing seeds: {failed or 'none'}")
    return 1 if failed else 0


def _numbers(text: str) -> Iterable[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _random_seeds(end: float) -> Iterator[int]:
    random = SystemRandom()
    while time.monotonic() < end:
        yield random.randrange(10**9)


if __name__ == "__main__":
    sys.exit(main())
