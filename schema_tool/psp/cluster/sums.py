"""How many rows each server holds of each table, and a checksum of them.

An SP's checksum is computed from its tables, as an application reads them; the primary's from the images in
psp.data. A checksum is the sum of a 64-bit hash of each row's image, so the order of rows does not matter.

Tables are known by their numbers: schema changes give other names. What a table is today is known at the SPs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import dict_row, tuple_row

from psp.cluster.older_images import Field, as_of_today
from psp.schema.generate import TEXT_SETTINGS
from psp.schema.reading import ROWS, Connection, copied_parts, gate_of_snapshot
from psp.sql_files import constant, read_sql

_FORMS: Mapping[str, LiteralString] = {
    "binary": "r.{}",
    "text": "r.{}::text",
    "output": "CASE WHEN num_nulls(r.{0}) = 0 THEN concat(r.{0}) END",
}

_KNOWN_REQUESTS = (
    f" WHERE r.generation >= (SELECT psp.newest_generation()) - {constant('REQUEST_GENERATIONS')}"
)
_IMAGES_AT_ONCE = 500
_FOR_EVER = 2**63 - 1

_HASH_SQL = """
    SELECT table_id, count(*), sum(hash_record_extended(ROW(image), 0))
      FROM unnest(%b::integer[], %b::bytea[]) i(table_id, image) GROUP BY table_id
"""


@dataclass(frozen=True)
class TableSum:
    """What one server holds of one table."""

    rows: int
    checksum: int

    def __add__(self, other: TableSum) -> TableSum:
        return TableSum(self.rows + other.rows, self.checksum + other.checksum)


Sums = dict[int, TableSum]
"""By the tables' numbers."""


@dataclass(frozen=True)
class Definition:
    """A captured table as an SP has it today.

    `types`: the OIDs of its image's columns. `older`: how images up to a version of the catalog become images
    of today, in the order of the versions.
    """

    label: str
    types: Sequence[int]
    older: Sequence[tuple[int, Sequence[Field]]]


Definitions = dict[int, Definition]


def read_sp(connection: Connection, primary_dsn: str) -> tuple[Definitions, Sums]:
    """From the tables themselves. One snapshot, if the transaction has only one.

    The primary's database lends a temporary table for tables that no SELECT may read.
    """
    connection.execute(TEXT_SETTINGS.encode())
    with connection.cursor(row_factory=dict_row) as cursor, gate_of_snapshot(connection) as gate:
        catalog = cursor.execute(read_sql("catalog/captured_columns.sql")).fetchall()
        definitions: Definitions = {}
        sums: Sums = {}
        for entry in catalog:
            older = [(image["until_version"], image["fields"]) for image in entry["older"]]
            label = f"{entry['schema_name']}.{entry['table_name']}"
            definitions[entry["table_id"]] = Definition(label, entry["types"], older)
            table = sql.Identifier(entry["schema_name"], entry["table_name"]).as_string(None)
            with gate(table) as may_select:
                if may_select:
                    found = _sum_of(connection, entry, table)
                else:
                    found = _sum_in_parts(connection, primary_dsn, entry, table)
            sums[entry["table_id"]] = found
    return definitions, _without_empty_own(sums)


def _sum_in_parts(connection: Connection, primary_dsn: str, entry: dict[str, Any], table: str) -> TableSum:
    total = TableSum(0, 0)
    with psycopg.connect(primary_dsn) as scratch:
        for _ in copied_parts(connection, scratch, table):
            total += _sum_of(scratch, entry, ROWS)
        scratch.rollback()
    return total


def _sum_of(connection: Connection, entry: dict[str, Any], relation: str) -> TableSum:
    """Count and checksum of a table at an SP; the image is the one that the capture triggers make."""
    values = [
        sql.SQL(_FORMS[form]).format(sql.Identifier(name))
        for name, form in zip(entry["names"], entry["forms"], strict=True)
    ]
    query = sql.SQL(
        "SELECT count(*), coalesce(sum(hash_record_extended(ROW(record_send(ROW({}))), 0)), 0) FROM {} r{}"
    ).format(
        sql.SQL(", ").join(values), sql.SQL(relation),
        sql.SQL(_KNOWN_REQUESTS if entry["table_id"] == constant("REQUESTS_ID") else ""),
    )  # fmt: skip
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query).fetchone()
    assert row is not None
    return TableSum(row[0], int(row[1]))


def primary_sums(dsn: str, definitions: Definitions) -> Sums:
    """From the images that the primary keeps, in one snapshot; `definitions`: the tables of today."""
    with psycopg.connect(dsn, row_factory=tuple_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older = _older_forms(connection, definitions)
        newest = connection.execute(read_sql("primary/daemon/newest_generation.sql")).fetchone()
        assert newest is not None
        sums = {
            table_id: TableSum(rows, int(checksum))
            for table_id, rows, checksum in connection.execute(
                read_sql("primary/command/table_sums.sql"), {**_bounds(older), "generation": newest[0]}
            )
            if table_id in definitions or rows > 0
        }
        for table_id, found in _older_sums(connection, {t: form for t, form in older.items() if t in sums}):
            sums[table_id] += found
    return _without_empty_own(sums)


def _without_empty_own(sums: Sums) -> Sums:
    """psp's own tables are told only where they have rows."""
    own = (constant("SCHEMA_HISTORY_ID"), constant("REQUESTS_ID"), constant("NOTIFICATIONS_ID"))
    return {table_id: found for table_id, found in sums.items() if table_id not in own or found.rows > 0}


@dataclass(frozen=True)
class _OlderForm:
    """The older definitions of a table: images of before before_t[n] become images of today by fields[n]."""

    before_t: Sequence[int]
    fields: Sequence[Sequence[Field]]
    types: Sequence[int]

    def as_of_today(self, image: bytes, global_t: int) -> bytes:
        return as_of_today(image, self.fields[bisect_right(self.before_t, global_t)], self.types)


def _older_forms(connection: psycopg.Connection[Any], definitions: Definitions) -> dict[int, _OlderForm]:
    """Of the tables that have changed. A version that the primary does not have has not begun there."""
    begins = dict(connection.execute("SELECT version, global_t FROM psp.catalog_versions").fetchall())
    return {
        table_id: _OlderForm(
            [begins.get(until_version + 1, _FOR_EVER) for until_version, _ in table.older],
            [fields for _, fields in table.older],
            table.types,
        )
        for table_id, table in definitions.items()
        if table.older
    }


def _bounds(older: Mapping[int, _OlderForm]) -> dict[str, Any]:
    """The tables that have changed, and from which number on their rows are of today's definition."""
    return {"tables": list(older), "from_t": [form.before_t[-1] for form in older.values()]}


def _older_sums(
    connection: psycopg.Connection[Any], older: Mapping[int, _OlderForm]
) -> Iterator[tuple[int, TableSum]]:
    """Of the rows that nobody has written since their table changed, as images of today, batch by batch."""
    if not older:
        return
    with connection.cursor("older_images") as cursor:
        cursor.execute(read_sql("primary/command/older_images.sql"), _bounds(older), binary=True)
        while batch := cursor.fetchmany(_IMAGES_AT_ONCE):
            tables = [table_id for table_id, _, _ in batch]
            images = [older[table_id].as_of_today(image, global_t) for table_id, global_t, image in batch]
            for table_id, rows, checksum in connection.execute(_HASH_SQL, [tables, images]):
                yield table_id, TableSum(rows, int(checksum))
