"""Makes a column an MRV, in one transaction on a live database."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from psp.mrv import rights
from psp.mrv.changes import DAEMON_RIGHTS, Changes, refuse_many
from psp.mrv.facts import Column, Mrv, TableFacts, find_table, is_installed, read_facts, read_mrvs
from psp.mrv.generate import (
    INTEGERS,
    NAME_BYTES_MAX,
    SUFFIX_BYTES_MAX,
    functions_sql,
    prefix,
    record_max,
    records_sql,
    shortened,
    view_sql,
)
from psp.mrv.locking import locked
from psp.mrv.rules import Bound, bounds_in_checks, check_column, check_table
from psp.mrv.users_code import refuse_users_code
from psp.output import PspError
from psp.problems import Problem, RefusedError
from psp.schema.locks import Say
from psp.schema.server import refuse_version
from psp.sql_files import read_sql

STRATEGIES = ("none", "binary", "linear", "quadratic")
BALANCES = ("none", "all", "random", "minmax")
RECORDS_MAX = 1024
SPREAD_PARTS = 8


@dataclass(frozen=True)
class Options:
    """lower_bound, spread_from: a number, 'none', or None for what the table's constraints suggest."""

    records: int = 1
    min: int = 1
    max: int = 64
    lower_bound: str | None = None
    strategy: str = "linear"
    balance: str = "random"
    spread_from: str | None = None
    lock_wait_s: float = 60.0


def parse_name(name: str) -> tuple[str | None, str, str]:
    """TABLE.COLUMN or SCHEMA.TABLE.COLUMN: names as they are stored, without quotes."""
    parts = name.split(".")
    if len(parts) == 2 and all(parts):
        return None, parts[0], parts[1]
    if len(parts) == 3 and all(parts):
        return parts[0], parts[1], parts[2]
    raise PspError(f"{name!r} is not the name of a column", "write TABLE.COLUMN or SCHEMA.TABLE.COLUMN")


def create(dsn: str, name: str, options: Options, say: Say) -> Mrv:
    """Converts the column. On an exception nothing has changed; RefusedError tells all reasons at once."""
    schema, table, column = parse_name(name)
    if not 1 <= options.min <= options.records <= options.max <= RECORDS_MAX:
        raise PspError(
            f"--min {options.min}, --records {options.records} and --max {options.max} do not ascend, "
            f"or there are more than {RECORDS_MAX}"
        )
    with psycopg.connect(dsn) as connection:
        refuse_version(connection)
        oid = find_table(connection, schema, table)
        connection.rollback()
        return locked(
            connection, oid, options.lock_wait_s, say, lambda: _create(connection, oid, column, options)
        )


def _create(connection: psycopg.Connection[Any], oid: int, column_name: str, options: Options) -> Mrv:
    """Within a transaction that holds the locks."""
    changes = Changes(connection)
    connection.execute("SET LOCAL client_min_messages = warning; SET LOCAL search_path = pg_catalog, pg_temp")
    view = read_facts(connection, oid)
    mrvs = read_mrvs(connection)
    siblings = [m for m in mrvs if (m.schema_name, m.table_name) == (view.schema, view.name)]
    facts = base_facts(connection, siblings[0]) if siblings else view
    column = _checked(facts, view, column_name, siblings)
    if options.records > 1:
        table = find_table(connection, facts.schema, facts.name)
        hint = "--records 1: values are split later, by functions of the table's owner; or become the owner"
        refuse_users_code(connection, table, [], facts.label, hint)
    bound = _bound(facts, column, options, view.name)
    mrv = _describe(connection, facts, column, bound, options, mrvs, view.name)
    _change_base(changes, facts, mrv, is_new=not siblings)
    if not is_installed(connection):
        changes.add(*(read_sql(f"mrv/install/{file}") for file in ("schema.sql", "functions.sql")))
        if changes.in_cluster:
            changes.add(DAEMON_RIGHTS)
    changes.run()
    base = base_facts(connection, mrv)
    _store(connection, mrv)
    changes.add(records_sql(base, mrv), *functions_sql(base, mrv))
    changes.add(view_sql(base, [*siblings, mrv], view if siblings else None))
    rights.give(changes, base, view if siblings else facts, mrv, is_new=not siblings)
    _split_all(changes, mrv)
    return mrv


def base_facts(connection: psycopg.Connection[Any], mrv: Mrv) -> TableFacts:
    """Of the table that the view has taken the place of."""
    return read_facts(connection, find_table(connection, mrv.schema_name, mrv.base_table))


def _checked(facts: TableFacts, view: TableFacts, column_name: str, siblings: list[Mrv]) -> Column:
    label = f"{view.schema}.{view.name}.{column_name}"
    if any(m.column_name == column_name for m in siblings):
        raise PspError(f"{label} is an MRV already", "psp mrv list shows all of them")
    column = facts.column(column_name)
    if column is None:
        raise PspError(f"table {view.schema}.{view.name} has no column {column_name}")
    problems: list[Problem] = [] if siblings else list(check_table(facts))
    found = bounds_in_checks(facts, column)
    problems += check_column(facts, column, found[0] if found else None)
    if problems:
        raise RefusedError(f"{label} cannot be made an MRV", problems)
    return column


def _bound(facts: TableFacts, column: Column, options: Options, table_name: str) -> Bound | None:
    """The lower bound: the one of a CHECK constraint, or the one asked for (oid 0: to be made)."""
    found = bounds_in_checks(facts, column)
    stated = found[0] if found else None
    if options.lower_bound is None:
        return stated
    asked = None if options.lower_bound == "none" else _number(options.lower_bound, "--lower-bound")
    if stated is not None:
        if asked is None or asked != stated.value:
            raise PspError(
                f"constraint {stated.constraint} says that {column.name} is at least {stated.value}",
                "leave --lower-bound out, or drop the constraint",
            )
        return stated
    if asked is None:
        return None
    if column.base_type in INTEGERS and asked != int(asked):
        raise PspError(f"--lower-bound {asked} is no value of type {column.type}")
    return Bound(asked, shortened(f"{table_name}_{column.name}_lower_bound", NAME_BYTES_MAX), 0)


def _number(text: str, option: str) -> Decimal:
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise PspError(f"{option} {text!r} is neither a number nor `none`") from None
    if not value.is_finite():
        raise PspError(f"{option} {text!r} is not finite")
    return value


def _spread_from(options: Options, bound: Bound | None) -> Decimal | None:
    """By default, with a bound: amounts of which each of the parts gets at least two."""
    if options.spread_from is None:
        return Decimal(2 * SPREAD_PARTS) if bound is not None else None
    return None if options.spread_from == "none" else _number(options.spread_from, "--spread-from")


def _describe(
    connection: psycopg.Connection[Any], facts: TableFacts, column: Column, bound: Bound | None,
    options: Options, mrvs: list[Mrv], table_name: str,
) -> Mrv:  # fmt: skip
    siblings = [m for m in mrvs if (m.schema_name, m.table_name) == (facts.schema, table_name)]
    base = siblings[0].base_table if siblings else shortened(f"{facts.name}_orig", NAME_BYTES_MAX)
    if not siblings and _exists(connection, facts.schema, base):
        raise PspError(f"{facts.schema}.{base} exists: the table could not be renamed", "rename that one")
    records = prefix(facts.schema, f"{table_name}_{column.name}")
    taken = {m.records_table for m in mrvs}
    if records in taken:
        records = shortened(records, NAME_BYTES_MAX - SUFFIX_BYTES_MAX - 4) + f"_{len(mrvs) + 1}"
    value = bound.value if bound is not None else None
    keys = [facts.by_number(key.number) for key in facts.key]
    return Mrv(
        column_id=max((m.column_id for m in mrvs), default=0) + 1,
        schema_name=facts.schema, table_name=table_name, base_table=base, column_name=column.name,
        value_type=column.type, key_columns=[key.name for key in keys], key_types=[key.type for key in keys],
        records_table=records, split_column=shortened(f"psp_mrv_{column.name}", NAME_BYTES_MAX),
        lower_bound=value, bound_name=bound.constraint if bound else None,
        bound_is_own=bound is not None and bound.oid == 0,
        record_max=record_max(column, value, options.max), record_limit=options.max,
        spread_from=_spread_from(options, bound), strategy=options.strategy, nr_initial=options.records,
        nr_min=options.min, nr_max=options.max, balance=options.balance,
    )  # fmt: skip


def _exists(connection: psycopg.Connection[Any], schema: str, name: str) -> bool:
    row = connection.execute(
        "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL", (schema, name)
    )
    found = row.fetchone()
    return bool(found and found[0])


def _change_base(changes: Changes, facts: TableFacts, mrv: Mrv, *, is_new: bool) -> None:
    table = sql.Identifier(facts.schema, facts.name)
    split = sql.Identifier(mrv.split_column)
    changes.add(sql.SQL("ALTER TABLE {} ADD COLUMN {} boolean NOT NULL DEFAULT false").format(table, split))
    if mrv.bound_is_own and mrv.bound_name is not None:
        changes.add(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK ({} >= {})").format(
                table,
                sql.Identifier(mrv.bound_name),
                sql.Identifier(mrv.column_name),
                sql.Literal(mrv.lower_bound),
            )
        )
    if is_new:
        changes.add(sql.SQL("ALTER TABLE {} RENAME TO {}").format(table, sql.Identifier(mrv.base_table)))


def _store(connection: psycopg.Connection[Any], mrv: Mrv) -> None:
    values = {name: value for name, value in vars(mrv).items() if name != "more"}
    connection.execute(
        sql.SQL("INSERT INTO psp_mrv.columns ({}) VALUES ({})").format(
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(map(sql.Placeholder, values)),
        ),
        values,
    )


def _split_all(changes: Changes, mrv: Mrv) -> None:
    """--records N: the values that are there already. Later ones are split when they are inserted."""
    if mrv.nr_initial == 1:
        return
    if changes.in_cluster:
        refuse_many(changes.connection, sql.Identifier(mrv.schema_name, mrv.base_table), mrv.nr_initial)
    changes.connection.execute(
        sql.SQL("SELECT count({}({}, {})) FROM {}").format(
            sql.Identifier("psp_mrv", f"{mrv.records_table}_split"),
            sql.SQL(", ").join(map(sql.Identifier, mrv.key_columns)),
            sql.Literal(mrv.nr_initial),
            sql.Identifier(mrv.schema_name, mrv.base_table),
        )
    )
