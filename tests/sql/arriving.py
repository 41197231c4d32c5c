"""Schema changes as they arrive from another semi-primary, without a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.sql.databases import APPLICATION, Pair

_ROW = """
INSERT INTO psp.schema_history
SELECT coalesce(max(change), 0) + 1, 1, now(), 'other', %s, psp.statement_settings() || %s, %s
  FROM psp.schema_history
"""


@contextmanager
def arriving(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's transaction that passes for the apply worker's. It is rolled back."""
    with pair.rolled_back() as connection:
        become_worker(connection)
        yield connection


def become_worker(connection: psycopg.Connection[Any]) -> None:
    """In a transaction of a superuser. What arrives makes the server forget prepared statements."""
    connection.prepare_threshold = None
    connection.execute("SET LOCAL session_replication_role = replica")
    connection.execute(
        "INSERT INTO psp.apply_session (pid, server_start) "
        "VALUES (pg_backend_pid(), pg_postmaster_start_time()) "
        "ON CONFLICT (only_row) DO UPDATE SET pid = EXCLUDED.pid"
    )


def arrive(
    connection: psycopg.Connection[Any], statement: str, role: str = APPLICATION, **settings: Any
) -> None:
    """Settings that are not given are the session's."""
    with connection.transaction():
        connection.execute("SET LOCAL ROLE psp_functions")
        connection.execute(_ROW.encode(), [role, Jsonb(settings), statement])
        connection.execute("RESET ROLE")
