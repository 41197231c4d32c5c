"""Takes a database out of views mode: the plain tables again, with all that was committed."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.schema.install import run_script


def plain_tables(connection: psycopg.Connection[Any], force: bool) -> None:
    """Brings the tables back, which the caller has locked. psp's schema stays. `force`: see release."""
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
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
