"""psp_client.sqlalchemy at a cluster: conflicts, lost answers, unknown outcomes, listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import psycopg
import pytest
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp_client import Backoff
from psp_client import sqlalchemy as helper
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.cluster.support import WAIT_S, applying_paused, as_admin, execute
from tests.retrying.support import rival, url_of, wait_for_units
from tests.threads import running

QUICK = Backoff(attempts=5, first_s=0.01, longest_s=0.1)
Run = Callable[[Engine, Callable[[Session], Any]], Any]


def run_in_loop(engine: Engine, work: Callable[[Session], Any]) -> Any:
    """run_async, of an engine that an engine for asyncio has the URL of."""

    async def main() -> Any:
        own = create_async_engine(engine.url)
        own.sync_engine.dialect.do_commit = engine.dialect.do_commit  # type: ignore[method-assign]

        async def inner(session: AsyncSession) -> Any:
            return await session.run_sync(work)

        try:
            return await helper.run_async(async_sessionmaker(own), inner, backoff=QUICK)
        finally:
            await own.dispose()

    return asyncio.run(main())


RUNS: dict[str, Run] = {
    "engine": partial(helper.run, backoff=QUICK),
    "sessionmaker": lambda engine, work: helper.run(sessionmaker(engine), work, backoff=QUICK),
    "asyncio": run_in_loop,
}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


@pytest.fixture
def engine(pair: LocalCluster) -> Iterator[Engine]:
    found = create_engine(f"postgresql+psycopg://{url_of(pair, 0)}")
    yield found
    found.dispose()


class Work:
    """A unit of work that loses its first attempts: another SP commits the same row before it."""

    def __init__(self, pair: LocalCluster, losses: int) -> None:
        self.calls = 0
        self._pair = pair
        self._losses = losses

    def __call__(self, session: Session) -> str:
        self.calls += 1
        session.execute(text("UPDATE counter SET value = value + 1"))
        session.execute(text("INSERT INTO unit (name) VALUES ('it')"))
        if self.calls <= self._losses:
            rival(self._pair)
        return "done"


def commit_and_lose(commit: Callable[[Any], None], connection: Any) -> None:
    commit(connection)
    lose(commit, connection)


def lose(_: Callable[[Any], None], connection: Any) -> None:
    """Psycopg's connection of an engine for asyncio is inside an adapter."""
    getattr(connection, "_connection", connection).pgconn.finish()
    raise psycopg.OperationalError("the connection is lost")


def at_commit(engine: Engine, replacement: Callable[[Callable[[Any], None], Any], None]) -> Any:
    """The engine's first COMMIT does this instead."""
    own, calls = engine.dialect.do_commit, []

    def commit(connection: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            replacement(own, connection)
        else:
            own(connection)

    return mock.patch.object(engine.dialect, "do_commit", commit)


def test_a_conflict_is_run_again(pair: LocalCluster, engine: Engine, run: Run) -> None:
    work = Work(pair, losses=2)
    assert run(engine, work) == "done"
    assert work.calls == 3
    wait_for_units(pair, ["it"])


def test_it_gives_up_with_the_last_error(pair: LocalCluster, engine: Engine, run: Run) -> None:
    work = Work(pair, losses=9)
    with pytest.raises(OperationalError) as caught:
        run(engine, work)
    assert isinstance(caught.value.orig, psycopg.errors.SerializationFailure)
    assert work.calls == 5
    wait_for_units(pair, [])


def test_nothing_else_is_run_again(engine: Engine, run: Run) -> None:
    calls = []

    def work(session: Session) -> None:
        calls.append(1)
        session.execute(text("INSERT INTO counter VALUES (1, 0)"))

    with pytest.raises(IntegrityError):
        run(engine, work)
    assert len(calls) == 1


@pytest.mark.parametrize(("lost", "calls"), [(commit_and_lose, 1), (lose, 2)])
def test_a_lost_connection_at_commit_is_asked_about(
    pair: LocalCluster, engine: Engine, run: Run, lost: Callable[..., None], calls: int
) -> None:
    work = Work(pair, losses=0)
    with at_commit(engine, lost):
        assert run(engine, work) == "done"
    assert work.calls == calls
    wait_for_units(pair, ["it"])


def test_an_outcome_that_stays_unknown(
    pair: LocalCluster, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(pair, losses=0)
    with monkeypatch.context() as patch:
        patch.setattr(helper, "_FIND_OUTCOME", text("SELECT pg_terminate_backend(pg_backend_pid()), :tx"))
        with at_commit(engine, commit_and_lose), pytest.raises(helper.OutcomeUnknown) as caught:
            helper.run(engine, work, timeout_s=0.2)
    assert (helper.outcome(engine, caught.value.tx_id), work.calls) == ("committed", 1)
    wait_for_units(pair, ["it"])


def test_an_error_of_a_listener_is_no_error_of_commit(pair: LocalCluster, engine: Engine) -> None:
    """After the COMMIT: it is passed on, and nothing is run again, though it is a COMMIT's and says 40001."""
    work, failing = Work(pair, losses=0), Work(pair, losses=9)
    sessions = sessionmaker(engine)

    def after_commit(_: Session) -> None:
        helper.run(engine, failing, backoff=Backoff(attempts=1))

    event.listen(sessions, "after_commit", after_commit)
    with pytest.raises(OperationalError):
        helper.run(sessions, work, backoff=QUICK)
    assert (work.calls, failing.calls) == (1, 1)
    wait_for_units(pair, ["it"])


def test_inside_a_transaction_it_is_refused(pair: LocalCluster, engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        same: Any = lambda: session  # noqa: E731
        with pytest.raises(Exception, match="already begun"):
            helper.run(same, Work(pair, losses=0))


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "answer lost"])
@pytest.mark.parametrize("how", ["sync", "asyncio"])
def test_the_next_semi_primary_has_what_was_committed(pair: LocalCluster, how: str, is_lost: bool) -> None:
    urls = [f"postgresql+psycopg://{url_of(pair, sp)}?application_name=places" for sp in range(2)]
    engines = [create_engine(url) for url in urls]
    work = Work(pair, losses=0)
    places = helper.Places(*engines)
    with ExitStack() as late:
        late.enter_context(applying_paused(pair.sps[1]))
        with at_commit(engines[0], commit_and_lose) if is_lost else nullcontext():
            helper.run(places, work, backoff=QUICK)
        read: list[Any] = []

        def look(session: Session) -> list[Any]:
            return list(session.scalars(text("SELECT name FROM unit")))

        with running(lambda: read.extend(read_at_next(how, places, urls, look))):
            wait_until("the wait", lambda: execute(as_admin(pair.sps[1]), WAITS), WAIT_S)
            late.close()
    assert read == ["it"]
    assert work.calls == 1
    wait_for_units(pair, ["it"])
    for engine in engines:
        engine.dispose()


WAITS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'places' AND query LIKE '%psp.wait_for%'"


def read_at_next(
    how: str, places: helper.Places[Any], urls: list[str], look: Callable[[Session], list[Any]]
) -> list[Any]:
    """The first one is gone."""
    if how == "sync":
        places.leave(0)
        return helper.run(places, look)

    async def main() -> list[Any]:
        own = helper.Places(*(create_async_engine(url) for url in urls))
        own.leave(0)

        async def inner(session: AsyncSession) -> list[Any]:
            return await session.run_sync(look)

        try:
            return await helper.run_async(own, inner, token=places.seen.text)
        finally:
            for engine in own.sources:
                await engine.dispose()

    return asyncio.run(main())
