"""The simulation behind the thesis's figures 21 and 22 (section 4.3.3), without any database.

All transactions of a second begin at random within 995 ms, last 5 ms, and write one record of the same value,
chosen at random. The thesis says no more. Here a transaction that meets a record which
another one has written and not yet committed is aborted at once, and leaves no trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

BEGIN_MS = 995.0
DURATION_MS = 5.0
RECORDS_MAX = 1 << 14


def abort_rate(chance: random.Random, per_second: int, records: int) -> float:
    """Of one second."""
    begins = sorted(chance.uniform(0, BEGIN_MS) for _ in range(per_second))
    held_until = [-1.0] * records
    aborts = 0
    for begin in begins:
        record = int(chance.random() * records)
        if begin < held_until[record]:
            aborts += 1
        else:
            held_until[record] = begin + DURATION_MS
    return aborts / per_second if per_second else 0.0


def records_needed(chance: random.Random, per_second: int, goal: float, runs: int = 10) -> int:
    """Figure 21: the fewest records whose abort rate, the mean of so many runs, is at most `goal`."""

    def is_enough(records: int) -> bool:
        return sum(abort_rate(chance, per_second, records) for _ in range(runs)) / runs <= goal

    too_few, enough = 0, 1
    while not is_enough(enough):
        too_few, enough = enough, enough * 2
        if enough > RECORDS_MAX:
            raise ValueError(f"{per_second} transactions a second need more than {RECORDS_MAX} records")
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return enough


@dataclass(frozen=True)
class Limits:
    """The parameters of the adjust worker, with the thesis's values."""

    nr_min: int = 1
    nr_max: int = 1024
    ar_goal: float = 0.05
    ar_min: float = 0.01


def _binary(_rate: float, _records: int) -> int:
    return 1


def _linear(rate: float, records: int) -> int:
    return int(1 + records * rate)


def _quadratic(rate: float, records: int) -> int:
    return int(1 + (records * rate) ** 2)


STRATEGIES: dict[str, Callable[[float, int], int]] = {
    "binary": _binary,
    "linear": _linear,
    "quadratic": _quadratic,
}


def change(strategy: str, rate: float, records: int, limits: Limits) -> int:
    """Algorithms 7, 8 and 9, as mrv/adjust.cc has them (nr_min where the thesis misprints nr_max)."""
    step = STRATEGIES[strategy](rate, records)
    if rate > limits.ar_goal and records < limits.nr_max:
        return min(step, limits.nr_max - records)
    if rate < limits.ar_min and records > limits.nr_min:
        return max(-step, limits.nr_min - records)
    return 0


@dataclass(frozen=True)
class Second:
    """What a second of figure 22 shows."""

    abort_rate: float
    records: int


def converge(
    chance: random.Random, strategy: str, per_second: int, seconds: int, more: float, limits: Limits
) -> list[Second]:
    """Figure 22: from one record on, adjusting every second; halfway the load grows by the part `more`."""
    history = []
    records = 1
    for second in range(seconds):
        load = per_second if second < seconds // 2 else round(per_second * (1 + more))
        rate = abort_rate(chance, load, records)
        history.append(Second(rate, records))
        records += change(strategy, rate, records, limits)
    return history


def seconds_to_settle(history: list[Second], at_most: float, ahead: int = 5) -> int | None:
    """The first second from which on the abort rate of `ahead` seconds is, in the mean, at most `at_most`."""
    for second in range(len(history) - ahead + 1):
        if sum(each.abort_rate for each in history[second : second + ahead]) / ahead <= at_most:
            return second
    return None
