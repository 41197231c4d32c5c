"""What the tests of MRVs share."""

from __future__ import annotations

from typing import Any

import psycopg
from psp.mrv.create import Options, create
from psp.mrv.drop import drop
from psp.mrv.facts import Mrv

from tests.sql.databases import Pair


def make(pair: Pair, name: str, **options: Any) -> Mrv:
    return create(pair.dsn, name, Options(**options), print)


def unmake(pair: Pair, name: str) -> None:
    drop(pair.dsn, name, 10, print)


def adjust(connection: psycopg.Connection[Any], mrv: int, key: list[str], change: int) -> str:
    """The outcome."""
    row = connection.execute(
        "SELECT outcome FROM psp_mrv.adjust(%s, %s::text[], %s)", (mrv, key, change)
    ).fetchone()
    assert row is not None
    return str(row[0])
