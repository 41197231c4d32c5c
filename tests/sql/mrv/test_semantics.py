"""Statements on a table with MRVs do what they do on a plain table: rows, row counts, RETURNING, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, new_pair, one
from tests.sql.mrv.columns import adjust, make

SCHEMA = """
CREATE TABLE {t} (a int, b text DEFAULT 'x', name text, stock int NOT NULL DEFAULT 7 CHECK (stock >= 0),
                  total numeric(12,2), twice int GENERATED ALWAYS AS (a * 2) STORED,
                  n int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (a, b));
CREATE TABLE {t}_line (a int, b text, FOREIGN KEY (a, b) REFERENCES {t} ON UPDATE CASCADE);
INSERT INTO {t} (a, name, stock, total) SELECT i, 'n' || i, i * 10, i * 1.25 FROM generate_series(1, 6) i;
INSERT INTO {t}_line VALUES (6, 'x');
"""

STATEMENTS = [
    "UPDATE {t} SET stock = stock + {d} WHERE a = {i} RETURNING a, b, stock",
    "UPDATE {t} SET stock = stock - {d} WHERE a = {i} RETURNING stock",
    "UPDATE {t} SET stock = stock - {d} WHERE a <= {i}",
    "UPDATE {t} SET stock = stock - {d} WHERE a = {i} AND stock >= {d} RETURNING *",
    "UPDATE {t} SET stock = {d} WHERE a = {i} RETURNING *",
    "UPDATE {t} SET stock = stock * 2, total = total / 3 WHERE a = {i} RETURNING a, stock, total",
    "UPDATE {t} SET stock = stock + {d}, total = total - {d}.55, name = 'm{d}' WHERE a = {i} RETURNING *",
    "UPDATE {t} SET total = NULL WHERE a = {i} RETURNING total",
    "UPDATE {t} SET total = coalesce(total, 0) + 0.005 WHERE a = {i} RETURNING total",
    "UPDATE {t} SET total = {d} WHERE a > {i} RETURNING a, total",
    "UPDATE {t} SET name = name || '!' WHERE a = {i} RETURNING *",
    "UPDATE {t} SET a = a + 10, stock = stock + 1 WHERE a = {i} RETURNING *",
    "UPDATE {t} SET stock = {t}.stock + s.a FROM (VALUES (1), (3)) s (a) WHERE {t}.a = s.a RETURNING {t}.*",
    "UPDATE {t} SET stock = NULL WHERE a = {i}",
    "UPDATE {t} SET stock = stock + 2147483647 WHERE a = {i}",
    "DELETE FROM {t} WHERE a = {i} RETURNING *",
    "DELETE FROM {t} WHERE stock = 0",
    "INSERT INTO {t} (a, name) VALUES ({i}, 'new') RETURNING *",
    "INSERT INTO {t} (a, b, stock, total) VALUES ({i}, 'y', {d}, 2.005), ({i} + 1, 'z', 1, NULL) RETURNING *",
    "INSERT INTO {t} (a, stock) VALUES ({i} + 20, -1)",
    "INSERT INTO {t} (a, n) VALUES ({i} + 30, 5)",
    "SELECT sum(stock), count(total), max(total), min(name) FROM {t} WHERE stock > {d}",
    "SELECT a, stock FROM {t} WHERE a = {i} FOR UPDATE",
    "SELECT l.a, t.stock, t.twice FROM {t}_line l JOIN {t} t USING (a, b)",
    "WITH w AS (UPDATE {t} SET stock = stock + {d} WHERE a = {i} RETURNING a, stock) SELECT * FROM w",
]


@dataclass(frozen=True)
class Outcome:
    rows: list[Any] | None
    count: int
    state: str | None


def run(connection: psycopg.Connection[Any], statement: str) -> Outcome:
    try:
        with connection.transaction():
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else None
            return Outcome(None if rows is None else sorted(rows, key=repr), cursor.rowcount, None)
    except psycopg.Error as error:
        return Outcome(None, 0, error.sqlstate)


@pytest.fixture(scope="module")
def twins(server: PgServer) -> Pair:
    """Tables `plain` and `mrv` that are the same but for two columns of `mrv`."""
    pair = new_pair(server)
    pair.run(SCHEMA.format(t="plain") + SCHEMA.format(t="mrv"))
    make(pair, "mrv.stock")
    make(pair, "mrv.total")
    return pair


steps = st.one_of(
    st.tuples(st.sampled_from(STATEMENTS), st.integers(1, 8), st.integers(0, 60)),
    st.tuples(st.sampled_from(["adjust", "balance"]), st.integers(1, 8), st.integers(-9, 9)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=5, max_size=25), st.sampled_from(["read committed", "repeatable read"]))
def test_same_as_a_plain_table(twins: Pair, sequence: list[tuple[str, int, int]], isolation: str) -> None:
    with twins.connect() as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
        for what, i, d in sequence:
            if what == "adjust":
                for mrv in (1, 2):
                    adjust(connection, mrv, [str(i), "x"], d)
            elif what == "balance":
                strategy = ["all", "random", "minmax"][d % 3]
                connection.execute("SELECT psp_mrv.balance(1, %s::text[], %s)", ([str(i), "x"], strategy))
            else:
                plain, mrv_ = (run(connection, what.format(t=t, i=i, d=d)) for t in ("plain", "mrv"))
                assert plain == mrv_, what.format(t="mrv", i=i, d=d)
            query = "SELECT * FROM {t} ORDER BY a, b"
            assert run(connection, query.format(t="plain")) == run(connection, query.format(t="mrv"))
        connection.rollback()
        connection.execute(
            "ALTER SEQUENCE plain_n_seq RESTART WITH 100; ALTER SEQUENCE mrv_n_seq RESTART WITH 100"
        )


EXTREMES = {
    "smallint": ["1", "-1", "32767", "-32768", "40000"],
    "integer": ["1", "-1", "2147483647", "-2147483648"],
    "bigint": ["1", "-1", "9223372036854775807", "-9223372036854775807"],
    "numeric": ["0.1", "-0.333", "1e30", "'NaN'", "'Infinity'"],
    "numeric(6,2)": ["0.005", "-0.333", "9999.99", "-9999.99", "'NaN'"],
    "numeric(4,-2)": ["149", "50", "-999900"],
    "real": ["0.1", "-0.333", "3e38", "'NaN'", "'-Infinity'"],
    "double precision": ["0.1", "-0.2", "1e308", "1e-300", "'NaN'"],
}


@pytest.mark.parametrize("type_name", EXTREMES)
@pytest.mark.parametrize("bound", ["none", "-100"])
def test_every_type(pair: Pair, type_name: str, bound: str) -> None:
    """As PostgreSQL computes it, out of range where it is out of range, whether or not the value is split.

    Only the number of zeros that a numeric without a scale shows may differ.
    """
    text = "trim_scale(v)::text" if type_name == "numeric" else "v::text"
    check = "" if bound == "none" else f"CHECK (v >= {bound})"
    for t in ("plain", "mrv"):
        pair.run(
            f"CREATE TABLE {t} (id int PRIMARY KEY, v {type_name} {check}); INSERT INTO {t} VALUES (1, 100)"
        )
    mrv = make(pair, "mrv.v", max=16)
    assert (mrv.lower_bound is None) == (bound == "none")
    with pair.connect() as connection:
        for operand in EXTREMES[type_name]:
            for change in (5, 3, -20):
                for expression in ("v + {}", "v - {}", "{}", "100"):
                    statement = (
                        f"UPDATE {{t}} SET v = ({expression.format(operand)})::{type_name} RETURNING {text}"
                    )
                    plain, other = (run(connection, statement.format(t=t)) for t in ("plain", "mrv"))
                    assert plain == other, (statement, change)
                    adjust(connection, 1, ["1"], change)
                    query = f"SELECT id, {text} FROM {{t}}"
                    assert run(connection, query.format(t="plain")) == run(connection, query.format(t="mrv"))


def test_names_of_all_kinds(pair: Pair) -> None:
    """Columns that are called like what the functions use, quotes, capitals, other schemas, long names."""
    long = "l" * 60
    pair.run(
        f"""CREATE SCHEMA "S ""x"; CREATE DOMAIN "S ""x".word AS text;
        CREATE TABLE "S ""x"."Order ü" (
            "rk" int, "v" "S ""x".word, amount numeric DEFAULT 3, k1 int DEFAULT 4,
            "x'y $psp$" int DEFAULT 100, total int DEFAULT 1, "{long}" real DEFAULT 2.5, d1 text DEFAULT 'd',
            PRIMARY KEY (v, rk));
        INSERT INTO "S ""x"."Order ü" (rk, v) VALUES (1, 'a'), (2, 'b');"""
    )
    for column in ("amount", "k1", "x'y $psp$", "total", long):
        make(pair, f'S "x.Order ü.{column}', records=3)
    with pair.connect() as connection:
        done = connection.execute(
            f"""UPDATE "S ""x"."Order ü" SET amount = amount + 1, k1 = k1 - 1, "x'y $psp$" = 7,
                total = total + 1, "{long}" = "{long}" * 2, d1 = 'e' WHERE v = 'a' RETURNING *""".encode()
        )
        assert done.fetchall() == [(1, "a", 4, 3, 7, 2, 5.0, "e")]
        assert one(connection, 'SELECT count(*) FROM psp_mrv."S ""x_Order ü_amount"') == 6
        assert adjust(connection, 1, ["b", "2"], -5) == "merged"
        connection.execute("""UPDATE "S ""x"."Order ü" SET rk = 9, total = total + 5 WHERE rk = 2""")
        assert one(connection, """SELECT total FROM "S ""x"."Order ü" WHERE rk = 9""") == 6


@pytest.mark.parametrize("bound", ["none", "2"])
def test_functions_of_a_column(pair: Pair, bound: str) -> None:
    """Cold, split, and with one record gone: what each says, and what it leaves."""
    pair.run("CREATE TABLE item (id int PRIMARY KEY, stock int); INSERT INTO item VALUES (1, 100), (2, NULL)")
    make(pair, "item.stock", lower_bound=bound, max=8)
    with pair.connect(autocommit=True) as connection:

        def call(name: str, *arguments: int) -> Any:
            places = ", ".join(["%s"] * len(arguments))
            return one(connection, f"SELECT psp_mrv.item_stock_{name}({places})", *arguments)

        for change in (0, 3, -1, -9):
            adjust(connection, 1, ["1"], change)
            assert [call("gt", 1, n) for n in (99, 100, 101)] == [True, False, False]
            assert [call("gte", 1, n) for n in (-5, 99, 100, 101)] == [True, True, True, False]
            assert [call("add", 1, 7), call("sub", 1, 3), call("total", 1)] == [True, True, 104]
            assert [call("try_sub", 1, 4), call("total", 1)] == [True, 100]
            assert [call(name, 9, 1) for name in ("add", "sub", "try_sub", "write")] == [False] * 4
            assert [call("gt", 9, 1), call("gte", 9, 1), call("total", 9)] == [None] * 3
            assert [call("gt", 2, 1), call("total", 2)] == [None, None]
            if bound != "none":
                assert call("try_sub", 1, 99) is False
                with pytest.raises(psycopg.errors.CheckViolation) as error:
                    call("sub", 1, 99)
                assert error.value.diag.constraint_name == "item_stock_lower_bound"
            assert call("total", 1) == 100
        adjust(connection, 1, ["1"], 3)
        places = [rk for (rk,) in connection.execute("SELECT rk FROM psp_mrv.item_stock ORDER BY rk")]
        assert [call("lookup", 1, rk) for rk in (0, places[1], places[1] + 1, 65535)] == [
            0, places[1], places[2], 0
        ]  # fmt: skip
        assert [call("write", 1, 5), call("total", 1), call("lookup", 1, 0)] == [True, 5, None]


def test_a_comparison_reads_no_more_records_than_it_takes(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE item (id int PRIMARY KEY, stock int CHECK (stock >= 0));"
        "INSERT INTO item VALUES (1, 6400)"
    )
    make(pair, "item.stock", records=64)
    reads = "SELECT (seq_tup_read + idx_tup_fetch)::int FROM pg_stat_xact_user_tables"
    read = f"{reads} WHERE relname = 'item_stock'"
    with pair.connect() as connection:
        assert one(connection, "SELECT psp_mrv.item_stock_gte(1, 150)") is True
        assert one(connection, read) < 64
        assert one(connection, "SELECT psp_mrv.item_stock_gte(1, 6401)") is False
        assert one(connection, read) >= 64
