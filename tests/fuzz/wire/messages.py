"""What a semi-primary sends (proto/psp.proto), as bytes: what is wrong must be sendable, too."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_IDS = (ROOT / "common" / "ids.h").read_text()
_FOUND = re.search(r"kProtocolVersion = (\d+)", _IDS)
assert _FOUND is not None
PROTOCOL_VERSION = int(_FOUND[1])

# Numbers of fields of ToPrimary and ToSemiPrimary.
HELLO, CERTIFY, ACK, HEARTBEAT, STREAM, OUTCOME, GOODBYE, HOLD, END_HOLD, LOST = range(2, 12)
WELCOME, REFUSED, DECISION = 2, 3, 4

WRITE, GUARD = 0, 1
READ, SHARED, ENDED, REFERRERS_READ, TABLE_READ = range(5)
ROWS, SCHEMA_CHANGE = 0, 1


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value)


def data(place: int, value: bytes) -> bytes:
    return varint(place << 3 | 2) + varint(len(value)) + value


def packed(place: int, values: Iterable[int]) -> bytes:
    return data(place, b"".join(map(varint, values)))


@dataclass(frozen=True)
class Row:
    """A row or a guard as it is sent; `image`: None: absent."""

    table_id: int
    key: bytes
    image: bytes | None = None
    deleted: bool = False
    access: int = WRITE
    more: bytes = b""  # further fields

    def encoded(self) -> bytes:
        image = b"" if self.image is None else data(4, self.image)
        flags = number(3, 1) if self.deleted else b""
        return (
            number(1, self.table_id) + data(2, self.key) + flags + image + number(6, self.access) + self.more
        )


@dataclass(frozen=True)
class Use:
    kind: int
    table_id: int
    key: bytes

    def encoded(self) -> bytes:
        return number(1, self.kind) + number(2, self.table_id) + data(3, self.key)


@dataclass(frozen=True)
class Change:
    """What a schema change does to a table."""

    table_id: int
    guards: tuple[int, ...] = ()
    dropped: bool = False
    emptied: bool = False
    form: bytes = b""

    def encoded(self) -> bytes:
        return (
            number(1, self.table_id)
            + packed(2, self.guards)
            + number(3, self.dropped)
            + number(4, self.emptied)
            + data(5, self.form)
        )


@dataclass(frozen=True)
class Write:
    """What Certify carries."""

    tx_id: bytes
    watermark: int
    version: int
    rows: tuple[Row, ...]
    seen: tuple[int, ...] = ()
    uses: tuple[Use, ...] = ()
    kind: int = ROWS
    changes: tuple[Change, ...] = field(default=())
    spoilt: bytes | None = None  # in place of the serialised write-set

    def snapshot(self) -> bytes:
        return number(1, self.watermark) + packed(2, self.seen)

    def write_set(self) -> bytes:
        if self.spoilt is not None:
            return self.spoilt
        rows = b"".join(data(1, row.encoded()) for row in self.rows)
        changes = b"".join(data(4, change.encoded()) for change in self.changes)
        return rows + number(2, self.kind) + number(3, self.version) + changes

    def encoded(self) -> bytes:
        uses = b"".join(data(1, use.encoded()) for use in self.uses)
        return (
            data(1, self.tx_id)
            + data(2, self.snapshot())
            + data(3, self.write_set())
            + (data(4, uses) if uses else b"")
        )


def to_primary(epoch: int, kind: int, body: bytes) -> bytes:
    return number(1, epoch) + data(kind, body)


def hello(cluster_id: bytes, sp_id: int, name: str, watermark: int, more: bytes = b"") -> bytes:
    incarnation = varint(4 << 3 | 1) + (7).to_bytes(8, "little")
    body = data(1, cluster_id) + number(2, sp_id) + data(3, name.encode()) + incarnation
    return to_primary(0, HELLO, body + number(5, watermark) + number(6, PROTOCOL_VERSION) + more)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a well-formed message."""
    at = 0

    def take() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = take()
        if tag & 7 == 0:
            yield tag >> 3, take()
        else:
            length = take() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
            yield tag >> 3, message[at : at + length]
            at += length


def record(*columns: tuple[int, bytes | None]) -> bytes:
    """What record_send makes: the type's OID and the value of each column."""
    out = len(columns).to_bytes(4, "big")
    for oid, value in columns:
        length = (-1 if value is None else len(value)).to_bytes(4, "big", signed=True)
        out += oid.to_bytes(4, "big") + length + (value or b"")
    return out


def columns_of(image: bytes) -> list[tuple[int, bytes | None]]:
    """The other way round, of a well-formed record."""
    found: list[tuple[int, bytes | None]] = []
    at = 4
    for _ in range(int.from_bytes(image[:4], "big")):
        oid, length = (
            int.from_bytes(image[at : at + 4], "big"),
            int.from_bytes(image[at + 4 : at + 8], "big", signed=True),
        )
        at += 8
        found.append((oid, None if length < 0 else image[at : at + length]))
        at += max(length, 0)
    return found
