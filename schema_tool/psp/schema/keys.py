"""Names in SQL, and that of the key that psp gives to a table without one."""

from __future__ import annotations

from psycopg import sql

KEY_COLUMN = "psp_key"


def quote(name: str) -> str:
    """A quoted SQL identifier."""
    return sql.Identifier(name).as_string(None)
