"""What the fuzzers' commands share: one seed after the other, until the time is over or one fails."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from random import SystemRandom
from typing import TypeVar

from psp.output import PspError

from tests.fuzz.cases import Difference

Case = TypeVar("Case")


def run(
    description: str | None,
    make: Callable[[int, bool], Case],
    judge: Callable[[Case], None],
    show: Callable[[Case, bool], str],
    tally: object,
) -> int:
    """`judge` raises Difference or PspError; `show` prints a failing case, made smaller if asked."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=60, help="without --seeds: how long")
    parser.add_argument("--seeds", help="a number, or the first and the last: 1-50; otherwise random ones")
    parser.add_argument("--keep-going", action="store_true", help="after a failing case, too")
    parser.add_argument("--no-shrink", action="store_true", help="print failing cases as they are")
    parser.add_argument("--short", action="store_true", help="only what `make test` runs, too")
    options = parser.parse_args()
    began, failed = time.monotonic(), []
    seeds = _numbers(options.seeds) if options.seeds else _random_seeds(began + options.seconds)
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        case = make(seed, options.short)
        try:
            judge(case)
        except (Difference, PspError) as problem:
            failed.append(seed)
            print(f"seed {seed} fails after {time.monotonic() - began:.0f} s:\n{problem}\n", flush=True)
            print(show(case, not options.no_shrink), flush=True)
            if not options.keep_going:
                break
    print(f"{tally} in {time.monotonic() - began:.0f} s; failing seeds: {failed or 'none'}")
    return 1 if failed else 0


def _numbers(text: str) -> Iterable[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _random_seeds(end: float) -> Iterator[int]:
    random = SystemRandom()
    while time.monotonic() < end:
        yield random.randrange(10**9)
