"""Running: the mix, retries, and that the report says what the database says."""

from collections.abc import Callable

import psycopg
import pytest

from benchmarks.tests.conftest import LONG_S, SMALL
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import READ_ONLY_MIX, Load, LoadError

Ask = Callable[[str, str], object]
LOADED_ROWS = SMALL.warehouses * 10 * SMALL.customers


@pytest.mark.parametrize("prepared", [False, True])
def test_report_agrees_with_the_database(tpcc: str, value: Ask, prepared: bool) -> None:
    report = runner.run(
        tpcc, Load(threads=3, seconds=LONG_S, scale=SMALL, prepared=prepared, transactions=800)
    )
    types = report["by_type"]
    assert report["errors"] == report["gave_up"] == 0
    assert report["threads"] == 3
    assert report["transactions"] == sum(found["transactions"] for found in types.values())
    new_orders = types["new_order"]["transactions"] - report["rollbacks"]
    assert value(tpcc, "SELECT count(*) FROM orders") == LOADED_ROWS + new_orders
    assert value(tpcc, "SELECT count(*) FROM history") == LOADED_ROWS + types["payment"]["transactions"]
    assert report["p50_ms"] <= report["p95_ms"] <= report["p99_ms"]
    assert 0 < report["commit_p50_ms"] < types["new_order"]["p50_ms"]
    assert check.all_hold(tpcc)


def test_standard_mix_and_rollbacks(tpcc: str) -> None:
    load = Load(threads=2, seconds=LONG_S, scale=SMALL, transactions=1000)
    report = runner.run(tpcc, load)
    share = {
        name: found["transactions"] / report["transactions"] for name, found in report["by_type"].items()
    }
    expected = {
        "new_order": 0.45,
        "payment": 0.43,
        "order_status": 0.04,
        "delivery": 0.04,
        "stock_level": 0.04,
    }
    assert report["transactions"] == 1000
    for name, percent in expected.items():
        assert share[name] == pytest.approx(percent, abs=0.08), name
    assert report["rollbacks"] < 0.05 * report["by_type"]["new_order"]["transactions"]


def test_one_percent_rolls_back_and_leaves_no_order(tpcc: str) -> None:
    load = Load(threads=2, seconds=LONG_S, scale=SMALL, mix="100,0,0,0,0", transactions=1500)
    report = runner.run(tpcc, load)
    assert 0 < report["rollbacks"] < 0.05 * report["transactions"]
    assert check.all_hold(tpcc)


def test_read_only_mix_changes_nothing(tpcc: str, value: Ask) -> None:
    changes = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
    before = value(tpcc, changes)
    load = Load(threads=2, seconds=LONG_S, scale=SMALL, mix=READ_ONLY_MIX, transactions=200)
    report = runner.run(tpcc, load)
    assert report["by_type"]["order_status"]["transactions"] > 0
    assert report["by_type"]["stock_level"]["transactions"] > 0
    assert report["commit_p50_ms"] is None
    assert value(tpcc, changes) == before


def test_serialization_failures_are_retried_and_counted(tpcc: str, value: Ask) -> None:
    load = Load(
        threads=8,
        seconds=LONG_S,
        scale=SMALL,
        home_last=1,
        isolation="repeatable read",
        transactions=1000,
    )
    report = runner.run(tpcc, load)
    assert report["aborts"] > 0
    assert report["retries"] == report["aborts"]
    assert report["aborts"] == sum(found["aborts"] for found in report["by_type"].values())
    assert report["errors"] == 0
    payments = report["by_type"]["payment"]["transactions"]
    assert value(tpcc, "SELECT count(*) FROM history") == LOADED_ROWS + payments
    assert check.all_hold(tpcc)


def test_home_range(tpcc: str, value: Ask) -> None:
    load = Load(threads=2, seconds=LONG_S, scale=SMALL, home_first=2, home_last=2, transactions=500)
    runner.run(tpcc, load)
    orders = "SELECT count(*) FROM orders WHERE o_w_id = "
    assert value(tpcc, orders + "1") == LOADED_ROWS // 2
    assert value(tpcc, orders + "2") != LOADED_ROWS // 2
    remote = "SELECT sum(s_remote_cnt) FROM stock WHERE s_w_id = "
    assert value(tpcc, remote + "1") != 0
    assert value(tpcc, remote + "2") == 0


FAILS_SOMETIMES = """
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < 0.1 THEN RAISE 'outcome unknown' USING ERRCODE = '08007'; END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON history INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION fail();
"""


def test_other_errors_are_counted_by_state_and_the_load_goes_on(tpcc: str, value: Ask) -> None:
    with psycopg.connect(tpcc) as connection:
        connection.execute(FAILS_SOMETIMES)
    report = runner.run(tpcc, Load(threads=2, seconds=LONG_S, scale=SMALL, transactions=500))
    payment = report["by_type"]["payment"]
    assert report["errors"] == payment["errors"] > 0
    assert report["errors_by_sqlstate"] == {"08007": report["errors"]}
    assert report["retries"] == 0
    assert value(tpcc, "SELECT count(*) FROM history") == LOADED_ROWS + payment["transactions"]
    assert check.all_hold(tpcc)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (Load(1, 1, SMALL, isolation="serializable"), "--isolation must be"),
        (Load(1, 1, SMALL, home_first=2, home_last=3), "must be a range"),
        (Load(1, 1, SMALL, mix="45,43,4,4,5"), "add up to 100"),
    ],
)
def test_bad_options_are_refused(tpcc: str, load: Load, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        runner.run(tpcc, load)
