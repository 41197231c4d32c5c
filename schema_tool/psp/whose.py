"""What a database is under psp, and whether its schema psp can be trusted: asked before anything in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.rows import class_row

from psp.sql_files import read_sql

Kind = Literal["primary", "semi-primary"]


@dataclass(frozen=True)
class Whose:
    """A row of sql/catalog/whose_psp.sql. `is_dangerous`: what `owner` has made would run as a superuser."""

    kind: Kind | None
    owner: str | None
    is_dangerous: bool


def whose(connection: psycopg.Connection[Any]) -> Whose:
    with connection.cursor(row_factory=class_row(Whose)) as cursor:
        found = cursor.execute(read_sql("catalog/whose_psp.sql")).fetchone()
    assert found is not None
    return found
