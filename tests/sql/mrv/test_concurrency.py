"""What holds while many change one value: sums, the lower bound in each snapshot, the order of waiting."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.databases import Pair, one
from tests.sql.mrv.columns import adjust, make
from tests.threads import running

PRODUCTS = 3
STOCK = 60
RETRIED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, name text, stock int CHECK (stock >= 0));
INSERT INTO item SELECT i, 'n', {STOCK} FROM generate_series(1, {PRODUCTS}) i;
"""


def wait_until_blocked(watcher: psycopg.Connection[Any], pid: int, by: int | None = None) -> None:
    """By anybody, or by a certain session."""
    deadline = time.monotonic() + 60
    query = "SELECT coalesce(%s = ANY (b), cardinality(b) > 0) FROM pg_blocking_pids(%s) b"
    while not one(watcher, query, by, pid):
        assert time.monotonic() < deadline, "it never waited"


def worker(pair: Pair, stop: threading.Event, seed: int) -> Callable[[], None]:
    """The workers, adjust and balance, without a pause."""

    def work() -> None:
        choice = random.Random(seed)
        with pair.connect(autocommit=True) as connection:
            connection.execute("SET lock_timeout = '50ms'")
            while not stop.is_set():
                key = [str(choice.randint(1, PRODUCTS))]
                with contextlib.suppress(psycopg.errors.LockNotAvailable, *RETRIED):
                    if choice.random() < 0.5:
                        adjust(connection, 1, key, choice.randint(-6, 6))
                    else:
                        strategy = choice.choice(["all", "random", "minmax"])
                        connection.execute("SELECT psp_mrv.balance(1, %s::text[], %s)", (key, strategy))

    return work


@pytest.mark.parametrize(
    "isolation",
    [
        psycopg.IsolationLevel.READ_COMMITTED,
        psycopg.IsolationLevel.REPEATABLE_READ,
        psycopg.IsolationLevel.SERIALIZABLE,
    ],
)
def test_sums_and_bound_in_every_snapshot(pair: Pair, isolation: psycopg.IsolationLevel) -> None:
    """Pieces move between products, by statements on the view and by functions; a reader looks on."""
    pair.run(SCHEMA)
    make(pair, "item.stock", max=16)
    stop = threading.Event()

    def move(connection: psycopg.Connection[Any], choice: random.Random) -> None:
        source, target = choice.sample(range(1, PRODUCTS + 1), 2)
        amount = choice.randint(1, 25)
        # In the order of keys, as for any other table: then nobody waits in a circle.
        for key in sorted((source, target)):
            change = amount if key == target else -amount
            if choice.random() < 0.5:
                connection.execute("SELECT psp_mrv.item_stock_add(%s, %s)", (key, change))
            else:
                connection.execute("UPDATE item SET stock = stock + %s WHERE id = %s", (change, key))

    def client(seed: int) -> Callable[[], None]:
        def work() -> None:
            choice = random.Random(seed)
            with pair.connect() as connection:
                connection.isolation_level = isolation
                for _ in range(120):
                    try:
                        with connection.transaction():
                            move(connection, choice)
                    except (psycopg.errors.CheckViolation, *RETRIED):
                        continue

        return work

    def reader() -> None:
        with pair.connect(autocommit=True) as connection:
            while not stop.is_set():
                seen = connection.execute("SELECT sum(stock), bool_and(stock >= 0) FROM item").fetchone()
                assert seen == (PRODUCTS * STOCK, True)

    with running(reader, worker(pair, stop, 1), worker(pair, stop, 2)):
        try:
            with running(*(client(seed) for seed in range(5))):
                pass
        finally:
            stop.set()
    with pair.connect() as connection:
        assert one(connection, "SELECT sum(stock) FROM item") == PRODUCTS * STOCK
        orphans = "SELECT count(*) FROM psp_mrv.item_stock JOIN item_orig USING (id) WHERE NOT psp_mrv_stock"
        assert one(connection, orphans) == 0


@pytest.mark.parametrize(
    "statement",
    ["SELECT psp_mrv.item_stock_try_sub(1, 1)", "UPDATE item SET stock = stock - 1 WHERE id = 1"],
)
def test_exactly_what_is_there_can_be_taken(pair: Pair, statement: str) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", records=8)
    taken: list[int] = []

    def buyer() -> None:
        count = 0
        with pair.connect(autocommit=True) as connection:
            for _ in range(STOCK // 4):
                with contextlib.suppress(psycopg.errors.CheckViolation):
                    cursor = connection.execute(statement.encode())
                    count += cursor.rowcount if not cursor.description else int(cursor.fetchall()[0][0])
        taken.append(count)

    with running(*([buyer] * 6)):
        pass
    assert sum(taken) == STOCK
    with pair.connect() as connection:
        assert one(connection, "SELECT stock FROM item WHERE id = 1") == 0


def test_nobody_waits_while_a_record_is_free(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", records=4)
    with pair.connect() as one_, pair.connect() as two, pair.connect() as three:
        for connection in (one_, two, three):
            connection.execute("SET lock_timeout = '1s'")
            connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
            connection.execute("SELECT psp_mrv.item_stock_gte(1, 12)")
        two.rollback()
        one_.commit()
        three.commit()
        assert one(two, "SELECT stock FROM item WHERE id = 1") == STOCK - 2


def test_several_records_are_taken_from_without_waiting(pair: Pair) -> None:
    """Of a large amount, where the unlocked records have enough together, and only as many as it takes."""
    pair.run(SCHEMA)
    make(pair, "item.stock", records=6)  # 10 each
    with pair.connect() as small, pair.connect() as large, pair.connect() as third:
        for connection in (small, large, third):
            connection.execute("SET lock_timeout = '1s'")
        small.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
        large.execute("UPDATE item SET stock = stock - 35 WHERE id = 1")
        third.execute("SELECT psp_mrv.item_stock_sub(1, 10)")
        with pytest.raises(
            psycopg.errors.LockNotAvailable
        ):  # only who holds the rest may say whether it is there
            third.execute("SELECT psp_mrv.item_stock_sub(1, 6)")
        third.rollback()
        small.rollback()
        large.commit()
        amounts = large.execute("SELECT v FROM psp_mrv.item_stock WHERE id = 1 ORDER BY v").fetchall()
        assert [v for (v,) in amounts] == [0, 0, 0, 5, 10, 10]


def test_repeatable_read_passes_over_what_has_changed(pair: Pair) -> None:
    """40001 only when no record is left that is as the snapshot has it."""
    pair.run(SCHEMA)
    make(pair, "item.stock", records=4)
    with pair.connect() as late, pair.connect(autocommit=True) as other:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert one(late, "SELECT stock FROM item WHERE id = 1") == STOCK
        other.execute("UPDATE psp_mrv.item_stock SET v = v + 1 WHERE id = 1 AND rk <> 0")
        late.execute("UPDATE item SET stock = stock + 1 WHERE id = 1")
        late.execute("UPDATE item SET stock = stock + 1 WHERE id = 1")
        late.commit()
        assert one(late, "SELECT stock FROM item WHERE id = 1") == STOCK + 5
        other.execute("UPDATE psp_mrv.item_stock SET v = v + 1 WHERE id = 1")
        with pytest.raises(psycopg.errors.SerializationFailure):
            late.execute("UPDATE item SET stock = stock + 1 WHERE id = 1")


@pytest.mark.parametrize("change", [3, -3])
def test_a_value_that_moves_while_a_statement_waits(pair: Pair, change: int) -> None:
    """From the base row to records, and back: the statement finds it where it is."""
    pair.run(SCHEMA)
    make(pair, "item.stock", records=2 if change < 0 else 1)
    with pair.connect() as mover, pair.connect() as waiter, pair.connect(autocommit=True) as watcher:
        assert adjust(mover, 1, ["1"], change) == ("split" if change > 0 else "merged")
        pid = waiter.info.backend_pid
        with running(lambda: waiter.execute("UPDATE item SET stock = stock - 7 WHERE id = 1")):
            wait_until_blocked(watcher, pid)
            mover.commit()
        waiter.commit()
        assert one(watcher, "SELECT stock FROM item WHERE id = 1") == STOCK - 7


def test_a_row_that_is_deleted_while_a_statement_waits(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", records=2)
    counts: list[int] = []
    with pair.connect() as remover, pair.connect() as waiter, pair.connect(autocommit=True) as watcher:
        remover.execute("DELETE FROM item WHERE id = 1")
        pid = waiter.info.backend_pid

        def update() -> None:
            counts.append(waiter.execute("UPDATE item SET stock = stock - 7 WHERE id = 1").rowcount)

        with running(update):
            wait_until_blocked(watcher, pid)
            remover.commit()
        waiter.commit()
        assert counts == [0]
        assert one(watcher, "SELECT count(*) FROM psp_mrv.item_stock WHERE id = 1") == 0


def test_other_columns_never_lose_an_update(pair: Pair) -> None:
    """What a statement has computed from a row that has changed since is not written: 40001, also under
    READ COMMITTED. An amount is not computed from the row, so it is added all the same."""
    pair.run(SCHEMA)
    make(pair, "item.stock")
    with pair.connect() as first, pair.connect() as second, pair.connect(autocommit=True) as watcher:
        pid = second.info.backend_pid
        for statement, fails in (
            ("UPDATE item SET name = name || '2' WHERE id = 1", True),
            ("DELETE FROM item WHERE id = 1 AND name LIKE 'n%'", True),
            ("UPDATE item SET stock = stock - 1 WHERE id = 1", False),
        ):
            first.execute("UPDATE item SET name = name || '1', stock = stock - 1 WHERE id = 1")

            def update(statement: str = statement, fails: bool = fails) -> None:
                if fails:
                    with pytest.raises(psycopg.errors.SerializationFailure):
                        second.execute(statement.encode())
                    second.rollback()
                else:
                    assert second.execute(statement.encode()).rowcount == 1
                    second.commit()

            with running(update):
                wait_until_blocked(watcher, pid)
                first.commit()
        assert watcher.execute("SELECT name, stock FROM item WHERE id = 1").fetchone() == ("n111", STOCK - 4)


def test_select_for_update_sees_what_it_waited_for(pair: Pair) -> None:
    """A value that is cold, and one that is split meanwhile."""
    pair.run(SCHEMA)
    make(pair, "item.stock")
    seen: list[int] = []
    with pair.connect() as first, pair.connect() as second, pair.connect(autocommit=True) as watcher:
        first.execute("UPDATE item SET stock = stock - 10 WHERE id = 1")
        assert adjust(first, 1, ["1"], 3) == "split"

        def read() -> None:
            seen.append(one(second, "SELECT stock FROM item WHERE id = 1 FOR UPDATE"))

        with running(read):
            wait_until_blocked(watcher, second.info.backend_pid)
            first.commit()
        assert seen == [STOCK - 10]


def test_killed_workers_leave_no_wrong_sums(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", records=4)
    with pair.connect(autocommit=True) as watcher:
        for step in range(12):
            with pair.connect() as victim:
                if step % 2:
                    adjust(victim, 1, ["1"], [4, -2, -9][step % 3])
                else:
                    victim.execute("SELECT psp_mrv.balance(1, '{1}', 'all')")
                watcher.execute("SELECT pg_terminate_backend(%s, 10000)", (victim.info.backend_pid,))
                with pytest.raises(psycopg.OperationalError):
                    victim.execute("SELECT 1")
            assert one(watcher, "SELECT sum(stock) FROM item") == PRODUCTS * STOCK
        assert adjust(watcher, 1, ["1"], -9) == "merged"


def test_large_amounts_are_spread(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", records=8)
    with pair.connect() as connection:
        connection.execute("UPDATE item SET stock = 0 WHERE id = 1")
        connection.execute("UPDATE item SET stock = stock + 800 WHERE id = 1")
        amounts = connection.execute("SELECT v FROM psp_mrv.item_stock WHERE id = 1").fetchall()
        assert amounts == [(100,)] * 8
        connection.execute("UPDATE item SET stock = stock + 10 WHERE id = 1")
        assert one(connection, "SELECT count(*) FROM psp_mrv.item_stock WHERE id = 1 AND v = 100") == 7


def test_own_part_of_the_ring_comes_first(pair: Pair) -> None:
    """As far as the bound lets it."""
    pair.run(SCHEMA)
    make(pair, "item.stock", records=4, spread_from="none")  # at 0, 16384, 32768, 49152: 15 each
    with pair.connect(options="-c psp_mrv.ring_first=32768 -c psp_mrv.ring_count=32768") as connection:
        for _ in range(30):
            connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
        amounts = connection.execute("SELECT v FROM psp_mrv.item_stock WHERE id = 1 ORDER BY rk").fetchall()
        assert amounts == [(15,), (15,), (0,), (0,)]
        for _ in range(30):
            connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
        assert one(connection, "SELECT stock FROM item WHERE id = 1") == 0
        assert adjust(connection, 1, ["1"], 4) == "added"
        new = "SELECT count(*) FROM psp_mrv.item_stock WHERE id = 1 AND rk > 32768"
        assert one(connection, new) == 5


def test_lock_waits_show_who_is_wanted(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock")
    query = "SELECT column_id, key, waiters > 0 FROM psp_mrv.lock_waits()"
    with pair.connect() as holder, pair.connect() as waiter, pair.connect(autocommit=True) as watcher:
        assert watcher.execute(query.encode()).fetchall() == []
        holder.execute("UPDATE item SET stock = stock - 1 WHERE id = 2")
        with running(lambda: waiter.execute("UPDATE item SET stock = stock - 1 WHERE id = 2")):
            wait_until_blocked(watcher, waiter.info.backend_pid)
            assert watcher.execute(query.encode()).fetchall() == [(1, ["2"], True)]
            holder.commit()
        waiter.commit()


def test_nobody_waits_in_a_circle_where_little_is_left(pair: Pair) -> None:
    """A session that got a record which then holds too little must not wait for the rest with it locked."""
    pair.run(SCHEMA)
    make(pair, "item.stock", records=2)
    pair.run("UPDATE psp_mrv.item_stock SET v = 0 WHERE id = 1 AND rk = 0")
    with pair.connect() as first, pair.connect() as late, pair.connect() as merger, pair.connect() as watcher:
        first.execute("UPDATE item SET stock = stock - 20 WHERE id = 1")
        merger.execute("SELECT FROM item_orig WHERE id = 1 FOR NO KEY UPDATE")

        def take_too_much() -> None:
            with pytest.raises(psycopg.errors.CheckViolation):
                late.execute("UPDATE item SET stock = stock - 25 WHERE id = 1")

        with running(take_too_much):
            wait_until_blocked(watcher, late.info.backend_pid, by=first.info.backend_pid)
            first.commit()
            wait_until_blocked(watcher, late.info.backend_pid, by=merger.info.backend_pid)
            assert adjust(merger, 1, ["1"], -1) == "merged"
            merger.commit()
        late.rollback()
        assert one(late, "SELECT stock FROM item WHERE id = 1") == 10
