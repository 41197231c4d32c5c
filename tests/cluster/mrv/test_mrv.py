"""Multi-Record Values inside psp: partition records are captured rows, and the bound holds across SPs.

One cluster for all of these tests, each with an item of its own.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster import growth, local, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.mrv.alter import alter
from psp.mrv.create import Options, create
from psp.mrv.drop import drop
from psp.output import PspError
from psp.waiting import wait_until
from psycopg import sql

from tests.cluster.support import WAIT_S, as_admin, connect, execute, wait_for_row
from tests.threads import running

STOCK = 200
SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, name text, stock int CHECK (stock >= 0));
INSERT INTO item SELECT n, 'item ' || n, {STOCK} FROM generate_series(1, 9) n;
"""
ZONES = [Zone("one"), Zone("two", 10), Zone("three", 20)]
# A busy machine must not leave a commit in doubt: the sums are compared to the last piece.
OPTIONS = local.Options(pg_settings={"shared_buffers": "64MB"}, sp_options={"commit_timeout_ms": 60000})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """item.stock was made an MRV, of eight records each, before adoption."""
    file = tmp_path_factory.mktemp("mrv") / "shop.sql"
    file.write_text(SCHEMA)
    with LocalCluster.temporary(ZONES, OPTIONS) as cluster:
        cluster.load_schema(file)
        create(cluster.sps[0].admin_dsn, "item.stock", Options(records=8), print)
        growth.adopt(cluster)
        yield cluster


@contextmanager
def workers(cluster: LocalCluster, **options: object) -> Iterator[None]:
    """A psp-mrv beside each SP, in quick windows."""
    try:
        for sp in cluster.sps:
            cluster.start_mrv(sp.name, window_ms=200, split_refresh_ms=200, **options)
        yield
    finally:
        for sp in cluster.sps:
            cluster.stop_mrv(sp.name)


def check(cluster: LocalCluster, item: int, stock: int) -> None:
    """The same rows everywhere, and that stock."""
    assert verify.verify(cluster).consistent
    for sp in cluster.sps:
        assert execute(sp, "SELECT stock FROM item WHERE id = %s", (item,)) == [(stock,)]


def split(cluster: LocalCluster, item: int) -> None:
    """Four records more at the first SP; workers of an earlier test may have merged the value."""
    with psycopg.connect(cluster.sps[0].admin_dsn) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, %s, 4)", ([str(item)],))
    verify.wait_drained(cluster)


def _change(sp: SpNode, change: int, times: int, told: dict[str, int]) -> None:
    """Adds (or subtracts) pieces of item 1, once each; counts what became of them."""
    with connect(sp, autocommit=True) as connection:
        for _ in range(times):
            try:
                connection.execute("UPDATE item SET stock = stock + %s WHERE id = 1", (change,))
                outcome = "done"
            except psycopg.errors.SerializationFailure:
                outcome = "aborted"
            except psycopg.errors.CheckViolation:
                outcome = "refused"
            except psycopg.Error as error:
                outcome = f"{error.sqlstate} {error}"
            told[outcome] = told.get(outcome, 0) + 1


def test_sps_add_and_subtract(shop: LocalCluster) -> None:
    """More is wanted than there is: the bound holds, and what was reported is what is there."""
    work = [(sp, change) for sp in shop.sps[:2] for change in (-3, -2, 1)]
    told: list[dict[str, int]] = [{} for _ in work]

    def body(sp: SpNode, change: int, tally: dict[str, int]) -> Callable[[], None]:
        return lambda: _change(sp, change, 60, tally)

    with running(*(body(sp, change, tally) for (sp, change), tally in zip(work, told, strict=True))):
        pass
    assert set().union(*told) <= {"done", "aborted", "refused"}
    expected = STOCK + sum(c * t.get("done", 0) for (_, c), t in zip(work, told, strict=True))
    assert expected >= 0
    assert any(tally.get("refused") for tally in told)
    check(shop, 1, expected)


def test_each_sp_has_a_record_of_its_own(shop: LocalCluster) -> None:
    """All change one value in open transactions at once; none is aborted."""
    connections = [connect(sp) for sp in shop.sps]
    for connection in connections:
        for _ in range(3):
            connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 2")
    for connection in connections:
        connection.commit()
        connection.close()
    for sp in shop.sps:
        wait_for_row(sp, "SELECT 1 FROM item WHERE id = 2 AND stock = %s", (STOCK - 9,))


def test_workers_at_two_sps(shop: LocalCluster) -> None:
    """A value is merged at one SP while the other adds records or amounts: one of them is aborted."""
    one, two = shop.sps[:2]
    for statement in (
        "SELECT psp_mrv.adjust(1, '{3}', 4)",
        "UPDATE item SET stock = stock + 5 WHERE id = 3",
        "SELECT psp_mrv.balance(1, '{3}', 'all')",
    ):
        with (
            psycopg.connect(one.admin_dsn) as merger,
            psycopg.connect(two.admin_dsn) as other,
        ):
            merger.execute("SELECT psp_mrv.adjust(1, '{3}', -100)")
            other.execute("UPDATE item SET stock = stock + 1 WHERE id = 3")
            other.execute(statement.encode())
            merger.commit()
            with pytest.raises(psycopg.errors.SerializationFailure):
                other.commit()
        verify.wait_drained(shop)
        assert execute(two, "SELECT stock FROM item WHERE id = 3") == [(STOCK,)]
        with psycopg.connect(one.admin_dsn) as splitter:
            splitter.execute("SELECT psp_mrv.adjust(1, '{3}', 3)")
        verify.wait_drained(shop)
    check(shop, 3, STOCK)


# ---- outcomes that the daemons tell ---------------------------------------------------------------


def _take_one_each(first: psycopg.Connection[Any], second: psycopg.Connection[Any]) -> int:
    """Both take a piece of item 4 in open transactions, then commit; how many pieces are gone."""
    taken = 0
    for connection in (first, second):
        connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 4")
    for connection in (first, second):
        try:
            connection.commit()
            taken += 1
        except psycopg.errors.SerializationFailure:  # against the other one, or against a worker
            connection.rollback()
    return taken


OWN_RECORDS: LiteralString = """
SELECT count(*) FROM psp_mrv.item_stock
 WHERE id = 4 AND rk >= current_setting('psp_mrv.ring_first')::integer
   AND rk < current_setting('psp_mrv.ring_first')::integer + current_setting('psp_mrv.ring_count')::integer
"""


def test_aborts_that_the_daemons_know_split_a_value(shop: LocalCluster) -> None:
    """No application reports anything, and nobody looks for locks: each SP's aborts come from its daemon."""
    one, two = shop.sps[:2]
    with psycopg.connect(one.admin_dsn) as connection:
        connection.execute("SELECT psp_mrv.adjust(1, '{4}', -100)")
    verify.wait_drained(shop)
    taken = 0
    with (
        workers(shop, lock_sample_interval_ms=0, aborts_min=1),
        connect(one) as at_one,
        connect(two) as at_two,
    ):

        def both_have_their_own() -> bool:
            nonlocal taken
            if taken < STOCK - 10:
                taken += _take_one_each(at_one, at_two) + _take_one_each(at_two, at_one)
            return all(execute(sp, OWN_RECORDS)[0][0] > 0 for sp in (one, two))

        wait_until("records for each SP", both_have_their_own, WAIT_S)
    check(shop, 4, STOCK - taken)


def test_nothing_is_told_where_nobody_takes_it(shop: LocalCluster) -> None:
    """Without a psp-mrv, reports would only pile up."""
    one = shop.sps[0]
    split(shop, 5)
    outcomes: LiteralString = "SELECT column_id, key, sum(aborts) FROM psp_mrv.outcomes GROUP BY 1, 2"
    session = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'psp mrv reporter'"
    with psycopg.connect(one.admin_dsn, autocommit=True) as watch:
        watch.execute("DELETE FROM psp_mrv.outcomes")

        def reporter_is_there() -> bool:
            execute(one, "UPDATE item SET stock = stock + 1 WHERE id = 5")
            return watch.execute(session).fetchone() is not None

        wait_until("the daemon's first report", reporter_is_there, WAIT_S)
        assert watch.execute(outcomes).fetchall() == []
        watch.execute("SELECT pg_advisory_lock(hashtextextended('psp-mrv', 0))")  # as if it were served

        def told() -> bool:
            execute(one, "UPDATE item SET stock = stock + 1 WHERE id = 5")
            return (1, ["5"], 0) in watch.execute(outcomes).fetchall()

        wait_until("a report", told, WAIT_S)


# ---- the bound ------------------------------------------------------------------------------------


def _sell(sp: SpNode, amount: int, sold: list[int]) -> None:
    """Takes pieces of item 6 until there are none; the bound, and nothing else, may refuse it."""
    with connect(sp, autocommit=True) as connection:
        while True:
            amount = amount % 5 + 1
            try:
                connection.execute("UPDATE item SET stock = stock - %s WHERE id = 6", (amount,))
                sold.append(amount)
            except (
                psycopg.errors.SerializationFailure,
                psycopg.errors.DeadlockDetected,
            ):
                continue  # a deadlock with rows that arrive
            except psycopg.errors.CheckViolation as error:
                assert error.diag.constraint_name == "item_stock_check"
                if amount == 1:
                    return


def _read(sp: SpNode, stop: threading.Event, seen: list[int]) -> None:
    """Each snapshot: within the bounds, in each record, too; and what is only taken from never grows."""
    with connect(sp) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        while not stop.is_set():
            row = connection.execute(
                "SELECT stock, (SELECT coalesce(min(v), 0) FROM psp_mrv.item_stock) FROM item WHERE id = 6"
            ).fetchone()
            connection.rollback()
            assert row is not None
            assert 0 <= row[0] <= (seen[-1] if seen else STOCK)
            assert row[1] >= 0
            seen.append(row[0])


def test_the_bound_holds_in_each_snapshot_of_each_sp(shop: LocalCluster) -> None:
    """Everything is sold at three SPs at once, the last pieces from several records at a time."""
    split(shop, 6)
    stop = threading.Event()
    sold: list[list[int]] = []
    seen: list[list[int]] = []

    def sell(sp: SpNode, number: int) -> Callable[[], None]:
        mine: list[int] = []
        sold.append(mine)
        return lambda: _sell(sp, number, mine)

    def read(sp: SpNode) -> Callable[[], None]:
        mine: list[int] = []
        seen.append(mine)
        return lambda: _read(sp, stop, mine)

    with workers(shop, balance_interval_ms=20), running(*map(read, shop.sps)):
        try:
            with running(*(sell(sp, number) for sp in shop.sps for number in range(3))):
                pass
            verify.wait_drained(shop)
        finally:
            stop.set()
    assert sum(map(sum, sold)) == STOCK
    assert all(seen)
    check(shop, 6, 0)


# ---- changes of MRVs that a superuser has made before adoption ------------------------------------


def _do_what_it_says(cluster: LocalCluster, error: PspError) -> None:
    assert error.hint is not None
    for sp in cluster.sps:
        for statement in error.hint.partition(": ")[2].split("; "):
            with psycopg.connect(as_admin(sp).dsn, autocommit=True) as connection:
                connection.execute(sql.SQL(statement))


def test_the_command_says_which_rights_the_owner_lacks(shop: LocalCluster) -> None:
    one, two, three = shop.sps
    for reason in ("may not change the schema", "which another role has made"):
        with pytest.raises(PspError, match=reason) as refused:
            alter(one.dsn, "item.stock", None, 100, 60, print)
        _do_what_it_says(shop, refused.value)
    alter(one.dsn, "item.stock", None, 100, 60, print)
    execute(two, "CREATE TABLE seat (id int PRIMARY KEY, free int)")
    execute(two, "INSERT INTO seat VALUES (1, 10)")
    create(two.dsn, "seat.free", Options(records=2), print)
    verify.wait_drained(shop)
    execute(three, "UPDATE seat SET free = free - 1")
    verify.wait_drained(shop)
    drop(one.dsn, "seat.free", 60, print)
    assert verify.verify(shop).consistent
    for sp in shop.sps:
        assert execute(sp, "SELECT free FROM seat") == [(9,)]
        assert execute(as_admin(sp), "SELECT nr_max FROM psp_mrv.columns") == [(100,)]
