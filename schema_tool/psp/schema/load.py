"""`psp schema load`: pg_dump's plain text into a running cluster, at one semi-primary.

pg_dump makes tables, fills them, and gives them their primary keys last. In a cluster a table has its key
when its transaction ends, and a transaction has a largest size. So everything before the rows and what is
unique come first, in one transaction; then the rows, some megabytes at a time; then the rest, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq

from psp.output import PspError
from psp.schema.dump_text import Dump, Piece

CHUNK_BYTES = 4 << 20
"""Of rows in one transaction. Write-sets are larger than the text, and have a limit (write_set_bytes_max)."""
ATTEMPTS_MAX = 20
"""Of a transaction that others make lose."""
_RETRIED = ("40001", "40P01")

Progress = Callable[[str, int], None]
"""What is loaded now, and how many bytes of the file are behind."""


def load(dsn: str, file: Path, progress: Progress, *, add_keys: bool = False) -> int:
    """Returns the number of rows. After a PspError what was loaded before stays."""
    keys = _keys_of(file)
    with psycopg.connect(dsn, autocommit=True) as connection, file.open("rb") as source:
        if connection.execute("SELECT to_regnamespace('psp')").fetchone() == (None,):
            raise PspError("the database is not under psp", "psql loads it")
        if add_keys:
            connection.execute("SET psp.add_keys = on")
        dump = Dump(source)
        return _Loader(connection, progress, dump).run(keys)


def _keys_of(file: Path) -> list[Piece]:
    """What is unique, and what makes that of a partition a part of the whole's. They stand behind the rows.

    So the whole file is read once before. PspError: it is cut off, or no text.
    """
    with file.open("rb") as source:
        if source.peek(5).startswith(b"PGDMP"):
            raise PspError(
                f"{file} is an archive of pg_dump, and no text",
                "pg_restore -f - FILE | psp schema load DSN -",
            )
        dump = Dump(source)
        keys: list[Piece] = []
        for piece in dump.pieces():
            if piece.is_copy:
                for _ in dump.rows():
                    pass
            elif piece.is_unique or (piece.kind == "INDEX ATTACH" and _is_of(piece.name, keys)):
                keys.append(piece)
        return keys


def _is_of(name: str, keys: list[Piece]) -> bool:
    """The file names a constraint by its table and itself, an index by itself."""
    return any(key.name == name or key.name.endswith(f" {name}") for key in keys)


class _Loader:
    def __init__(self, connection: psycopg.Connection[Any], progress: Progress, dump: Dump) -> None:
        self._connection = connection
        self._progress = progress
        self._dump = dump
        self._n_rows = 0

    def run(self, keys: list[Piece]) -> int:
        before: list[Piece] | None = []  # what has not run yet: all before the first rows
        for piece in self._dump.pieces():
            if before is not None and (piece.is_copy or piece.ends_data):
                self._together([*before, *keys])
                before = None
            if piece in keys:
                continue
            if before is not None:
                before.append(piece)
            elif piece.is_copy:
                self._copy(piece)
            else:
                self._together([piece])
        if before is not None:
            self._together([*before, *keys])
        return self._n_rows

    def _together(self, pieces: list[Piece]) -> None:
        """In one transaction. A setting is for the session, as in the file."""

        def work() -> None:
            for piece in pieces:
                self._progress(f"{piece.kind.lower()} {piece.name}".strip(), self._dump.bytes_read)
                try:
                    self._connection.execute(piece.sql)
                except psycopg.Error as error:
                    error.add_note(f"{piece.kind} {piece.name}")
                    raise

        self._retried(work, pieces[0] if len(pieces) == 1 else Piece(b"", "before the rows"))

    def _copy(self, piece: Piece) -> None:
        rows = self._dump.rows()
        for first in rows:
            chunk = list(_chunk(chain((first,), rows)))

            def work(chunk: list[bytes] = chunk) -> None:
                with self._connection.cursor().copy(piece.sql) as copy:
                    copy.write(b"".join(chunk))

            self._retried(work, piece)
            self._n_rows += len(chunk)
            self._progress(f"rows of {piece.name}", self._dump.bytes_read)

    def _retried(self, work: Callable[[], None], piece: Piece) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                with self._connection.transaction():
                    work()
                return
            except psycopg.Error as error:
                if self._connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                    raise
                if error.sqlstate not in _RETRIED or attempt == ATTEMPTS_MAX:
                    raise _told(error, piece) from error


def _told(error: psycopg.Error, piece: Piece) -> PspError:
    where = (getattr(error, "__notes__", None) or [f"{piece.kind} {piece.name}"])[0].strip()
    text = error.diag.message_primary or str(error)
    return PspError(f"{where}: {text}" if where else text, error.diag.message_hint)


def _chunk(rows: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for row in rows:
        yield row
        size += len(row)
        if size >= CHUNK_BYTES:
            return
