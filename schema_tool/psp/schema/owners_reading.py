"""How a superuser's session reads tables of others: nothing of their owners' runs with its rights.

To plan a reading, PostgreSQL parses the functions in SQL that stand in a table's indexes, and computes calls
with constant arguments, as the role that reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from psp.schema.generate import TEXT_SETTINGS
from psp.sql_files import read_sql


@contextmanager
def as_owner(
    connection: psycopg.Connection[Any], relation: str, path: str, query: str, columns: LiteralString
) -> Iterator[str]:
    """A query with the result of this one, on one table; to be executed before the end of the block.

    `relation`: the table's qualified name. `path`: its owner's search_path. `columns`: what it returns,
    as names and types. Where planning would run code of users, a function of the owner's executes the query:
    code in it cannot come back to the session's role (SECURITY DEFINER). TEXT_SETTINGS hold afterwards.
    """
    with connection.cursor(row_factory=tuple_row) as cursor, owners_path(connection, path):
        found = cursor.execute(read_sql("catalog/code_in_planning.sql"), (relation,)).fetchone()
        if found is None:
            yield query
            return
        reader = sql.Identifier("pg_temp", f"psp_{uuid4().hex}")
        cursor.execute(
            sql.SQL(
                "CREATE FUNCTION {}() RETURNS TABLE ({}) LANGUAGE plpgsql SECURITY DEFINER "
                "SET search_path = {} SET row_security = off AS {}"
            ).format(
                reader,
                sql.SQL(columns),
                sql.SQL(f"pg_catalog, {path}"),
                sql.Literal(f"#variable_conflict use_column\nBEGIN RETURN QUERY {query}; END"),
            )
        )
        cursor.execute(sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(reader))
        cursor.execute(sql.SQL("ALTER FUNCTION {}() OWNER TO {}").format(reader, sql.Identifier(found[0])))
        yield f"SELECT * FROM {reader.as_string(connection)}()"
        cursor.execute(sql.SQL("DROP FUNCTION {}()").format(reader))
        cursor.execute(TEXT_SETTINGS.encode())


@contextmanager
def owners_path(connection: psycopg.Connection[Any], owners: str) -> Iterator[None]:
    """Under the search_path of a table's owner, PostgreSQL's own names first."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        before = cursor.execute("SELECT pg_catalog.current_setting('search_path')").fetchone()
        assert before is not None
        setting: LiteralString = "SELECT pg_catalog.set_config('search_path', %s, true)"
        cursor.execute(setting, (f"pg_catalog, {owners}",))
        yield
        cursor.execute(setting, before)
