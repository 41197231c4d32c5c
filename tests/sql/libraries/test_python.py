"""The Python client library's transactions where there is no daemon: what stays open."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import psp_client
import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from tests.sql.databases import Pair, new_pair
from tests.sql.views.converted import convert_pair, one

WAIT_S = 60
TABLE = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)"


@pytest.fixture
def plain(pair: Pair) -> Pair:
    """Without psp: as in native mode."""
    pair.run(TABLE)
    return pair


@pytest.fixture(scope="module")
def views(server: PgServer) -> Pair:
    """Nothing is written in it."""
    pair = new_pair(server)
    pair.run(TABLE)
    convert_pair(pair)
    return pair


def value(pair: Pair) -> Any:
    return one(pair, "SELECT v FROM t")


def is_idle(client: psp_client.Client | psp_client.AsyncClient) -> bool:
    return client.connection.info.transaction_status == TransactionStatus.IDLE


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


# ---- run in a run -----------------------------------------------------------------------------------------


def test_run_in_a_run_leaves_the_outer_transaction(plain: Pair) -> None:
    """Its statements would go on without a transaction, each committed by itself."""

    def outer(connection: psycopg.Connection[Any]) -> None:
        with pytest.raises(psp_client.TransactionOpenError):
            client.run(lambda _: None)
        connection.execute("UPDATE t SET v = 8")
        raise LookupError

    with psp_client.connect(plain.dsn) as client, pytest.raises(LookupError):
        client.run(outer)
    assert value(plain) == 0


def test_run_in_a_run_of_asyncio(plain: Pair) -> None:
    async def inner(_: psycopg.AsyncConnection[Any]) -> None: ...

    async def main() -> None:
        async with await psp_client.connect_async(plain.dsn) as client:

            async def outer(connection: psycopg.AsyncConnection[Any]) -> None:
                with pytest.raises(psp_client.TransactionOpenError):
                    await client.run(inner)
                await connection.execute("UPDATE t SET v = 8")
                raise LookupError

            with pytest.raises(LookupError):
                await client.run(outer)

    asyncio.run(main())
    assert value(plain) == 0


# ---- interrupted, cancelled -------------------------------------------------------------------------------


def test_an_interrupted_begin_leaves_nothing_open(views: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with psp_client.connect(views.dsn) as client:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(psycopg.Cursor, "nextset", interrupt)
            client.begin()
        assert is_idle(client)
        client.begin()


def test_a_cancelled_begin_leaves_nothing_open(views: Pair) -> None:
    async def main() -> None:
        async with await psp_client.connect_async(views.dsn) as client:
            pid = client.connection.info.backend_pid

            def is_waiting() -> bool:
                query = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
                return bool(one(views, query, pid))

            with views.connect() as holder:
                holder.execute("LOCK TABLE psp.transactions")
                beginning = asyncio.create_task(client.begin())
                await asyncio.to_thread(wait_until, "begin to wait", is_waiting, WAIT_S)
                beginning.cancel()
                await asyncio.wait([beginning])
                assert beginning.cancelled()
            await client.begin()

    asyncio.run(main())


def test_a_commit_that_was_not_sent_rolls_back(plain: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next transaction would commit it."""
    with psp_client.connect(plain.dsn) as client:
        client.begin()
        client.execute("UPDATE t SET v = 8")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(client.connection, "wait", interrupt)
            client.commit()
        client.run(lambda _: None)
    assert value(plain) == 0


def test_a_cancelled_commit_that_was_not_sent_rolls_back(plain: Pair) -> None:
    async def main() -> None:
        async with await psp_client.connect_async(plain.dsn) as client:
            await client.begin()
            await client.execute("UPDATE t SET v = 8")
            async with client.connection.lock:  # as if another task had the connection
                committing = asyncio.create_task(client.commit())
                await asyncio.sleep(0)
                committing.cancel()
            await asyncio.wait([committing])
            assert committing.cancelled()
            await client.begin()
            await client.commit()

    asyncio.run(main())
    assert value(plain) == 0


def test_a_session_that_cannot_roll_back_is_replaced(plain: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with psp_client.connect(plain.dsn) as client:
        client.begin()
        client.execute("UPDATE t SET v = 8")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(client.connection, "wait", interrupt)
            client.abort()
        assert client.connection.closed
        client.run(lambda _: None)
    assert value(plain) == 0


# ---- the application's own connection settings ------------------------------------------------------------


def test_rows_of_another_shape(views: Pair) -> None:
    with psp_client.connect(views.dsn, row_factory=dict_row) as client:
        assert client.mode == "views"
        client.begin()
        client.abort()
        client.connection.close()
        client.begin()
        assert client.execute("SELECT v FROM t").fetchone() == {"v": 0}


def test_rows_of_another_shape_after_a_reconnection(views: Pair) -> None:
    with psp_client.connect(views.dsn) as client:
        client.connection.row_factory = dict_row
        client.begin()
        client.abort()
        client.connection.close()
        client.begin()
        assert client.execute("SELECT v FROM t").fetchone() == {"v": 0}


def test_rows_of_another_shape_in_asyncio(views: Pair) -> None:
    async def main() -> None:
        async with await psp_client.connect_async(views.dsn, row_factory=dict_row) as client:
            assert client.mode == "views"
            await client.begin()
            await client.abort()
            await client.connection.close()
            await client.begin()
            cursor = await client.execute("SELECT v FROM t")
            assert await cursor.fetchone() == {"v": 0}

    asyncio.run(main())
