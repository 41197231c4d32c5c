"""Makes the contexts of sql/views' templates, and the SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from psycopg import sql

from psp.schema.generate import EVENT_TRIGGER_FILES, FACT_FILES, GUARD_FILES, CapturedTable
from psp.schema.keys import quote
from psp.schema.model import Index, IndexColumn
from psp.schema.templates import dollar_quote, sql_templates
from psp.schema.views.catalog import Details
from psp.sql_files import fact_views

VARIANTS = ("union", "fulljoin", "nryotw")
FIRST_FILES = ("schema.sql", "semi_primary.sql", "clients_out.sql", "conflicts.sql")
LAST_FILES = ("grants.sql",)
CLUSTER_FILES = (
    "roles.sql", "function_owner.sql", *GUARD_FILES, *EVENT_TRIGGER_FILES, *LAST_FILES, "function_rights.sql",
    "daemon_role.sql",
)  # fmt: skip


@dataclass(frozen=True)
class ConvertedTable:
    """A table T, and the names of what conversion makes of it: T_persistent, T_temp and the views."""

    captured: CapturedTable
    details: Details

    @property
    def schema(self) -> str:
        return self.captured.table.schema

    @property
    def name(self) -> str:
        return self.captured.table.name

    @property
    def persistent_name(self) -> str:
        return f"{self.name}_persistent"

    @property
    def temp_name(self) -> str:
        return f"{self.name}_temp"

    def qualified(self, name: str) -> str:
        """A quoted name in the table's own schema."""
        return f"{quote(self.schema)}.{quote(name)}"

    @property
    def views(self) -> dict[str, str]:
        """The name of each variant's view, quoted, by variant."""
        return {v: f"{quote(variant_schema(self.schema, v))}.{quote(self.name)}" for v in VARIANTS}


def variant_schema(schema: str, variant: str) -> str:
    """The schema of a variant's views: *union*, which needs no choice, is in the tables' own."""
    return schema if variant == "union" else f"{schema}_{variant}"


def first_sql() -> list[str]:
    """The psp schema, and the functions of a transaction's life."""
    return [
        *_rendered(FIRST_FILES),
        fact_views(),
        *_rendered((*FACT_FILES, "transactions.sql", "native_only.sql")),
    ]


def _rendered(files: Sequence[str]) -> list[str]:
    return [_environment().get_template(name).render() for name in files]


def table_sql(converted: ConvertedTable, constraints: dict[str, Any]) -> str:
    """T_temp, views and triggers of a table that is called T_persistent by now.

    `constraints`: what checks.constraints told of it.
    """
    table, details = converted.captured.table, converted.details
    key = table.primary_key
    assert key is not None, "rules.check_table was not asked"
    members = [table.column(member.number) for member in key.columns]
    context: dict[str, Any] = {
        "table_id": converted.captured.table_id,
        "persistent": converted.qualified(converted.persistent_name),
        "temp": converted.qualified(converted.temp_name),
        "owner": quote(details.owner),
        "columns": [
            {
                "name": c.name,
                "generated": c.generated,
                "virtual": c.virtual,
                "default": details.defaults.get(c.name),
                "sequence": details.sequences.get(c.name),
            }
            for c in table.columns
        ],
        "key": [column.name for column in members],
        "variants": [{"variant": variant, "view": view} for variant, view in converted.views.items()],
        "uniques": [_unique(converted, index) for index in table.guarded_indexes],
        "functions": details.functions,
        "constraints": constraints,
        "nryotw_schema": variant_schema(table.schema, "nryotw"),
        "key_name": key.name,
        "table_name": table.name,
        "schema_name": table.schema,
    }
    return (
        _environment().get_template("table.sql.j2").render({**context, "quote": dollar_quote(repr(context))})
    )


def _unique(converted: ConvertedTable, index: Index) -> dict[str, Any]:
    (definition,) = (u.index_definition for u in converted.details.uniques if u.name == index.name)
    return {
        "name": index.name,
        "columns": index_columns(definition),
        "expressions": [member.definition for member in index.columns],
        "matches": [
            _equal(member, f"psp_new.v{number}", index.nulls_not_distinct)
            for number, member in enumerate(index.columns, 1)
        ],
        "predicate": index.predicate,
        "nulls_not_distinct": index.nulls_not_distinct,
    }


def _equal(member: IndexColumn, value: str, nulls_too: bool) -> str:
    """SQL: whether the index takes its column's value and `value` for the same."""
    collate = f" COLLATE {member.index_collation}" if member.index_collation else ""
    equal = f"({member.definition}){collate} {member.equality} {value}"
    return f"({equal} OR ({member.definition}) IS NULL AND {value} IS NULL)" if nulls_too else equal


def index_columns(definition: str) -> str:
    """What stands in the first parentheses of pg_get_indexdef's text, quoted ones left out."""
    start, depth, quoted = 0, 0, ""
    for position, character in enumerate(definition):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character == "(":
            depth += 1
            if depth == 1:
                start = position + 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return definition[start:position]
    raise AssertionError(f"unbalanced: {definition}")


def closing_sql(tables: Sequence[ConvertedTable], in_cluster: bool) -> list[str]:
    """What the daemon's workers call, in a cluster what refuses schema changes, then who may do what."""
    contexts = [_worker_context(converted) for converted in tables]
    template = _environment().get_template("workers.sql.j2")
    script = template.render(tables=contexts, quote=dollar_quote(repr(contexts)))
    return [script, *_rendered(CLUSTER_FILES if in_cluster else LAST_FILES)]


def _worker_context(converted: ConvertedTable) -> dict[str, Any]:
    captured = converted.captured
    assert captured.table.primary_key is not None
    return {
        "table_id": captured.table_id,
        "temp": converted.qualified(converted.temp_name),
        "persistent": converted.qualified(converted.persistent_name),
        "owner": quote(converted.details.owner),
        "path": captured.facts["search_path"],
        "written": [c.name for c in captured.table.columns if not c.generated],
        "key_names": [captured.table.column(m.number).name for m in captured.table.primary_key.columns],
        "key": captured.key,
        "image": captured.image,
        "guards": [
            {
                "guard_id": guard["guard_id"],
                "key": _guard_key(guard),
                "condition": _taken(guard),
                "calls": bool(guard["arguments"]),
            }
            for guard in captured.facts["guards"]
        ],
    }


def _guard_key(guard: dict[str, Any]) -> str:
    """SQL for the key; where it calls code of users, a function of the table's owner does."""
    if guard["arguments"]:
        return f"psp.guard_{guard['guard_id']}({', '.join(quote(c['name']) for c in guard['arguments'])})"
    return f"pg_catalog.record_send(ROW({', '.join(guard['expressions'])}))"


def _taken(guard: dict[str, Any]) -> str:
    """SQL: whether a row takes the guard at all. NULL in a value: it does not, unless NULLs are one value."""
    if guard["arguments"]:
        return f"{_guard_key(guard)} IS NOT NULL"
    conditions = [f"({guard['predicate']}) IS TRUE"] if guard["predicate"] else []
    if not guard["nulls_not_distinct"]:
        conditions += [f"({expression}) IS NOT NULL" for expression in guard["expressions"]]
    return " AND ".join(conditions) or "true"


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


def _environment() -> jinja2.Environment:
    environment = sql_templates("views/install", "semi_primary/install")
    environment.filters["literal"] = _literal
    return environment
