"""A failing case made smaller: transactions and statements are left out as long as it still fails."""

import time
from collections.abc import Sequence
from dataclasses import replace

from psp.output import PspError

from tests.fuzz.cases import Case, Difference, Tally, run_turns
from tests.fuzz.transactions import Transaction
from tests.fuzz.world import World

SHRINK_S = 120
Turns = Sequence[Sequence[Transaction]]


def shrink(world: World, case: Case) -> str:
    """The smallest sequence found, with its difference; the whole case if it fails only side by side."""
    end = time.monotonic() + SHRINK_S
    for name, given in (("in turns", case.turns), ("one client after the other", case.clients)):
        turns = [transaction for turn in given for transaction in turn]
        if _failure(world, turns):
            turns = _fewer(world, turns, end)
            turns = _shorter(world, turns, end)
            world.renew()
            shown = "\n".join(f"-- {t.label}\n{t}" for t in turns)
            return f"The smallest case found ({name}, after the fixture):\n{shown}\n{_failure(world, turns)}"
    return f"It fails only side by side.\n{whole(case)}"


def _failure(world: World, transactions: Sequence[Transaction]) -> str:
    """What is different after these; empty if nothing is."""
    world.renew()
    try:
        run_turns(world, [[transaction] for transaction in transactions], Tally())
    except (Difference, PspError) as problem:
        return str(problem)
    return ""


def _fewer(world: World, transactions: list[Transaction], end: float) -> list[Transaction]:
    """Halves are left out first, single ones last."""
    size = max(1, len(transactions) // 2)
    while True:
        start = 0
        while start < len(transactions):
            rest = transactions[:start] + transactions[start + size :]
            if time.monotonic() > end:
                return transactions
            if rest and _failure(world, rest):
                transactions = rest
            else:
                start += size
        if size == 1:
            return transactions
        size //= 2


def _shorter(world: World, transactions: list[Transaction], end: float) -> list[Transaction]:
    """Statements are left out, one at a time."""
    for number in range(len(transactions)):
        place = 0
        while place < len(transactions[number].steps) and time.monotonic() < end:
            steps = transactions[number].steps
            rest = list(transactions)
            rest[number] = replace(transactions[number], steps=steps[:place] + steps[place + 1 :])
            if rest[number].steps and _failure(world, rest):
                transactions = rest
            else:
                place += 1
    return transactions


def whole(case: Case) -> str:
    """The log of a case."""

    def shown(transactions: Sequence[Transaction]) -> str:
        return "\n".join(f"-- {t.label}\n{t}" for t in transactions)

    parts = [f"---- turn {n}\n{shown(turn)}" for n, turn in enumerate(case.turns, 1)]
    parts += [f"---- client {n}, side by side\n{shown(client)}" for n, client in enumerate(case.clients, 1)]
    return "\n".join(parts)
