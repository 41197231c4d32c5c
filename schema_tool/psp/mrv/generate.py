"""Makes the SQL of MRVs: the contexts of the templates in sql/mrv."""

from __future__ import annotations

import hashlib
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from psycopg import sql

from psp.mrv.facts import Column, Mrv, TableFacts
from psp.schema.keys import quote
from psp.schema.templates import dollar_quote, sql_templates

NAME_BYTES_MAX = 63
SUFFIX_BYTES_MAX = len("_change_split")

TABLE_TEMPLATE = "records_table.sql.j2"
FUNCTION_TEMPLATES = ("records.sql.j2", "change.sql.j2", "adjust.sql.j2")
VIEW_TEMPLATE = "view.sql.j2"

FUNCTIONS = (
    "lookup", "total", "gt", "gte", "one", "wait", "spread", "gather",
    "lock_all", "merge", "slow", "change_split",
    "add", "sub", "try_sub", "set", "write", "split", "grow", "shrink", "adjust", "balance", "value_state",
    "split_keys", "key_at",
)  # fmt: skip
READERS = ("lookup", "total", "gt", "gte")
WRITERS = ("add", "sub", "try_sub", "write")
TRIGGERS = ("on_insert", "on_update", "on_delete")

RECORD_TYPES = {"int2": "integer", "int4": "integer", "int8": "bigint"}  # all others: numeric
AMOUNT_TYPES = {"int2": "integer", "int4": "bigint"}  # wide enough for any difference; all others: numeric
INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
NUMERIC_TYPES = (*INTEGERS, "numeric", *FLOATS)

_LARGEST = {
    "int2": Decimal(2**15 - 1), "int4": Decimal(2**31 - 1), "int8": Decimal(2**63 - 1),
    "float4": Decimal("3.4e38"), "float8": Decimal("1.79e308"),
}  # fmt: skip


def shortened(name: str, bytes_max: int) -> str:
    """The name, or its beginning and a hash of it, so that it fits."""
    encoded = name.encode()
    if len(encoded) <= bytes_max:
        return name
    kept = encoded[: bytes_max - 9].decode(errors="ignore")
    return f"{kept}_{hashlib.sha256(encoded).hexdigest()[:8]}"


def prefix(schema: str, name: str) -> str:
    """What names in psp_mrv begin with: of a table, or with `table_column` as name, of a column."""
    whole = name if schema == "public" else f"{schema}_{name}"
    return shortened(whole, NAME_BYTES_MAX - SUFFIX_BYTES_MAX)


def record_max(column: Column, lower_bound: Decimal | None, nr_max: int) -> Decimal | None:
    """The most that a record may hold, so that the sum of nr_max records stays within the column's type."""
    whole: Decimal | None = _LARGEST.get(column.base_type)
    digits = 0
    if column.base_type == "numeric" and column.modifier >= 0:
        precision, scale = _precision_and_scale(column.modifier)
        digits = max(scale, 0)
        whole = Decimal(10) ** (precision - scale) - Decimal(10) ** -scale
    if whole is None:
        return None
    share = (whole - (lower_bound or 0)) / nr_max
    if column.base_type in FLOATS:
        return share
    return share.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)


def _precision_and_scale(modifier: int) -> tuple[int, int]:
    """numeric's typmod, as PostgreSQL 15 packs it: the scale has 11 bits and a sign."""
    packed = modifier - 4
    scale = packed & 0x7FF
    return packed >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def column_context(facts: TableFacts, mrv: Mrv) -> dict[str, Any]:
    """What the templates of one column take. `facts` are those of the base table."""
    column = facts.column(mrv.column_name)
    assert column is not None, mrv.label
    names = {name: f"psp_mrv.{quote(f'{mrv.records_table}_{name}')}" for name in FUNCTIONS}
    names["sum"] = f"psp_mrv_view.{quote(f'{mrv.records_table}_sum')}"
    kind = column.base_type
    return {
        "quote": dollar_quote(repr(facts)),
        "column_id": mrv.column_id,
        "schema_literal": literal(mrv.schema_name),
        "table_literal": literal(mrv.table_name),
        "column_literal": literal(mrv.column_name),
        "bound_literal": literal(mrv.bound_name or ""),
        "base": f"{quote(mrv.schema_name)}.{quote(mrv.base_table)}",
        "records": f"psp_mrv.{quote(mrv.records_table)}",
        "column": quote(mrv.column_name),
        "split": quote(mrv.split_column),
        "key": [_key(facts, number, n) for n, number in enumerate((k.number for k in facts.key), start=1)],
        "f": names,
        "value_type": column.type,
        "record_type": RECORD_TYPES.get(kind, "numeric"),
        "amount_type": AMOUNT_TYPES.get(kind, "numeric"),
        "difference_type": _difference_type(kind, mrv.lower_bound),
        "sum_type": _sum_type(kind, mrv.lower_bound),
        "integral": kind in INTEGERS,
        "is_float": kind in FLOATS,
        "cast": f"::{column.type}" if kind == "numeric" else "",
        "lower_bound": None if mrv.lower_bound is None else _number(mrv.lower_bound),
        "offset": _number(mrv.lower_bound) if mrv.lower_bound else "",  # what records leave out
        "record_max": None if mrv.record_max is None else _number(mrv.record_max),
        "spread_from": None if mrv.spread_from is None else _number(mrv.spread_from),
        "nr_limit": mrv.record_limit,
        "nr_initial": mrv.nr_initial,
    }


def _difference_type(kind: str, lower_bound: Decimal | None) -> str:
    """What holds any difference of two values. Those of a bigint that is never negative are bigint."""
    if kind == "int8" and lower_bound is not None and lower_bound >= 0:
        return "bigint"
    return AMOUNT_TYPES.get(kind, "numeric")


def _sum_type(kind: str, lower_bound: Decimal | None) -> str:
    """What holds the sum of a value's records, which a negative bound makes larger than the value."""
    fits = kind in ("int2", "int4") or (kind == "int8" and (lower_bound is None or lower_bound >= 0))
    return "int8" if fits else "numeric"


def _key(facts: TableFacts, number: int, place: int) -> dict[str, str]:
    column = facts.by_number(number)
    return {
        "name": quote(column.name),
        "record": quote(record_column(column.name)),
        "param": f"k{place}",
        "type": column.type,
        "collate": f" COLLATE {column.collation}" if column.collation else "",
        "equal": facts.key[place - 1].equal,
    }


def record_column(name: str) -> str:
    """What a key column is called in the records table, which has columns of its own."""
    return name if name not in ("rk", "v") else f"{name}_key"


def _number(value: Decimal) -> str:
    """A numeric constant as SQL; in parentheses where a sign would be taken for an operator."""
    text = format(value, "f")
    return f"({text})" if value < 0 else text


def view_context(facts: TableFacts, mrvs: list[Mrv], view: TableFacts | None) -> dict[str, Any]:
    """What the view's template takes. `facts` are those of the base table, `mrvs` all of its MRVs."""
    shown = {column.name for column in view.columns} if view else set()
    first = mrvs[0]
    contexts = {mrv.column_name: column_context(facts, mrv) for mrv in mrvs}
    hidden = {mrv.split_column for mrv in mrvs}
    columns = [
        {
            "name": quote(column.name),
            "literal": literal(column.name),
            "mrv": contexts.get(column.name),
            "identity": column.identity,
            "generated": column.generated,
            "sequence": literal(column.sequence or ""),
            "default": column.default,
            "is_new": column.name not in shown,
        }
        for column in facts.columns
        if column.name not in hidden
    ]
    return {
        "quote": dollar_quote(repr(facts)),
        "view": f"{quote(first.schema_name)}.{quote(first.table_name)}",
        "base": f"{quote(first.schema_name)}.{quote(first.base_table)}",
        "schema_literal": literal(first.schema_name),
        "table_literal": literal(first.table_name),
        "columns": columns,
        "rest": [column for column in columns if column["mrv"] is None],
        "mrvs": list(contexts.values()),
        "f": trigger_functions(first),
        "is_new": view is None,
    }


def trigger_functions(mrv: Mrv) -> dict[str, str]:
    table = prefix(mrv.schema_name, mrv.table_name)
    return {name: f"psp_mrv.{quote(f'{table}_{name}')}" for name in TRIGGERS}


def literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


def records_sql(facts: TableFacts, mrv: Mrv) -> str:
    """The records table of one column."""
    return sql_templates("mrv/install").get_template(TABLE_TEMPLATE).render(c=column_context(facts, mrv))


def functions_sql(facts: TableFacts, mrv: Mrv) -> list[str]:
    """The functions of one column, in the order to run; they replace those that there are."""
    context = column_context(facts, mrv)
    templates = sql_templates("mrv/install")
    return [templates.get_template(name).render(c=context) for name in FUNCTION_TEMPLATES]


def view_sql(facts: TableFacts, mrvs: list[Mrv], view: TableFacts | None) -> str:
    """The view in the table's place and its triggers. Replaces `view`, if any, with its new columns."""
    context = view_context(facts, mrvs, view)
    return sql_templates("mrv/install").get_template(VIEW_TEMPLATE).render(t=context)
