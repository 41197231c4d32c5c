"""Two transactions at two SPs that rely on what they only read, or on an advisory lock."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import (
    APPLY_WORKER,
    SERIALIZATION_FAILURE,
    WAIT_S,
    adopted_pair,
    connect,
    execute,
    raises,
    wait_for_row,
    waiting,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE doctor (name text PRIMARY KEY, on_call boolean NOT NULL);
CREATE TABLE note (id int PRIMARY KEY, v int);
CREATE TABLE shift (id int PRIMARY KEY, v int,
                    doctor text CONSTRAINT of_doctor REFERENCES doctor ON DELETE CASCADE);
"""
ON_CALL: LiteralString = "SELECT count(*) FROM doctor WHERE on_call"
OFF_CALL: LiteralString = "UPDATE doctor SET on_call = false WHERE name = %s"
ROWS: LiteralString = "SELECT psp.certify_read('doctor', name) FROM doctor WHERE on_call"
SHIFTS: LiteralString = "SELECT psp.certify_read_referrers('shift', 'of_doctor', 'ann')"
TABLE: LiteralString = "SELECT psp.certify_read_table('doctor')"
NOTHING: LiteralString = "SELECT 1"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Two doctors on call, seen by both SPs."""
    north, south = shared_pair.sps
    execute(north, "DELETE FROM note")
    execute(north, "DELETE FROM doctor")
    execute(north, "INSERT INTO doctor VALUES ('ann', true), ('bob', true)")
    verify.wait_drained(shared_pair)
    assert execute(south, ON_CALL) == [(2,)]
    yield shared_pair
    assert verify.verify(shared_pair, WAIT_S).consistent


def snapshot(connection: psycopg.Connection[tuple[object, ...]], *statements: LiteralString) -> None:
    """Begins a transaction."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    for statement in statements:
        connection.execute(statement)


def check_reader(
    pair: LocalCluster, certify: LiteralString, change: LiteralString, conflicts: bool = True
) -> None:
    """A transaction at north reads, and south changes something: it loses if that is what it has read."""
    north, south = pair.sps
    with connect(north) as reader:
        snapshot(reader, certify, "INSERT INTO note VALUES (1, 1)")
        execute(south, change)
        with raises(SERIALIZATION_FAILURE) if conflicts else nullcontext():
            reader.commit()


@pytest.mark.parametrize(
    ("certify", "left"), [(NOTHING, 0), (ROWS, 1), (TABLE, 1)], ids=["broken", "rows", "table"]
)
def test_two_doctors(pair: LocalCluster, certify: LiteralString, left: int) -> None:
    """Each goes, as there is another one on call. Without a certified read nobody is left."""
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        for connection, name in ((first, "ann"), (second, "bob")):
            snapshot(connection, ON_CALL, certify)
            connection.execute(OFF_CALL, (name,))
        first.commit()
        if left == 0:
            second.commit()
        else:
            with raises(SERIALIZATION_FAILURE) as caught:
                second.commit()
            assert "doctor" in (caught[0].diag.message_detail or "")
    verify.wait_drained(pair)
    for sp in pair.sps:
        assert execute(sp, ON_CALL) == [(left,)]


def test_a_transaction_that_only_reads_is_certified_when_it_says_so(pair: LocalCluster) -> None:
    """It has uses and no rows."""
    north, south = pair.sps
    with connect(north) as reader:
        snapshot(reader, ROWS)
        execute(south, OFF_CALL, ("bob",))
        with raises(SERIALIZATION_FAILURE):
            reader.commit()
        verify.wait_drained(pair)
        snapshot(reader, ROWS)
        reader.commit()


def test_a_row_that_is_not_there(pair: LocalCluster) -> None:
    check_reader(
        pair, "SELECT psp.certify_read('doctor', 'cleo')", "INSERT INTO doctor VALUES ('cleo', true)"
    )
    verify.wait_drained(pair)
    check_reader(
        pair, "SELECT psp.certify_read('doctor', 'dan')", "INSERT INTO doctor VALUES ('eve', true)", False
    )


def test_a_new_row_of_a_table_that_was_read(pair: LocalCluster) -> None:
    check_reader(pair, TABLE, "INSERT INTO doctor VALUES ('cleo', true)")


CHANGES: list[tuple[str, LiteralString, bool]] = [
    ("a new one", "INSERT INTO shift VALUES (3, 0, 'ann')", True),
    ("one that comes from another key", "UPDATE shift SET doctor = 'ann' WHERE id = 2", True),
    ("a change of one", "UPDATE shift SET v = 1 WHERE id = 1", True),
    ("one that goes", "DELETE FROM shift WHERE id = 1", True),
    ("one that goes to another key", "UPDATE shift SET doctor = 'bob' WHERE id = 1", True),
    ("one of another key", "INSERT INTO shift VALUES (3, 0, 'bob')", False),
    ("a change of what they refer to", "UPDATE doctor SET on_call = false WHERE name = 'ann'", False),
]


@pytest.mark.parametrize(("change", "conflicts"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_all_rows_that_refer_to_a_key(pair: LocalCluster, change: LiteralString, conflicts: bool) -> None:
    execute(pair.sps[0], "INSERT INTO shift VALUES (1, 0, 'ann'), (2, 0, 'bob')")
    verify.wait_drained(pair)
    check_reader(pair, SHIFTS, change, conflicts)


def test_the_first_row_that_refers_to_a_key(pair: LocalCluster) -> None:
    check_reader(pair, SHIFTS, "INSERT INTO shift VALUES (1, 0, 'ann')")


def test_readers_do_not_disturb_each_other(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        snapshot(first, ROWS, TABLE, SHIFTS, "INSERT INTO note VALUES (3, 3)")
        snapshot(second, ROWS, TABLE, SHIFTS, "INSERT INTO note VALUES (4, 4)")
        first.commit()
        second.commit()


def test_an_advisory_lock_of_two_sps(pair: LocalCluster) -> None:
    north, south = pair.sps
    for isolation in (psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ):
        with connect(north) as first, connect(south) as second:
            first.isolation_level = second.isolation_level = isolation
            for connection in (first, second):
                connection.execute("SELECT psp.advisory_xact_lock(7)")
            first.commit()
            with raises(SERIALIZATION_FAILURE, "57P01", "57014"):
                second.commit()
        verify.wait_drained(pair)


def test_locks_of_other_keys_do_not_conflict(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        first.execute("SELECT psp.advisory_xact_lock(8)")
        second.execute("SELECT psp.advisory_xact_lock(9), pg_advisory_xact_lock(8)")
        first.commit()
        second.commit()


def test_rows_written_under_a_lock_wait_for_a_local_holder(pair: LocalCluster) -> None:
    """READ COMMITTED: it would see them in its next statement, and COMMIT as if it had always known them."""
    north, south = pair.sps
    with connect(north) as holder:
        holder.execute("SELECT psp.advisory_xact_lock(10)")
        assert holder.execute("SELECT count(*) FROM note").fetchone() == (0,)
        with connect(south) as other:
            other.execute("SELECT psp.advisory_xact_lock(10)")
            other.execute("INSERT INTO note VALUES (1, 1)")
        wait_until("the rows to wait", lambda: waiting(north, APPLY_WORKER, "advisory"), WAIT_S)
        holder.execute("INSERT INTO note SELECT 2, count(*) FROM note")
        with raises(SERIALIZATION_FAILURE, "57P01", "57014"):
            holder.commit()
    wait_for_row(north, "SELECT 1 FROM note WHERE id = 1")


def test_sessions_of_one_sp_wait_for_each_other(pair: LocalCluster) -> None:
    """And count without a conflict."""
    (north, _) = pair.sps
    execute(north, "INSERT INTO note VALUES (5, 0)")

    def count() -> None:
        with connect(north) as connection:
            for _ in range(10):
                connection.execute("SELECT psp.advisory_xact_lock(11)")
                value = connection.execute("SELECT v FROM note WHERE id = 5").fetchone()
                assert value is not None
                connection.execute("UPDATE note SET v = %s WHERE id = 5", (value[0] + 1,))
                connection.commit()

    with running(count, count, count):
        pass
    assert execute(north, "SELECT v FROM note WHERE id = 5") == [(30,)]
