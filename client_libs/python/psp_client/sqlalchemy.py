"""Transactions of SQLAlchemy that are run again: each is committed once, or an error tells that it is not.

from psp_client.sqlalchemy import run

run(engine, lambda session: session.execute(text("UPDATE item SET stock = stock - 1 WHERE id = 7")))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Engine, event, text
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
from psp_client._retry import Backoff

__all__ = ["OutcomeUnknown", "outcome", "outcome_async", "run", "run_async"]

T = TypeVar("T")
_FIND_OUTCOME = text("SELECT CAST(psp.outcome(CAST(:tx AS uuid)) AS text)")
_DRIVERS = ("asyncpg", "psycopg")
_HAS_PSP = "psp_client.has_psp"  # in the pooled connection's info


def run(
    source: Engine | sessionmaker[Any], work: Callable[[Session], T], *,
    backoff: Backoff = BACKOFF, timeout_s: float = TIMEOUT_S,
) -> T:  # fmt: skip
    """Commits what `work(session)` does, once; returns what it returns.

    `work` may run several times, each time in a new session. OutcomeUnknown: psp has told nothing of the
    outcome for `timeout_s`. On a PostgreSQL without psp, an error that leaves the outcome open is raised.
    """
    failures = 0
    while True:
        attempt = _Attempt()
        try:
            with _session(source) as session, session.begin():
                result = work(session)
                attempt.begin_commit(session)
            return result
        except Exception as error:
            asked = attempt.id_to_ask_about(error)
            if asked is not None and is_committed(asked, outcome(attempt.engine(), asked, timeout_s)):
                if attempt.is_of_commit(error):
                    return result
                raise  # by a listener of after_commit
            failures += 1
            if not _is_worth_another(error) or failures >= backoff.attempts:
                raise
        time.sleep(backoff.pause_s(failures))


async def run_async(
    source: AsyncEngine | async_sessionmaker[Any], work: Callable[[AsyncSession], Awaitable[T]], *,
    backoff: Backoff = BACKOFF, timeout_s: float = TIMEOUT_S,
) -> T:  # fmt: skip
    """As `run`."""
    failures = 0
    while True:
        attempt = _Attempt()
        try:
            async with _async_session(source) as session, session.begin():
                result = await work(session)
                await session.run_sync(attempt.begin_commit)
            return result
        except Exception as error:
            asked = attempt.id_to_ask_about(error)
            if asked is not None and await _is_committed(attempt.engine(), asked, timeout_s):
                if attempt.is_of_commit(error):
                    return result
                raise
            failures += 1
            if not _is_worth_another(error) or failures >= backoff.attempts:
                raise
        await asyncio.sleep(backoff.pause_s(failures))


def outcome(engine: Engine, tx_id: UUID, timeout_s: float = TIMEOUT_S) -> str:
    """`committed`, `aborted` or, of a very old one, `forgotten`.

    OutcomeUnknown: nobody has answered for so long.
    """
    deadline = Deadline(timeout_s)
    while True:
        try:
            with engine.connect() as connection:
                return str(connection.scalar(_FIND_OUTCOME, {"tx": str(tx_id)}))
        except Exception as error:
            pause_s = _pause_s(deadline, error, tx_id)
        time.sleep(pause_s)


async def outcome_async(engine: AsyncEngine, tx_id: UUID, timeout_s: float = TIMEOUT_S) -> str:
    """As `outcome`."""
    deadline = Deadline(timeout_s)
    while True:
        try:
            async with engine.connect() as connection:
                return str(await connection.scalar(_FIND_OUTCOME, {"tx": str(tx_id)}))
        except Exception as error:
            pause_s = _pause_s(deadline, error, tx_id)
        await asyncio.sleep(pause_s)


async def _is_committed(engine: Engine, tx_id: UUID, timeout_s: float) -> bool:
    return is_committed(tx_id, await outcome_async(AsyncEngine(engine), tx_id, timeout_s))


def _pause_s(deadline: Deadline, error: Exception, tx_id: UUID) -> float:
    if not _is_worth_another(error):
        raise error
    pause_s = deadline.pause_s()
    if pause_s is None:
        raise OutcomeUnknown(tx_id, str(error)) from error
    return pause_s


def _session(source: Engine | sessionmaker[Any]) -> Session:
    # What `work` returns is used after the commit.
    return Session(source, expire_on_commit=False) if isinstance(source, Engine) else source()


def _async_session(source: AsyncEngine | async_sessionmaker[Any]) -> AsyncSession:
    return AsyncSession(source, expire_on_commit=False) if isinstance(source, AsyncEngine) else source()


@dataclass
class _Attempt:
    """One transaction, from the moment at which only its COMMIT is left."""

    connection: Connection | None = None
    tx_id: UUID | None = None
    has_psp: bool = False
    is_committing: bool = False

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
