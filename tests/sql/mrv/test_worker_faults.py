"""The death of psp-mrv, or of its PostgreSQL, costs nothing."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
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
from tests.sql.mrv.daemons import FULL_SPEED, ITEMS, WAIT_S, Daemon, MakeDaemon, actions, records, report
from tests.threads import running_until_left

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
