"""pg_dump's plain text in pieces: SQL, and the rows of COPY. The text may be larger than memory.

pg_dump writes a line of dashes, a name and another one above each object. A file of another origin is read by
its COPY statements alone: what stands between two of them is one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from psp.output import PspError
from psp.schema.quoting import Quoting

_HEADER = re.compile(rb"^-- (?:Data for )?Name: (.*); Type: (.*); Schema: .*; Owner: .*\n")
_COPY = re.compile(rb"^COPY .* FROM stdin(?: .*)?;\n$", re.IGNORECASE)
_ENDS = (b"\\.\n", b"\\.\r\n", b"\\.")
# psql's own words around a dump.
_OF_PSQL = re.compile(rb"\\(?:un)?restrict \w+\r?\n|\\connect .*\n")
_POST_DATA = (
    "CONSTRAINT", "CHECK CONSTRAINT", "EVENT TRIGGER", "FK CONSTRAINT", "INDEX", "INDEX ATTACH",
    "MATERIALIZED VIEW DATA", "POLICY", "PUBLICATION", "PUBLICATION TABLE", "ROW SECURITY", "RULE",
    "STATISTICS", "SUBSCRIPTION", "TRIGGER",
)  # fmt: skip
_BEGIN = b"-- PostgreSQL database dump\n"
_END = b"-- PostgreSQL database dump complete\n"
_UNIQUE = re.compile(rb"ADD CONSTRAINT .* (?:PRIMARY KEY|UNIQUE)[ A-Z]* \(|^CREATE UNIQUE INDEX ", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """Statements, or a COPY statement whose rows follow."""

    sql: bytes
    name: str = ""
    kind: str = ""
    is_copy: bool = False

    @property
    def is_unique(self) -> bool:
        """A primary key, or what is like it: a partitioned table's is whole when its partitions' are."""
        return self.kind in ("CONSTRAINT", "INDEX") and _UNIQUE.search(self.sql) is not None

    @property
    def ends_data(self) -> bool:
        """pg_dump writes these behind all rows."""
        return self.kind in _POST_DATA


class Dump:
    """Reads one file. After a piece that is a COPY, `rows` has to be read to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.bytes_read = 0

    def pieces(self) -> Iterator[Piece]:
        """In the order of the file."""
        lines: list[bytes] = []
        name, kind = "", ""
        begun = ended = False
        before = b""
        quoting = Quoting()
        for line in iter(self._file.readline, b""):
            self.bytes_read += len(line)
            if quoting.is_open:
                lines.append(line)
                quoting.read(line)
                continue
            begun, ended = begun or line == _BEGIN, ended or line == _END
            found = _HEADER.match(line) if before == b"--\n" else None
            before = line
            if found or _COPY.match(line):
                yield from _piece(lines, name, kind)
                lines = []
            if found:
                name, kind = (part.decode(errors="replace") for part in found.groups())
            elif _COPY.match(line):
                yield Piece(line, name, "TABLE DATA", is_copy=True)
                name, kind = "", ""
            elif not line.startswith(b"--") and not _OF_PSQL.match(line):
                lines.append(line)
                quoting.read(line)
        if begun and not ended:
            raise PspError("the file is cut off: pg_dump's last line is missing", "dump again")
        yield from _piece(lines, name, kind)

    def rows(self) -> Iterator[bytes]:
        """The lines behind a COPY statement. PspError: the file ends among them."""
        for line in iter(self._file.readline, b""):
            self.bytes_read += len(line)
            if line in _ENDS:
                return
            yield line
        raise PspError("the file is cut off: it ends among the rows of a COPY", "dump again")


def _piece(lines: list[bytes], name: str, kind: str) -> Iterator[Piece]:
    bare = b"".join(lines).strip()
    if bare:
        yield Piece(bare, name, kind)
