"""One case: a seed's schema changes and rows, at both semi-primaries, which must be equal and go on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
from psp.output import PspError

from tests.fuzz.cases import Difference
from tests.fuzz.changes.all_kinds import KINDS
from tests.fuzz.changes.generator import Changes
from tests.fuzz.changes.steps import Step
from tests.fuzz.changes.world import World

LENGTH = 14
INTERNAL = ("XX", "PS")
"""Errors that PostgreSQL and psp call their own mistakes begin so."""


@dataclass
class Tally:
    """What has happened, over many cases."""

    messages: int = 0
    by_state: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        errors = ", ".join(f"{state} {count}" for state, count in self.by_state.most_common())
        return f"{self.messages} messages; errors: {errors or 'none'}"


@dataclass(frozen=True)
class Case:
    """`joins`: at its end another semi-primary joins."""

    steps: tuple[Step, ...]
    joins: bool


def make_case(seed: int, only_mended: bool = False) -> Case:
    """The same seed makes the same case."""
    kinds = tuple(kind for kind in KINDS if kind.mended or not only_mended)
    return Case(tuple(Changes(Random(seed), kinds).steps(LENGTH)), seed % 8 == 0)


def run_case(world: World, case: Case, tally: Tally) -> None:
    """Raises Difference."""
    world.begin()
    for step in case.steps:
        _run(world, step, tally)
    world.end_sessions()
    try:
        world.settle()
    except PspError as problem:
        raise Difference(f"a semi-primary has stopped\n{problem}") from problem
    if differences := world.differences():
        raise Difference(differences)
    if case.joins and (differences := world.join()):
        raise Difference(f"after a join: {differences}")


def _run(world: World, step: Step, tally: Tally) -> None:
    session = world.session(step.sp, step.role, step.session)
    for message in step.messages:
        tally.messages += 1
        try:
            session.execute(message.encode())
        except psycopg.Error as error:
            state = error.sqlstate or "lost"
            tally.by_state[state] += 1
            if state.startswith(INTERNAL):
                raise Difference(f"{state}: {error.diag.message_primary}\n{step}") from error
            break
    if not step.open:
        _clean(session)


def _clean(session: psycopg.Connection[Any]) -> None:
    """The next step of the session finds it as it was at first."""
    if session.closed:
        return
    try:
        session.rollback()
        session.execute("DISCARD ALL")
    except psycopg.OperationalError:
        session.close()


def shown(steps: Sequence[Step]) -> str:
    return "\n".join(map(str, steps))
