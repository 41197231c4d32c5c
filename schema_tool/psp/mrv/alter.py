"""Changes the limits of the number of records of an MRV, on a live database.

Within what it was made for, `nr_max` is a parameter. Beyond that each record must hold less, or a sum of so
many could leave the column's type: the functions are replaced, with the smaller limit, and values with
records that hold more go back to the base table until adjust splits them again.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from psp.mrv.changes import Changes
from psp.mrv.create import RECORDS_MAX, base_facts
from psp.mrv.drop import begin_change, find_mrv, tables_of
from psp.mrv.facts import Mrv, find_table, read_facts, read_mrvs
from psp.mrv.generate import functions_sql, record_column, record_max, view_sql
from psp.mrv.locking import locked
from psp.mrv.users_code import refuse_users_code
from psp.output import PspError
from psp.schema.locks import Say


def alter(dsn: str, name: str, nr_min: int | None, nr_max: int | None, lock_wait_s: float, say: Say) -> Mrv:
    """Sets the limits; None: as it is. New rows begin with as many records as before, or the nearest limit.

    On an exception nothing has changed.
    """
    with psycopg.connect(dsn) as connection:
        mrv = find_mrv(read_mrvs(connection), name)
        oid = find_table(connection, mrv.schema_name, mrv.table_name)
        connection.rollback()
        return locked(
            connection, oid, lock_wait_s, say, lambda: _alter(connection, oid, mrv.column_id, nr_min, nr_max)
        )


def _alter(
    connection: psycopg.Connection[Any], view: int, column_id: int, nr_min: int | None, nr_max: int | None
) -> Mrv:
    """Within a transaction that holds the locks."""
    old, mrvs = begin_change(connection, column_id)
    new = _with_limits(old, nr_min, nr_max)
    facts = base_facts(connection, new)
    changes = Changes(connection)
    changes.hold(*tables_of(new))
    column = facts.column(new.column_name)
    assert column is not None, new.label
    if new.nr_max > old.record_limit:
        most = record_max(column, new.lower_bound, new.nr_max)
        new = replace(new, record_limit=new.nr_max, record_max=most)
        if most is not None:
            base = find_table(connection, new.schema_name, new.base_table)
            written = [new.column_name, new.split_column]
            refuse_users_code(connection, base, written, new.label, "drop it, and create it again afterwards")
            _merge_larger(connection, new, most)
    connection.execute(
        """UPDATE psp_mrv.columns
              SET nr_min = %s, nr_max = %s, nr_initial = %s, record_limit = %s, record_max = %s
            WHERE column_id = %s""",
        (new.nr_min, new.nr_max, new.nr_initial, new.record_limit, new.record_max, column_id),
    )
    of_table = [
        new if m.column_id == column_id else m
        for m in mrvs
        if (m.schema_name, m.table_name) == (new.schema_name, new.table_name)
    ]
    changes.add(*functions_sql(facts, new), view_sql(facts, of_table, read_facts(connection, view)))
    changes.run()
    return new


def _with_limits(mrv: Mrv, nr_min: int | None, nr_max: int | None) -> Mrv:
    least = mrv.nr_min if nr_min is None else nr_min
    most = mrv.nr_max if nr_max is None else nr_max
    if not 1 <= least <= most <= RECORDS_MAX:
        raise PspError(f"--min {least} and --max {most} do not ascend, or there are more than {RECORDS_MAX}")
    return replace(mrv, nr_min=least, nr_max=most, nr_initial=min(max(mrv.nr_initial, least), most))


def _merge_larger(connection: psycopg.Connection[Any], mrv: Mrv, most: Decimal) -> None:
    """Values of which a record holds more than `most`. Nobody else changes any: the base table is locked."""
    records = sql.Identifier("psp_mrv", mrv.records_table)
    key = sql.SQL(", ").join(sql.Identifier(record_column(name)) for name in mrv.key_columns)
    connection.execute(
        sql.SQL(
            "SELECT count({merge}({key}, total)) FROM (SELECT {key}, sum(v)::numeric AS total FROM {records} "
            "GROUP BY {key} HAVING max(abs(v)) > {most} OFFSET 0) larger"
        ).format(
            merge=sql.Identifier("psp_mrv", f"{mrv.records_table}_merge"),
            key=key,
            records=records,
            most=sql.Literal(most),
        )
    )
