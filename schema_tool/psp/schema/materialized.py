"""Materialized views of a semi-primary that has joined: the restored schema has them without rows."""

from __future__ import annotations

import psycopg
from psycopg import sql

from psp.schema.locks import Say
from psp.sql_files import read_sql


def refresh(dsn: str, say: Say) -> int:
    """Refreshes those that have never been; returns how many. One that fails is told, and left out."""
    count = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")  # the other semi-primaries have their rows
        with connection.transaction():  # REFRESH has the path that the views' functions need, and their owner
            connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
            found = connection.execute(read_sql("catalog/unpopulated_views.sql")).fetchall()
        for schema, name in found:
            try:
                statement = sql.SQL("REFRESH MATERIALIZED VIEW {}").format(sql.Identifier(schema, name))
                connection.execute(statement)
                count += 1
            except psycopg.Error as error:
                say(f"materialized view {schema}.{name}: {error}")
    return count
