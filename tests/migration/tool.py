"""The migration tool: one step after the other from one SP, each tried again until it is there."""

import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
from psp.cluster.local import SpNode

from tests.cluster.support import CONNECTION_FAILURE, OUTCOME_UNKNOWN, SERIALIZATION_FAILURE, connect
from tests.migration.steps import Step

STEP_S = 60
NOTED = "SELECT FROM schema_version WHERE step = %s"
MAY_PASS = {SERIALIZATION_FAILURE, CONNECTION_FAILURE, OUTCOME_UNKNOWN, "40P01", "57014", "57P01"}
"""Tried again, as docs/errors.md says. The last three end a transaction that holds up others."""


@dataclass
class StepResult:
    """How a step went."""

    name: str
    seconds: float
    errors: dict[str, int] = field(default_factory=dict)

    def count(self, error: psycopg.Error) -> None:
        name = error.sqlstate or "connection"
        self.errors[name] = self.errors.get(name, 0) + 1


class StepFailed(AssertionError):
    """A step met an error that nobody should see, or was not there in time."""


class Tool:
    """At one SP."""

    def __init__(self, sp: SpNode, random: Random) -> None:
        self._sp = sp
        self._random = random

    def run(self, step: Step) -> StepResult:
        """Returns when the step is there."""
        began = time.monotonic()
        result = StepResult(step.name, 0)
        while not self._attempt(step, result):
            if time.monotonic() - began > STEP_S:
                raise StepFailed(f"{step.name}: not there after {STEP_S} s: {result.errors}")
            time.sleep(self._random.uniform(0, min(1.0, 0.02 * 2 ** sum(result.errors.values()))))
        result.seconds = round(time.monotonic() - began, 3)
        return result

    def _attempt(self, step: Step, result: StepResult) -> bool:
        """Whether the step is there now."""
        try:
            with connect(self._sp, autocommit=True) as connection:
                if is_there(connection, step):
                    return True
                try:
                    apply(connection, step)
                except psycopg.Error as error:
                    self._judge(error, connection, step, result)
                    return False
                return True
        except psycopg.OperationalError as error:  # the server is away, or was while it was asked
            result.count(error)
            return False

    def _judge(
        self, error: psycopg.Error, connection: psycopg.Connection[Any], step: Step, result: StepResult
    ) -> None:
        result.count(error)
        if connection.closed or error.sqlstate in MAY_PASS:
            return
        # Perhaps an earlier attempt, whose answer was lost, has arrived after this one has asked.
        if not is_there(connection, step):
            raise StepFailed(f"{step.name}: {error.sqlstate}: {error}") from error


def is_there(connection: psycopg.Connection[Any], step: Step) -> bool:
    """Whether the step has happened, as far as its SP knows."""
    parameters = None if step.there else [step.name]
    return connection.execute((step.there or NOTED).encode(), parameters).fetchone() is not None


def apply(connection: psycopg.Connection[Any], step: Step) -> None:
    """Once, on a connection in autocommit."""
    if step.there:
        connection.execute(step.statements[0].encode())
        return
    with connection.transaction():
        for statement in step.statements:
            connection.execute(statement.encode())
        connection.execute("INSERT INTO schema_version (step) VALUES (%s)", [step.name])
