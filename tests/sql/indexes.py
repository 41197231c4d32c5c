"""Indexes as one semi-primary makes them, by schema changes, alone or by jobs, and which there are."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.sql.databases import APPLICATION


def locally(connection: psycopg.Connection[Any], *statements: str) -> None:
    """As an owner who makes something for this server only. The session is the superuser's afterwards."""
    connection.execute("SET LOCAL session_replication_role = origin")
    connection.execute(f"SET ROLE {APPLICATION}".encode())
    connection.execute("SET psp.schema_changes = local")
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("RESET psp.schema_changes")
    connection.execute("RESET ROLE")


def run(connection: psycopg.Connection[Any], *statements: str) -> None:
    """As the role whose statements go with the stream. The session is the superuser's afterwards."""
    connection.execute(f"SET ROLE {APPLICATION}".encode())
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("RESET ROLE")


def recorded(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute("SELECT statement FROM psp.schema_history ORDER BY change, statement_n")
    return [statement for (statement,) in rows]


def indexes(connection: psycopg.Connection[Any], table: str = "item") -> dict[str, bool]:
    """Which of them are unique. Numbers in the names of those that have made way are left out."""
    rows = connection.execute(
        "SELECT regexp_replace(c.relname, '^local_[0-9]+_', 'local_'), i.indisunique "
        "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s::regclass",
        (table,),
    )
    return {name: unique for name, unique in rows if not name.endswith("_pkey")}


def made_by_job(connection: psycopg.Connection[Any], table: str, index: str, state: str = "done") -> None:
    """As if a job had made it here."""
    locally(connection, f"CREATE INDEX {index} ON {table} (b)")
    connection.execute(
        "INSERT INTO psp.jobs (change, statement_n, state, relation, index_name) "
        "SELECT coalesce(max(change), 900) + 1, 1, %s, %s::regclass, %s FROM psp.jobs",
        (state, table, index),
    )
