"""What views mode needs to know about a table beyond psp.schema.model: owner, rights, defaults …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.schema.model import Table
from psp.sql_files import read_sql

_SCHEMA = """
SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = %s
"""


@dataclass(frozen=True)
class Grant:
    """A right on the table, or with `column` on that column only."""

    grantee: str | None  # None: PUBLIC
    privilege: str
    grantable: bool
    column: str | None


@dataclass(frozen=True)
class Unique:
    """A secondary unique index, and the constraint that made it, if any."""

    name: str
    index_definition: str
    constraint_name: str | None
    constraint_definition: str | None
    comment: str | None
    replica_identity: bool
    clustered: bool


@dataclass(frozen=True)
class ForeignKeyDefinition:
    """A foreign key of the table, as pg_get_constraintdef has it."""

    name: str
    definition: str
    comment: str | None


@dataclass(frozen=True)
class Check:
    """A CHECK of the table; `definition` is for ALTER TABLE … ADD CONSTRAINT."""

    name: str
    expression: str
    definition: str
    comment: str | None
    valid: bool
    columns: list[int]  # numbers; 0 is the whole row, below are PostgreSQL's own


@dataclass(frozen=True)
class Details:
    """What conversion must know of a table beyond psp.schema.model."""

    owner: str
    row_security: bool
    rules: list[str]
    dependents: list[str]  # views and functions
    row_columns: list[str]  # whose types have the table's row type in them
    publications: list[str]
    local_keys: list[str]  # foreign keys of tables that stay local: unlogged ones
    bad_names: list[str]  # T_persistent, T_temp, if they cannot be had
    functions: bool  # whether CHECKs, generated columns or indexes call functions that are not PostgreSQL's
    defaults: dict[str, str]
    sequences: dict[str, str]  # of identity columns, quoted
    grants: list[Grant]
    uniques: list[Unique]
    foreign_keys: list[ForeignKeyDefinition]
    checks: list[Check]


def _query(file: str) -> bytes:
    return read_sql(f"views/command/{file}")


def read_schema(connection: psycopg.Connection[Any], name: str) -> tuple[str, list[Grant]]:
    """A schema's owner, and what others may do there."""
    row = connection.execute(_SCHEMA, (name,)).fetchone()
    assert row is not None
    return row[0], [
        Grant(*grant) for grant in connection.execute(_query("schema_grants.sql"), (name,)).fetchall()
    ]


def read_details(connection: psycopg.Connection[Any], table: Table) -> Details:
    """Must run with search_path = pg_catalog, so that all names come out qualified."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_query("table_details.sql"), (table.oid,)).fetchone()
        assert row is not None
        defaults = cursor.execute(_query("table_defaults.sql"), (table.oid,)).fetchall()
        uniques = cursor.execute(_query("table_uniques.sql"), (table.oid,)).fetchall()
        foreign_keys = cursor.execute(_query("table_foreign_keys.sql"), (table.oid,)).fetchall()
        checks = cursor.execute(_query("table_checks.sql"), (table.oid,)).fetchall()
    grants = connection.execute(_query("table_grants.sql"), {"oid": table.oid}).fetchall()
    return Details(
        **row,
        defaults={d["name"]: d["expression"] for d in defaults if d["expression"] is not None},
        sequences={d["name"]: d["sequence"] for d in defaults if d["sequence"] is not None},
        grants=[Grant(*grant) for grant in grants],
        uniques=[Unique(**unique) for unique in uniques],
        foreign_keys=[ForeignKeyDefinition(**key) for key in foreign_keys],
        checks=[Check(**check) for check in checks],
    )
