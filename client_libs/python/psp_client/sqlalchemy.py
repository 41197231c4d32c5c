# SPDX-License-Identifier: PostgreSQL
"""Transactions of SQLAlchemy that are run again: each is committed once, or an error tells that it is not.

from psp_client.sqlalchemy import run

run(engine, lambda session: session.execute(text("UPDATE item SET stock = stock - 1 WHERE id = 7")))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Engine, TextClause, event, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from psp_client._errors import OutcomeUnknown, is_committed
from psp_client._outcome import (
    BACKOFF,
    FIND_ID,
    FIND_PSP,
    TIMEOUT_S,
    Deadline,
    as_id,
    is_worth_another,
    may_be_committed,
)
from psp_client._places import FENCE, TOKEN, Places, fence_key, is_gone, is_in_vain, is_useless
from psp_client._retry import Backoff

__all__ = ["OutcomeUnknown", "Places", "outcome", "outcome_async", "run", "run_async"]

T = TypeVar("T")
Source = Engine | sessionmaker[Any]
AsyncSource = AsyncEngine | async_sessionmaker[Any]
_FIND_OUTCOME = text("SELECT CAST(psp.outcome(CAST(:tx AS uuid)) AS text)")
_WAIT_FOR = text("SELECT psp.wait_for(:token)")
_FENCE = text(FENCE.replace("%s", ":key"))
_DRIVERS = ("asyncpg", "psycopg")
_HAS_PSP = "psp_client.has_psp"  # in the pooled connection's info


def run(
    source: Source | Places[Source], work: Callable[[Session], T], *,
    backoff: Backoff = BACKOFF, timeout_s: float = TIMEOUT_S, token: str | None = None,
    on_token: Callable[[str], object] | None = None,
) -> T:  # fmt: skip
    """Commits what `work(session)` does, once; returns what it returns.

    `work` may run several times, each time in a new session. OutcomeUnknown: psp has told nothing of the
    outcome for `timeout_s`. On a PostgreSQL without psp, an error that leaves the outcome open is raised.

    With Places of several engines, the nearest first, the next one is taken where one is gone, once it has
    what was committed and seen before. `token`: what the transaction must see besides; `on_token` is called
    with one of this transaction.
    """
    places = source if isinstance(source, Places) else Places(source)
    failures = 0
    while True:
        attempt, place = _Attempt(), places.at
        try:
            _reach(places, place, token)
            attempt.has_begun = True
            with _session(places.sources[place]) as session, session.begin():
                result = work(session)
                attempt.begin_commit(session)
            break
        except Exception as error:
            if _is_gone(error):
                places.leave(place)
            asked = attempt.id_to_ask_about(error)
            if asked is not None and is_committed(
                asked, outcome(_engines(places, attempt), asked, timeout_s)
            ):
                if attempt.is_of_commit(error):
                    attempt.is_answer_lost = True
                    break
                raise  # by a listener of after_commit
            failures += 1
            is_last = failures >= backoff.attempts or is_in_vain(_sqlstate(error), attempt.has_begun)
            if is_last or not _is_worth_another(error):
                raise
        time.sleep(backoff.pause_s(failures))
    if attempt.has_psp and (on_token or places.need_tokens):
        noted = _note_token(places, None if attempt.is_answer_lost else place, timeout_s)
        if on_token and noted is not None:
            on_token(noted)
    return result


async def run_async(
    source: AsyncSource | Places[AsyncSource], work: Callable[[AsyncSession], Awaitable[T]], *,
    backoff: Backoff = BACKOFF, timeout_s: float = TIMEOUT_S, token: str | None = None,
    on_token: Callable[[str], object] | None = None,
) -> T:  # fmt: skip
    """As `run`."""
    places = source if isinstance(source, Places) else Places(source)
    failures = 0
    while True:
        attempt, place = _Attempt(), places.at
        try:
            await _reach_async(places, place, token)
            attempt.has_begun = True
            async with _async_session(places.sources[place]) as session, session.begin():
                result = await work(session)
                await session.run_sync(attempt.begin_commit)
            break
        except Exception as error:
            if _is_gone(error):
                places.leave(place)
            asked = attempt.id_to_ask_about(error)
            if asked is not None and is_committed(
                asked, await outcome_async(_async_engines(places, attempt), asked, timeout_s)
            ):
                if attempt.is_of_commit(error):
                    attempt.is_answer_lost = True
                    break
                raise
            failures += 1
            is_last = failures >= backoff.attempts or is_in_vain(_sqlstate(error), attempt.has_begun)
            if is_last or not _is_worth_another(error):
                raise
        await asyncio.sleep(backoff.pause_s(failures))
    if attempt.has_psp and (on_token or places.need_tokens):
        noted = await _note_token_async(places, None if attempt.is_answer_lost else place, timeout_s)
        if on_token and noted is not None:
            on_token(noted)
    return result


def outcome(engine: Engine | Sequence[Engine], tx_id: UUID, timeout_s: float = TIMEOUT_S) -> str:
    """`committed`, `aborted` or, of a very old one, `forgotten`. Several engines are asked in turns.

    OutcomeUnknown: nobody has answered for so long.
    """
    engines = cycle([engine] if isinstance(engine, Engine) else engine)
    deadline = Deadline(timeout_s)
    while True:
        try:
            with next(engines).connect() as connection:
                return str(connection.scalar(_FIND_OUTCOME, {"tx": str(tx_id)}))
        except Exception as error:
            pause_s = _pause_s(deadline, error, tx_id)
        time.sleep(pause_s)


async def outcome_async(
    engine: AsyncEngine | Sequence[AsyncEngine], tx_id: UUID, timeout_s: float = TIMEOUT_S
) -> str:
    """As `outcome`."""
    engines = cycle([engine] if isinstance(engine, AsyncEngine) else engine)
    deadline = Deadline(timeout_s)
    while True:
        try:
            async with next(engines).connect() as connection:
                return str(await connection.scalar(_FIND_OUTCOME, {"tx": str(tx_id)}))
        except Exception as error:
            pause_s = _pause_s(deadline, error, tx_id)
        await asyncio.sleep(pause_s)


def _pause_s(deadline: Deadline, error: Exception, tx_id: UUID) -> float:
    if not _is_worth_another(error):
        raise error
    pause_s = deadline.pause_s()
    if pause_s is None:
        raise OutcomeUnknown(tx_id, str(error)) from error
    return pause_s


def _scalar(engine: Engine, query: TextClause, parameters: dict[str, str] | None = None) -> Any:
    """In a transaction of its own, which begins with the query."""
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        return connection.scalar(query, parameters)


def _reach(places: Places[Source], place: int, token: str | None) -> None:
    """Waits until there is at the place what must be seen."""
    source = places.sources[place]
    for seen, wanted in places.waits_at(place):
        try:
            _scalar(_engine(source), _WAIT_FOR, {"token": wanted})
        except DBAPIError as error:
            if not is_useless(_sqlstate(error)):
                raise
            seen.forget()
    if token is not None:
        _scalar(_engine(source), _WAIT_FOR, {"token": token})


def _note_token(places: Places[Source], place: int | None, timeout_s: float) -> str | None:
    """What a later transaction has to see. Without a place: its COMMIT's answer was lost."""
    if place is not None:
        try:
            token = str(_scalar(_engine(places.sources[place]), text(TOKEN)))
            places.note(place, token)
            return token
        except Exception as error:
            if not _is_gone(error):
                return None  # it joins, for example
            places.leave(place)
    deadline = Deadline(timeout_s)
    while True:
        place = places.at
        try:
            engine = _engine(places.sources[place])
            with engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.execute(_FENCE, {"key": fence_key()})
                return places.seen.note_fence(str(connection.scalar(text(TOKEN))))
        except Exception as error:
            if not _is_worth_another(error):
                return None
            if _is_gone(error):
                places.leave(place)
        pause_s = deadline.pause_s()
        if pause_s is None:
            return None
        time.sleep(pause_s)


async def _scalar_async(
    engine: AsyncEngine, query: TextClause, parameters: dict[str, str] | None = None
) -> Any:
    """In a transaction of its own, which begins with the query."""
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        return await connection.scalar(query, parameters)


async def _reach_async(places: Places[AsyncSource], place: int, token: str | None) -> None:
    """Waits until there is at the place what must be seen."""
    source = places.sources[place]
    for seen, wanted in places.waits_at(place):
        try:
            await _scalar_async(_async_engine(source), _WAIT_FOR, {"token": wanted})
        except DBAPIError as error:
            if not is_useless(_sqlstate(error)):
                raise
            seen.forget()
    if token is not None:
        await _scalar_async(_async_engine(source), _WAIT_FOR, {"token": token})


async def _note_token_async(places: Places[AsyncSource], place: int | None, timeout_s: float) -> str | None:
    """What a later transaction has to see. Without a place: its COMMIT's answer was lost."""
    if place is not None:
        try:
            token = str(await _scalar_async(_async_engine(places.sources[place]), text(TOKEN)))
            places.note(place, token)
            return token
        except Exception as error:
            if not _is_gone(error):
                return None  # it joins, for example
            places.leave(place)
    deadline = Deadline(timeout_s)
    while True:
        place = places.at
        try:
            engine = _async_engine(places.sources[place])
            async with engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.execute(_FENCE, {"key": fence_key()})
                return places.seen.note_fence(str(await connection.scalar(text(TOKEN))))
        except Exception as error:
            if not _is_worth_another(error):
                return None
            if _is_gone(error):
                places.leave(place)
        pause_s = deadline.pause_s()
        if pause_s is None:
            return None
        await asyncio.sleep(pause_s)


def _session(source: Source) -> Session:
    # What `work` returns is used after the commit.
    return Session(source, expire_on_commit=False) if isinstance(source, Engine) else source()


def _async_session(source: AsyncSource) -> AsyncSession:
    return AsyncSession(source, expire_on_commit=False) if isinstance(source, AsyncEngine) else source()


def _engine(source: Source) -> Engine:
    found: Engine = source if isinstance(source, Engine) else source.kw["bind"]
    return found


def _async_engine(source: AsyncSource) -> AsyncEngine:
    found: AsyncEngine = source if isinstance(source, AsyncEngine) else source.kw["bind"]
    return found


def _engines(places: Places[Source], attempt: _Attempt) -> list[Engine]:
    """To ask in turns, that of the attempt first."""
    if not places.are_several:  # a sessionmaker may know it only when it is used
        return [attempt.engine()]
    first = places.at
    return [_engine(source) for source in (*places.sources[first:], *places.sources[:first])]


def _async_engines(places: Places[AsyncSource], attempt: _Attempt) -> list[AsyncEngine]:
    if not places.are_several:
        return [AsyncEngine(attempt.engine())]
    first = places.at
    return [_async_engine(source) for source in (*places.sources[first:], *places.sources[:first])]


@dataclass
class _Attempt:
    """One transaction, from the moment at which only its COMMIT is left."""

    connection: Connection | None = None
    tx_id: UUID | None = None
    has_psp: bool = False
    is_committing: bool = False
    is_answer_lost: bool = False
    has_begun: bool = False

    def engine(self) -> Engine:
        assert self.connection is not None
        return self.connection.engine

    def begin_commit(self, session: Session) -> None:
        session.flush()
        self.connection = session.connection()
        info = self.connection.info
        if _HAS_PSP not in info:
            info[_HAS_PSP] = bool(self.connection.scalar(text(FIND_PSP)))
        self.has_psp = info[_HAS_PSP]
        if self.has_psp:
            self.tx_id = as_id(self.connection.scalar(text(FIND_ID)))
        if not event.contains(self.connection.engine, "handle_error", _note_commit):
            event.listen(self.connection.engine, "handle_error", _note_commit)
        self.is_committing = True

    def is_of_commit(self, error: Exception) -> bool:
        """Whether COMMIT itself has failed. Else a listener of the session: before it, or after it."""
        return getattr(_own(error), "psp_commit_of", None) is self.connection

    def id_to_ask_about(self, error: Exception) -> UUID | None:
        """None: the transaction was rolled back. Raises the error if nobody could tell."""
        if not self.is_committing or (self.is_of_commit(error) and not may_be_committed(_sqlstate(error))):
            return None
        if not self.has_psp:
            raise error
        return self.tx_id


def _note_commit(context: ExceptionContext) -> None:
    if context.statement is None:
        context.original_exception.psp_commit_of = context.connection  # type: ignore[attr-defined]


def _own(error: Exception) -> BaseException | None:
    """The driver's error."""
    return error.orig if isinstance(error, DBAPIError) else error


def _sqlstate(error: Exception) -> str | None:
    """As psycopg, asyncpg, psycopg2 and pg8000 tell it; None if the server has sent no error."""
    own = _own(error)
    found = getattr(own, "sqlstate", None) or getattr(own, "pgcode", None)
    if found is None and own is not None and own.args and isinstance(own.args[0], dict):
        found = own.args[0].get("C")
    return found


def _is_worth_another(error: Exception) -> bool:
    sqlstate = _sqlstate(error)
    if sqlstate is not None:
        return is_worth_another(sqlstate)
    if isinstance(error, DBAPIError):  # the connection is lost, or a mistake of the call
        return error.connection_invalidated or isinstance(error, OperationalError)
    # SQLAlchemy passes on what drivers raise while it makes a connection.
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _DRIVERS


def _is_gone(error: Exception) -> bool:
    return _is_worth_another(error) and is_gone(_sqlstate(error))
