"""What the tests of views mode share: a converted database, and a transaction's life without a daemon."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psp.schema.release import release
from psp.schema.views.convert import Options, convert

from tests.sql.databases import Pair

WAIT_S = 20


def quiet(_: str) -> None: ...


def convert_pair(pair: Pair, **options: Any) -> None:
    convert(pair.dsn, Options(lock_wait_s=WAIT_S, **options), quiet)


def release_pair(pair: Pair, *, force: bool = False) -> None:
    release(pair.dsn, None, drop_keys=False, force=force, lock_wait_s=WAIT_S, say=quiet)


@dataclass
class Transaction:
    """One that has begun."""

    connection: psycopg.Connection[Any]
    tx_id: UUID

    def run(self, query: str) -> list[Any]:
        cursor = self.connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def begun(pair: Pair, **more: Any) -> Iterator[Transaction]:
    """An open transaction after psp.begin; COMMIT at the end, or ROLLBACK."""
    with psycopg.connect(pair.dsn, **more) as connection:
        yield Transaction(connection, begin(connection))


def ended(pair: Pair, *statements: str) -> UUID:
    """A transaction that waits for its commit request."""
    with begun(pair) as transaction:
        for statement in statements:
            transaction.run(statement)
    return transaction.tx_id


def begin(connection: psycopg.Connection[Any]) -> UUID:
    row = connection.execute("SELECT psp.begin()").fetchone()
    assert row is not None and isinstance(row[0], UUID)
    return row[0]


def one(pair: Pair, query: str, *values: Any) -> Any:
    """The first value of a query, as psp's owner."""
    with pair.connect() as connection:
        row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def decide(pair: Pair, tx_id: UUID, global_t: int) -> None:
    """What local worker and primary do for a commit request that is certified."""
    assert one(pair, "SELECT (psp.request_commit(%s)).status::text", tx_id) == "waiting"
    tables = one(
        pair,
        "SELECT array_agg(DISTINCT w.table_id) FROM psp.transactions t, psp.gather_write_set(t.xid) w "
        "WHERE t.tx_id = %s",
        tx_id,
    )
    assert one(pair, "SELECT psp.apply(%s, %s, %s)", tx_id, global_t, tables) is True


def write(pair: Pair, global_t: int, *statements: str) -> None:
    """A whole transaction, committed under `global_t`."""
    with begun(pair) as transaction:
        for statement in statements:
            transaction.run(statement)
    decide(pair, transaction.tx_id, global_t)


def rows(pair: Pair) -> Any:
    """Of table t, as an application sees them."""
    with pair.connect() as connection:
        return connection.execute("SELECT id, v FROM t ORDER BY id").fetchall()


def number(value: int) -> bytes:
    return struct.pack("!iIii", 1, 23, 4, value)


def write_set(pair: Pair, tx_id: UUID) -> list[tuple[int, bytes, int | None, bool, bool]]:
    """table_id, key, global_t, deleted, has an image."""
    with pair.connect() as connection:
        found = connection.execute(
            "SELECT w.table_id, w.key, w.global_t, w.deleted, w.image IS NOT NULL FROM psp.transactions t, "
            "psp.gather_write_set(t.xid) w WHERE t.tx_id = %s ORDER BY 1, 2",
            (tx_id,),
        ).fetchall()
    return [(table, bytes(key), t, deleted, image) for table, key, t, deleted, image in found]
