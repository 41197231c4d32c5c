"""psp-mrv on a plain PostgreSQL: it adjusts and balances, and its death, or PostgreSQL's, costs nothing."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster.daemons import MRV_BINARY, write_config
from psp.output import PspError
from psp.servers import processes
from psp.servers.processes import ProcessName
from psp.waiting import wait_until

from tests.sql.databases import Pair, one
from tests.sql.mrv.columns import make, unmake
from tests.threads import running_until_left

WAIT_S = 60
ITEMS = "CREATE TABLE item (id integer PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0));"
# Quick windows, so that the tests are quick.
QUICK = {"window_ms": 50, "lock_sample_interval_ms": 10, "balance_interval_ms": 10, "split_refresh_ms": 50}
FULL_SPEED = {**QUICK, "window_ms": 10, "balance_interval_ms": 0, "split_refresh_ms": 0, "balance_runners": 2}


@dataclass(frozen=True)
class Daemon:
    """A psp-mrv of the test's own."""

    name: ProcessName
    config: Path

    @property
    def log(self) -> Path:
        return self.config.with_suffix(".log")

    def start(self) -> None:
        command = [str(paths.binary(MRV_BINARY)), "--config", str(self.config)]
        processes.start(self.name, command, self.log, WAIT_S)

    def kill(self) -> None:
        processes.end(self.name, force=True)

    def stop(self) -> None:
        assert processes.end(self.name)


MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def daemon(pair: Pair, tmp_path: Path) -> Iterator[MakeDaemon]:
    """daemon(name, key=value, …): started; ended after the test."""
    made: list[Daemon] = []

    def make_daemon(name: str = "one", **options: object) -> Daemon:
        config = tmp_path / f"{name}.yaml"
        write_config(config, {"database": pair.dsn, "log_level": "debug", **QUICK, **options})
        made.append(Daemon(ProcessName(tmp_path, name, "mrv"), config))
        made[-1].start()
        return made[-1]

    yield make_daemon
    for each in made:
        each.kill()


def records(connection: psycopg.Connection[Any], item: int, mrv: int = 1) -> int:
    return int(one(connection, f"SELECT records FROM psp_mrv.value_state({mrv}, '{{{item}}}')"))


def report(connection: psycopg.Connection[Any], item: int, commits: int, aborts: int) -> None:
    connection.execute("SELECT psp_mrv.report('item.stock', %s, %s, %s)", ([str(item)], commits, aborts))


def actions(connection: psycopg.Connection[Any], worker: str) -> int:
    query = f"SELECT coalesce(sum(actions), 0) FROM psp_mrv.workers WHERE worker = '{worker}'"
    return int(one(connection, query))


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

        wait_until("eight records", grown, WAIT_S)
        row = connection.execute(
            "SELECT records, last_change FROM psp_mrv.status WHERE key = '{1}'"
        ).fetchone()
        assert row is not None and row[1] > 0
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


# ---- what happens to daemons and databases ----------------------------------------------------------


def grows(connection: psycopg.Connection[Any], mrv: int = 1) -> None:
    """The daemon does its work."""

    def grown() -> bool:
        connection.execute("SELECT psp_mrv.report(%s::integer, '{1}', 0, 100)", (mrv,))
        return records(connection, 1, mrv) >= 2

    wait_until("a second record", grown, WAIT_S)


def test_mrvs_come_and_go_under_the_daemon(pair: Pair, daemon: MakeDaemon) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    running_daemon = daemon()
    for other_key_type in ("text", "integer"):
        mrv = make(pair, "item.stock")
        with pair.connect(autocommit=True) as connection:
            grows(connection, mrv.column_id)
        unmake(pair, "item.stock")
        pair.run("DROP TABLE item; " + ITEMS.replace("integer PRIMARY", f"{other_key_type} PRIMARY"))
        pair.run("INSERT INTO item VALUES ('1', 1000)")
    running_daemon.stop()
    assert "critical" not in running_daemon.log.read_text()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_restarts(pair: Pair, daemon: MakeDaemon, mode: Any) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock")
    daemon()
    with pair.connect(autocommit=True) as connection:
        grows(connection)
    pair.server.stop(mode)
    pair.server.start()
    with pair.connect(autocommit=True) as connection:
        wait_until("one record again", lambda: records(connection, 1) == 1, WAIT_S)
        grows(connection)
        assert one(connection, "SELECT stock FROM item") == 1000


def test_a_second_daemon_waits_and_takes_over(pair: Pair, daemon: MakeDaemon) -> None:
    pair.run(ITEMS + "INSERT INTO item VALUES (1, 1000)")
    make(pair, "item.stock")
    first = daemon("first")
    with pair.connect(autocommit=True) as connection:
        grows(connection)
        with ExitStack() as stack:
            second = Daemon(
                ProcessName(first.config.parent, "second", "mrv"), first.config.with_name("second.yaml")
            )
            stack.callback(second.kill)
            second.config.write_text(first.config.read_text())
            starting = threading.Thread(target=second.start)
            starting.start()
            waits = "another psp-mrv serves this database"
            wait_until(
                "the second one waits",
                lambda: second.log.exists() and waits in second.log.read_text(),
                WAIT_S,
            )
            first.kill()
            starting.join()
            pid = processes.find(second.name)
            told = "SELECT count(*) FROM psp_mrv.workers WHERE pid = %s"
            wait_until("the second one works", lambda: one(connection, told, pid) > 0, WAIT_S)
            second.stop()


def test_a_daemon_without_a_database_waits_for_it(pair: Pair, tmp_path: Path) -> None:
    config = tmp_path / "none.yaml"
    write_config(config, {"database": pair.server.dsn("no_such_database")})
    name = ProcessName(tmp_path, "none", "mrv")
    with pytest.raises(PspError, match="not ready"):
        processes.start(name, [str(paths.binary(MRV_BINARY)), "--config", str(config)], tmp_path / "log", 0.5)
    assert "no_such_database" in (tmp_path / "log").read_text()


# ---- under load -----------------------------------------------------------------------------------

ACCOUNTS = 3
EACH = 60  # so little that subtractions need several records, and often find too little
TRANSIENT = ("40001", "40P01", "23514")


def transfer(pair: Pair, isolation: str, seed: int, stop: threading.Event) -> None:
    """Moves random amounts between accounts, each in one transaction, and reports what became of it."""
    chance = random.Random(seed)
    isolate: LiteralString = "REPEATABLE READ" if isolation == "REPEATABLE READ" else "READ COMMITTED"
    with pair.connect(autocommit=True) as connection:
        connection.execute("SET deadlock_timeout = '10ms'")
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL " + isolate)
        while not stop.is_set():
            giver, taker = chance.sample(range(1, ACCOUNTS + 1), 2)
            amount = chance.randint(1, 30)
            aborts = 0
            try:
                with connection.transaction():
                    connection.execute("UPDATE item SET stock = stock - %s WHERE id = %s", (amount, giver))
                    connection.execute("UPDATE item SET stock = stock + %s WHERE id = %s", (amount, taker))
            except psycopg.Error as error:
                if error.sqlstate not in TRANSIENT:
                    raise
                aborts = 1
            # Mostly nonsense, so that adjust grows and shrinks all the time.
            report(connection, giver, 10, chance.choice([0, 0, 50]) + aborts)


def read_snapshots(pair: Pair, seen: list[int], stop: threading.Event) -> None:
    """In every snapshot: nothing is lost or made, and no bound is broken, in no record either."""
    with pair.connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        while not stop.is_set():
            total, least = connection.execute("SELECT sum(stock), min(stock) FROM item").fetchone() or (0, 0)
            assert total == ACCOUNTS * EACH
            assert least >= 0
            assert one(connection, "SELECT coalesce(min(v), 0) FROM psp_mrv.item_stock") >= 0
            connection.rollback()
            seen.append(total)


def has_reached(seen: list[int], count: int) -> bool:
    return len(seen) >= count


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_sums_and_bounds_hold_while_workers_are_killed(
    pair: Pair, daemon: MakeDaemon, isolation: str
) -> None:
    pair.run(ITEMS)
    pair.run(f"INSERT INTO item SELECT i, {EACH} FROM generate_series(1, {ACCOUNTS}) i")
    make(pair, "item.stock", strategy="quadratic", max=16)
    chance = random.Random(4)
    workers = daemon(**FULL_SPEED)
    seen: list[int] = []
    clients = [partial(transfer, pair, isolation, seed) for seed in range(4)]
    with (
        pair.connect(autocommit=True) as watch,
        running_until_left(*clients, partial(read_snapshots, pair, seen)),
    ):
        for _ in range(5):
            wait_until("work of adjust", lambda: actions(watch, "adjust") > 0, WAIT_S)
            wait_until("work of balance", lambda: actions(watch, "balance") > 0, WAIT_S)
            # At any moment: the workers may be doing anything after so many more snapshots.
            kill_at = len(seen) + chance.randint(1, 20)
            wait_until("more snapshots", partial(has_reached, seen, kill_at), WAIT_S)
            workers.kill()
            workers.start()
    with pair.connect() as connection:
        assert one(connection, "SELECT sum(stock) FROM item") == ACCOUNTS * EACH
