# SPDX-License-Identifier: PostgreSQL
"""The messages of proto/psp_client.proto, by hand: few and flat, so that no protobuf runtime is needed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # Protocol Buffers' wire types
_VARINT_BYTES_MAX = 10


class Kind(IntEnum):
    """What a request asks for."""

    COMMIT = 1
    OUTCOME = 2
    ABORT = 3


class Status(IntEnum):
    """What a reply says of the transaction, or of the request itself (FAILED)."""

    UNSPECIFIED = 0
    COMMITTED = 1
    ABORTED = 2
    RUNNING = 3
    WAITING = 4
    PENDING = 5
    FAILED = 6


@dataclass(frozen=True)
class Reply:
    """A ClientReply."""

    request_id: int
    status: Status
    tx_id: UUID | None = None
    global_t: int = 0
    sqlstate: str = ""
    message: str = ""
    detail: str = ""
    hint: str = ""


def request(request_id: int, kind: Kind, tx_id: UUID) -> bytes:
    """A ClientRequest's bytes."""
    return b"".join(
        (
            _tag(1, _VARINT), _varint(request_id), _tag(2, _VARINT), _varint(kind),
            _tag(3, _BYTES), _varint(16), tx_id.bytes,
        )
    )  # fmt: skip


def read_reply(data: bytes) -> Reply | None:
    """A ClientReply, fields of later versions skipped; None if it is none."""
    try:
        numbers, texts = _fields(data)
        tx_id = texts.get(3, b"")
        return Reply(
            numbers.get(1, 0),
            Status(numbers.get(2, 0)),
            UUID(bytes=tx_id) if tx_id else None,
            numbers.get(4, 0),
            *(texts.get(number, b"").decode() for number in (5, 6, 7, 8)),
        )
    except (IndexError, ValueError):  # cut off; a status or text that cannot be
        return None


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = data[position + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + place + 1
    raise ValueError("a varint that does not end")


def _fields(data: bytes) -> tuple[dict[int, int], dict[int, bytes]]:
    """The last value of each field by its number: varints, and what has a length."""
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            numbers[field], position = _read_varint(data, position)
            continue
        if wire_type == _BYTES:
            length, position = _read_varint(data, position)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if position + length > len(data):
            raise ValueError("cut off")
        if wire_type == _BYTES:
            texts[field] = data[position : position + length]
        position += length
    return numbers, texts
