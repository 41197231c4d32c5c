"""The Python client in native mode, when a session or the daemon is lost: each unit of work is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from threading import Event
from typing import Any

import psp_client
import psycopg
import pytest
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp_client import _async, _sync

from tests.cluster.support import WAIT_S, as_admin, execute, paused, wait_for_row, wait_streaming
from tests.threads import running

ITEMS = count(9001)  # each test takes new ones
IN_HOOK = (
    "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND application_name = 'lost'"
)
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost'"
Work = Callable[[], None]
"""Called with the unit's statement, before its COMMIT."""
Run = Callable[[str, int, Work], Any]


@pytest.fixture(scope="module")
def pair(native_items_cluster: LocalCluster) -> LocalCluster:
    return native_items_cluster


def run_sync(dsn: str, item: int, before_commit: Work) -> Any:
    def work(connection: psycopg.Connection[Any]) -> str:
        connection.execute("INSERT INTO item VALUES (%s, 1)", (item,))
        before_commit()
        return "done"

    with psp_client.connect(dsn, application_name="lost") as client:
        return client.run(work)


def run_async(dsn: str, item: int, before_commit: Work) -> Any:
    async def work(connection: psycopg.AsyncConnection[Any]) -> str:
        await connection.execute("INSERT INTO item VALUES (%s, 1)", (item,))
        before_commit()
        return "done"

    async def main() -> Any:
        async with await psp_client.connect_async(dsn, application_name="lost") as client:
            return await client.run(work)

    return asyncio.run(main())


@pytest.fixture(params=[run_sync, run_async])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


class Losing:
    """In place of the clients' cursors: the first COMMIT is lost with its session, sent or not."""

    def __init__(self, *, is_sent: bool) -> None:
        self._is_sent = is_sent
        self.commits = 0

    def sync_cursor(self, connection: psycopg.Connection[Any]) -> Any:
        losing = self

        class Cursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, *more: Any, **options: Any) -> Any:
                if not losing._loses(query):
                    return super().execute(query, *more, **options)
                if losing._is_sent:
                    super().execute(query)
                connection.pgconn.finish()
                raise psycopg.OperationalError("the connection is lost")

        return Cursor(connection)

    def async_cursor(self, connection: psycopg.AsyncConnection[Any]) -> Any:
        losing = self

        class Cursor(psycopg.AsyncCursor[Any]):
            async def execute(self, query: Any, *more: Any, **options: Any) -> Any:
                if not losing._loses(query):
                    return await super().execute(query, *more, **options)
                if losing._is_sent:
                    await super().execute(query)
                connection.pgconn.finish()
                raise psycopg.OperationalError("the connection is lost")

        return Cursor(connection)

    def _loses(self, query: Any) -> bool:
        self.commits += query == "COMMIT"
        return bool(query == "COMMIT" and self.commits == 1)


@pytest.fixture(params=[True, False], ids=["sent", "not sent"])
def losing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Losing]:
    found = Losing(is_sent=request.param)
    monkeypatch.setattr(_sync, "plain_cursor", found.sync_cursor)
    monkeypatch.setattr(_async, "plain_cursor", found.async_cursor)
    yield found


def wait_for(event: Event) -> None:
    assert event.wait(WAIT_S)


def test_a_session_lost_at_commit_is_asked_about(pair: LocalCluster, run: Run, losing: Losing) -> None:
    item, calls = next(ITEMS), []
    assert run(pair.sps[0].dsn, item, lambda: calls.append(1)) == "done"
    assert len(calls) == (1 if losing._is_sent else 2)
    wait_for_row(pair.sps[1], "SELECT 1 FROM item WHERE id = %s", (item,))


def test_a_session_lost_before_commit_is_run_again(pair: LocalCluster, run: Run) -> None:
    item, calls = next(ITEMS), []

    def end_once() -> None:
        calls.append(1)
        if len(calls) == 1:
            execute(as_admin(pair.sps[0]), END_SESSIONS)

    assert run(pair.sps[0].dsn, item, end_once) == "done"
    assert len(calls) == 2
    wait_for_row(pair.sps[1], "SELECT 1 FROM item WHERE id = %s", (item,))


def test_a_daemon_killed_at_commit(pair: LocalCluster, run: Run) -> None:
    """The primary decides only when the daemon that sent the transaction is gone."""
    item, results, sp = next(ITEMS), [], pair.sps[0]
    is_paused = Event()
    wait_streaming(pair)
    with running(lambda: results.append(run(sp.dsn, item, lambda: wait_for(is_paused)))):
        with paused(pair, "primary"):
            is_paused.set()
            wait_until("the COMMIT", lambda: execute(as_admin(sp), IN_HOOK) != [], WAIT_S)
            pair.kill(sp.name)
        pair.start(sp.name)
    assert results == ["done"]
    wait_for_row(pair.sps[1], "SELECT 1 FROM item WHERE id = %s", (item,))


def test_without_psp_nobody_can_tell(pair: LocalCluster, losing: Losing) -> None:
    calls = []

    def work(connection: psycopg.Connection[Any]) -> None:
        calls.append(1)
        connection.execute("CREATE TABLE made_by_the_client (id int)")

    with psp_client.connect(pair.primary_dsn, dbname="postgres") as client:
        with pytest.raises(psycopg.OperationalError, match="the connection is lost"):
            client.run(work)
        assert len(calls) == 1
        client.run(lambda connection: connection.execute("DROP TABLE IF EXISTS made_by_the_client"))


def test_what_cannot_pass_is_raised_as_it_is(pair: LocalCluster, run: Run) -> None:
    """Also where COMMIT itself finds it, and psp is asked."""
    item, calls = next(ITEMS), []
    with pytest.raises(psycopg.errors.UniqueViolation):
        run(pair.sps[0].dsn, 1, lambda: calls.append(1))
    assert calls == []
    with psp_client.connect(pair.sps[0].dsn) as client:
        client.begin()
        client.execute("INSERT INTO item VALUES (%s, 1)", (item,))
        with pytest.raises(psycopg.errors.CheckViolation):
            client.execute("UPDATE item SET stock = -1 WHERE id = %s", (item,))
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.commit()
