"""Both modes: the files that install psp, and the captured tables as psp's functions see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from psp.schema.model import Database, Table

GUARD_FILES = (
    "captured_relations.sql", "guarded_state.sql", "way_to_change.sql", "ddl_checks.sql", "ddl_guard.sql",
    "guard_watch.sql",
    "ddl_start.sql",
)  # fmt: skip
EVENT_TRIGGER_FILES = ("event_triggers.sql",)
"""After the guard's files, where a superuser installs them."""
FACT_FILES = (
    "owners.sql", "capture_facts.sql", "guards.sql", "apply_functions.sql", "sequences.sql", "origin.sql",
)  # fmt: skip
"""After the views of the facts."""

TEXT_SETTINGS = """
SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C';
SET LOCAL timezone = 'UTC'; SET LOCAL search_path = pg_catalog, pg_temp
"""
"""What the text forms of values depend on, as the capture functions have it."""

_CAPTURED = """
SELECT f, psp.key_of(f, 'r'), psp.image_of(f, 'r'), psp.row_query(f)
  FROM psp.define_tables(%s::oid[], %s::integer[], %s::jsonb[]) f
"""


@dataclass(frozen=True)
class CapturedTable:
    """A table in psp.tables, before anything is changed about it."""

    table: Table
    facts: Mapping[str, Any]  # sql/semi_primary/install/capture_facts.sql
    key: str  # SQL for the key of a row called r, as bytes
    image: str  # the same for the image
    row_query: str  # SELECT of its rows as rows of the primary's psp.data

    @property
    def table_id(self) -> int:
        return int(self.facts["table_id"])


def define_tables(
    connection: psycopg.Connection[Any], database: Database, *, only_with_key: bool = False
) -> list[CapturedTable]:
    """Fills psp.tables: numbers the tables and their guards from 1, in one space."""
    tables = {table.oid: table for table in database.captured_tables}
    numbers = connection.execute("SELECT relation, table_id, guard_ids FROM psp.number_tables()").fetchall()
    numbered = [(tables[oid], table_id, ids) for oid, table_id, ids in numbers]
    return define_numbered(
        connection, [entry for entry in numbered if not only_with_key or entry[0].primary_key is not None]
    )


def define_numbered(
    connection: psycopg.Connection[Any], numbered: Sequence[tuple[Table, int, Mapping[str, int]]]
) -> list[CapturedTable]:
    """Puts tables into psp.tables, under the numbers that the cluster has given to them and their indexes."""
    tables = {table_id: table for table, table_id, _ in numbered}
    oids = [table.oid for table in tables.values()]
    guard_ids = [Jsonb(ids) for *_, ids in numbered]
    rows = connection.execute(_CAPTURED, (oids, list(tables), guard_ids)).fetchall()
    return [CapturedTable(tables[row[0]["table_id"]], *row) for row in rows]
