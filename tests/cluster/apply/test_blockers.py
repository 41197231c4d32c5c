"""Local transactions in the way of the apply worker: which are ended, which are not, and with which error."""

import threading
from contextlib import suppress

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until

from tests.cluster.support import (
    APPLY_WORKER,
    OUTCOME_UNKNOWN,
    SERIALIZATION_FAILURE,
    WAIT_S,
    connect,
    execute,
    paused,
    raises,
    wait_for_row,
    waiting,
)

SESSION_ENDED = "57P01"
# The daemon may cancel who is in the way (docs/errors.md) before PostgreSQL has seen the deadlock.
ASKS_FOR_RETRY = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.QueryCanceled,
)


def make_accounts(cluster: LocalCluster, *ids: int) -> None:
    """Accounts that every SP has."""
    for id_ in ids:
        execute(cluster.sps[0], "INSERT INTO account VALUES (%s, 'blocked', NULL)", (id_,))
    for sp in cluster.sps:
        wait_for_row(sp, "SELECT 1 FROM account WHERE id = %s", (ids[-1],))


def wait_for_lock(sp: SpNode, application: str, sessions: int = 1) -> None:
    """Waits until that many sessions of that name wait for a lock."""
    wait_until(
        f"{sessions} times {application} to wait for a lock",
        lambda: waiting(sp, application) == sessions,
        WAIT_S,
    )


class Chained(threading.Thread):
    """Has written row `holds`; its thread writes row `wants` and commits, and remembers how that ended."""

    NAME = "chained"

    def __init__(self, sp: SpNode, holds: int, wants: int) -> None:
        super().__init__(name=self.NAME)
        self._connection = connect(sp, application_name=self.NAME)
        self._connection.execute("UPDATE account SET balance = 1 WHERE id = %s", (holds,))
        self._wants = wants
        self._error: psycopg.Error | None = None

    def run(self) -> None:
        try:
            with self._connection as connection:
                connection.execute("UPDATE account SET balance = 1 WHERE id = %s", (self._wants,))
        except psycopg.Error as error:
            self._error = error

    def error(self) -> psycopg.Error | None:
        """How it ended; waits for that."""
        self.join(WAIT_S)
        assert not self.is_alive()
        return self._error


class LastThenFirst:
    """Clients that write the counters `last` and `first` in this order until the end of the block.

    They may fail with what asks for a retry alone."""

    NAME = "last then first"

    def __init__(self, sp: SpNode, clients: int) -> None:
        self._sp = sp
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, name=self.NAME) for _ in range(clients)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()
        wait_for_lock(self._sp, self.NAME, len(self._threads))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        assert self._failures == []

    def _run(self) -> None:
        try:
            with connect(self._sp, application_name=self.NAME) as connection:
                while not self._stop.is_set():
                    with suppress(*ASKS_FOR_RETRY), connection.transaction():
                        for name in ("last", "first"):
                            connection.execute("UPDATE counter SET value = 1 WHERE name = %s", (name,))
        except BaseException as error:
            self._failures.append(error)


def assert_told_to_retry(error: psycopg.Error | None) -> None:
    assert error is not None and error.sqlstate == SERIALIZATION_FAILURE, repr(error)


def test_a_session_that_is_in_the_way_of_the_apply_worker(cluster: LocalCluster) -> None:
    """Idle in transaction with a row lock: it is given a grace, then it must go; replication goes on."""
    blocked, other = cluster.sps[:2]
    make_accounts(cluster, 60)
    with connect(blocked) as idler:
        idler.execute("UPDATE account SET balance = 1 WHERE id = 60")
        execute(other, "UPDATE account SET balance = 2 WHERE id = 60")
        wait_for_row(blocked, "SELECT 1 FROM account WHERE id = 60 AND balance = 2")
        with pytest.raises(psycopg.Error):
            idler.commit()


def test_a_blocker_that_reaches_commit_is_told_to_retry(cluster: LocalCluster) -> None:
    blocked, other = cluster.sps[:2]
    make_accounts(cluster, 61)
    with connect(blocked) as writer:
        writer.execute("UPDATE account SET balance = 1 WHERE id = 61")
        execute(other, "UPDATE account SET balance = 2 WHERE id = 61")
        with raises(SERIALIZATION_FAILURE):
            writer.commit()
    wait_for_row(blocked, "SELECT 1 FROM account WHERE id = 61 AND balance = 2")


def test_who_waits_for_another_is_not_ended_in_its_place(cluster: LocalCluster) -> None:
    """The worker waits for B, B for A, and A idles: A is ended, and B is told to retry at its COMMIT."""
    blocked, other = cluster.sps[:2]
    make_accounts(cluster, 62, 63)
    with connect(blocked) as idler:
        idler.execute("UPDATE account SET balance = 1 WHERE id = 62")
        chained = Chained(blocked, holds=63, wants=62)
        chained.start()
        wait_for_lock(blocked, Chained.NAME)
        execute(other, "UPDATE account SET balance = 2 WHERE id = 63")
        assert_told_to_retry(chained.error())
        with raises(SESSION_ENDED):
            idler.execute("SELECT 1")
    wait_for_row(blocked, "SELECT 1 FROM account WHERE id = 63 AND balance = 2")


def test_who_waits_for_a_commit_is_not_ended(cluster: LocalCluster) -> None:
    """The worker waits for B, B for A, and A waits in its COMMIT, longer than the grace."""
    blocked, other = cluster.sps[:2]
    make_accounts(cluster, 64, 65)
    with connect(blocked) as committer:
        committer.execute("UPDATE account SET balance = 1 WHERE id = 64")
        chained = Chained(blocked, holds=65, wants=64)
        execute(other, "UPDATE account SET balance = 2 WHERE id = 65")
        wait_for_lock(blocked, APPLY_WORKER)
        with paused(cluster, PRIMARY):
            chained.start()
            with raises(OUTCOME_UNKNOWN) as caught:  # after commit_timeout_ms
                committer.commit()
            assert "has not answered" in str(caught[0])  # not: canceled
            assert_told_to_retry(chained.error())
    wait_for_row(blocked, "SELECT 1 FROM account WHERE id = 65 AND balance = 2")


def test_deadlocks_do_not_starve_the_apply_worker(cluster: LocalCluster) -> None:
    """Clients lock two rows in another order than a remote transaction, over and over.

    Whenever the worker has given way, the next is in its way. They are told to retry; it gets through."""
    blocked, other = cluster.sps[:2]
    for name in ("first", "last"):
        execute(other, "INSERT INTO counter VALUES (%s)", (name,))
    wait_for_row(blocked, "SELECT 1 FROM counter WHERE name = 'last'")
    gate = connect(blocked)
    gate.execute("UPDATE counter SET value = 1 WHERE name = 'first'")
    with connect(other) as remote:
        remote.execute("UPDATE counter SET value = 2 WHERE name = 'first'")
        # Time for the clients between the one row and the other.
        remote.execute("INSERT INTO counter SELECT 'between ' || n FROM generate_series(1, 5000) n")
        remote.execute("UPDATE counter SET value = 2 WHERE name = 'last'")
    wait_for_lock(blocked, APPLY_WORKER)
    with LastThenFirst(blocked, clients=4):
        gate.close()
        wait_for_row(blocked, "SELECT 1 FROM counter WHERE name = 'between 1'")
    execute(other, "DELETE FROM counter WHERE name LIKE 'between %%'")
