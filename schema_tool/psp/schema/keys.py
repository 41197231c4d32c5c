"""Names in SQL, and the key that psp gives to a table without one."""

from __future__ import annotations

from psycopg import sql

from psp.schema.model import Table

KEY_COLUMN = "psp_key"


def quote(name: str) -> str:
    """A quoted SQL identifier."""
    return sql.Identifier(name).as_string(None)


def add_key_clause(table: Table) -> str | None:
    """The ALTER TABLE that gives a table its psp_key; None where a partitioned table cannot have it.

    A partitioned table's primary key must contain the columns it is partitioned by.
    """
    target = sql.Identifier(table.schema, table.name).as_string(None)
    members = [quote(KEY_COLUMN)]
    if table.kind == "p":
        by = _partition_columns(table)
        if by is None:
            return None
        members += by
    return (
        f"ALTER TABLE {target} ADD COLUMN {quote(KEY_COLUMN)} pg_catalog.uuid NOT NULL "
        f"DEFAULT pg_catalog.gen_random_uuid(), ADD PRIMARY KEY ({', '.join(members)})"
    )


def _partition_columns(table: Table) -> list[str] | None:
    """The quoted columns a table is partitioned by; None if there are expressions or nullable columns."""
    not_null = {quote(column.name) for column in table.columns if column.not_null}
    result = []
    for number in table.partition_columns:
        name = next((quote(c.name) for c in table.columns if c.number == number), None)
        if name is None or name not in not_null:
            return None
        result.append(name)
    return result
