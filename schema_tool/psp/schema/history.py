"""`psp schema history`: the schema changes that psp.ddl has run in the cluster."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row
from rich.table import Table

from psp.output import PspError, table
from psp.schema.server import read_facts
from psp.sessions import open_session
from psp.sql_files import read_sql


def read_history(dsn: str, primary_dsn: str | None) -> list[dict[str, Any]]:
    """The statements that a semi-primary has, oldest first, as `psp schema history --json` prints them.

    `global_t` is the number of the statement's transaction, None without `primary_dsn`. PspError: the
    database is no semi-primary in native mode. psycopg.Error: the role may not read psp.schema_history.
    """
    with open_session(dsn) as connection, connection.cursor(row_factory=dict_row) as cursor:
        if not read_facts(connection).adopted:
            raise PspError(
                "the database is no semi-primary in native mode", "psp.ddl and its history need one"
            )
        statements = cursor.execute(read_sql("semi_primary/command/schema_history.sql")).fetchall()
    numbers = _numbers(primary_dsn, statements[-1]["change"]) if primary_dsn and statements else {}
    return [{**statement, "global_t": numbers.get(statement["change"])} for statement in statements]


def _numbers(primary_dsn: str, newest: int) -> dict[int, int]:
    """The global_t of each change up to the newest, as far as the primary has it."""
    query = read_sql("primary/command/schema_change_numbers.sql")
    with psycopg.connect(primary_dsn) as connection:
        return dict(connection.execute(query, [newest]).fetchall())


def show(statements: list[dict[str, Any]]) -> Table:
    """The same for people."""
    return table(
        None,
        ("change", "global_t", "at", "where", "as", "job", "statement"),
        [
            (
                s["change"], s["global_t"], f"{s['executed_at']:%Y-%m-%d %H:%M:%S}", s["sp_name"], s["role"],
                s["job"],
                " ".join(s["statement"].split()),
            )
            for s in statements
        ],
    )  # fmt: skip
