"""How key values are made equal in bytes when PostgreSQL calls them equal.

docs/decisions/06-keys-and-images.md. The SQL made here is what the capture triggers run and
what adoption copies with, so both make the same bytes.
"""

from __future__ import annotations

from typing import Literal

from psycopg import sql

from psp.schema.model import Database, IndexColumn, Table

KEY_COLUMN = "psp_key"

Normalisation = Literal["none", "numeric", "float", "text", "base", "hash", "constant"]
"""none: the bytes as they are. text: enums (a label instead of an OID) and unpadded strings. base: a domain's
type instead of the domain's OID. hash, constant: guards only."""


class KeyRefusedError(ValueError):
    """A column cannot be part of a primary key under psp."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def normalisation(database: Database, member: IndexColumn, *, guard: bool = False) -> Normalisation:
    """What has to be done to an index column's value. KeyRefusedError: a primary key cannot have it."""
    plain = database.plain_type(member.type_oid)
    if plain.name == "numeric":
        return "numeric"
    if plain.name in ("real", "double precision"):
        return "float"
    if member.equal_image and (
        plain.kind == "e" or (plain.name == "bpchar" and _is_unpadded(database, member))
    ):
        return "text"
    if member.equal_image and database.encoding(plain.oid) == "binary":
        return "none" if plain.oid == member.type_oid else "base"
    if not guard:
        _refuse(member, plain.name)
    # The hash of an enum is that of its OID, which another server does not share.
    has_enum = any(leaf.kind == "e" for leaf in database.leaves(member.type_oid))
    return "hash" if member.hash_function and not has_enum else "constant"


def _refuse(member: IndexColumn, type_name: str) -> None:
    if member.collation:
        raise KeyRefusedError(
            f"a primary key with the nondeterministic collation {member.collation} "
            "has equal values of unequal bytes",
            "use a deterministic collation",
        )
    raise KeyRefusedError(
        f"equal values of type {type_name} may have different bytes, so it cannot be in a primary key",
        "use a key of another type, and keep this one as a unique index if needed",
    )


def _is_unpadded(database: Database, member: IndexColumn) -> bool:
    """char without a length, which does not pad."""
    return member.type_modifier == -1 and database.plain_type(member.type_oid).oid == member.type_oid


def key_column_type(database: Database, member: IndexColumn) -> str:
    """The type of the normalised value, as SQL: a domain's type with its modifier, otherwise the column's."""
    found = database.types[member.type_oid]
    if found.kind != "d":
        return member.type_name
    while database.types[found.base].kind == "d":
        found = database.types[found.base]
    assert found.base_name is not None
    return found.base_name


def output_text(value: str) -> str:
    """SQL: the text that the type's output function gives. A cast of a user's type may be a user's code."""
    is_there = f"pg_catalog.num_nulls({value}) OPERATOR(pg_catalog.=) 0"
    return f"CASE WHEN {is_there} THEN pg_catalog.concat({value}) END"


def normalised(how: Normalisation, value: str, type_name: str) -> str:
    """SQL that normalises `value`, for all that a primary key can have."""
    match how:
        case "numeric":
            return f"pg_catalog.trim_scale({value}::pg_catalog.numeric)"
        case "float":
            name = "pg_catalog.float4" if type_name == "real" else "pg_catalog.float8"
            # -0 becomes 0, and every NaN the same NaN.
            return (
                f"CASE WHEN {value} OPERATOR(pg_catalog.=) 'NaN'::{name} THEN 'NaN'::{name} "
                f"ELSE {value} OPERATOR(pg_catalog.+) 0::{name} END"
            )
        case "text":
            # The cast takes trailing blanks off, which bpchar takes for nothing. Others are enums.
            is_bpchar = type_name.removeprefix("pg_catalog.") == "bpchar"
            return f"{value}::pg_catalog.text" if is_bpchar else output_text(value)
        case "base":
            return f"{value}::{type_name}"
        case _:
            return value


LOOK_TYPES = frozenset({
    "boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision", "oid", "text",
    "character varying", "bpchar", "character", "name", "uuid", "bytea", "date",
    "timestamp without time zone", "timestamp with time zone",
})  # fmt: skip
"""Types whose values the daemon writes as text (writeset/key_text.h knows the same)."""


def look_type(database: Database, member: IndexColumn, type_name: str) -> str | None:
    """The type as which a key value's text is read to find its row; None: it is found by its bytes only.

    Not a user's type, an enum for example: its owner could make a cast that reads the text otherwise.
    """
    return type_name if database.plain_type(member.type_oid).name in LOOK_TYPES else None


def guard_expression(database: Database, member: IndexColumn) -> str:
    """SQL for an index column's value in a guard key; column names are bare."""
    how, value = normalisation(database, member, guard=True), member.definition
    if how == "hash":
        collate = f" COLLATE {member.collation}" if member.collation else ""
        return f"{member.hash_function}({value}{collate}, 0)"
    if how == "constant":
        return f"CASE WHEN {value} IS NOT NULL THEN 0 END"
    return normalised(how, value, key_column_type(database, member))


def quote(name: str) -> str:
    """A quoted SQL identifier."""
    return sql.Identifier(name).as_string(None)


def literal(text: str) -> str:
    """A quoted SQL string."""
    return sql.Literal(text).as_string(None)


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
