"""Loading: what clause 4.3.3 says about the numbers and values of rows."""

from collections.abc import Callable

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from benchmarks.tests.conftest import SMALL
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import LoadError, Scale

Ask = Callable[[str, str], object]
DISTRICTS = SMALL.warehouses * 10
ORDERS = DISTRICTS * SMALL.customers


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("warehouse", SMALL.warehouses),
        ("district", DISTRICTS),
        ("customer", ORDERS),
        ("history", ORDERS),
        ("orders", ORDERS),
        ("new_order", ORDERS * 3 // 10),
        ("item", SMALL.items),
        ("stock", SMALL.warehouses * SMALL.items),
    ],
)
def test_cardinality(server: PgServer, template: str, value: Ask, table: str, rows: int) -> None:
    assert value(server.dsn(template), f"SELECT count(*) FROM {table}") == rows


@pytest.mark.parametrize(
    ("what", "query"),
    [
        ("5 to 15 lines", "SELECT min(o_ol_cnt) = 5 AND max(o_ol_cnt) = 15 FROM orders"),
        (
            "each customer has one order",
            "SELECT bool_and(customers = 100) FROM (SELECT count(DISTINCT o_c_id) AS customers FROM orders"
            " GROUP BY o_w_id, o_d_id) AS districts",
        ),
        ("a tenth has bad credit", "SELECT avg((c_credit = 'BC')::int) BETWEEN 0.05 AND 0.16 FROM customer"),
        ("ORIGINAL", "SELECT avg((i_data LIKE '%ORIGINAL%')::int) BETWEEN 0.05 AND 0.16 FROM item"),
        ("first names", "SELECT min(length(c_first)) = 8 AND max(length(c_first)) = 16 FROM customer"),
        ("data", "SELECT min(length(c_data)) >= 300 AND max(length(c_data)) <= 500 FROM customer"),
        ("last names", "SELECT c_last = 'BARBAREING' FROM customer WHERE c_id = 10 LIMIT 1"),
        ("prices", "SELECT min(i_price) >= 1 AND max(i_price) <= 100 FROM item"),
        ("letters only", "SELECT bool_and(s_dist_01 ~ '^[A-Za-z0-9]{24}$') FROM stock"),
        ("undelivered", "SELECT bool_and((o_carrier_id IS NULL) = (o_id > 70)) FROM orders"),
        (
            "every table has a key",
            "SELECT count(*) = 9 FROM pg_constraint WHERE contype = 'p' AND conindid > 16383",
        ),
    ],
)
def test_values(server: PgServer, template: str, value: Ask, what: str, query: str) -> None:
    assert value(server.dsn(template), query) is True, what


def test_conditions_hold_after_loading(server: PgServer, template: str) -> None:
    assert check.all_hold(server.dsn(template))


def test_foreign_keys_can_be_made(server: PgServer, value: Ask) -> None:
    server.create_database("with_foreign_keys")
    dsn = server.dsn("with_foreign_keys")
    runner.prepare(dsn, Scale(1, 100, 10), threads=1, foreign_keys=True)
    assert value(dsn, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == 10
    assert check.all_hold(dsn)


def test_a_loaded_database_is_not_loaded_again(tpcc: str) -> None:
    with pytest.raises(LoadError, match="run cleanup first"):
        runner.prepare(tpcc, SMALL)
    assert check.all_hold(tpcc)


def test_cleanup_leaves_nothing(tpcc: str, value: Ask) -> None:
    runner.cleanup(tpcc)
    with psycopg.connect(tpcc) as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert left.fetchall() == []
