"""A strided sequence as one of a single PostgreSQL: its own increment, and a place past all rows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import psycopg
from psycopg import sql

from psp.schema.model import Sequence
from psp.schema.reading import Gate, column_values


@dataclass(frozen=True)
class Unstrided:
    """What INCREMENT BY and setval get."""

    increment: int
    value: int
    is_called: bool


def unstrided(connection: psycopg.Connection[Any], gate: Gate, sequence: Sequence) -> Unstrided | None:
    """The next value lies beyond all that any SP has drawn, as far as rows tell. None: it has no stride."""
    row = connection.execute(
        "SELECT base, increment FROM psp.sequences WHERE schema_name = %s AND sequence_name = %s",
        (sequence.schema, sequence.name),
    ).fetchone()
    if row is None:
        return None
    base, increment = row
    last = sequence.last_value if sequence.is_called else base
    stored = _stored_extreme(connection, gate, sequence, increment)
    if stored is not None:
        last = max(last, stored) if increment > 0 else min(last, stored)
    steps = max(0, -((base - last) // increment))  # rounded up
    drawn = base + increment * steps
    # Nothing was ever drawn: base is before the start.
    never = not sequence.minimum <= drawn <= sequence.maximum
    return Unstrided(increment, drawn + increment if never else drawn, not never)


def _stored_extreme(
    connection: psycopg.Connection[Any], gate: Gate, sequence: Sequence, increment: int
) -> int | None:
    """The largest (of a descending sequence the smallest) value in the sequence's own column."""
    if sequence.owner is None:
        return None
    schema, name, column = sequence.owner
    table = sql.Identifier(schema, name)
    with gate(table.as_string(None)) as may_select:
        if may_select:
            row = connection.execute(
                sql.SQL("SELECT {}({})::numeric FROM {}").format(
                    sql.SQL("max" if increment > 0 else "min"), sql.Identifier(column), table
                )
            ).fetchone()
            value = None if row is None or row[0] is None else int(row[0])
        else:
            texts = column_values(connection, table.as_string(None), column)
            numbers = (number for number in map(_number, texts) if number is not None)
            value = (max if increment > 0 else min)(numbers, default=None)
    return None if value is None or not sequence.minimum <= value <= sequence.maximum else value


def _number(text: str) -> int | None:
    try:
        return int(Decimal(text))
    except (InvalidOperation, ValueError, OverflowError):  # no number, NaN, infinity
        return None
