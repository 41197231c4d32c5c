"""What a transaction has captured, read from psp.captured and taken apart."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True)
class Written:
    """A row of psp.captured. `name`: of the table, or of the unique index whose guard it is."""

    name: str
    op: str
    payload: bytes


def written(connection: psycopg.Connection[Any]) -> list[Written]:
    """What the open transaction has captured, in order. The session's own user must be a superuser."""
    connection.execute("RESET SESSION AUTHORIZATION")
    connection.execute("SET LOCAL search_path = pg_catalog; SET LOCAL client_encoding = 'UTF8'")
    rows = connection.execute(
        """SELECT coalesce(t.table_name, g.name), w.op::pg_catalog.text, w.payload
             FROM (SELECT *, pg_catalog.row_number() OVER () AS place FROM psp.captured) w
             LEFT JOIN psp.tables t ON t.table_id = w.table_id
             LEFT JOIN (SELECT (guard ->> 'guard_id')::pg_catalog.int4 AS id, guard ->> 'index' AS name
                          FROM psp.tables, pg_catalog.jsonb_array_elements(guards) guard) g
                    ON g.id = w.table_id
            WHERE w.xid = pg_catalog.pg_current_xact_id_if_assigned()
            ORDER BY w.cmin::pg_catalog.text::pg_catalog.int4, w.place"""  # one command captures several
    )
    return [Written(name, op, bytes(payload)) for name, op, payload in rows.fetchall()]


def fields(record: bytes) -> tuple[list[bytes | None], bytes]:
    """The values of record_send's bytes, and what comes after them."""
    (count,) = struct.unpack_from("!i", record)
    values: list[bytes | None] = []
    position = 4
    for _ in range(count):
        _, length = struct.unpack_from("!Ii", record, position)
        position += 8
        values.append(None if length < 0 else record[position : position + length])
        position += max(length, 0)
    return values, record[position:]


@dataclass(frozen=True)
class Entry:
    """One row of a payload: the values of its key and, unless it is deleted or a guard, of its image."""

    key: list[bytes | None]
    image: list[bytes | None] | None
    image_bytes: bytes | None


def entries(row: Written) -> list[Entry]:
    """A payload taken apart, as writeset/FORMAT.md describes it."""
    result: list[Entry] = []
    rest = row.payload
    while rest:
        if row.op == "i":
            count = rest[0]
            places = struct.unpack_from(f"!{count}H", rest, 1)
            whole = rest[1 + 2 * count :]
            image, rest = fields(whole)
            result.append(Entry([image[place] for place in places], image, whole[: len(whole) - len(rest)]))
        else:
            values, rest = fields(rest)
            assert values[0] is not None
            image_bytes = values[1] if row.op == "u" else None
            columns = fields(image_bytes)[0] if image_bytes is not None else None
            result.append(Entry(fields(values[0])[0], columns, image_bytes))
    return result
