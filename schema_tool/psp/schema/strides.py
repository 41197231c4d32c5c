"""A strided sequence as one of a single PostgreSQL: its own increment, and a place past all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from psp.schema.model import Sequence
from psp.schema.reading import Gate, column_values
from psp.sql_files import read_sql

Columns = Mapping[tuple[str, str], list[tuple[str, str]]]
"""Of each strided sequence (schema, name) the columns whose values it has made: table as SQL, column."""


@dataclass(frozen=True)
class Unstrided:
    """What INCREMENT BY and setval get. Not `is_sure`: only what this SP has drawn is known."""

    increment: int
    value: int
    is_called: bool
    is_sure: bool


def columns_of_sequences(connection: psycopg.Connection[Any]) -> Columns:
    """Of the sequences that any column has."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    rows = connection.execute(read_sql("semi_primary/command/columns_of_sequences.sql")).fetchall()
    for schema, name, table_schema, table, column in rows:
        found[schema, name].append((sql.Identifier(table_schema, table).as_string(None), column))
    return found


def tables_of(columns: Columns) -> list[str]:
    return sorted({table for listed in columns.values() for table, _ in listed})


def unstrided(
    connection: psycopg.Connection[Any], gate: Gate, sequence: Sequence, columns: Columns
) -> Unstrided | None:
    """The next value lies beyond all that any SP has drawn, as far as rows tell. None: it has no stride."""
    row = connection.execute(
        "SELECT base, increment FROM psp.sequences WHERE schema_name = %s AND sequence_name = %s",
        (sequence.schema, sequence.name),
    ).fetchone()
    if row is None:
        return None
    base, increment = row
    own_columns = columns.get((sequence.schema, sequence.name), [])
    stored = [
        _stored_extreme(connection, gate, table, column, sequence, increment) for table, column in own_columns
    ]
    known = [value for value in stored if value is not None]
    last = (max if increment > 0 else min)([sequence.last_value if sequence.is_called else base, *known])
    steps = max(0, -((base - last) // increment))  # rounded up
    drawn = base + increment * steps
    # Nothing was ever drawn: base is before the start.
    never = not sequence.minimum <= drawn <= sequence.maximum
    return Unstrided(increment, drawn + increment if never else drawn, not never, bool(own_columns))


def _stored_extreme(
    connection: psycopg.Connection[Any],
    gate: Gate,
    table: str,
    column: str,
    sequence: Sequence,
    increment: int,
) -> int | None:
    """The largest value in the column, of a descending sequence the smallest.

    Only of those that the sequence can draw: one that somebody has put beyond its limits hides no other.
    """
    with gate(table) as may_select:
        if may_select:
            query = sql.SQL(
                "SELECT pg_catalog.{extreme}({column})::text FROM {table} "
                "WHERE {column} BETWEEN {minimum} AND {maximum}"
            ).format(
                extreme=sql.Identifier("max" if increment > 0 else "min"), column=sql.Identifier(column),
                table=sql.SQL(table), minimum=sql.Literal(sequence.minimum),
                maximum=sql.Literal(sequence.maximum),
            )  # fmt: skip
            texts: Iterable[str] = [
                text for (text,) in connection.execute(query).fetchall() if text is not None
            ]
        else:
            texts = column_values(connection, table, column)
        numbers = (number for number in map(_number, texts) if number is not None)
        known = (number for number in numbers if sequence.minimum <= number <= sequence.maximum)
        return max(known, default=None) if increment > 0 else min(known, default=None)


def _number(text: str) -> int | None:
    try:
        return int(Decimal(text))
    except (ValueError, OverflowError):  # NaN, infinity
        return None
