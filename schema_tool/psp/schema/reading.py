"""How psp's commands read tables of others: no code of theirs runs with the rights of who reads.

PostgreSQL runs such code when it plans a SELECT: functions with constant arguments, in indexes, statistics
and partition keys. COPY of a table, without a query, plans nothing and computes nothing. So a table with such
code is copied into a temporary table of another database, some megabytes at a time, and the SELECT reads that
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from psp.output import PspError
from psp.schema.generate import TEXT_SETTINGS
from psp.sql_files import read_sql

PART_BYTES = 1 << 21
LOCK_WAIT_MS = 500
"""Below deadlock_timeout's default, after which autovacuum would give way: it goes on, and COPY reads."""
ROWS = "pg_temp.psp_rows"
"""The temporary table."""

Connection = psycopg.Connection[Any]
Gate = Callable[[str], AbstractContextManager[bool]]
"""Of a table, by its qualified name: whether a SELECT of it may be planned in the block."""


def tables_with_code(connection: Connection, tables: Collection[str]) -> set[str]:
    """Those which a SELECT may not read. They are locked; the transaction sees what is committed by now."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(read_sql("catalog/code_in_plans.sql"), {"tables": list(tables)}).fetchall()
    return {name for (name,) in found}


def gate_under_locks(connection: Connection, tables: Collection[str]) -> Gate:
    """For a READ COMMITTED transaction: locks the tables against CREATE INDEX and ALTER TABLE, to its end."""
    if tables:
        statement = f"LOCK TABLE {', '.join(sorted(tables))} IN SHARE UPDATE EXCLUSIVE MODE"
        connection.execute(statement.encode())
    found = tables_with_code(connection, tables)
    connection.execute("SET LOCAL constraint_exclusion = off")
    return lambda table: nullcontext(table not in found)


@contextmanager
def gate_of_snapshot(connection: Connection) -> Iterator[Gate]:
    """For a transaction that is REPEATABLE READ: another session looks at what is committed by now.

    A table is locked while its block runs: CREATE INDEX and ALTER TABLE wait, reads and writes do not.
    """
    info = connection.info
    where = {**info.get_parameters(), "host": info.host, "hostaddr": info.hostaddr, "port": info.port}
    with psycopg.connect("", password=info.password, autocommit=True, **where) as look:  # type: ignore[arg-type]
        look.execute("SET search_path = pg_catalog, pg_temp")
        yield partial(_locked, connection, look)


@contextmanager
def _locked(connection: Connection, look: Connection, table: str) -> Iterator[bool]:
    """Who cannot have the lock knows nothing of what is there when the SELECT is planned.

    A role that may only SELECT may not have it.
    """
    with connection.transaction(force_rollback=True):
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}".encode())
                connection.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE".encode())
            is_locked = True
        except (
            psycopg.errors.LockNotAvailable,
            psycopg.errors.DeadlockDetected,
            psycopg.errors.InsufficientPrivilege,
        ):
            is_locked = False
        connection.execute("SET LOCAL constraint_exclusion = off")
        yield is_locked and not tables_with_code(look, [table])


def copied_parts(source: Connection, scratch: Connection, table: str) -> Iterator[None]:
    """Yields whenever ROWS in the transaction of `scratch` has the next of the table's rows.

    A column of a type that users have made is text there, as its output function has it. PspError: a value's
    text would not be the value. TEXT_SETTINGS hold in both transactions.
    """
    with source.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(read_sql("semi_primary/command/columns_to_copy.sql"), {"table": table})
        columns = cursor.fetchall()
    for name, _, why_not in columns:
        if why_not is not None:
            raise PspError(
                f"{table} is read by COPY, since an index or statistics call a function that is no "
                f"superuser's; but its column {name} is {why_not}",
                "drop what calls the function, and make it again afterwards",
            )
    scratch.execute(TEXT_SETTINGS.encode())
    made = ", ".join(f"{_quoted(name)} {kind}" for name, kind, _ in columns)
    scratch.execute(f"CREATE TEMPORARY TABLE psp_rows ({made})".encode())
    for part in _parts(source, table, [name for name, *_ in columns]):
        with scratch.cursor() as cursor, cursor.copy(f"COPY {ROWS} FROM STDIN".encode()) as writer:
            writer.write(part)
        yield
        scratch.execute(f"TRUNCATE {ROWS}".encode())
    scratch.execute(f"DROP TABLE {ROWS}".encode())


def column_values(connection: Connection, table: str, column: str) -> Iterator[str]:
    """The texts of the values that are not null."""
    for part in _parts(connection, table, [column]):
        yield from (line.decode() for line in part.splitlines() if line != b"\\N")


def _parts(connection: Connection, table: str, columns: Collection[str]) -> Iterator[bytes]:
    """COPY of the table, and of what it is partitioned into; whole rows."""
    listed = ", ".join(map(_quoted, columns))
    with connection.cursor(row_factory=tuple_row) as cursor:
        leaves = cursor.execute(read_sql("catalog/leaves.sql"), {"table": table}).fetchall()
        for leaf in leaves:
            name = sql.Identifier(*leaf).as_string(None)
            with cursor.copy(f"COPY {name} ({listed}) TO STDOUT".encode()) as reader:
                part = bytearray()
                for row in reader:
                    part += row
                    if len(part) >= PART_BYTES:
                        yield bytes(part)
                        part.clear()
            if part:
                yield bytes(part)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)
