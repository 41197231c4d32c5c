"""For tests of what may not be done to an adopted database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from conftest import Pair
from psycopg import errors


@contextmanager
def refused(words: str = "") -> Iterator[None]:
    """Inside, psp refuses something with a DETAIL and a HINT, and names it."""
    with pytest.raises(errors.FeatureNotSupported, match="psp: ") as caught:
        yield
    diag = caught.value.diag
    assert diag.message_hint and diag.message_detail
    assert re.search(words, f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"), diag


def run_all(connection: psycopg.Connection[Any], script: str) -> None:
    """Statement for statement, as an application's migration does."""
    for statement in script.split(";\n"):
        connection.execute(statement.encode())


def relations(pair: Pair) -> list[tuple[str, bool]]:
    """All tables and indexes outside of psp, and whether the indexes are valid."""
    with pair.connect() as connection:
        return connection.execute(
            "SELECT c.oid::regclass::text, coalesce(i.indisvalid, true) FROM pg_class c "
            "LEFT JOIN pg_index i ON i.indexrelid = c.oid "
            "WHERE c.relnamespace NOT IN (SELECT oid FROM pg_namespace "
            "WHERE nspname ~ '^pg_' OR nspname IN ('information_schema', 'psp')) ORDER BY 1"
        ).fetchall()
