"""What `psp mrv list` and `psp mrv status` show."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from psp.mrv.facts import Mrv, hold_table, is_installed, read_mrvs
from psp.mrv.generate import record_column
from psp.sql_files import read_sql

HOTTEST = 20


def list_mrvs(dsn: str) -> list[dict[str, Any]]:
    """One entry for each MRV: all that psp_mrv.columns says."""
    with psycopg.connect(dsn) as connection:
        return [
            {**{k: v for k, v in vars(m).items() if k != "more"}, **m.more} for m in read_mrvs(connection)
        ]


def read_status(dsn: str) -> dict[str, Any]:
    """How the values stand, what the workers do, and the values with most activity in the last window."""
    with psycopg.connect(dsn) as connection:
        if not is_installed(connection):
            return {"mrvs": [], "workers": [], "hottest": []}
        with connection.cursor(row_factory=dict_row) as cursor:
            mrvs = [_values(cursor, mrv) for mrv in read_mrvs(connection)]
            workers = cursor.execute(read_sql("mrv/command/read_workers.sql")).fetchall()
            hottest = cursor.execute(read_sql("mrv/command/read_hottest.sql"), {"count": HOTTEST}).fetchall()
    return {"mrvs": mrvs, "workers": workers, "hottest": hottest}


def _values(cursor: psycopg.Cursor[dict[str, Any]], mrv: Mrv) -> dict[str, Any]:
    records = sql.Identifier("psp_mrv", mrv.records_table)
    base = sql.Identifier(mrv.schema_name, mrv.base_table)
    for table in (records, base):
        hold_table(cursor.connection, table)
    row = cursor.execute(
        sql.SQL(
            "SELECT (SELECT count(*) FROM {}) AS values, (SELECT count(*) FROM {} o WHERE o.{}) AS split, "
            "(SELECT count(*) FROM {}) AS records, "
            "(SELECT max(n) FROM (SELECT count(*) AS n FROM {} GROUP BY {}) g) AS most_records"
        ).format(base, base, sql.Identifier(mrv.split_column), records, records, _key(mrv))
    ).fetchone()
    assert row is not None
    return {"mrv": mrv.label, "lower_bound": mrv.lower_bound, **row}


def _key(mrv: Mrv) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(record_column(name)) for name in mrv.key_columns)
