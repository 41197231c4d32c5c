"""Takes a database out of views mode: the plain tables again, with all that was committed."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.schema.install import run_script


def plain_tables(connection: psycopg.Connection[Any], force: bool) -> None:
    """Brings the tables back, which the caller has locked. psp's schema stays. `force`: see release.

    PspError also names views and other objects of the application that depend on psp's views.
    """
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    if not force:
        _check_finished(connection)
    schemas = connection.execute("SELECT schema_name, variant_schema FROM psp.variant_schemas").fetchall()
    in_the_way = []
    for schema, name, persistent, temp in connection.execute(
        "SELECT schema_name, table_name, persistent, temp FROM psp.converted_tables ORDER BY table_id"
    ).fetchall():
        variant_schemas = [schema, *(variant for app, variant in schemas if app == schema)]
        try:
            with connection.transaction():
                _release_table(connection, schema, name, persistent, temp, variant_schemas)
        except psycopg.errors.DependentObjectsStillExist as error:
            in_the_way.append(error.diag.message_detail or str(error))
    if in_the_way:
        raise PspError(
            "objects of the application's own are in the way: " + "; ".join(in_the_way).replace("\n", "; "),
            "drop them, release, and create them again on the plain tables",
        )
    for (statement,) in connection.execute("SELECT statement FROM psp.undo ORDER BY step").fetchall():
        run_script(connection, statement)
    for _, variant_schema in schemas:
        connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(variant_schema)))


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
