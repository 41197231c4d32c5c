"""What is to be known about a table before one of its columns becomes an MRV, or after."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from psp.output import PspError
from psp.sql_files import read_sql


@dataclass(frozen=True)
class Column:
    """A column of the base table. `number` is pg_attribute.attnum; `modifier` is atttypmod, -1: none."""

    name: str
    number: int
    type: str  # as CREATE TABLE has it
    type_name: str
    base_type: str  # type_name, or 'domain'
    modifier: int
    default: str | None
    identity: str
    generated: bool
    sequence: str | None
    collation: str | None
    comment: str | None


@dataclass(frozen=True)
class KeyColumn:
    """A column of the primary key, in the key's order."""

    number: int
    equal: str  # OPERATOR(schema.=)


@dataclass(frozen=True)
class Check:
    """A CHECK of the table. `columns`: numbers, as in Column."""

    oid: int
    name: str
    columns: list[int]
    expression: str
    valid: bool


@dataclass(frozen=True)
class Trigger:
    """A trigger of the application's own. `columns`: those of UPDATE OF; empty: all."""

    name: str
    columns: list[int]
    on_update: bool
    on_truncate: bool


@dataclass(frozen=True)
class Dependent:
    """An object that depends on the table (column 0) or one of its columns. `view`: whose rule it is."""

    oid: int
    column: int
    text: str
    own_default: bool
    view: str | None
    class_: str


@dataclass(frozen=True)
class Grant:
    """A right on the table, or with `column` on that column only."""

    column: str | None
    grantee: str | None  # None: PUBLIC
    privilege: str
    grantable: bool


@dataclass(frozen=True)
class TableFacts:
    """What creating, altering or dropping a Multi-Record Value must know of a table. Names are not quoted."""

    schema: str
    name: str
    kind: str
    persistence: str
    owner: str
    row_security: bool
    inherits: bool
    published: bool
    comment: str | None
    columns: list[Column]
    key: list[KeyColumn]
    checks: list[Check]
    triggers: list[Trigger]
    dependents: list[Dependent]
    grants: list[Grant]

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    def by_number(self, number: int) -> Column:
        return next(column for column in self.columns if column.number == number)


@dataclass(frozen=True)
class Mrv:
    """A row of psp_mrv.columns."""

    column_id: int
    schema_name: str
    table_name: str
    base_table: str
    column_name: str
    value_type: str
    key_columns: list[str]
    key_types: list[str]
    records_table: str
    split_column: str
    lower_bound: Any
    bound_name: str | None
    bound_is_own: bool
    record_max: Any
    record_limit: int
    spread_from: Any
    strategy: str
    nr_initial: int
    nr_min: int
    nr_max: int
    balance: str
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.schema_name}.{self.table_name}.{self.column_name}"


def read_facts(connection: psycopg.Connection[Any], oid: int) -> TableFacts:
    """The facts about a table or view. Names of other objects come qualified if search_path is pg_catalog."""
    row = connection.execute(read_sql("mrv/command/table_facts.sql"), {"table": oid}).fetchone()
    if row is None:
        raise PspError(f"there is no table with OID {oid}")
    facts = row[0]
    lists: dict[str, Any] = {
        "columns": Column, "key": KeyColumn, "checks": Check, "triggers": Trigger, "dependents": Dependent,
        "grants": Grant,
    }  # fmt: skip
    for name, kind in lists.items():
        facts[name] = [kind(**_python_names(entry)) for entry in facts[name] or []]
    return TableFacts(**facts)


def _python_names(entry: dict[str, Any]) -> dict[str, Any]:
    return {"class_" if name == "class" else name: value for name, value in entry.items()}


def find_table(connection: psycopg.Connection[Any], schema: str | None, name: str) -> int:
    """The OID of a table or view, by the search path if no schema is given."""
    row = connection.execute(
        "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p', 'f', 'v', 'm') AND "
        "(n.nspname = %(schema)s OR %(schema)s::text IS NULL AND pg_table_is_visible(c.oid))",
        {"schema": schema, "name": name},
    ).fetchone()
    if row is None:
        raise PspError(
            f"there is no table {name if schema is None else f'{schema}.{name}'}",
            "write TABLE.COLUMN or SCHEMA.TABLE.COLUMN, names as they are stored, without quotes",
        )
    return int(row[0])


def is_installed(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass('psp_mrv.columns') IS NOT NULL").fetchone()
    return bool(row and row[0])


def refuse_others_schema(connection: psycopg.Connection[Any]) -> None:
    """PspError: a superuser would read, or write, tables whose owner may have put views or triggers there."""
    row = connection.execute(
        "SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner "
        "JOIN pg_roles me ON me.rolname = session_user "
        "WHERE n.nspname = 'psp_mrv' AND me.rolsuper AND NOT o.rolsuper"
    ).fetchone()
    if row:
        raise PspError(
            f"psp_mrv belongs to {row[0]}, whose code could run with a superuser's rights here",
            f"connect as {row[0]}, or as a member of that role which is no superuser",
        )


def hold_table(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """It is a table, and nobody puts a view in its place before the transaction ends.

    A view would run its owner's functions with the rights of who reads it.
    """
    connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(table))
    name = table.as_string(connection)
    row = connection.execute(
        "SELECT relkind IN ('r', 'p') FROM pg_class WHERE oid = %s::regclass", [name]
    ).fetchone()
    if not (row and row[0]):
        raise PspError(f"{name} is not the table that it was when the MRV was made")


def read_mrvs(connection: psycopg.Connection[Any]) -> list[Mrv]:
    """All MRVs of the database, in the order of their numbers."""
    if not is_installed(connection):
        return []
    refuse_others_schema(connection)
    hold_table(connection, sql.Identifier("psp_mrv", "columns"))
    known = {f.name for f in fields(Mrv)}
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("SELECT * FROM psp_mrv.columns ORDER BY column_id").fetchall()
    return [
        Mrv(
            **{k: v for k, v in row.items() if k in known},
            more={k: v for k, v in row.items() if k not in known},
        )
        for row in rows
    ]
