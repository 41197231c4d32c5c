"""psp.notify: a NOTIFY that reaches the clients of all semi-primaries."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.paths import server_version
from psp.waiting import wait_until

from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    applying_paused,
    as_admin,
    connect,
    execute,
    raises,
    settle,
)

SCHEMA = "CREATE TABLE job (id int PRIMARY KEY);"
SHORT_QUEUE = server_version() >= 17  # before, PostgreSQL's has 8 GB
OPTIONS = Options(pg_settings={"max_notify_queue_pages": "64"}) if SHORT_QUEUE else None
Session = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def adopted() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], OPTIONS) as cluster:
        yield cluster


@pytest.fixture
def pair(adopted: LocalCluster) -> LocalCluster:
    settle(adopted)
    return adopted


@pytest.fixture
def listeners(pair: LocalCluster) -> Iterator[list[Session]]:
    """One at each semi-primary."""
    with connect(pair.sps[0], autocommit=True) as north, connect(pair.sps[1], autocommit=True) as south:
        for session in (north, south):
            session.execute("LISTEN jobs")
        yield [north, south]


def heard(listeners: list[Session]) -> list[list[str]]:
    """What has come at each. The listeners must have a notification `end` to wait for."""
    told = []
    for session in listeners:
        payloads = []
        for notification in session.notifies(timeout=WAIT_S):
            if notification.payload == "end":
                break
            payloads.append(notification.payload)
        told.append(payloads)
    return told


def send(sp: SpNode, *payloads: str) -> None:
    """In a transaction each."""
    with connect(sp, autocommit=True) as connection:
        for payload in payloads:
            connection.execute("SELECT psp.notify('jobs', %s)", [payload])


def test_clients_everywhere_hear_it_in_order_and_once(pair: LocalCluster, listeners: list[Session]) -> None:
    expected = [str(n) for n in range(100)]
    send(pair.sps[0], *expected, "end")
    assert heard(listeners) == [expected, expected]


def test_it_comes_with_its_transaction(pair: LocalCluster, listeners: list[Session]) -> None:
    """Who hears of a row finds it."""
    first, second = pair.sps
    with connect(first) as connection:
        connection.execute("INSERT INTO job VALUES (1)")
        connection.execute("SELECT psp.notify('jobs', '1'), psp.notify('others', 'x')")
        connection.rollback()
        connection.execute("INSERT INTO job VALUES (2)")
        connection.execute("SELECT psp.notify('jobs', 'end')")
        connection.commit()
    assert heard(listeners) == [[], []]
    assert execute(second, "SELECT id FROM job") == [(2,)]


def test_one_that_says_the_same_again_is_another_one(pair: LocalCluster, listeners: list[Session]) -> None:
    """PostgreSQL gives equal ones of one transaction once; rows that arrive together are one."""
    for _ in range(3):
        send(pair.sps[1], "again")
        settle(pair)
    send(pair.sps[1], "end")
    assert heard(listeners) == [["again"] * 3] * 2


def test_a_transaction_that_loses_tells_nobody(pair: LocalCluster, listeners: list[Session]) -> None:
    first, second = pair.sps
    execute(first, "INSERT INTO job VALUES (3)")
    settle(pair)
    with applying_paused(second), connect(second) as connection:
        execute(first, "DELETE FROM job WHERE id = 3")
        connection.execute("SELECT psp.notify('jobs', 'lost')")
        with raises("40001"):
            connection.execute("DELETE FROM job WHERE id = 3")
            connection.commit()
    send(first, "end")
    assert heard(listeners) == [[], []]


def test_what_is_too_long_is_refused_before_commit(pair: LocalCluster) -> None:
    with connect(pair.sps[0]) as connection:
        for channel, payload in (("jobs", "x" * 8000), ("j" * 64, ""), ("", "")):
            with raises("22023"):
                connection.execute("SELECT psp.notify(%s, %s)", [channel, payload])
            connection.rollback()


def test_it_is_psps_own_table(pair: LocalCluster) -> None:
    with connect(as_admin(pair.sps[0]), autocommit=True) as admin:
        for statement in (
            "INSERT INTO psp.notifications VALUES (1, 1, 1, 'jobs', '')",
            "DELETE FROM psp.notifications",
            "TRUNCATE psp.notifications",
        ):
            with raises("0A000", "42501", "55000"):
                admin.execute(statement)
    with connect(pair.sps[0]) as connection, raises("42501"):
        connection.execute("SELECT FROM psp.notifications")


@pytest.mark.skipif(not SHORT_QUEUE, reason="the queue of older versions has 8 GB")
def test_who_listens_and_sleeps_stops_no_stream(pair: LocalCluster) -> None:
    """They are dropped there and counted; where they are sent, the statement fails."""
    first, second = pair.sps
    with connect(second) as sleeper:
        sleeper.execute("LISTEN jobs")
        sleeper.commit()
        sleeper.execute("SELECT 1")
        for _ in range(2):  # what is applied together fills the queue together
            send(first, *(f"{n}{'x' * 7000}" for n in range(45)))
            settle(pair)
        execute(first, "INSERT INTO job VALUES (4)")
        settle(pair)
        assert execute(second, "SELECT id FROM job WHERE id = 4") == [(4,)]
        with raises("54000"):
            send(second, "y")
        warning = "SELECT warnings FROM psp.status WHERE warnings ~ 'notifications were not given'"
        wait_until("a warning", lambda: bool(execute(second, warning)), WAIT_S)
        assert sleeper.execute("SELECT 1").fetchone() == (1,)
    send(second, "awake")
