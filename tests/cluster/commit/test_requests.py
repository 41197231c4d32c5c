"""psp.request: what is asked for several times, at several semi-primaries, happens once."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import random
from typing import Any, LiteralString

import psp_client
import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp_client import web

from tests.cluster.support import adopted_pair, applying_paused, as_admin, connect, execute, raises, settle

TABLES = """
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
INSERT INTO account VALUES (1, 0);
"""
ASK: LiteralString = "SELECT state, failed, result FROM psp.request(%s, %s)"
DONE: LiteralString = "SELECT psp.request_done(%s)"
NEW = ("new", None, None)
RETRYABLE = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, psycopg.OperationalError)


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES]) as cluster:
        yield cluster


def ask(connection: psycopg.Connection[Any], key: str, fingerprint: str = "") -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(ASK, [key, fingerprint]).fetchone()
    assert row is not None
    return row


def pay(sp: SpNode, key: str, amount: int) -> tuple[Any, ...]:
    """The program of a client: asks, and does the work if nobody has done it."""
    with connect(sp) as connection:
        answer = ask(connection, key, f"pay {amount}")
        if answer[0] == "new":
            connection.execute("UPDATE account SET balance = balance + %s WHERE id = 1", [amount])
            connection.execute(DONE, [f'{{"paid": {amount}}}'])
        return answer


def balance(sp: SpNode) -> int:
    return int(execute(sp, "SELECT balance FROM account WHERE id = 1")[0][0])


def wait_until_seen(sp: SpNode, by: SpNode) -> None:
    """What `sp` has committed is applied at `by`."""
    token = execute(sp, "SELECT psp.token()")[0][0]
    execute(by, "SELECT psp.wait_for(%s)", [token])


def test_a_request_is_served_once_and_its_answer_is_known_everywhere(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = balance(north)
    assert pay(north, "first", 5) == NEW
    assert pay(north, "first", 5) == ("known", False, {"paid": 5})
    wait_until_seen(north, south)
    assert pay(south, "first", 5) == ("known", False, {"paid": 5})
    assert balance(north) == balance(south) == before + 5


def test_the_key_with_another_fingerprint_is_an_error_of_its_own(pair: LocalCluster) -> None:
    north = pair.sps[0]
    pay(north, "other", 1)
    with raises("PS422") as caught:
        pay(north, "other", 2)
    assert "was used for another one" in str(caught[0])


def test_who_comes_second_here_waits_and_gets_the_answer(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with connect(north) as first, ThreadPoolExecutor(1) as pool:
        assert ask(first, "queued", "pay 3") == NEW
        second = pool.submit(pay, north, "queued", 3)
        with raises("55P03"), connect(north) as hurried:
            hurried.execute("SELECT * FROM psp.request('queued', 'pay 3', wait => '50 ms')")
        assert not second.done()
        first.execute(DONE, ['"by the first"'])
        first.commit()
        assert second.result(60) == ("known", False, "by the first")


def test_who_comes_second_here_serves_it_if_the_first_gives_up(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with connect(north) as first, ThreadPoolExecutor(1) as pool:
        assert ask(first, "given up", "pay 2") == NEW
        second = pool.submit(pay, north, "given up", 2)
        first.rollback()
        assert second.result(60) == NEW


def test_of_two_servers_that_serve_it_at_once_one_loses(pair: LocalCluster) -> None:
    """Neither has seen the other's row: the primary decides."""
    north, south = pair.sps
    before = balance(north)
    with applying_paused(south):
        assert pay(north, "raced", 7) == NEW
        with raises("40001"):
            pay(south, "raced", 7)
    wait_until_seen(north, south)
    assert pay(south, "raced", 7) == ("known", False, {"paid": 7})
    assert balance(north) == balance(south) == before + 7


def test_a_transaction_that_stores_no_result_does_not_commit(pair: LocalCluster) -> None:
    north = pair.sps[0]
    before = balance(north)
    with raises("2D000") as caught, connect(north) as connection:
        assert ask(connection, "unfinished") == NEW
        connection.execute("UPDATE account SET balance = balance + 1 WHERE id = 1")
    assert "stores no result" in str(caught[0])
    assert balance(north) == before
    with connect(north) as connection:
        assert ask(connection, "unfinished") == NEW
        connection.rollback()


def test_a_savepoint_cannot_forget_a_request(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with connect(north) as connection:
        connection.execute("SAVEPOINT s")
        with raises("25000") as caught:
            ask(connection, "behind a savepoint")
        assert "SAVEPOINT" in str(caught[0])
        connection.rollback()
        # Behind it the work may be rolled back, and with it the result: COMMIT knows.
        assert ask(connection, "before a savepoint") == NEW
        connection.execute("SAVEPOINT s")
        connection.execute(DONE, ["1"])
        connection.execute("ROLLBACK TO s")
        with raises("2D000"):
            connection.commit()
        assert ask(connection, "before a savepoint") == NEW
        connection.execute("SAVEPOINT s")
        connection.execute("UPDATE account SET balance = balance - 1000 WHERE id = 1")
        connection.execute("ROLLBACK TO s")
        connection.execute(DONE, ['"after all"'])
        connection.commit()
        assert ask(connection, "before a savepoint") == ("known", False, "after all")


def test_a_failure_is_an_answer_unless_it_passes_by(pair: LocalCluster) -> None:
    north, south = pair.sps
    fail: LiteralString = "SELECT failed, stored FROM psp.request_failed(%s, %s, %s, %s)"
    assert execute(north, fail, ["failed", "pay 9", '"no money"', "P0001"]) == [(True, "no money")]
    wait_until_seen(north, south)
    assert pay(south, "failed", 9) == ("known", True, "no money")
    for sqlstate in ("40001", "08006", "57P01", "53200", "55P03", "58030", "XX000"):
        with raises("22023"):
            execute(north, fail, ["passes by", "", None, sqlstate])
    # Somebody else was faster: his answer counts.
    assert pay(north, "faster", 4) == NEW
    assert execute(north, fail, ["faster", "pay 4", '"too late"', None]) == [(False, {"paid": 4})]


def test_roles_share_no_keys_unless_they_share_a_role(pair: LocalCluster) -> None:
    north, south = pair.sps
    for sp in pair.sps:
        execute(
            as_admin(sp),
            "CREATE ROLE payments; CREATE ROLE ann IN ROLE payments; CREATE ROLE bob IN ROLE payments;"
            "CREATE ROLE eve",
        )

    def as_role(sp: SpNode, role: LiteralString, of_role: str | None) -> str:
        with connect(as_admin(sp)) as connection:
            connection.execute(b"SET ROLE " + role.encode())
            query: LiteralString = "SELECT state FROM psp.request('shared', of_role => %s)"
            state = connection.execute(query, [of_role]).fetchone()
            assert state is not None
            if state[0] == "new":
                connection.execute("SELECT psp.request_done()")
            return str(state[0])

    assert as_role(north, "ann", "payments") == "new"
    wait_until_seen(north, south)
    assert as_role(south, "bob", "payments") == "known"
    assert as_role(south, "eve", None) == "new"
    assert as_role(south, "bob", None) == "new"
    with raises("42501") as caught:
        as_role(south, "eve", "payments")
    assert "requests of role payments" in str(caught[0])
    with connect(as_admin(south)) as connection:
        connection.execute("SET ROLE bob")
        connection.execute("SET psp.request_role = 'payments'")
        assert ask(connection, "shared")[0] == "known"


def test_a_function_of_another_role_does_not_follow_the_sessions_setting(pair: LocalCluster) -> None:
    """It would use keys of the function's owner that its caller has no right to."""
    north = pair.sps[0]
    with connect(as_admin(north)) as connection:
        connection.execute(
            """
            SET psp.schema_changes = 'local';
            CREATE ROLE owner IN ROLE payments;
            CREATE SCHEMA of_owner AUTHORIZATION owner;
            CREATE FUNCTION of_owner.ask(key text) RETURNS text LANGUAGE sql SECURITY DEFINER
                AS 'SELECT state FROM psp.request(key)';
            ALTER FUNCTION of_owner.ask(text) OWNER TO owner;
            GRANT USAGE ON SCHEMA of_owner TO PUBLIC;
            """
        )
    with connect(as_admin(north)) as connection:
        connection.execute("SET ROLE owner")
        assert connection.execute("SELECT of_owner.ask('asked')").fetchone() == ("new",)
        connection.execute(DONE, [None])
    with connect(as_admin(north)) as connection:
        connection.execute("SET ROLE eve")
        connection.execute("SET psp.request_role = 'payments'")
        assert connection.execute("SELECT of_owner.ask('asked')").fetchone() == ("known",)


def test_nobody_writes_requests_by_hand(pair: LocalCluster) -> None:
    for statement in (
        "INSERT INTO psp.requests (id, role, fingerprint) VALUES (gen_random_uuid(), 'x', gen_random_uuid())",
        "UPDATE psp.requests SET result = '1'",
        "DELETE FROM psp.requests",
    ):
        with raises("42501") as caught, connect(as_admin(pair.sps[0])) as connection:
            connection.execute(statement.encode())
        assert "psp's own functions" in str(caught[0])
    with raises("0A000"), connect(as_admin(pair.sps[0])) as connection:
        connection.execute("TRUNCATE psp.requests")


def test_several_requests_in_one_transaction_one_after_the_other(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with connect(north) as connection:
        assert ask(connection, "a") == NEW
        with raises("55006"):
            ask(connection, "a")
        connection.rollback()
        assert ask(connection, "a") == NEW
        with raises("55000"):
            ask(connection, "b")
        connection.rollback()
        for key in "ab":
            assert ask(connection, key) == NEW
            connection.execute(DONE, [f'"{key}"'])
        connection.commit()
        assert [ask(connection, key)[2] for key in "ab"] == ["a", "b"]


@pytest.mark.parametrize("key", ["", None, "x" * 1001])
def test_a_key_is_needed(pair: LocalCluster, key: str | None) -> None:
    with raises("22023"):
        execute(pair.sps[0], "SELECT psp.request(%s)", [key])


def generation_begins(sp: SpNode) -> None:
    """The newest generation has lasted for long, and the next request begins another one."""
    for _ in range(2):  # if another server has begun it, it begins to last here with the first
        execute(as_admin(sp), "SELECT psp.count_age(1e9, 1)")
    with connect(sp) as connection:
        assert ask(connection, f"begins {random()}") == NEW
        connection.execute(DONE, [None])


def stored(sp: SpNode) -> list[tuple[Any, ...]]:
    return execute(as_admin(sp), "SELECT * FROM psp.requests ORDER BY id")


def test_answers_are_forgotten_everywhere_when_they_are_old(pair: LocalCluster) -> None:
    north, south = pair.sps
    settle(pair)
    assert pay(north, "old", 1) == NEW
    for _ in range(4):
        generation_begins(north)
    wait_until_seen(north, south)
    assert pay(south, "old", 1) == ("known", False, {"paid": 1}), "it lasts for four generations"
    generation_begins(south)
    wait_until_seen(south, north)
    # It is served again though its row is still there, and nobody is disturbed by that.
    assert pay(north, "old", 2) == NEW
    wait_until_seen(north, south)
    for sp in pair.sps:
        assert pay(sp, "old", 2) == ("known", False, {"paid": 2})
        execute(as_admin(sp), "SELECT psp.remove_old_requests('00000000-0000-0000-0000-000000000000')")
    assert stored(north) == stored(south)
    oldest = execute(as_admin(north), "SELECT min(generation) FROM psp.requests")
    assert oldest == execute(as_admin(north), "SELECT psp.newest_generation() - 4")
    settle(pair)  # the primary has not removed them yet


def test_a_generation_that_begins_twice_begins_once(pair: LocalCluster) -> None:
    """Two servers find at the same time that the next one is due."""
    north, south = pair.sps
    settle(pair)
    newest = execute(as_admin(north), "SELECT psp.newest_generation()")[0][0]
    with applying_paused(south):
        generation_begins(north)
        with raises("40001"):
            generation_begins(south)
    wait_until_seen(north, south)
    with connect(south) as connection:
        assert ask(connection, f"after {newest}") == NEW
        connection.execute(DONE, [None])
    for sp in pair.sps:
        assert execute(as_admin(sp), "SELECT psp.newest_generation()") == [(newest + 1,)]


def test_the_python_package_serves_a_request_once(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = balance(north)
    calls: list[int] = []
    request = psp_client.Request("package", "pay 1")

    def work(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, ...]]:
        if not calls:  # its COMMIT finds no daemon
            pair.kill(north.name)
        elif not pair.is_running(north.name, "daemon"):
            pair.start(north.name)
        calls.append(1)
        connection.execute("UPDATE account SET balance = balance + 1 WHERE id = 1")
        return {"paid": (1,)}

    with psp_client.connect(north.dsn) as client:
        first: Any = client.run(work, request=request)
        assert first == {"paid": [1]}, "as it is stored"
        served = len(calls)
        assert served > 1
        assert client.run(work, request=request) == first
        with raises("PS422"):
            client.run(work, request=psp_client.Request("package", "pay 2"))
        execute(north, "SELECT psp.request_failed('lost', '', '\"no money\"')")
        with pytest.raises(psp_client.RequestFailed) as failed:
            client.run(work, request=psp_client.Request("lost"))
        assert failed.value.result == "no money"
    wait_until_seen(north, south)

    async def again() -> Any:
        async def work_again(_: psycopg.AsyncConnection[Any]) -> str:
            return "served a second time"

        async with await psp_client.connect_async(south.dsn) as client:
            found: Any = await client.run(work_again, request=request)
            new = await client.run(work_again, request=psp_client.Request("by asyncio"))
            return found, new

    assert asyncio.run(again()) == (first, "served a second time")
    assert len(calls) == served
    assert balance(south) == before + 1


def serve_once(connection: psycopg.Connection[Any], call: web.Call) -> web.Response:
    connection.execute("UPDATE account SET balance = balance + %s WHERE id = 1", [int(call.body)])
    return web.Response(201, f'{{"paid": {int(call.body)}}}')


async def serve_once_async(connection: psycopg.AsyncConnection[Any], call: web.Call) -> web.Response:
    await connection.execute("UPDATE account SET balance = balance + %s WHERE id = 1", [int(call.body)])
    return web.Response(201, f'{{"paid": {int(call.body)}}}')


Serve = Callable[[str | None, bytes], tuple[int, str]]


def by_wsgi(sp: SpNode) -> Serve:
    """A call by its key and its body; the status and what is answered."""
    application = web.wsgi(
        lambda: psp_client.connect(sp.dsn), serve_once, caller=lambda call: call.headers["user"], wait_s=0.1
    )

    def call(key: str | None, body: bytes) -> tuple[int, str]:
        statuses: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/pay", "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body), "HTTP_USER": "ann",
            **({"HTTP_IDEMPOTENCY_KEY": key} if key else {}),
        }  # fmt: skip
        found = b"".join(application(environ, lambda status, _: statuses.append(status)))
        return int(statuses[0].split()[0]), found.decode()

    return call


def by_asgi(sp: SpNode) -> Serve:
    application = web.asgi(
        lambda: psp_client.connect_async(sp.dsn),
        serve_once_async,
        caller=lambda call: call.headers["user"],
        wait_s=0.1,
    )

    def call(key: str | None, body: bytes) -> tuple[int, str]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"User", b"ann"), *([(b"Idempotency-Key", key.encode())] if key else [])]
        scope = {"type": "http", "method": "POST", "path": "/pay", "headers": headers}
        asyncio.run(_awaited(application(scope, receive, send)))
        return sent[0]["status"], sent[1]["body"].decode()

    return call


async def _awaited(work: Awaitable[None]) -> None:
    await work


@pytest.mark.parametrize("serve", [by_wsgi, by_asgi])
def test_a_web_service_answers_as_the_header_asks_for(
    pair: LocalCluster, serve: Callable[[SpNode], Serve]
) -> None:
    north, south = pair.sps
    before = balance(north)
    name = f'"{serve.__name__}"'
    assert serve(north)(None, b"3")[0] == 400
    assert serve(north)("x" * 1001, b"3")[0] == 400
    assert serve(north)(name, b"3") == (201, '{"paid": 3}')
    wait_until_seen(north, south)
    assert serve(south)(name, b"3") == (201, '{"paid": 3}')
    assert serve(south)(name, b"4")[0] == 422
    assert balance(south) == before + 3
    with connect(north) as first:
        key = json.dumps(["ann", "running"])
        assert first.execute("SELECT state FROM psp.request(%s)", [key]).fetchone() == ("new",)
        assert serve(north)("running", b"3")[0] == 409
        first.rollback()


def test_a_generation_that_arrives_in_between_is_no_error(pair: LocalCluster) -> None:
    """Another server has begun it, and its row is here when this one inserts it."""
    north, south = pair.sps
    settle(pair)
    newest = execute(as_admin(north), "SELECT psp.newest_generation()")[0][0]
    for _ in range(2):
        execute(as_admin(south), "SELECT psp.count_age(1e9, 1)")
    with connect(south) as connection:
        assert ask(connection, "in between") == NEW
        generation_begins(north)
        wait_until_seen(north, south)
        connection.execute(DONE, [None])
    assert execute(as_admin(south), "SELECT psp.newest_generation()") == [(newest + 1,)]


@pytest.mark.parametrize("capture", ["sql", "module"])
def test_an_old_request_is_served_again_by_either_capture(pair: LocalCluster, capture: str) -> None:
    north = pair.sps[0]
    before = execute(as_admin(north), "SELECT capture FROM psp.identity")[0][0]
    if capture == "module" and before == "sql":
        pytest.skip("it needs the server module")
    if capture != before:
        execute(as_admin(north), "SELECT psp.use_capture(%s)", [capture])
    try:
        key = f"again by {capture}"
        assert pay(north, key, 1) == NEW
        for _ in range(5):
            generation_begins(north)
        assert pay(north, key, 1) == NEW
        assert pay(north, key, 1) == ("known", False, {"paid": 1})
        settle(pair)
    finally:
        if capture != before:
            execute(as_admin(north), "SELECT psp.use_capture(%s)", [before])


def test_under_kills_each_request_is_served_once(pair: LocalCluster) -> None:
    """Clients repeat each request at both servers until they have an answer, while daemons are restarted."""
    requests, before = 40, balance(pair.sps[0])
    wrong: list[str] = []
    stopped = threading.Event()

    def client(number: int) -> None:
        sps = pair.sps if number % 2 else tuple(reversed(pair.sps))
        for request in range(requests):
            for attempt in range(1000):
                try:
                    pay(sps[attempt % 2], f"kill {request}", 1)
                    state, failed, result = pay(sps[attempt % 2], f"kill {request}", 1)
                    if (state, failed, result) != ("known", False, {"paid": 1}):
                        wrong.append(f"{request}: {state} {failed} {result}")
                    break
                except RETRYABLE:
                    stopped.wait(0.02)
            else:
                wrong.append(f"{request}: no answer")

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, number) for number in range(4)]
        for name in (PRIMARY, pair.sps[0].name, pair.sps[1].name):
            pair.kill(name)
            pair.start(name)
        for one in clients:
            one.result(300)
    assert wrong == []
    wait_until_seen(pair.sps[0], pair.sps[1])
    wait_until_seen(pair.sps[1], pair.sps[0])
    assert [balance(sp) for sp in pair.sps] == [before + requests] * 2
    settle(pair)
