"""A strided sequence as one of a single PostgreSQL: its own increment, and a place past all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from psp.schema.model import Database, Sequence


@dataclass(frozen=True)
class Unstrided:
    """What INCREMENT BY and setval get."""

    increment: int
    value: int
    is_called: bool


def unstrided(
    connection: psycopg.Connection[Any], database: Database, sequence: Sequence
) -> Unstrided | None:
    """The next value lies beyond all that any SP has drawn, as far as rows tell. None: it has no stride."""
    row = connection.execute(
        "SELECT base, increment FROM psp.sequences WHERE schema_name = %s AND sequence_name = %s",
        (sequence.schema, sequence.name),
    ).fetchone()
    if row is None:
        return None
    base, increment = row
    last = sequence.last_value if sequence.is_called else base
    stored = _stored_extreme(connection, database, sequence, increment)
    if stored is not None:
        last = max(last, stored) if increment > 0 else min(last, stored)
    steps = max(0, -((base - last) // increment))  # rounded up
    drawn = base + increment * steps
    # Nothing was ever drawn: base is before the start.
    never = not sequence.minimum <= drawn <= sequence.maximum
    return Unstrided(increment, drawn + increment if never else drawn, not never)


def _stored_extreme(
    connection: psycopg.Connection[Any], database: Database, sequence: Sequence, increment: int
) -> int | None:
    """The largest (of a descending sequence the smallest) value in the sequence's own column."""
    if sequence.owner is None:
        return None
    schema, table, column = sequence.owner
    row = connection.execute(
        sql.SQL("SELECT {}({})::numeric FROM {}").format(
            sql.SQL("max" if increment > 0 else "min"), sql.Identifier(column), sql.Identifier(schema, table)
        )
    ).fetchone()
    value = None if row is None or row[0] is None else int(row[0])
    return None if value is None or not sequence.minimum <= value <= sequence.maximum else value
