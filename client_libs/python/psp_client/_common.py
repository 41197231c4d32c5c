# SPDX-License-Identifier: PostgreSQL
"""What the clients for threads and for asyncio share: settings, statements, what an answer means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import psycopg

from psp_client._errors import OutcomeUnknown, error_of
from psp_client._messages import Reply, Status
from psp_client._outcome import may_be_committed
from psp_client._places import Places
from psp_client._retry import Backoff

FIND_MODE = "SELECT pg_catalog.to_regprocedure('psp.client_endpoint()') IS NOT NULL"
FIND_ENDPOINT = "SELECT psp.client_endpoint()"
FIND_OUTCOME = "SELECT psp.outcome(%s)::pg_catalog.text"
ISOLATION_LEVELS = ("repeatable read", "read committed")
LOOK_INTERVAL_S = 0.2
"""Between attempts to reach who is not there."""
FIND_AGAIN_AFTER = 2
"""A request that went unanswered so often: the daemon may listen elsewhere by now."""


@dataclass(frozen=True)
class Settings:
    """retry_interval_s: an unanswered request is sent again; timeout_s: its outcome counts as unknown."""

    isolation: str = "repeatable read"
    retry_interval_s: float = 2.0
    timeout_s: float = 60.0
    endpoint: str | None = None
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATION_LEVELS:
            raise ValueError(f"isolation {self.isolation!r}: one of {', '.join(ISOLATION_LEVELS)}")


@dataclass(frozen=True)
class Committed:
    """A committed transaction. global_t: its number at the primary, if it is known here."""

    tx_id: UUID
    global_t: int | None = None


class NoTransactionError(psycopg.ProgrammingError):
    """commit, abort or a ticket without a transaction that has begun."""

    sqlstate = "25P01"


class TransactionOpenError(psycopg.ProgrammingError):
    """begin while a transaction is open."""

    sqlstate = "25001"


def as_places(dsn: str | Sequence[str] | Places[str]) -> Places[str]:
    """One semi-primary, or several."""
    if isinstance(dsn, Places):
        return dsn
    return Places(dsn) if isinstance(dsn, str) else Places(*dsn)


def connection_id() -> UUID:
    """An id for this library alone, of a transaction that psp gives none, or one of its own at COMMIT.

    Its version, 15, tells it from psp's, so that psp is never asked about an id that it has not given.
    """
    return UUID(int=uuid4().int | 15 << 76)


def refuse_connection_id(tx_id: UUID) -> None:
    """Raises if psp cannot know the transaction by this id."""
    if tx_id.version == 15:
        raise NoTransactionError(
            f"psp: {tx_id} is not under way here, and psp does not know it by this id: "
            "ask for the tx_id of OutcomeUnknown"
        )


def begin_statement(isolation: str, *, read_only: bool, by_request: bool) -> str:
    """One round trip. by_request: psp will be asked to commit; the last result is the transaction's id."""
    begin = f"BEGIN ISOLATION LEVEL {isolation.upper()}{' READ ONLY' if read_only else ''}"
    return f"{begin}; SELECT psp.begin()" if by_request else begin


def reachable(endpoint: str, database_host: str) -> str:
    """The endpoint as a client can connect to it. A daemon that listens everywhere is at its PostgreSQL."""
    for everywhere in ("tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"):
        if endpoint.startswith(everywhere):
            host = "127.0.0.1" if database_host.startswith("/") or not database_host else database_host
            return f"tcp://{host}:{endpoint.removeprefix(everywhere)}"
    return endpoint


def status_of(reply: Reply) -> str:
    """What `outcome` returns for its answer; raises if the semi-primary does not know the transaction."""
    if reply.status == Status.FAILED:
        raise error_of(reply)
    return reply.status.name.lower()


def committed(tx_id: UUID, reply: Reply) -> Committed:
    """What `commit` returns for its answer; raises what it raises."""
    if reply.status != Status.COMMITTED:
        raise error_of(reply)
    return Committed(tx_id, reply.global_t)


def unknown(tx_id: UUID, last: Reply | None) -> OutcomeUnknown:
    """The error after the time limit. `last`: the semi-primary's last words, if there were any."""
    return OutcomeUnknown(tx_id, last.message if last else "the semi-primary does not answer")


@dataclass
class Attempt:
    """One transaction of native mode: what an error of its COMMIT leaves open, and what psp can be asked."""

    can_write: bool = True
    tx_id: UUID | None = None
    """Given by psp; None: it has written nothing, or there is no psp."""
    is_undecided: bool = False
    """Nobody can tell what became of it."""
    is_answer_lost: bool = False
    """psp was asked, and has told that it is committed."""
    _is_committing: bool = False
    _has_psp: bool = False

    def begin_commit(self, *, has_psp: bool) -> None:
        self._is_committing, self._has_psp = True, has_psp

    def id_to_ask_about(self, error: psycopg.Error) -> UUID | None:
        """None: the transaction is rolled back, or nobody can tell."""
        if not self._is_committing or not may_be_committed(error.sqlstate):
            return None
        self.is_undecided = not self._has_psp
        return self.tx_id or _id_in_detail(error)


def _id_in_detail(error: psycopg.Error) -> UUID | None:
    """The id that native mode's 08007 names in DETAIL."""
    if error.sqlstate != "08007":
        return None
    for word in (error.diag.message_detail or "").split():
        try:
            return UUID(word)
        except ValueError:
            continue
    return None
