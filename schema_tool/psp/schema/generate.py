"""Both modes: the files that install psp, and the captured tables as psp's functions see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from psp.schema.model import Database, Table

GUARD_FILES = (
    "captured_relations.sql", "guarded_state.sql", "obstacles.sql", "ddl_checks.sql", "ddl_guard.sql",
    "guard_watch.sql", "ddl_start.sql",
)  # fmt: skip
FACT_FILES = ("owners.sql", "capture_facts.sql", "guards.sql", "apply_functions.sql", "sequences.sql")
"""After the views of the facts."""

TEXT_SETTINGS = """
SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C';
SET LOCAL timezone = 'UTC'; SET LOCAL search_path = pg_catalog, pg_temp
"""
"""What the text forms of values depend on, as the capture functions have it."""

_CAPTURED = """
SELECT f, psp.key_of(f, 'r'), psp.image_of(f, 'r'), psp.row_query(f)
  FROM (SELECT {} AS f OFFSET 0) d
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


def define_tables(connection: psycopg.Connection[Any], database: Database) -> list[CapturedTable]:
    """Fills psp.tables: numbers the tables and their guards from 1, in one space."""
    tables = {(table.schema, table.name): table for table in database.captured_tables}
    rows = connection.execute(_CAPTURED.format("psp.define_tables()").encode()).fetchall()
    return [CapturedTable(tables[row[0]["schema_name"], row[0]["table_name"]], *row) for row in rows]


def define_table(
    connection: psycopg.Connection[Any], table: Table, table_id: int, guard_ids: Mapping[str, int]
) -> CapturedTable:
    """Puts a table into psp.tables, under the numbers that the cluster has given to it and its indexes."""
    query = _CAPTURED.format("psp.define_table(%s, %s, %s)").encode()
    row = connection.execute(query, (table.oid, table_id, Jsonb(guard_ids))).fetchone()
    assert row is not None
    return CapturedTable(table, *row)
