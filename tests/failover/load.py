"""Clients at every semi-primary, until they are stopped. Each notes what it was told of each transaction."""

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psycopg
from psp.cluster.local import SpNode

from tests.cluster.support import CONNECTION_FAILURE, OUTCOME_UNKNOWN, SERIALIZATION_FAILURE, tx_id_of
from tests.threads import running_until_left

ACCOUNTS, AMOUNT = 60, 1000
PAUSE_S = 0.02
UNIQUE_VIOLATION, DEADLOCK = "23505", "40P01"
NOT_COMMITTED = {SERIALIZATION_FAILURE, CONNECTION_FAILURE, UNIQUE_VIOLATION, DEADLOCK}

Outcome = Literal["committed", "aborted", "unknown"]
Connection = psycopg.Connection[Any]
Body = Callable[[Connection, uuid.UUID], None]


@dataclass(frozen=True)
class Told:
    """What a client was told of one transaction. Times are those of time.monotonic()."""

    sp: str
    kind: str
    row: uuid.UUID
    outcome: Outcome
    sqlstate: str | None
    transaction: uuid.UUID | None  # psp's id, where the error named it
    began: float
    ended: float


@dataclass
class Notes:
    """Of all clients. They share it; each operation is one call of a list."""

    told: list[Told] = field(default_factory=list)
    sums: list[tuple[str, int]] = field(default_factory=list)  # SP, sum: those that were wrong at some moment

    def rows(self, outcome: Outcome) -> set[uuid.UUID]:
        return {told.row for told in self.told if told.outcome == outcome}

    def commits(self, sp: str) -> list[Told]:
        """In the order in which the clients were told."""
        found = [told for told in self.told if told.sp == sp and told.outcome == "committed"]
        return sorted(found, key=lambda told: told.ended)


def journal(connection: Connection, row: uuid.UUID, kind: str, what: str) -> None:
    connection.execute("INSERT INTO journal VALUES (%s, %s, %s)", (row, kind, what))


def transfers(random: Random) -> Body:
    """From any account to any other."""

    def body(connection: Connection, row: uuid.UUID) -> None:
        first, second = sorted(random.sample(range(1, ACCOUNTS + 1), 2))
        amount = random.randrange(-50, 50)
        for account, change in ((first, -amount), (second, amount)):
            connection.execute("UPDATE account SET amount = amount + %s WHERE id = %s", (change, account))
        journal(connection, row, "transfer", f"{amount} from {first} to {second}")

    return body


def counts(name: str) -> Body:
    """One more, in a counter of this name."""

    def body(connection: Connection, row: uuid.UUID) -> None:
        connection.execute(
            "INSERT INTO counter VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET n = counter.n + 1", (name,)
        )
        journal(connection, row, "count", name)

    return body


def claims(names: Iterator[int]) -> Body:
    """Names that the other semi-primaries' clients want, too."""

    def body(connection: Connection, row: uuid.UUID) -> None:
        name = f"name {next(names)}"
        connection.execute("INSERT INTO claim VALUES (%s, %s)", (row, name))
        journal(connection, row, "claim", name)

    return body


def client(sp: SpNode, kind: str, body: Body, notes: Notes) -> Callable[[threading.Event], None]:
    """Runs such transactions, one after the other."""

    def once(connection: Connection) -> None:
        row, began = uuid.uuid4(), time.monotonic()
        outcome: Outcome = "aborted"
        sqlstate: str | None = None
        transaction: uuid.UUID | None = None
        try:
            body(connection, row)
            outcome = "unknown"
            connection.commit()
            outcome = "committed"
        except psycopg.Error as error:
            sqlstate = error.sqlstate
            if sqlstate in NOT_COMMITTED:
                outcome = "aborted"
            elif sqlstate == OUTCOME_UNKNOWN:
                transaction = tx_id_of(error)
            if not connection.closed:
                connection.rollback()
        ended = time.monotonic()
        notes.told.append(Told(sp.name, kind, row, outcome, sqlstate, transaction, began, ended))

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            with psycopg.connect(sp.dsn, connect_timeout=10) as connection:
                while not stop.wait(PAUSE_S) and not connection.closed:
                    once(connection)

    return run


def watcher(sp: SpNode, notes: Notes) -> Callable[[threading.Event], None]:
    """No snapshot has another sum."""

    def run(stop: threading.Event) -> None:
        with psycopg.connect(sp.dsn, autocommit=True) as connection:
            while not stop.wait(0.2):
                row = connection.execute("SELECT sum(amount)::bigint FROM account").fetchone()
                assert row is not None
                if row[0] != ACCOUNTS * AMOUNT:
                    notes.sums.append((sp.name, row[0]))

    return run


@contextmanager
def load(sps: Sequence[SpNode], seed: str) -> Iterator[Notes]:
    """Until the block is left."""
    notes = Notes()
    bodies = []
    for sp in sps:
        kinds = {
            "transfer": transfers(Random(f"{seed} {sp.name}")),
            "count": counts(sp.name),
            "count together": counts("all"),
            "claim": claims(itertools.count()),
        }
        bodies += [client(sp, kind, body, notes) for kind, body in kinds.items()]
        bodies.append(watcher(sp, notes))
    with running_until_left(*bodies):
        yield notes
