"""TPC-C's databases: a plain one, and a copy of it with the hot columns as Multi-Record Values."""

import psycopg
from psp.mrv.create import Options, create
from psp.servers.pgserver import PgServer
from psycopg import sql

from benchmarks.mrv.comparison import PLAIN, VIEW
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Scale

DISTRICTS = 10
# W_YTD and D_YTD are what the thesis makes MRVs (section 4.5.1).
SPLIT = ("warehouse.w_ytd", "district.d_ytd")
# In the same row as D_YTD. Each transaction that changes it reads it back: one record, see docs/mrv.md.
COUNTER = "district.d_next_o_id"


def make(server: PgServer, scale: Scale, records_max: int) -> dict[str, str]:
    """Loads TPC-C once and copies it. Returns the DSN of each form."""
    server.create_database(PLAIN)
    runner.prepare(server.dsn(PLAIN), scale)
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(VIEW), sql.Identifier(PLAIN))
        )
    convert(server.dsn(VIEW), records_max)
    return {PLAIN: server.dsn(PLAIN), VIEW: server.dsn(VIEW)}


def convert(dsn: str, records_max: int) -> None:
    """Makes the hot columns MRVs, of one record each."""
    for name in SPLIT:
        create(dsn, name, Options(max=records_max, lower_bound="none"), lambda _: None)
    create(dsn, COUNTER, Options(max=1), lambda _: None)


def set_records(dsn: str, warehouses: int, records: int) -> None:
    """So many records for each hot value of the first warehouses."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE psp_mrv.columns SET nr_min = 1, nr_initial = 1, nr_max = %s WHERE record_limit > 1",
            (records,),
        )
        connection.execute(
            """SELECT psp_mrv.adjust(column_id, key,
                                     %(records)s - (psp_mrv.value_state(column_id, key)).records)
                 FROM psp_mrv.columns
                CROSS JOIN LATERAL (
                      SELECT ARRAY[w::text] AS key FROM generate_series(1, %(warehouses)s) w
                       WHERE table_name = 'warehouse'
                      UNION ALL
                      SELECT ARRAY[w::text, d::text] FROM generate_series(1, %(warehouses)s) w,
                             generate_series(1, %(districts)s) d
                       WHERE table_name = 'district') keys
                WHERE record_limit > 1""",
            {"records": records, "warehouses": warehouses, "districts": DISTRICTS},
        )


def vacuum(dsn: str) -> None:
    """The small hot tables: no round pays for the dead rows of the one before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            """SELECT format('VACUUM %s', c.oid::regclass) FROM pg_class c
                WHERE c.relkind = 'r' AND (c.relnamespace = to_regnamespace('psp_mrv')::oid
                      OR c.relname IN ('warehouse', 'district', 'warehouse_orig', 'district_orig'))"""
        ).fetchall()
        for (statement,) in rows:
            connection.execute(statement.encode())
