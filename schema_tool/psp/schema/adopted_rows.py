"""The rows of an adopted database: to the primary, while writers go on, and then what these have written.

The first part copies a snapshot. Which rows have been written since is told by their xmin: all transactions
before the oldest one of the snapshot had ended, and no subtransaction has a lower number than its own
transaction. So one scan of a table finds them, and nothing has to be installed before. Rows that are missing
are looked for where the table has fewer than the primary. Tables that no SELECT may read (reading.py) are
copied in the second part only, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from psp.primary import database as primary
from psp.schema.generate import CapturedTable
from psp.schema.reading import ROWS, copied_parts, gate_of_snapshot, gate_under_locks
from psp.sql_files import read_sql

COPY_CHUNK_BYTES = 1 << 18
_DATA = "psp.data (table_id, key, global_t, sp_id, deleted, image)"

Connection = psycopg.Connection[TupleRow]


class RowProgress(Protocol):
    """What the copying tells while it works."""

    def rows(self, table: str, done: int, total: int) -> None:
        """`done` of about `total` rows of all tables are copied; `table` is being copied."""


@dataclass(frozen=True)
class Snapshot:
    """What the primary has from before the tables were locked."""

    schema: str  # the database's, as dumped before: rows of another one count for nothing
    oldest_xid: str
    counts: Mapping[str, int]  # rows of each table, by its row query


def copy_snapshot(
    source: Connection, target: Connection, tables: Sequence[CapturedTable], schema: str,
    progress: RowProgress,
) -> Snapshot:  # fmt: skip
    """Copies all rows of `tables` as the source's transaction sees them, which is REPEATABLE READ.

    psp.data is empty, and was emptied in the target's transaction.
    """
    found = source.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text").fetchone()
    assert found is not None
    counts = {}
    total = sum(captured.table.rows_about for captured in tables)
    done = 0
    # No guards: there is no snapshot that lacks a value.
    with primary.without_key(target), gate_of_snapshot(source) as gate:
        for captured in tables:
            with gate(captured.facts["relation"]) as may_select:
                if not may_select:
                    continue
                count = 0
                # FREEZE: nobody has to write to the pages again to say that the rows are committed.
                for count in _copy(source, target, captured.row_query, _DATA, "FREEZE"):
                    progress.rows(captured.table.label, done + count, max(total, done + count))
            counts[captured.row_query] = count
            done += count
    progress.rows("", done, done)
    return Snapshot(schema, found[0], counts)


def copy_rest(
    source: Connection, target: Connection, tables: Sequence[CapturedTable], snapshot: Snapshot
) -> None:
    """Gives the primary what its rows lack. The tables are locked; their definitions are as in the snapshot.

    A table that was not in the snapshot is copied whole.
    """
    target.execute(read_sql("primary/command/temporary_rows.sql"))
    gate = gate_under_locks(source, [captured.facts["relation"] for captured in tables])
    for captured in tables:
        with gate(captured.facts["relation"]) as may_select:
            if may_select:
                _copy_rest_of(source, target, captured, snapshot)
            else:
                _copy_in_parts(source, target, captured)


def _copy_rest_of(
    source: Connection, target: Connection, captured: CapturedTable, snapshot: Snapshot
) -> None:
    copied = snapshot.counts.get(captured.row_query)
    if copied is None:
        _drain(_copy(source, target, captured.row_query, _DATA))
        return
    at_primary = copied + _put_written(source, target, captured, snapshot.oldest_xid)
    if at_primary > _count(source, captured):
        _remove_deleted(source, target, captured)


def _put_written(source: Connection, target: Connection, captured: CapturedTable, oldest_xid: str) -> int:
    """The rows that were written since; returns how many of them the primary did not have."""
    written = f"{captured.row_query} WHERE age(r.xmin) <= age('{oldest_xid}'::xid)"
    target.execute("TRUNCATE written_rows")
    if _drain(_copy(source, target, written, "written_rows")) == 0:
        return 0
    found = target.execute(read_sql("primary/command/put_written_rows.sql")).fetchone()
    assert found is not None
    return int(found[0])


def _count(source: Connection, captured: CapturedTable) -> int:
    found = source.execute(f"SELECT count(*) FROM {captured.facts['relation']}".encode()).fetchone()
    assert found is not None
    return int(found[0])


def _remove_deleted(source: Connection, target: Connection, captured: CapturedTable) -> None:
    target.execute("TRUNCATE present_keys")
    keys = f"SELECT {captured.key} FROM {captured.facts['relation']} r"
    _drain(_copy(source, target, keys, "present_keys"))
    target.execute(read_sql("primary/command/remove_deleted_rows.sql"), [captured.table_id])


def _copy_in_parts(source: Connection, target: Connection, captured: CapturedTable) -> None:
    """All rows, in place of what a snapshot may have brought."""
    target.execute("DELETE FROM psp.data WHERE table_id = %s", [captured.table_id])
    query = captured.row_query.removesuffix(f"{captured.facts['relation']} r") + f"{ROWS} r"
    for _ in copied_parts(source, target, captured.facts["relation"]):
        target.execute(f"INSERT INTO {_DATA} {query}".encode())


def _drain(copying: Iterator[int]) -> int:
    """Lets a copy come to its end; returns the number of its rows."""
    *_, count = copying
    return count


def _copy(source: Connection, target: Connection, query: str, into: str, option: str = "") -> Iterator[int]:
    """Streams the query's rows into a table; yields the number of rows so far, at the end the exact one."""
    out = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(sql.SQL(query))
    options = ", ".join(["FORMAT binary", *filter(None, [option])])
    statement = sql.SQL("COPY {} FROM STDIN ({})").format(sql.SQL(into), sql.SQL(options))
    with source.cursor() as reading, target.cursor() as writing:
        with reading.copy(out) as reader, writing.copy(statement) as writer:
            chunk = bytearray()
            for rows, row in enumerate(reader):  # the first message is the header
                chunk += row
                if len(chunk) >= COPY_CHUNK_BYTES:
                    writer.write(bytes(chunk))
                    chunk.clear()
                    yield rows
            writer.write(bytes(chunk))
        yield writing.rowcount
