"""psp-mrv on a plain PostgreSQL: it adjusts and balances. Its death is in test_worker_faults.py."""

from __future__ import annotations

import itertools
import threading

import pytest
from psp.waiting import wait_until

from tests.sql.databases import Pair, one
from tests.sql.mrv.columns import make
from tests.sql.mrv.daemons import ITEMS, WAIT_S, MakeDaemon, records, report
from tests.threads import running_until_left

# ---- adjust ---------------------------------------------------------------------------------------


def test_a_hot_value_grows_and_shrinks_again_without_any_report(pair: Pair, daemon: MakeDaemon) -> None:
    """Transactions that wait for one another are seen in the database; an item at rest stays as it is."""
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000000), (2, 1000000)")
    make(pair, "item.stock")
    daemon()
    sold = itertools.count()

    def buy(stop: threading.Event) -> None:
        with pair.connect() as connection:
            while not stop.is_set():
                connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
                connection.execute("SELECT pg_sleep(0.005)")
                connection.commit()
                next(sold)

    with pair.connect(autocommit=True) as watch:
        with running_until_left(*[buy] * 8):
            wait_until("records for the hot item", lambda: records(watch, 1) >= 4, WAIT_S)
        assert records(watch, 2) == 1
        wait_until("one record again", lambda: records(watch, 1) == 1, WAIT_S)
        assert one(watch, "SELECT stock FROM item WHERE id = 1") == 1000000 - next(sold)


@pytest.mark.parametrize("strategy", ["binary", "linear", "quadratic"])
def test_reported_aborts_add_records_up_to_the_limit(pair: Pair, daemon: MakeDaemon, strategy: str) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000), (2, 1000)")
    make(pair, "item.stock", strategy=strategy, max=8, min=2, records=2)
    daemon()
    with pair.connect(autocommit=True) as connection:

        def grown() -> bool:
            report(connection, 1, 50, 50)
            return records(connection, 1) == 8

        def says_so() -> bool:
            grown()  # or the next round takes some away, and says that
            change = "SELECT coalesce(max(last_change), 0) FROM psp_mrv.status WHERE key = '{1}'"
            return bool(one(connection, change) > 0)

        wait_until("eight records", grown, WAIT_S)
        wait_until("the status to say that there are more", says_so, WAIT_S)
        wait_until("the least records again", lambda: records(connection, 1) == 2, WAIT_S)
        assert one(connection, "SELECT sum(stock) FROM item") == 2000


def test_strategy_none_leaves_records_alone(pair: Pair, daemon: MakeDaemon) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock", strategy="none", records=3)
    with pair.connect(autocommit=True) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, '{1}', 2)")
        before = records(connection, 1)
        daemon()
        rounds = "SELECT coalesce(max(rounds), 0) FROM psp_mrv.workers WHERE worker = 'adjust'"

        def ten_rounds() -> bool:
            report(connection, 1, 0, 1000)
            return bool(one(connection, rounds) >= 10)

        wait_until("ten rounds of adjust", ten_rounds, WAIT_S)
        assert records(connection, 1) == before


def test_slow_responses_add_records(pair: Pair, daemon: MakeDaemon) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock")
    pair.run("UPDATE psp_mrv.columns SET rt_goal_ms = 10, rt_min_ms = 5")
    daemon()
    with pair.connect(autocommit=True) as connection:

        def grown() -> bool:
            connection.execute("SELECT psp_mrv.report('item.stock', '{1}', 10, 0, 400)")
            return records(connection, 1) >= 4

        wait_until("records for the slow item", grown, WAIT_S)


def test_the_amount_limits_the_records(pair: Pair, daemon: MakeDaemon) -> None:
    """And when it falls, records go, with any rate of aborts."""
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 65)")
    make(pair, "item.stock")
    pair.run("UPDATE psp_mrv.columns SET min_average_amount_per_record = 10")
    daemon()
    with pair.connect(autocommit=True) as connection:

        def has(count: int) -> bool:
            report(connection, 1, 0, 100)
            assert records(connection, 1) <= 6
            return records(connection, 1) == count

        wait_until("six records for 65", lambda: has(6), WAIT_S)
        connection.execute("UPDATE item SET stock = stock - 40 WHERE id = 1")
        wait_until("two records for 25", lambda: has(2), WAIT_S)


# Stands in front of what the workers read of a value, which then is another amount at each look, however late
# the machine lets anybody look.
CHANGING = """
ALTER FUNCTION psp_mrv.value_state(integer, text[]) RENAME TO steady_value_state;
CREATE SEQUENCE looks;
CREATE FUNCTION psp_mrv.value_state(column_id integer, key text[]) RETURNS psp_mrv.value_state
LANGUAGE plpgsql AS $$
DECLARE
    result psp_mrv.value_state := psp_mrv.steady_value_state(column_id, key);
BEGIN
    result.total := result.total + nextval('public.looks');
    RETURN result;
END $$;
"""
STEADY = """
CREATE OR REPLACE FUNCTION psp_mrv.value_state(column_id integer, key text[]) RETURNS psp_mrv.value_state
LANGUAGE sql AS $$ SELECT psp_mrv.steady_value_state(column_id, key) $$;
"""


def test_a_value_that_other_servers_use_keeps_its_records(pair: Pair, daemon: MakeDaemon) -> None:
    """What happens there is not reported here, but the value changes."""
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000000)")
    make(pair, "item.stock")
    pair.run(f"ALTER DATABASE {pair.name} SET psp_mrv.ring_count = 32768")
    with pair.connect(autocommit=True) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, '{1}', 3)")
        connection.execute(CHANGING)
        daemon()
        rounds = "SELECT coalesce(max(rounds), 0) FROM psp_mrv.workers WHERE worker = 'adjust'"
        wait_until("four rounds of adjust", lambda: one(connection, rounds) >= 4, WAIT_S)
        assert records(connection, 1) == 4
        connection.execute(STEADY)
        wait_until("one record when all is quiet", lambda: records(connection, 1) == 1, WAIT_S)


def test_a_key_that_nobody_has_harms_nobody(pair: Pair, daemon: MakeDaemon) -> None:
    """Everybody who may use the view may report anything."""
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock")
    daemon()
    with pair.connect(autocommit=True) as connection:

        def grown() -> bool:
            for key in (["no number"], ["1", "2"], [], ["77"], [None]):
                connection.execute("SELECT psp_mrv.report('item.stock', %s, 1, 99)", (key,))
            connection.execute("SELECT psp_mrv.report('item.stock', '{1}', 2147483647, 2147483647, 'NaN')")
            report(connection, 1, 0, 100)
            return records(connection, 1) >= 3

        wait_until("records all the same", grown, WAIT_S)


# ---- balance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("balance", ["all", "random", "minmax"])
def test_amounts_become_even(pair: Pair, daemon: MakeDaemon, balance: str) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock", strategy="none", balance=balance)
    with pair.connect(autocommit=True) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, '{1}', 9)")
        connection.execute("UPDATE psp_mrv.item_stock SET v = CASE WHEN rk = 0 THEN 1000 ELSE 0 END")
        daemon()
        spread = "SELECT max(v) - min(v) FROM psp_mrv.item_stock"
        wait_until("even amounts", lambda: one(connection, spread) <= 50, WAIT_S)
        assert one(connection, "SELECT stock FROM item") == 1000


def test_amounts_that_hurt_nobody_are_left(pair: Pair, daemon: MakeDaemon) -> None:
    """Without a lower bound no subtraction ever needs a second record."""
    pair.run("CREATE TABLE item (id integer PRIMARY KEY, stock integer); INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock", strategy="none", lower_bound="none")
    with pair.connect(autocommit=True) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, '{1}', 3)")
        connection.execute("UPDATE psp_mrv.item_stock SET v = CASE WHEN rk = 0 THEN 1000 ELSE 0 END")
        daemon()
        rounds = "SELECT coalesce(max(rounds), 0) FROM psp_mrv.workers WHERE worker = 'balance'"
        wait_until("ten rounds of balance", lambda: one(connection, rounds) >= 10, WAIT_S)
        assert one(connection, "SELECT max(v) FROM psp_mrv.item_stock") == 1000
