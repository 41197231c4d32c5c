"""Exclusion constraints: of two transactions at two SPs that exclude each other exactly one commits."""

from collections.abc import Iterator
from typing import LiteralString

import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Zone
from psp.waiting import wait_until

from tests.cluster.commit.test_conflicts import assert_one_winner, race
from tests.cluster.schema_changes.statements import allow_ddl, ddl
from tests.cluster.support import (
    APPLY_WORKER,
    SERIALIZATION_FAILURE,
    WAIT_S,
    adopted_pair,
    connect,
    execute,
    paused,
    raises,
    wait_for_row,
    waiting,
)

SCHEMA = """
CREATE EXTENSION btree_gist;
CREATE TABLE booking (id serial PRIMARY KEY, room text NOT NULL, during tstzrange NOT NULL, who text,
                      EXCLUDE USING gist (room WITH =, during WITH &&));
CREATE TABLE swap (id int PRIMARY KEY, room int, during int4range,
                   EXCLUDE USING gist (room WITH =, during WITH &&) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE period (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
CREATE TABLE plain (id int PRIMARY KEY, during int4range);
"""
BOOK: LiteralString = "INSERT INTO booking (room, during, who) VALUES (%s, tstzrange(%s, %s), %s)"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_pair
    assert verify.verify(shared_pair, WAIT_S).consistent


def test_two_bookings_that_overlap(pair: LocalCluster) -> None:
    """Neither SP knows of the other's when it checks the constraint."""
    for day in range(1, 6):
        times = [
            ("blue", f"2030-01-0{day} 10:00", f"2030-01-0{day} 12:00", "ann"),
            ("blue", f"2030-01-0{day} 11:00", f"2030-01-0{day} 13:00", "bob"),
        ]
        _, losers = assert_one_winner(pair.sps, race(pair.sps, BOOK, times))
        assert "booking_room_during_excl" in (losers[0].diag.message_detail or "")
    verify.wait_drained(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT count(*) FROM booking WHERE room = 'blue'") == [(5,)]


def test_other_rooms_do_not_conflict(pair: LocalCluster) -> None:
    times = [(room, "2030-02-01 10:00", "2030-02-01 12:00", "ann") for room in ("red", "green")]
    assert race(pair.sps, BOOK, times) == [None, None]


def test_a_booking_that_is_moved_meets_a_new_one(pair: LocalCluster) -> None:
    """The UPDATE does not change the column that is compared by equality."""
    north, south = pair.sps
    execute(north, BOOK, ("yellow", "2030-03-01 10:00", "2030-03-01 12:00", "ann"))
    wait_for_row(south, "SELECT 1 FROM booking WHERE room = 'yellow'")
    with connect(north) as first, connect(south) as second:
        first.execute(
            "UPDATE booking SET during = tstzrange('2030-03-01 12:00', '2030-03-01 14:00') "
            "WHERE room = 'yellow'"
        )
        second.execute(BOOK, ("yellow", "2030-03-01 13:00", "2030-03-01 15:00", "bob"))
        second.commit()
        with raises(SERIALIZATION_FAILURE):
            first.commit()


def test_without_an_equality_the_whole_table_is_one_key(pair: LocalCluster) -> None:
    outcomes = race(
        pair.sps,
        "INSERT INTO period VALUES (%s, int4range(%s, %s))",
        [(1, 1, 5), (2, 4, 8)],
    )
    assert_one_winner(pair.sps, outcomes)


def test_places_that_change_hands_in_one_batch(pair: LocalCluster) -> None:
    """The replica's index checks each insertion. What comes while the daemon is stopped is one batch."""
    north, south = pair.sps
    execute(north, BOOK, ("hall", "2030-04-01 10:00", "2030-04-01 14:00", "ann"))
    execute(north, BOOK, ("hall", "2030-04-01 14:00", "2030-04-01 16:00", "bob"))
    wait_for_row(south, "SELECT 1 FROM booking WHERE room = 'hall' AND who = 'bob'")
    with paused(pair, "south"):
        execute(
            north,
            "UPDATE booking SET during = tstzrange('2030-04-01 10:00', '2030-04-01 11:00') "
            "WHERE room = 'hall' AND who = 'ann'",
        )
        execute(north, BOOK, ("hall", "2030-04-01 11:00", "2030-04-01 14:00", "cleo"))
        execute(north, "DELETE FROM booking WHERE room = 'hall' AND who = 'bob'")
        execute(
            north,
            "UPDATE booking SET during = tstzrange('2030-04-01 14:00', '2030-04-01 16:00') "
            "WHERE room = 'hall' AND who = 'ann'",
        )
        execute(north, BOOK, ("hall", "2030-04-01 10:00", "2030-04-01 11:00", "dan"))
        with connect(north) as connection:  # there and back in one transaction
            connection.execute("UPDATE booking SET room = 'aside' WHERE who = 'cleo'")
            connection.execute(BOOK, ("hall", "2030-04-01 12:00", "2030-04-01 13:00", "eve"))
            connection.execute("DELETE FROM booking WHERE who = 'eve'")
            connection.execute("UPDATE booking SET room = 'hall' WHERE who = 'cleo'")
    wait_for_row(south, "SELECT 1 FROM booking WHERE room = 'hall' AND who = 'dan'")


def test_several_rows_swap_their_places(pair: LocalCluster) -> None:
    north, _ = pair.sps
    execute(
        north,
        "INSERT INTO swap SELECT n, 1, int4range(n, n + 1) FROM generate_series(1, 12) n",
    )
    mirror: LiteralString = (
        "UPDATE swap SET during = int4range(13 - lower(during), 14 - lower(during)) WHERE room = 1"
    )
    rotate: LiteralString = (
        "UPDATE swap SET during = int4range(lower(during) % 12 + 1, lower(during) % 12 + 2) WHERE room = 1"
    )
    for statement in (mirror, rotate, mirror):
        execute(north, statement)
    with paused(pair, "south"):
        for statement in (mirror, rotate, rotate):
            execute(north, statement)


def test_another_servers_row_waits_for_a_local_one_that_is_deferred(
    pair: LocalCluster,
) -> None:
    """The local transaction has not checked yet. It loses, and its row is gone before the other one comes."""
    north, south = pair.sps
    with connect(north) as local:
        local.execute("INSERT INTO swap VALUES (100, 50, '[1,5)')")
        execute(south, "INSERT INTO swap VALUES (101, 50, '[4,9)')")
        wait_until(
            "the other server's row to wait",
            lambda: waiting(north, APPLY_WORKER),
            WAIT_S,
        )
        with raises(SERIALIZATION_FAILURE, "57P01", "57014"):
            local.commit()
    wait_for_row(north, "SELECT 1 FROM swap WHERE id = 101")


def test_a_constraint_that_comes_and_goes(pair: LocalCluster) -> None:
    north, south = pair.sps
    for sp in pair.sps:
        allow_ddl(sp)
    with connect(south) as writer:
        writer.execute("INSERT INTO plain VALUES (1, '[1,5)')")  # under the older definition
        ddl(
            north,
            "ALTER TABLE plain ADD CONSTRAINT apart EXCLUDE USING gist (during WITH &&)",
        )
        with raises(SERIALIZATION_FAILURE, "57P01"):
            writer.commit()
    wait_for_row(south, "SELECT 1 FROM pg_constraint WHERE conname = 'apart'")
    outcomes = race(
        pair.sps,
        "INSERT INTO plain VALUES (%s, int4range(%s, %s))",
        [(1, 1, 5), (2, 4, 8)],
    )
    assert_one_winner(pair.sps, outcomes)
    ddl(
        south,
        "ALTER TABLE plain DROP CONSTRAINT apart",
        "CREATE TABLE newer (id int PRIMARY KEY, v int, EXCLUDE USING gist (v WITH =))",
    )
    wait_for_row(north, "SELECT 1 WHERE to_regclass('newer') IS NOT NULL")
    verify.wait_drained(pair)
    outcomes = race(
        pair.sps,
        "INSERT INTO plain VALUES (%s, int4range(%s, %s))",
        [(3, 1, 5), (4, 4, 8)],
    )
    assert outcomes == [None, None]
    outcomes = race(pair.sps, "INSERT INTO newer VALUES (%s, %s)", [(1, 7), (2, 7)])
    assert_one_winner(pair.sps, outcomes)


def test_a_server_that_joins(shared_pair: LocalCluster) -> None:
    joined = growth.join(shared_pair, Zone("east"))
    sps = [shared_pair.sps[0], joined]
    times = [("attic", f"2030-05-01 1{n}:00", "2030-05-01 13:00", "ann") for n in range(2)]
    assert_one_winner(sps, race(sps, BOOK, times))
    assert verify.verify(shared_pair, WAIT_S).consistent
