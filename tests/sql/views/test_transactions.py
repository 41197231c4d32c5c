"""Views mode: statuses, a daemon's start, garbage, variants of the views (sql/views/README.md)."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors

from tests.sql.databases import Pair
from tests.sql.refusals import refused
from tests.sql.views.converted import (
    begin,
    begun,
    decide,
    ended,
    number,
    one,
    rows,
    write,
    write_set,
)


def status(pair: Pair, tx_id: UUID) -> str | None:
    found: str | None = one(pair, "SELECT psp.outcome(%s)::text", tx_id)
    return found


def crash(pair: Pair) -> None:
    """What PostgreSQL's recovery does to unlogged tables."""
    pair.run("TRUNCATE t_temp, psp.written, psp.temp_alive")


def test_a_committed_transaction_is_seen_by_others_when_it_is_applied(app: Pair) -> None:
    tx_id = ended(app, "UPDATE t SET v = 'two'", "INSERT INTO t VALUES (2, 'x')")
    assert status(app, tx_id) == "running"
    assert rows(app) == [(1, "one")]
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id) == "waiting"
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id) == "waiting"  # asked again
    assert one(app, "SELECT psp.apply(%s, 3)", tx_id)
    assert rows(app) == [(1, "two"), (2, "x")]
    assert status(app, tx_id) == "committed"
    assert one(app, "SELECT (psp.request_commit(%s)).global_t", tx_id) == 3  # the same answer again
    assert not one(app, "SELECT psp.apply(%s, 3)", tx_id)
    assert one(app, "SELECT count(*) FROM t_persistent WHERE global_t = 3") == 2
    assert one(app, "SELECT tx_id FROM psp.applied WHERE global_t = 3") == tx_id


def test_an_aborted_transaction_is_nowhere(app: Pair) -> None:
    tx_id = ended(app, "DELETE FROM t")
    assert one(app, "SELECT psp.abort(%s, 'conflict')::text", tx_id) == "aborted"
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id) == "aborted"
    assert not one(app, "SELECT psp.apply(%s, 3)", tx_id)
    assert rows(app) == [(1, "one")]


def test_a_finished_transaction_is_not_aborted(app: Pair) -> None:
    write(app, 3, "DELETE FROM t")
    tx_id = one(app, "SELECT tx_id FROM psp.transactions")
    assert one(app, "SELECT psp.abort(%s, 'late')::text", tx_id) == "committed"


def test_commit_request_while_the_transaction_is_open(app: Pair) -> None:
    with begun(app) as transaction:
        transaction.run("UPDATE t SET v = 'x'")
        with pytest.raises(errors.ActiveSqlTransaction):
            one(app, "SELECT (psp.request_commit(%s)).status::text", transaction.tx_id)
        transaction.connection.rollback()
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", transaction.tx_id) is None
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", uuid4()) is None


def test_a_write_without_begin_is_refused(app: Pair) -> None:
    for statement in ("INSERT INTO t VALUES (5)", "UPDATE t SET v = 'x'", "DELETE FROM t"):
        with app.connect() as connection, pytest.raises(errors.NoActiveSqlTransaction):
            connection.execute(statement.encode())
    with app.connect(autocommit=True) as connection:
        begin(connection)  # a transaction of its own, which ends at once
        with pytest.raises(errors.NoActiveSqlTransaction):
            connection.execute("DELETE FROM t")


def test_begin_twice_and_serializable(app: Pair) -> None:
    with app.connect() as connection:
        begin(connection)
        with pytest.raises(errors.ActiveSqlTransaction):
            begin(connection)
    with app.connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with refused():
            begin(connection)


def test_a_read_only_transaction(app: Pair) -> None:
    tx_id = ended(app, "SELECT * FROM t")
    one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id)
    assert write_set(app, tx_id) == []
    one(app, "SELECT psp.finish_read_only(%s)::text", tx_id)
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id) == "committed"


def test_a_rolled_back_savepoint_is_no_write(app: Pair) -> None:
    with begun(app) as transaction:
        transaction.run("UPDATE t SET v = 'kept'")
        transaction.run("SAVEPOINT s; DELETE FROM t; INSERT INTO t VALUES (8); ROLLBACK TO s")
        assert transaction.run("SELECT id, v FROM t") == [(1, "kept")]
    decide(app, transaction.tx_id, 2)
    assert rows(app) == [(1, "kept")]


def test_open_transactions_do_not_meet(app: Pair) -> None:
    """Two that write one row wait for nobody and see their own; the primary lets the first one through."""
    with begun(app) as first, begun(app) as second:
        for number, transaction in enumerate((first, second)):
            transaction.run(f"UPDATE t SET v = '{number}'; INSERT INTO t VALUES (2, '{number}')")
        assert first.run("SELECT v FROM t") == [("0",), ("0",)]
        assert second.run("SELECT v FROM t") == [("1",), ("1",)]
    decide(app, first.tx_id, 1)
    one(app, "SELECT psp.abort(%s, 'conflict')::text", second.tx_id)
    assert rows(app) == [(1, "0"), (2, "0")]


def test_newer_rows_stay(app: Pair) -> None:
    """What the replication worker has brought under a larger global_t is not undone."""
    tx_id = ended(app, "UPDATE t SET v = 'older'")
    app.run("UPDATE t_persistent SET v = 'newer', global_t = 8")
    decide(app, tx_id, 7)
    assert rows(app) == [(1, "newer")]


def test_the_snapshot_of_begin(app: Pair) -> None:
    app.run("INSERT INTO psp.watermarks VALUES (4)")
    write(app, 6, "UPDATE t SET v = 'x'")
    tx_id = ended(app, "UPDATE t SET v = 'y'")
    with app.connect() as connection:
        row = connection.execute("SELECT watermark, seen FROM psp.transactions WHERE tx_id = %s", (tx_id,))
        assert row.fetchone() == (4, [6])


# ---- garbage ----------------------------------------------------------------------------------------------


ALL = "9000000000000000000"
"""A number above those of all transactions."""


def collect(pair: Pair, begun_before: str = "0") -> int:
    removed: int = one(pair, "SELECT psp.collect_garbage(%s::xid8)", begun_before)
    return removed


def test_garbage_of_finished_transactions_only(app: Pair) -> None:
    running = ended(app, "INSERT INTO t VALUES (2, 'a')")
    waiting = ended(app, "INSERT INTO t VALUES (3, 'b')")
    one(app, "SELECT (psp.request_commit(%s)).status::text", waiting)
    write(app, 4, "INSERT INTO t VALUES (4, 'c')")
    with begun(app) as transaction:  # still open
        transaction.run("INSERT INTO t VALUES (5, 'd')")
        assert collect(app) == 1
        assert one(app, "SELECT count(*) FROM t_temp") == 2
    assert collect(app, ALL) == 2  # nobody asks for those that run any more
    assert (status(app, running), status(app, transaction.tx_id)) == ("aborted", "aborted")
    assert one(app, "SELECT id FROM t_temp") == 3


def test_what_a_savepoint_takes_back_is_written_again(app: Pair) -> None:
    """The note of which tables a transaction has written goes and comes with the rows."""
    with begun(app) as transaction:
        transaction.run("SAVEPOINT s")
        transaction.run("INSERT INTO t VALUES (2, 'taken back')")
        transaction.run("ROLLBACK TO s")
        transaction.run("WITH x AS (INSERT INTO t VALUES (3, 'c') RETURNING id) SELECT id FROM x")
        transaction.run("UPDATE t SET v = 'again' WHERE id = 3")
    assert write_set(app, transaction.tx_id) == [(1, number(3), 0, False, True)]
    assert one(app, "SELECT count(*) FROM psp.written") == 1


def test_the_note_of_written_tables_goes_with_the_rows(app: Pair) -> None:
    write(app, 4, "INSERT INTO t VALUES (2, 'a')")
    undecided = ended(app, "INSERT INTO t VALUES (3, 'b')")
    collect(app)
    assert one(app, "SELECT count(*) FROM psp.written") == 1
    assert write_set(app, undecided) == [(1, number(3), 0, False, True)]


def test_garbage_of_a_transaction_nobody_knows(app: Pair) -> None:
    with app.connect() as connection:
        connection.execute("SET psp.tx_id = 'forged'")
        connection.execute("DELETE FROM t")
    assert collect(app) == 1
    assert rows(app) == [(1, "one")]


def test_born_and_deleted_is_not_applied_over_anothers_row(app: Pair) -> None:
    with begun(app) as transaction:
        transaction.run("INSERT INTO t VALUES (2, 'mine')")
        transaction.run("DELETE FROM t WHERE id = 2")
        transaction.run("INSERT INTO t VALUES (3, 'c')")
    assert write_set(app, transaction.tx_id) == [(1, number(3), 0, False, True)]
    write(app, 4, "INSERT INTO t VALUES (2, 'theirs')")
    decide(app, transaction.tx_id, 5)
    assert rows(app) == [(1, "one"), (2, "theirs"), (3, "c")]


def test_a_row_that_is_deleted_meanwhile_is_told_to_the_primary(app: Pair) -> None:
    """Of a row from before the conversion no version is known, and its tombstone may be gone."""
    twice = ended(app, "DELETE FROM t")
    write(app, 4, "DELETE FROM t")
    with app.connect() as connection:
        connection.execute("DELETE FROM t_persistent")
    assert write_set(app, twice) == [(1, number(1), 0, True, False)]


def test_tombstones_go_when_nothing_older_can_meet_them(app: Pair) -> None:
    def tombstones_after(watermark: int) -> int:
        with app.connect() as connection:
            connection.execute("DELETE FROM psp.watermarks")
            connection.execute("INSERT INTO psp.watermarks VALUES (%s)", (watermark,))
        collect(app)
        count: int = one(app, "SELECT count(*) FROM t_persistent WHERE deleted")
        return count

    older = ended(app, "INSERT INTO t VALUES (2, 'a')")
    write(app, 4, "DELETE FROM t")
    assert tombstones_after(9) == 1  # of what is undecided nobody knows whether it is older
    decide(app, older, 5)
    assert tombstones_after(3) == 1  # an older write may still come from the primary
    with app.connect() as connection:
        connection.execute(
            "INSERT INTO psp.identity "
            "(cluster_id, sp_id, name, token, hook_conninfo, slots, last_number, joining) "
            "VALUES (gen_random_uuid(), 1, '', '', '', 64, 0, true)"
        )
    assert tombstones_after(4) == 1  # or from the copy
    with app.connect() as connection:
        connection.execute("UPDATE psp.identity SET joining = false")
    assert tombstones_after(4) == 0
    write(app, 6, "INSERT INTO t VALUES (1, 'again')")
    assert rows(app) == [(1, "again"), (2, "a")]


def test_finished_transactions_are_forgotten(app: Pair) -> None:
    write(app, 1, "UPDATE t SET v = 'x'")
    running = ended(app, "UPDATE t SET v = 'y'")
    assert one(app, "SELECT psp.forget(%s::xid8, '1 hour')", ALL) == 0
    assert one(app, "SELECT psp.forget('1', '0 s')") == 0  # the server's clock may have jumped
    assert one(app, "SELECT psp.forget(%s::xid8, '0 s')", ALL) == 1
    assert one(app, "SELECT tx_id FROM psp.transactions") == running


# ---- a daemon's start (Figure 3) --------------------------------------------------------------------------


def make_pending(pair: Pair) -> int:
    pending: int = one(pair, "SELECT psp.make_pending()")
    return pending


def test_a_restarted_daemon(app: Pair) -> None:
    running, waiting = ended(app, "DELETE FROM t"), ended(app, "UPDATE t SET v = 'x'")
    one(app, "SELECT (psp.request_commit(%s)).status::text", waiting)
    assert make_pending(app) == 1
    assert (status(app, running), status(app, waiting)) == ("running", "pending")
    assert one(app, "SELECT (psp.request_commit(%s)).status::text", waiting) == "pending"
    one(app, "SELECT psp.resolve(%s, 8)::text", waiting)
    assert status(app, waiting) == "committed"
    decide(app, running, 9)


def test_a_crashed_postgresql(app: Pair) -> None:
    running, waiting, lost = (ended(app, f"UPDATE t SET v = '{n}'") for n in range(3))
    for tx_id in (waiting, lost):
        one(app, "SELECT (psp.request_commit(%s)).status::text", tx_id)
    crash(app)
    with app.connect() as connection, pytest.raises(errors.CannotConnectNow):
        begin(connection)  # not before the daemon has begun
    assert not one(app, "SELECT psp.apply(%s, 3)", waiting)  # what it wrote is not there any more
    assert (
        make_pending(app) == 3
    )  # of a running one the crash may have taken back that its commit was requested
    assert [status(app, tx) for tx in (running, waiting, lost)] == ["pending"] * 3
    one(app, "SELECT psp.resolve(%s, 8)::text", waiting)
    for tx_id in (running, lost):
        one(app, "SELECT psp.abort(%s, 'lost')::text", tx_id)
    assert [status(app, tx) for tx in (running, waiting, lost)] == ["aborted", "committed", "aborted"]
    one(app, "SELECT psp.resolve(%s, 8)::text", lost)  # a late word changes nothing
    assert status(app, lost) == "aborted"
    write(app, 9, "UPDATE t SET v = 'goes on'")
    assert rows(app) == [(1, "goes on")]


# ---- variants of the views --------------------------------------------------------------------------------


def test_variants_are_switched_inside_a_transaction(app: Pair) -> None:
    with begun(app) as transaction:
        transaction.connection.execute("PREPARE q AS SELECT v FROM t")
        transaction.run("UPDATE t SET v = 'mine'")
        found = {}
        for variant in ("union", "fulljoin", "nryotw", "union"):
            transaction.connection.execute("SELECT psp.select_variant(%s, true)", (variant,))
            found[variant] = (transaction.run("SELECT v FROM t"), transaction.run("EXECUTE q"))
        transaction.connection.execute("SELECT psp.select_variant('nryotw', true)")
        transaction.connection.commit()
        assert transaction.run("SHOW search_path") == [('"$user", public',)]
    mine, others = [("mine",)], [("one",)]
    assert found == {"union": (mine, mine), "fulljoin": (mine, mine), "nryotw": (others, others)}


def test_the_mode_of_a_session(app: Pair) -> None:
    with app.connect() as connection:
        connection.execute("SET search_path = 'a b', public, pg_temp")
        connection.execute("SELECT psp.select_variant('fulljoin'), psp.select_variant('fulljoin')")
        connection.commit()
        shown = connection.execute("SHOW search_path").fetchone()
        assert shown == ('"a b", public_fulljoin, public, pg_temp',)
        connection.execute("SELECT psp.select_variant('union')")
        assert connection.execute("SHOW search_path").fetchone() == ('"a b", public, pg_temp',)
        with pytest.raises(errors.InvalidParameterValue):
            connection.execute("SELECT psp.select_variant('fast')")
