"""An image of an older definition of a table, as it would be written today (writeset/FORMAT.md, "Tables").

An SP that joins does the same with rows of its copy (semi_primary/apply). Here it makes the primary's rows
comparable with those of the SPs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypedDict

_NULL = struct.pack(">i", -1)


class Field(TypedDict, total=False):
    """One column of today's image: its place in the older one, or what older rows have (None: NULL)."""

    place: int
    value: str | None


def as_of_today(image: bytes, fields: Sequence[Field], types: Sequence[int]) -> bytes:
    """The image with these columns, of these types' OIDs. What does not fit stays: then its sum differs."""
    try:
        values = _values(image)
        parts = [struct.pack(">i", len(fields))]
        for field, oid in zip(fields, types, strict=True):
            parts += [struct.pack(">I", oid), _value(field, values)]
    except (struct.error, IndexError, ValueError):
        return image
    return b"".join(parts)


def _values(image: bytes) -> list[bytes]:
    """What record_send has written of each column: the length, then the value."""
    (count,) = struct.unpack_from(">i", image)
    values, at = [], 4
    for _ in range(count):
        (length,) = struct.unpack_from(">i", image, at + 4)  # after the type's OID
        end = at + 8 + max(length, 0)
        values.append(image[at + 4 : end])
        at = end
    return values


def _value(field: Field, older: Sequence[bytes]) -> bytes:
    if "place" in field:
        return older[field["place"]]
    digits = field["value"]
    if digits is None:
        return _NULL
    value = bytes.fromhex(digits)
    return struct.pack(">i", len(value)) + value
