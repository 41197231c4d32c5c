"""Whether all SPs have the same schema where psp keeps it the same: captured tables, and what they rely on.

What may be local (views, indexes, grants and so on: docs/adopting.md) is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from rich.text import Text

from psp.schema.generate import TEXT_SETTINGS
from psp.sql_files import read_sql

# PostgreSQL writes the array of IN ('a', 'b') on a varchar otherwise after a dump: each element has the cast.
_LITERAL = r"E?'(?:[^']|'')*'::[a-z ]+"
_CAST_OF_ARRAY = re.compile(rf"\(ARRAY\[({_LITERAL}(?:, {_LITERAL})*)\]\)::([a-z ]+)\[\]")
_SHOWN_BEFORE, _SHOWN = 20, 90  # letters: of the same part, of all

Schema = dict[tuple[str, str], str]
"""(kind, name) -> definition."""


@dataclass(frozen=True)
class Difference:
    """An object that is not the same at all SPs. `definitions`: by the SP's name; None: missing."""

    kind: str
    name: str
    definitions: dict[str, str | None]

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"kind": self.kind, "name": self.name, "definitions": self.definitions}

    def shown(self) -> list[str | None]:
        """Each definition from a little before the first difference on."""
        found = [d for d in self.definitions.values() if d is not None]
        begin = max(_same_letters(found) - _SHOWN_BEFORE, 0) if len(set(found)) > 1 else 0
        return [None if d is None else _cut(d, begin) for d in self.definitions.values()]


def _same_letters(texts: list[str]) -> int:
    """How many letters all of them begin with."""
    columns = enumerate(zip(*texts, strict=False))
    return next((n for n, letters in columns if len(set(letters)) > 1), min(map(len, texts)))


def _cut(text: str, begin: int) -> str:
    part = " ".join(text[begin : begin + _SHOWN].split())
    return f"{'…' if begin else ''}{part}{'…' if len(text) > begin + _SHOWN else ''}"


def read_schema(connection: psycopg.Connection[Any]) -> Schema:
    """What an SP has. All names have their schema, since the search_path is pg_catalog in the transaction."""
    connection.execute(TEXT_SETTINGS.encode())
    connection.execute("SET LOCAL quote_all_identifiers = off")
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(read_sql("semi_primary/command/schema_state.sql")).fetchall()
    return {(kind, name): normalised(definition) for kind, name, definition in rows}


def normalised(definition: str) -> str:
    def elements_cast(found: re.Match[str]) -> str:
        elements = re.findall(_LITERAL, found[1])
        return "ARRAY[" + ", ".join(f"({element})::{found[2]}" for element in elements) + "]"

    return _CAST_OF_ARRAY.sub(elements_cast, definition)


def compare(schemas: Mapping[str, Schema]) -> list[Difference]:
    """The objects that are not the same in all schemas, in the order of their names."""
    objects = sorted({key for schema in schemas.values() for key in schema}, key=lambda key: key[::-1])
    found = (
        Difference(kind, name, {node: schema.get((kind, name)) for node, schema in schemas.items()})
        for kind, name in objects
    )
    return [difference for difference in found if len(set(difference.definitions.values())) > 1]


def show(differences: list[Difference]) -> Text:
    """For people: each object, and below it what each SP has."""
    lines = ["What the SPs must have alike differs:"]
    for difference in differences:
        lines.append(f"  {difference.kind} {difference.name}")
        shown = zip(difference.definitions, difference.shown(), strict=True)
        lines += [f"    {node}: {text or 'missing'}" for node, text in shown]
    return Text("\n".join(lines))
