"""Names in SQL, and that of the key that psp gives to a table without one."""

from __future__ import annotations

from psycopg import sql

from psp.schema.model import Table

KEY_COLUMN = "psp_key"


def quote(name: str) -> str:
    """A quoted SQL identifier."""
    return sql.Identifier(name).as_string(None)


def has_key_of_psp(table: Table) -> bool:
    """Whether its primary key is the column that psp has given it."""
    key = table.primary_key
    return key is not None and KEY_COLUMN in {table.column(member.number).name for member in key.columns}
