# SPDX-License-Identifier: PostgreSQL
"""The ZeroMQ sides of both clients, at a semi-primary that these tests play, or at none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NoReturn
from uuid import uuid4

import psycopg
import pytest
import zmq
import zmq.asyncio
from psp_client import OutcomeUnknown, Settings, _async, _sync
from psp_client._messages import Kind, Status

WAIT_S = 60
TX = uuid4()


def nowhere() -> NoReturn:
    """A session for looking the daemon's address up, on which psp is just being released."""
    raise psycopg.errors.UndefinedFunction("psp.client_endpoint() does not exist")


async def nowhere_async() -> NoReturn:
    nowhere()


@contextmanager
def silent_daemon() -> Iterator[Settings]:
    """Listens, and says nothing."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as daemon:
        daemon.bind("tcp://127.0.0.1:*")
        yield Settings(endpoint=daemon.get_string(zmq.LAST_ENDPOINT), retry_interval_s=0.01)


@asynccontextmanager
async def closing(requests: _async._Requests) -> AsyncIterator[_async._Requests]:
    try:
        yield requests
    finally:
        await requests.close()


def test_interrupted_waiting_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with silent_daemon() as settings:
        requests = _sync._Requests(nowhere, settings)
        number = requests.ask(Kind.COMMIT, TX)
        monkeypatch.setattr(requests, "_pause", interrupt)
        with pytest.raises(KeyboardInterrupt):
            requests.wait(number, TX)
        requests.close()
    assert requests._book.due(time.monotonic() + WAIT_S) == []


def test_cancelled_waiting_ends_the_request() -> None:
    async def main() -> None:
        with silent_daemon() as settings:
            async with closing(_async._Requests(nowhere_async, settings)) as requests:
                waiting = asyncio.create_task(requests.wait(await requests.ask(Kind.COMMIT, TX), TX))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                assert waiting.cancelled()
                assert requests._book.due(time.monotonic() + WAIT_S) == []

    asyncio.run(main())


def test_a_release_under_way_is_no_answer() -> None:
    requests = _sync._Requests(nowhere, Settings(timeout_s=0.3))
    with pytest.raises(OutcomeUnknown):
        requests.wait(requests.ask(Kind.COMMIT, TX), TX)


def test_the_task_survives_a_release_under_way() -> None:
    async def main() -> None:
        looks = asyncio.Semaphore(0)

        async def again() -> NoReturn:
            looks.release()
            nowhere()

        async with closing(_async._Requests(again, Settings())) as requests:
            await requests.ask(Kind.COMMIT, TX)
            async with asyncio.timeout(WAIT_S):
                await looks.acquire()
                await looks.acquire()

    asyncio.run(main())


def test_the_task_survives_what_zeromq_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with its next turn."""

    async def main() -> None:
        turns = asyncio.Semaphore(0)

        async def refuse() -> None:
            turns.release()
            raise zmq.ZMQError(zmq.EFSM)

        with silent_daemon() as settings:
            async with closing(_async._Requests(nowhere_async, settings)) as requests:
                monkeypatch.setattr(requests, "_find_endpoint_anew", refuse)
                await requests.ask(Kind.COMMIT, TX)
                async with asyncio.timeout(WAIT_S):
                    await turns.acquire()
                    await turns.acquire()

    asyncio.run(main())


def test_closing_closes_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket, though the task has met a defect of this library."""

    async def main() -> None:
        async def fail() -> None:
            raise LookupError

        with silent_daemon() as settings:
            requests = _async._Requests(nowhere_async, settings)
            monkeypatch.setattr(requests, "_find_endpoint_anew", fail)
            await requests.ask(Kind.COMMIT, TX)
            assert requests._pump is not None
            await asyncio.wait([requests._pump], timeout=WAIT_S)
            await requests.close()
            assert requests._socket is None
            assert isinstance(requests._pump.exception(), LookupError)

    asyncio.run(main())


def test_without_a_request_nothing_runs() -> None:
    """The task ends with the last answer, and the next request begins it again."""

    async def main() -> None:
        with zmq.asyncio.Context() as context, context.socket(zmq.ROUTER) as daemon:
            daemon.bind("tcp://127.0.0.1:*")
            settings = Settings(endpoint=daemon.get_string(zmq.LAST_ENDPOINT))
            async with closing(_async._Requests(nowhere_async, settings)) as requests:
                for number in (1, 2):
                    assert await requests.ask(Kind.COMMIT, TX) == number
                    route, _ = await daemon.recv_multipart()
                    await daemon.send_multipart([route, bytes([8, number, 16, Status.COMMITTED])])
                    assert (await requests.wait(number, TX)).status == Status.COMMITTED
                    assert requests._pump is not None
                    await asyncio.wait([requests._pump], timeout=WAIT_S)
                    assert requests._pump.done()

    asyncio.run(main())
