"""Both modes: who a semi-primary is, its tables' numbers, its sequences' strides.

Everything runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from psp.schema.model import Sequence, Stride
from psp.sql_files import constant


@dataclass(frozen=True)
class Identity:
    """Who the semi-primary is."""

    cluster_id: str
    sp_id: int
    name: str
    slots: int
    joining: bool
    mode: str = "native"
    capture: str = "sql"  # native mode: sql or module

    @property
    def watermark(self) -> int:
        return -1 if self.joining else 0


def run_script(connection: psycopg.Connection[Any], script: str) -> None:
    """Runs SQL of our own making (files, templates, a stored dump), any number of statements."""
    connection.execute(sql.SQL(script))


def identify(connection: psycopg.Connection[Any], identity: Identity, strides: Iterable[Stride]) -> None:
    """Who the semi-primary is, where its stream begins, and the sequences' strides."""
    connection.execute(
        "INSERT INTO psp.identity "
        "(cluster_id, sp_id, name, mode, capture, token, hook_conninfo, guarded, slots, joining, "
        "last_number) "
        # The server draws the token: what is sent to it may be in its log.
        "SELECT %s, %s, %s, %s, %s, replace(gen_random_uuid()::text, '-', ''), '', "
        "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user), "
        "%s, %s, coalesce(max(n), 0) FROM psp.tables "
        "CROSS JOIN LATERAL (SELECT table_id UNION ALL "
        "SELECT (g ->> 'guard_id')::int4 FROM jsonb_array_elements(guards) g) numbers(n) WHERE n < %s",
        (
            identity.cluster_id, identity.sp_id, identity.name, identity.mode, identity.capture,
            identity.slots, identity.joining, constant("NOTIFICATIONS_ID"),
        ),
    )  # fmt: skip
    connection.execute("DELETE FROM psp.watermarks")
    connection.execute("INSERT INTO psp.watermarks VALUES (%s)", (identity.watermark,))
    for stride in strides:
        _stride(connection, stride)


def copy_tables(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> None:
    """psp.tables, the same at the primary and at every semi-primary; the primary has the forms, too."""
    columns = "table_id, schema_name, table_name, columns, key_columns, guards"
    query = f"SELECT {columns}, psp.form_of(table_id) FROM psp.tables ORDER BY table_id"
    rows = source.execute(query.encode()).fetchall()
    with target.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO psp.tables ({columns}, form) VALUES (%s, %s, %s, %s, %s, %s, %s)".encode(),
            [[Jsonb(v) if isinstance(v, list) else v for v in row] for row in rows],
        )


def strides_of(sequences: Iterable[Sequence]) -> list[Stride]:
    """Where the sequences stand now."""
    return [Stride(s.schema, s.name, s.base, s.increment) for s in sequences]


def _stride(connection: psycopg.Connection[Any], stride: Stride) -> None:
    name = sql.Identifier(stride.schema, stride.name).as_string(connection)
    connection.execute(
        "SELECT psp.stride_sequence(%s::regclass, %s, %s)", (name, stride.base, stride.increment)
    )
