"""Clients at every SP, until they are stopped: some insert and move children, others end parents.

Each transaction also writes a row of its own into the journal: what its client was told can be judged.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, LiteralString

import psycopg
from psp.cluster.local import SpNode

from tests.cluster.support import CONNECTION_FAILURE, SERIALIZATION_FAILURE, connect

PARENTS = 6  # 0 is the default of defaulted.parent, and stays
FOREIGN_KEY_VIOLATION, UNIQUE_VIOLATION = "23503", "23505"
BY_ID: tuple[LiteralString, ...] = ("restricted", "cascaded", "emptied", "defaulted")
CHILDREN: dict[LiteralString, LiteralString] = {
    **dict.fromkeys(BY_ID, "id"),
    "coded": "code",
}
READ_COMMITTED: LiteralString = "READ COMMITTED"
LEVELS: tuple[LiteralString, ...] = (READ_COMMITTED, "REPEATABLE READ")
PAUSE_S = 0.005
ORPHANS: dict[LiteralString, LiteralString] = {
    table: (
        "SELECT c.id, c.parent FROM " + table + " c WHERE c.parent IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM parents p WHERE p." + column + " = c.parent)"
    )
    for table, column in CHILDREN.items()
}


@dataclass
class Notes:
    """What the clients were told. They share it; each operation is one call of a list or set."""

    committed: list[str] = field(default_factory=list)  # who, once for each transaction
    errors: list[tuple[str, str | None, str]] = field(default_factory=list)  # who, SQLSTATE, text
    written: set[uuid.UUID] = field(default_factory=set)  # rows of the journal whose COMMIT succeeded
    refused: set[uuid.UUID] = field(default_factory=set)  # and those that were told to be rolled back
    orphans: list[tuple[str, str, Any]] = field(default_factory=list)  # SP, table, row: seen at any moment

    def states(self, who: str) -> Counter[str | None]:
        """How often these clients saw which SQLSTATE."""
        return Counter(state for name, state, _ in self.errors if name == who)


Body = Callable[[psycopg.Connection[Any], Random], None]


def put_child(connection: psycopg.Connection[Any], random: Random) -> None:
    """A new child, or one that is there gets another parent."""
    table = random.choice(list(CHILDREN))
    parent: int | str = random.randrange(PARENTS)
    if table == "coded":
        parent = f"code {parent}"
    if random.random() < 0.8:
        connection.execute("INSERT INTO " + table + " (parent) VALUES (%s)", [parent])
    else:
        connection.execute(
            "UPDATE " + table + " SET parent = %s WHERE id = (SELECT id FROM " + table + " ORDER BY id"
            " OFFSET %s LIMIT 1)",
            [parent, random.randrange(50)],
        )


def change_parent(connection: psycopg.Connection[Any], random: Random) -> None:
    """It is deleted, gets another key or another code, is made again, or is only updated."""
    parent = random.randrange(1, PARENTS)
    dice = random.random()
    if dice < 0.35:
        connection.execute("DELETE FROM restricted WHERE parent = %s", [parent])
        connection.execute("DELETE FROM parents WHERE id = %s", [parent])
    elif dice < 0.5:
        connection.execute("DELETE FROM restricted WHERE parent = %s", [parent])
        connection.execute(
            "UPDATE parents SET id = %s WHERE id = %s",
            [random.randrange(1, PARENTS), parent],
        )
    elif dice < 0.6:
        connection.execute(
            "UPDATE parents SET code = %s WHERE id = %s",
            [f"other {random.random()}", parent],
        )
    elif dice < 0.9:
        connection.execute("INSERT INTO parents VALUES (%s, %s)", [parent, f"code {parent}"])
    else:
        connection.execute("UPDATE parents SET n = n + 1 WHERE id = %s", [parent])


def update_parent(connection: psycopg.Connection[Any], random: Random) -> None:
    """One of its own, so that nobody else writes it."""
    connection.execute("UPDATE parents SET n = n + 1 WHERE id = 0")


def insert_child(connection: psycopg.Connection[Any], random: Random) -> None:
    """For one of few parents."""
    table = random.choice(BY_ID)
    connection.execute("INSERT INTO " + table + " (parent) VALUES (%s)", [random.randrange(3)])


def client(
    who: str,
    sp: SpNode,
    seed: str,
    body: Body,
    notes: Notes,
    levels: Sequence[LiteralString] = LEVELS,
) -> Callable[[threading.Event], None]:
    """Runs such transactions until it is stopped, each under a level that is drawn."""
    random = Random(seed)

    def once(connection: psycopg.Connection[Any]) -> None:
        row = uuid.uuid4()
        connection.execute("SET TRANSACTION ISOLATION LEVEL " + random.choice(levels))
        body(connection, random)
        connection.execute("INSERT INTO journal VALUES (%s)", [row])
        try:
            connection.commit()
        except psycopg.Error as error:
            if error.sqlstate in (
                SERIALIZATION_FAILURE,
                CONNECTION_FAILURE,
                FOREIGN_KEY_VIOLATION,
            ):
                notes.refused.add(row)
            raise
        notes.written.add(row)
        notes.committed.append(who)

    def attempt(connection: psycopg.Connection[Any]) -> None:
        try:
            once(connection)
        except psycopg.Error as error:
            notes.errors.append((who, error.sqlstate, str(error).strip()))
            if not connection.closed:
                connection.rollback()

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with connect(sp, options="-c statement_timeout=60s") as connection:
                    while not stop.wait(PAUSE_S) and not connection.closed:
                        attempt(connection)
            except psycopg.OperationalError as error:  # the connection itself
                notes.errors.append((who, error.sqlstate, str(error).strip()))
                stop.wait(0.05)

    return run


def watcher(sp: SpNode, notes: Notes) -> Callable[[threading.Event], None]:
    """Looks for orphans all the time: no snapshot of any SP has one."""

    def look(connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for table, orphans in ORPHANS.items():
                found = connection.execute(orphans).fetchall()
                notes.orphans.extend((sp.name, table, row) for row in found)

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with connect(sp) as connection:
                    while not stop.wait(0.05):
                        look(connection)
            except psycopg.OperationalError:
                stop.wait(0.05)

    return run
