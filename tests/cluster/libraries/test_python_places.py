"""The Python client at several semi-primaries: what it has committed or seen at one is seen at the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, LiteralString

import psp_client
import psycopg
import pytest
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp_client import Places, _async, _sync, web

from tests.cluster.libraries.test_python_lost import Losing
from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    applying_paused,
    as_admin,
    execute,
    raises,
    retry,
    settle,
    wait_streaming,
)
from tests.threads import running

TABLES = "CREATE TABLE note (id int PRIMARY KEY)"
ADD: LiteralString = "INSERT INTO note VALUES (%s)"
FIND: LiteralString = "SELECT id FROM note WHERE id = %s"
WAITS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'places' AND query LIKE '%psp.wait_for%'"
Run = Callable[..., list[tuple[Any, ...]]]


def run_sync(places: Places[str], statement: LiteralString, number: int, **options: Any) -> Any:
    with psp_client.connect(places, application_name="places") as client:

        def work(connection: psycopg.Connection[Any]) -> list[Any]:
            cursor = connection.execute(statement, (number,))
            return cursor.fetchall() if cursor.description else []

        return client.run(work, **options)


def run_async(places: Places[str], statement: LiteralString, number: int, **options: Any) -> Any:
    async def work(connection: psycopg.AsyncConnection[Any]) -> list[Any]:
        cursor = await connection.execute(statement, (number,))
        return await cursor.fetchall() if cursor.description else []

    async def main() -> Any:
        async with await psp_client.connect_async(places, application_name="places") as client:
            return await client.run(work, **options)

    return asyncio.run(main())


@pytest.fixture(scope="module", params=[run_sync, run_async])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES]) as cluster:
        yield cluster


@pytest.fixture
def places(pair: LocalCluster) -> Iterator[Places[str]]:
    """North, then south; nothing has been committed yet."""
    yield Places(*(sp.dsn for sp in pair.sps))
    retry(lambda: execute(pair.sps[0], "DELETE FROM note"))
    settle(pair)


@pytest.fixture
def late(pair: LocalCluster) -> Iterator[ExitStack]:
    """South applies nothing, until this is closed."""
    with ExitStack() as stack:
        stack.enter_context(applying_paused(pair.sps[1]))
        yield stack


@pytest.fixture
def found_late(pair: LocalCluster, places: Places[str], run: Run, late: ExitStack) -> Run:
    """What is read at south, which goes on applying when the reader waits."""

    def find(**options: Any) -> list[tuple[Any, ...]]:
        read: list[Any] = []
        with running(lambda: read.extend(run(places, FIND, 1, **options))):
            try:
                wait_until("the wait", lambda: execute(as_admin(pair.sps[1]), WAITS), WAIT_S)
            finally:
                late.close()
        return read

    return find


@contextmanager
def north_is_gone(pair: LocalCluster) -> Iterator[None]:
    pair.stop("north", "postgres", "immediate")
    try:
        yield
    finally:
        pair.start("north")
        wait_streaming(pair)


def test_the_next_one_is_taken_with_what_was_committed(
    pair: LocalCluster, places: Places[str], run: Run, found_late: Run
) -> None:
    run(places, ADD, 1)
    with north_is_gone(pair):
        assert found_late() == [(1,)]


def test_what_was_only_seen_is_carried_too(
    pair: LocalCluster, places: Places[str], run: Run, found_late: Run
) -> None:
    execute(pair.sps[0], ADD, [1])
    assert run(places, FIND, 1, read_only=True) == [(1,)]
    with north_is_gone(pair):
        assert found_late() == [(1,)]


def test_a_commit_whose_answer_is_lost_is_carried(
    places: Places[str], run: Run, found_late: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = Losing(is_sent=True)
    with monkeypatch.context() as patch:
        patch.setattr(_sync, "plain_cursor", losing.sync_cursor)
        patch.setattr(_async, "plain_cursor", losing.async_cursor)
        run(places, ADD, 1)
    assert losing.commits == 1
    places.leave(0)
    assert found_late() == [(1,)]


def test_a_token_of_elsewhere_is_waited_for(
    pair: LocalCluster, places: Places[str], run: Run, found_late: Run
) -> None:
    tokens: list[str] = []
    run(Places(pair.sps[0].dsn), ADD, 1, on_token=tokens.append)
    places.leave(0)
    assert found_late(token=tokens[0]) == [(1,)]


def test_a_daemon_that_is_away_is_left(pair: LocalCluster, places: Places[str], run: Run) -> None:
    pair.kill("north")
    try:
        run(places, ADD, 1)
        assert places.at == 1
    finally:
        pair.start("north")


def serve_sync(dsn: str, statement: LiteralString) -> Callable[[str], str]:
    """A user's call of a web service; gives the cookie that he has then. It runs the statement."""

    def application(environ: web.Environ, start_response: Callable[..., Any]) -> list[bytes]:
        found = run_sync(Places(dsn), statement, 1)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(found).encode()]

    def call(cookie: str) -> str:
        sent: list[Any] = []
        served = web.read_your_writes(application)(
            {"HTTP_COOKIE": cookie}, lambda status, headers: sent.append(dict(headers))
        )
        return f"{b''.join(served).decode()} {cookie_of(sent[0])}"

    return call


def serve_async(dsn: str, statement: LiteralString) -> Callable[[str], str]:
    async def application(scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        async with await psp_client.connect_async(dsn, application_name="places") as client:

            async def work(connection: psycopg.AsyncConnection[Any]) -> list[Any]:
                cursor = await connection.execute(statement, (1,))
                return await cursor.fetchall() if cursor.description else []

            found = await client.run(work)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(found).encode()})

    def call(cookie: str) -> str:
        sent: list[Any] = []

        async def receive() -> web.Scope:
            return {}

        async def send(message: Any) -> None:
            sent.append(message)

        async def main() -> None:
            scope = {"type": "http", "headers": [(b"Cookie", cookie.encode())]}
            await web.ReadYourWrites(application)(scope, receive, send)

        asyncio.run(main())
        headers = {name.decode().title(): value.decode() for name, value in sent[0]["headers"]}
        return f"{sent[1]['body'].decode()} {cookie_of(headers)}"

    return call


def cookie_of(headers: dict[str, str]) -> str:
    return headers["Set-Cookie"].partition(";")[0] if "Set-Cookie" in headers else ""


@pytest.mark.parametrize("serve", [serve_sync, serve_async])
@pytest.mark.usefixtures("places")
def test_users_of_a_web_service_find_their_writes(
    pair: LocalCluster, late: ExitStack, serve: Callable[[str, LiteralString], Callable[[str], str]]
) -> None:
    north, south = pair.sps
    _, _, cookie = serve(north.dsn, ADD)("other=1; psp_token=of-somebody").partition(" ")
    assert cookie.startswith("psp_token=psp1.")
    read: list[str] = []
    with running(lambda: read.append(serve(south.dsn, FIND)(f"other=1; {cookie}"))):
        wait_until("the wait", lambda: execute(as_admin(south), WAITS), WAIT_S)
        late.close()
    assert read[0].startswith("[(1,)]")


def test_a_token_of_another_cluster_is_forgotten(pair: LocalCluster) -> None:
    found = serve_sync(pair.sps[0].dsn, FIND)("psp_token=psp1.00000000.-.1.7.7")
    assert found.startswith("[] psp_token=psp1.")


def test_an_invented_token_is_waited_for_once(pair: LocalCluster, run: Run) -> None:
    token = execute(pair.sps[0], "SELECT psp.token()")[0][0]
    invented = ".".join([*token.split(".")[:3], "0", "999999999", "999999999"])
    with raises("57014"):
        run(Places(pair.sps[0].dsn), FIND, 1, token=invented)


def test_a_wrong_token_is_refused(places: Places[str], run: Run) -> None:
    with raises("22023"):
        run(places, FIND, 1, token="psp1.wrong")
