"""Sessions that hold up the apply worker: the SQL that finds and ends them, on lock queues of our own."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psp.sql_files import constant, read_sql
from psp.waiting import wait_until

from tests.sql.databases import Pair

WAIT_S = 60
LOOK = read_sql("semi_primary/daemon/apply_blockers.sql").decode()
END = read_sql("semi_primary/daemon/apply_end_blocker.sql").decode()
IS_COMMITTING = read_sql("semi_primary/daemon/apply_is_committing.sql").decode()
# Taken by the commit hook: the first by nobody else, the second by any role that likes.
COMMITTING = "LOCK TABLE psp.committing IN ACCESS SHARE MODE"
TRANSACTION, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
ADVISORY = f"SELECT pg_advisory_xact_lock({constant('LOCK_CLASS')}, hashtext('{TRANSACTION}'))"


class Sessions:
    """Transactions that lock rows, and a look at which one waits for which."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._admin = pair.connect(autocommit=True)
        self._admin.execute(f"PREPARE look(integer, uuid[]) AS {LOOK}".encode())
        self._admin.execute(f"PREPARE finish(integer, text, boolean, boolean) AS {END}".encode())
        self._admin.execute(f"PREPARE is_committing(text) AS {IS_COMMITTING}".encode())
        self._connections: list[psycopg.Connection[Any]] = []
        self._threads: list[threading.Thread] = []

    def holder(self, row: int) -> psycopg.Connection[Any]:
        """A transaction that has locked a row."""
        connection = self._pair.connect()
        self._connections.append(connection)
        connection.execute("SELECT FROM thing WHERE id = %s FOR UPDATE", (row,))
        return connection

    def want(self, connection: psycopg.Connection[Any], row: int) -> None:
        """Lets a transaction wait for a row."""

        def lock() -> None:
            try:
                connection.execute("SELECT FROM thing WHERE id = %s FOR UPDATE", (row,))
            except psycopg.Error:
                connection.close()

        thread = threading.Thread(target=lock)
        self._threads.append(thread)
        thread.start()
        self.wait_until_waiting(connection)

    def wait_until_waiting(self, connection: psycopg.Connection[Any]) -> None:
        waits = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        pid = connection.info.backend_pid
        wait_until("a lock wait", lambda: self._admin.execute(waits, (pid,)).fetchall(), WAIT_S)

    def wait_until_active(self, connection: psycopg.Connection[Any]) -> None:
        runs = "SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        pid = connection.info.backend_pid
        wait_until("a statement", lambda: self._admin.execute(runs, (pid,)).fetchall(), WAIT_S)

    def _look(self, worker: psycopg.Connection[Any], *in_flight: str) -> list[tuple[Any, ...]]:
        look = f"EXECUTE look({worker.info.backend_pid}, '{{{','.join(in_flight)}}}')"
        return self._admin.execute(look.encode()).fetchall()

    def look(self, worker: psycopg.Connection[Any], *in_flight: str) -> dict[int, tuple[bool, bool]]:
        """pid -> (is_root, is_in_deadlock)."""
        rows = self._look(worker, *in_flight)
        return {row[0]: (row[3], row[4]) for row in rows}

    def rollbacks(self, worker: psycopg.Connection[Any]) -> list[str]:
        """What the watch would run to end prepared transactions."""
        return [row[5] for row in self._look(worker) if row[5] is not None]

    def run(self, statement: str) -> None:
        """As the watch's session."""
        self._admin.execute(statement.encode())

    def is_committing(self) -> bool:
        row = self._admin.execute(f"EXECUTE is_committing('{TRANSACTION}')".encode()).fetchone()
        assert row is not None
        return bool(row[0])

    def end(
        self,
        worker: psycopg.Connection[Any],
        pid: int,
        *,
        again: bool = False,
        committing: bool | None = None,
    ) -> int:
        """Ends a blocker as the watch would; how many were told. `committing`: what was seen; none: now."""
        seen = next(row for row in self._look(worker) if row[0] == pid)
        was_committing = seen[6] if committing is None else committing
        finish = f"EXECUTE finish({pid}, '{seen[1]}', {again}, {was_committing})"
        return self._admin.execute(finish.encode()).rowcount

    def close(self) -> None:
        self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE datname = current_database() AND pid <> pg_backend_pid()")  # fmt: skip
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        for connection in (*self._connections, self._admin):
            connection.close()


@pytest.fixture
def sessions(pair: Pair) -> Iterator[Sessions]:
    pair.run("CREATE TABLE thing AS SELECT id FROM generate_series(1, 9) id")
    pair.run("CREATE SCHEMA psp; CREATE TABLE psp.committing (nothing boolean)")
    made = Sessions(pair)
    yield made
    made.close()


def suppressed(connection: psycopg.Connection[Any], statement: str) -> None:
    """Runs a statement that is going to be cancelled."""
    with suppress(psycopg.Error):
        connection.execute(statement.encode())


def pid(connection: psycopg.Connection[Any]) -> int:
    return connection.info.backend_pid


def test_nobody(sessions: Sessions) -> None:
    assert sessions.look(sessions.holder(1)) == {}


def test_the_last_of_a_queue_is_the_root(sessions: Sessions) -> None:
    worker, first, second, root = (sessions.holder(row) for row in (1, 2, 3, 4))
    sessions.want(second, 4)
    sessions.want(first, 3)
    sessions.want(worker, 2)
    assert sessions.look(worker) == {
        pid(first): (False, False),
        pid(second): (False, False),
        pid(root): (True, False),
    }


def test_a_deadlock_through_the_worker(sessions: Sessions) -> None:
    worker, first, second = (sessions.holder(row) for row in (1, 2, 3))
    for connection in (worker, first, second):  # nobody is to give way here
        connection.execute("SET deadlock_timeout = '1h'")
    sessions.want(second, 1)
    sessions.want(first, 3)
    sessions.want(worker, 2)
    assert sessions.look(worker) == {pid(first): (False, False), pid(second): (True, True)}


def test_who_is_at_commit_is_no_root_while_the_daemon_has_the_request(sessions: Sessions) -> None:
    worker, blocker = sessions.holder(1), sessions.holder(2)
    blocker.execute(ADVISORY)
    sessions.want(worker, 2)
    blocker.execute(COMMITTING)
    assert sessions.look(worker, OTHER, TRANSACTION) == {pid(blocker): (False, False)}
    assert sessions.look(worker, OTHER) == {pid(blocker): (True, False)}
    assert sessions.end(worker, pid(blocker)) == 1
    with pytest.raises(psycopg.errors.AdminShutdown):
        blocker.execute("SELECT 1")


def test_who_has_reached_commit_since_the_look_is_not_ended(sessions: Sessions) -> None:
    worker, blocker = sessions.holder(1), sessions.holder(2)
    sessions.want(worker, 2)
    blocker.execute(COMMITTING)
    assert sessions.end(worker, pid(blocker), committing=False) == 0
    blocker.rollback()


def test_who_holds_the_advisory_lock_of_commits_is_a_root_like_others(sessions: Sessions) -> None:
    """Any role can take it, for as long as it likes."""
    worker, blocker = sessions.holder(1), sessions.holder(2)
    blocker.execute(ADVISORY)
    sessions.want(worker, 2)
    assert sessions.look(worker) == {pid(blocker): (True, False)}
    assert not sessions.is_committing()
    blocker.execute(COMMITTING)
    assert sessions.is_committing()
    blocker.rollback()
    assert not sessions.is_committing()


def test_who_waits_for_an_advisory_lock_outside_of_transactions_is_a_root(sessions: Sessions) -> None:
    """The holder has no transaction that could be ended, and may stay as it is for ever."""
    worker, blocker, idle = sessions.holder(1), sessions.holder(2), sessions.holder(3)
    idle.execute("SELECT pg_advisory_lock(1)")
    thread = threading.Thread(target=suppressed, args=(blocker, "SELECT pg_advisory_xact_lock(1)"))
    thread.start()
    sessions.wait_until_waiting(blocker)
    sessions.want(worker, 2)
    assert sessions.look(worker) == {pid(blocker): (False, False), pid(idle): (True, False)}
    idle.commit()
    assert sessions.look(worker) == {pid(blocker): (True, False)}
    assert sessions.end(worker, pid(blocker)) == 1
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_who_catches_the_cancel_is_terminated(sessions: Sessions) -> None:
    worker, blocker = sessions.holder(1), sessions.holder(2)
    sessions.want(worker, 2)
    endless = """DO $$ BEGIN LOOP
        BEGIN PERFORM pg_sleep(3600); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP; END $$"""

    def run() -> None:
        with pytest.raises(psycopg.errors.AdminShutdown):
            blocker.execute(endless)

    thread = threading.Thread(target=run)
    thread.start()
    sessions.wait_until_active(blocker)
    assert sessions.end(worker, pid(blocker)) == 1
    assert sessions.end(worker, pid(blocker), again=True) == 1
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_prepared_transaction_is_rolled_back(sessions: Sessions) -> None:
    """It has no backend, and stays as long as nobody ends it."""
    worker, blocker = sessions.holder(1), sessions.holder(2)
    blocker.execute("PREPARE TRANSACTION 'it''s prepared'")
    sessions.want(worker, 2)
    (rollback,) = sessions.rollbacks(worker)
    assert rollback == "ROLLBACK PREPARED 'it''s prepared'"
    sessions.run(rollback)
    assert sessions.rollbacks(worker) == []


def test_an_idle_transaction_is_terminated(sessions: Sessions) -> None:
    worker, blocker = sessions.holder(1), sessions.holder(2)
    sessions.want(worker, 2)
    assert sessions.end(worker, pid(blocker)) == 1
    with pytest.raises(psycopg.errors.AdminShutdown):
        blocker.execute("SELECT 1")
