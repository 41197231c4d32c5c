"""Takes a database out of views mode: the plain tables again, with all that was committed."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.schema import locks
from psp.schema.catalog import read_database
from psp.schema.install import run_script
from psp.schema.server import read_facts

LOCK_MODE = "ACCESS EXCLUSIVE"


def is_converted(dsn: str) -> bool:
    """Whether the database is in views mode."""
    with psycopg.connect(dsn) as connection:
        return read_facts(connection).converted


def release(dsn: str, *, force: bool, lock_wait_s: float, say: locks.Say) -> None:
    """One transaction; on an exception nothing has changed. `force`: even if transactions are unfinished."""
    with psycopg.connect(dsn) as connection:
        tables = read_database(connection).captured_tables
        connection.rollback()
        locks.retry_while_locked(
            connection, tables, LOCK_MODE, lock_wait_s, say, lambda: _release(connection, force)
        )


def _release(connection: psycopg.Connection[Any], force: bool) -> None:
    connection.execute("SET LOCAL client_min_messages = warning")
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    # Whoever wrote to T_temp holds a lock on T_persistent too, and ends before this one gets its own.
    locks.lock(connection, read_database(connection).captured_tables, LOCK_MODE)
    if not force:
        _check_finished(connection)
    schemas = connection.execute("SELECT schema_name, mode_schema FROM psp.mode_schemas").fetchall()
    for schema, name, persistent, temp in connection.execute(
        "SELECT schema_name, table_name, persistent, temp FROM psp.converted_tables"
    ).fetchall():
        mode_schemas = [schema, *(mode for app, mode in schemas if app == schema)]
        _release_table(connection, schema, name, persistent, temp, mode_schemas)
    for (statement,) in connection.execute("SELECT statement FROM psp.undo ORDER BY step").fetchall():
        run_script(connection, statement)
    for _, mode in schemas:
        connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(mode)))
    connection.execute("DROP SCHEMA psp CASCADE")
    connection.commit()


def _check_finished(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "SELECT count(*) FROM psp.transactions WHERE status IN ('running', 'waiting', 'pending')"
    ).fetchone()
    if row is not None and row[0]:
        raise PspError(
            f"{row[0]} transactions are not finished, and what they wrote would be lost",
            "let the semi-primary finish them, or release with --force",
        )


def _release_table(
    connection: psycopg.Connection[Any],
    schema: str,
    name: str,
    persistent: str,
    temp: str,
    view_schemas: list[str],
) -> None:
    for view_schema in view_schemas:
        connection.execute(sql.SQL("DROP VIEW {}").format(sql.Identifier(view_schema, name)))
    connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, temp)))
    target = sql.Identifier(schema, persistent)
    connection.execute(sql.SQL("DELETE FROM {} WHERE deleted").format(target))
    # The partial unique indexes go with the column that their predicates name.
    connection.execute(sql.SQL("ALTER TABLE {} DROP COLUMN deleted, DROP COLUMN global_t").format(target))
    connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(target, sql.Identifier(name)))
