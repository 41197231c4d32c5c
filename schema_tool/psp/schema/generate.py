"""Both modes: the contexts of the templates, the rows of psp.tables, and SQL for keys and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

from psp.schema.keys import (
    guard_expression,
    key_column_type,
    literal,
    look_type,
    normalisation,
    normalised,
    quote,
)
from psp.schema.model import Database, Index, Table
from psp.schema.templates import dollar_quote, sql_templates

CAPTURE_TEMPLATE = "capture.sql.j2"
GUARD_FILES = (
    "captured_relations.sql", "guarded_state.sql", "ddl_checks.sql", "ddl_guard.sql", "guard_watch.sql",
    "ddl_start.sql",
)  # fmt: skip
TEXT_SETTINGS = """
SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C';
SET LOCAL search_path = pg_catalog, pg_temp
"""
"""What the text forms of values depend on, as the capture functions have it."""


@dataclass(frozen=True)
class CapturedTable:
    """A table with its numbers. `row` is its row in psp.tables, `context` what the capture template takes."""

    table: Table
    table_id: int
    guard_ids: Mapping[str, int]  # by index name
    row: Mapping[str, Any]
    context: Mapping[str, Any]


def number_tables(database: Database) -> list[CapturedTable]:
    """Numbers tables and guards from 1, in one space."""
    result, next_id = [], 1
    for table in database.captured_tables:
        guards = {index.name: next_id + n for n, index in enumerate(table.guarded_indexes, start=1)}
        result.append(captured(database, table, next_id, guards))
        next_id += 1 + len(guards)
    return result


def captured(database: Database, table: Table, table_id: int, guard_ids: Mapping[str, int]) -> CapturedTable:
    """A table under the numbers that the cluster has given it."""
    row = {
        "table_id": table_id,
        "schema_name": table.schema,
        "table_name": table.name,
        "columns": [
            {"name": c.name, "type": c.type_name, "encoding": database.encoding(c.type_oid)}
            for c in table.image_columns
        ],
        "key_columns": _key_columns(database, table),
        "guards": [
            {"guard_id": guard_ids[index.name], "index": index.name, "columns": _guard_label(index)}
            for index in table.guarded_indexes
        ],
    }
    return CapturedTable(table, table_id, guard_ids, row, _context(database, table, row, guard_ids))


def _key(table: Table) -> Index:
    key = table.primary_key
    assert key is not None, f"{table.label} has no primary key; rules.check was not asked"
    return key


def _key_columns(database: Database, table: Table) -> list[dict[str, str]]:
    result = []
    for member in _key(table).columns:
        column = table.column(member.number)
        how = normalisation(database, member)
        if how == "none" and column.generated:
            how = "base"  # it is not in the image, so the daemon cannot take it from there
        result.append({"name": column.name, "type": key_column_type(database, member), "normalise": how})
    return result


def _guard_label(index: Index) -> str:
    return ", ".join(member.definition for member in index.columns)


def _context(
    database: Database, table: Table, row: Mapping[str, Any], guard_ids: Mapping[str, int]
) -> dict[str, Any]:
    context = {
        **row,
        "columns": [
            {**column, "checked_as": database.checked_as(c.type_oid), "users": database.is_users(c.type_oid)}
            for column, c in zip(row["columns"], table.image_columns, strict=True)
        ],
        "relations": [{"schema": r.schema, "name": r.name, "kind": r.kind} for r in table.relations],
        "guards": [_guard(database, table, index, guard_ids[index.name]) for index in table.guarded_indexes],
        "key_columns": [
            {**column, "look": look_type(database, member, column["type"])}
            for column, member in zip(row["key_columns"], _key(table).columns, strict=True)
        ],
        "partitioned": table.kind == "p",
        "key_may_change": _key_may_change(table),
    }
    return {**context, "quote": dollar_quote(repr(context))}


def _guard(database: Database, table: Table, index: Index, guard_id: int) -> dict[str, Any]:
    return {
        "guard_id": guard_id,
        "expressions": [guard_expression(database, member) for member in index.columns],
        "raw_columns": [table.column(number).name for number in index.referenced],
        "columns": [
            {"name": column.name, "type": column.type_name} for column in map(table.column, index.referenced)
        ]
        if index.calls_users_code
        else [],
        "plain": index.predicate is None and all(member.number for member in index.columns),
        "predicate": index.predicate,
        "nulls_not_distinct": index.nulls_not_distinct,
    }


def _key_may_change(table: Table) -> bool:
    """Whether an UPDATE may change the key without naming its columns: own triggers, computed keys."""
    computed = any(table.column(member.number).generated for member in _key(table).columns)
    return bool(table.triggers) or computed


# ---- templates --------------------------------------------------------------------------------------------


def _normalised_filter(column: Mapping[str, Any], value: str) -> str:
    return normalised(column["normalise"], value, column["type"])


def capture_templates() -> jinja2.Environment:
    """The templates of native mode's objects, and of those that both modes have."""
    environment = sql_templates("native/install", "semi_primary/install")
    environment.filters["normalised"] = _normalised_filter
    environment.filters["literal"] = literal
    return environment


def guard_sql(captured_table: CapturedTable, relation: str | None = None) -> str:
    """Functions of guards that call code of users. `relation`: the table, quoted, if it has another name."""
    table = captured_table.table
    return (
        capture_templates()
        .get_template("guard.sql.j2")
        .render(
            relation=relation or f"{quote(table.schema)}.{quote(table.name)}",
            guards=captured_table.context["guards"],
            quote=captured_table.context["quote"],
        )
    )


# ---- copying ----------------------------------------------------------------------------------------------


def row_query(captured_table: CapturedTable) -> str:
    """SELECT of a table's rows as rows of the primary's psp.data, by the macros of the capture functions."""
    module = _macros(captured_table)
    target = f"{quote(captured_table.table.schema)}.{quote(captured_table.table.name)}"
    return (
        f"SELECT {captured_table.table_id}::int4, {module.key('r')}, 0::int8, 0::int4, false, "
        f"{module.image('r')} FROM {target} r"
    )


def key_and_image(captured_table: CapturedTable, row: str) -> tuple[str, str]:
    """SQL for the key and the image of the row called `row`, as the capture functions make them."""
    module = _macros(captured_table)
    return module.key(row), module.image(row)


def _macros(captured_table: CapturedTable) -> Any:
    return capture_templates().get_template(CAPTURE_TEMPLATE).make_module(dict(captured_table.context))
