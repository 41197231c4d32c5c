"""Makes an MRV a plain column again, in one transaction on a live database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from psp.mrv import rights
from psp.mrv.changes import Changes
from psp.mrv.create import parse_name
from psp.mrv.facts import Mrv, TableFacts, find_table, read_facts, read_mrvs
from psp.mrv.generate import FUNCTIONS, TRIGGERS, prefix, view_sql
from psp.mrv.locking import locked
from psp.mrv.users_code import refuse_users_code
from psp.output import PspError
from psp.problems import Problem, RefusedError
from psp.schema.locks import Say


def drop(dsn: str, name: str, lock_wait_s: float, say: Say) -> None:
    """Converts the column back. On an exception nothing has changed."""
    with psycopg.connect(dsn) as connection:
        mrv = find_mrv(read_mrvs(connection), name)
        oid = find_table(connection, mrv.schema_name, mrv.table_name)
        connection.rollback()
        locked(connection, oid, lock_wait_s, say, lambda: _drop(connection, oid, mrv.column_id))


def find_mrv(mrvs: list[Mrv], name: str) -> Mrv:
    """The MRV of that name; without a schema, the only one."""
    schema, table, column = parse_name(name)
    found = [
        m for m in mrvs
        if (m.table_name, m.column_name) == (table, column) and schema in (None, m.schema_name)
    ]  # fmt: skip
    if len(found) != 1:
        what = "is no MRV" if not found else f"is any of {', '.join(m.label for m in found)}"
        raise PspError(f"{name} {what}", "psp mrv list shows all of them")
    return found[0]


def begin_change(connection: psycopg.Connection[Any], column_id: int) -> tuple[Mrv, list[Mrv]]:
    """The MRV and all of them, read again in the transaction that holds the locks and changes it."""
    connection.execute("SET LOCAL client_min_messages = warning; SET LOCAL search_path = pg_catalog, pg_temp")
    mrvs = read_mrvs(connection)
    mrv = next((m for m in mrvs if m.column_id == column_id), None)
    if mrv is None:
        raise PspError("the MRV has vanished meanwhile")
    return mrv, mrvs


def _drop(connection: psycopg.Connection[Any], oid: int, column_id: int) -> None:
    mrv, mrvs = begin_change(connection, column_id)
    siblings = [
        m for m in mrvs
        if (m.schema_name, m.table_name) == (mrv.schema_name, mrv.table_name) and m.column_id != column_id
    ]  # fmt: skip
    base_oid = find_table(connection, mrv.schema_name, mrv.base_table)
    written = [mrv.column_name, mrv.split_column]
    refuse_users_code(connection, base_oid, written, mrv.label, "drop it, and create it again afterwards")
    view = read_facts(connection, oid)
    if not siblings:
        _refuse_dependents(view)
    changes = Changes(connection)
    changes.hold(*tables_of(mrv))
    _gather(connection, mrv)
    if siblings:
        _drop_from_base(changes, mrv)
        facts = read_facts(connection, base_oid)
        shown = [column for column in facts.columns if column.name != mrv.split_column]
        changes.add(view_sql(replace(facts, columns=shown), siblings, view))
        _drop_objects(changes, mrv)
        changes.run()
        return
    changes.add(sql.SQL("DROP VIEW {}").format(sql.Identifier(mrv.schema_name, mrv.table_name)))
    _drop_from_base(changes, mrv)
    _drop_objects(changes, mrv)
    for name in TRIGGERS:
        function = sql.Identifier("psp_mrv", f"{prefix(mrv.schema_name, mrv.table_name)}_{name}")
        changes.add(sql.SQL("DROP FUNCTION IF EXISTS {}").format(function))
    table = sql.Identifier(mrv.schema_name, mrv.table_name)
    changes.add(
        sql.SQL("ALTER TABLE {} RENAME TO {}").format(
            sql.Identifier(mrv.schema_name, mrv.base_table), sql.Identifier(mrv.table_name)
        )
    )
    rights.copy_grants(changes, table, view, mrv.schema_name, mrv.table_name)
    if len(mrvs) == 1 and _owns_all(connection):
        changes.add("DROP SCHEMA psp_mrv, psp_mrv_view CASCADE")
    changes.run()


def tables_of(mrv: Mrv) -> list[tuple[sql.Identifier, str]]:
    """The tables of its rows, each with a column that has NOT NULL."""
    return [
        (sql.Identifier(mrv.schema_name, mrv.base_table), mrv.split_column),
        (sql.Identifier("psp_mrv", mrv.records_table), "rk"),
    ]


def _owns_all(connection: psycopg.Connection[Any]) -> bool:
    """Under psp an MRV's owner may be another role than that of psp_mrv: then this stays, without MRVs."""
    row = connection.execute(
        "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'psp_mrv'"
    ).fetchone()
    return bool(row and row[0])


def _refuse_dependents(view: TableFacts) -> None:
    found = [d for d in view.dependents if d.class_ in ("pg_rewrite", "pg_proc", "pg_class")]
    if found:
        raise RefusedError(
            f"{view.schema}.{view.name} cannot be a plain table again",
            [
                Problem(
                    "error",
                    d.view or d.text,
                    f"it uses {view.name}",
                    "drop it, and create it again afterwards",
                )
                for d in found
            ],
        )


def _gather(connection: psycopg.Connection[Any], mrv: Mrv) -> None:
    """Puts the values that are split into the base table again. Its constraints check them."""
    base = sql.Identifier(mrv.schema_name, mrv.base_table)
    keys = sql.SQL(", ").join(sql.SQL("o.") + sql.Identifier(name) for name in mrv.key_columns)
    connection.execute(
        sql.SQL("UPDATE {} o SET {} = {}({}), {} = false WHERE o.{}").format(
            base, sql.Identifier(mrv.column_name), sql.Identifier("psp_mrv", f"{mrv.records_table}_total"),
            keys, sql.Identifier(mrv.split_column), sql.Identifier(mrv.split_column),
        )
    )  # fmt: skip


def _drop_from_base(changes: Changes, mrv: Mrv) -> None:
    base = sql.Identifier(mrv.schema_name, mrv.base_table)
    if mrv.bound_is_own and mrv.bound_name is not None:
        changes.add(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(base, sql.Identifier(mrv.bound_name)))
    changes.connection.execute("DELETE FROM psp_mrv.columns WHERE column_id = %s", (mrv.column_id,))


def _drop_objects(changes: Changes, mrv: Mrv) -> None:
    """After the view has ceased to use them. An older psp may have made fewer functions."""
    for name in FUNCTIONS:
        function = sql.Identifier("psp_mrv", f"{mrv.records_table}_{name}")
        changes.add(sql.SQL("DROP FUNCTION IF EXISTS {}").format(function))
    function = sql.Identifier("psp_mrv_view", f"{mrv.records_table}_sum")
    changes.add(sql.SQL("DROP FUNCTION IF EXISTS {}").format(function))
    changes.add(sql.SQL("DROP TABLE {}").format(sql.Identifier("psp_mrv", mrv.records_table)))
    changes.add(
        sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(
            sql.Identifier(mrv.schema_name, mrv.base_table), sql.Identifier(mrv.split_column)
        )
    )
