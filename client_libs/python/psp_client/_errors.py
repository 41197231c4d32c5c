# SPDX-License-Identifier: PostgreSQL
"""Exceptions: psycopg's classes, so that a program catches the same ones in both modes."""

from __future__ import annotations

from uuid import UUID

import psycopg
from psycopg import errors

from psp_client._messages import Reply, Status
from psp_client._outcome import FORGOTTEN, is_worth_another
from psp_client._places import is_gone


class OutcomeUnknown(errors.TransactionResolutionUnknown):
    """No answer came in time (SQLSTATE 08007). `commit(error.tx_id)` asks again, at any time.

    Or the question came so late that the primary has forgotten the transaction; then it stays so.
    """

    def __init__(self, tx_id: UUID, why: str = "") -> None:
        super().__init__(f"psp: transaction {tx_id} may be committed or not{': ' if why else ''}{why}")
        self.tx_id = tx_id


def is_committed(tx_id: UUID, outcome: str, unknown: type[OutcomeUnknown] = OutcomeUnknown) -> bool:
    """What psp.outcome says. Raises `unknown` if nobody knows any more."""
    if outcome == FORGOTTEN:
        raise unknown(tx_id, "it is forgotten")
    return outcome == "committed"


def error_of(reply: Reply) -> psycopg.Error:
    """The exception for a transaction that was aborted, or for a request that failed."""
    lines = [reply.message or "psp: the transaction is aborted"]
    lines += [f"DETAIL:  {reply.detail}"] if reply.detail else []
    lines += [f"HINT:  {reply.hint}"] if reply.hint else []
    fallback = "40000" if reply.status == Status.ABORTED else "08P01"
    return _with_state(reply.sqlstate or fallback, "\n".join(lines))


def failed_transaction() -> psycopg.Error:
    """COMMIT of a transaction in which a statement has failed: PostgreSQL rolls back without a reason."""
    return errors.InFailedSqlTransaction(
        "psp: a statement of the transaction has failed; it is rolled back, nothing was committed"
    )


def is_retryable(error: psycopg.Error) -> bool:
    """Whether the whole transaction may succeed if it is run again. It must be known to be rolled back."""
    if error.sqlstate is None:  # the connection is lost, or a mistake of the call
        return isinstance(error, psycopg.OperationalError)
    return not isinstance(error, OutcomeUnknown) and is_worth_another(error.sqlstate)


def is_of_gone(error: psycopg.Error) -> bool:
    """Whether the server has gone, or its daemon: another semi-primary may do better."""
    is_lost = isinstance(error, psycopg.OperationalError) and is_gone(error.sqlstate)
    return is_lost or (isinstance(error.__cause__, psycopg.Error) and is_of_gone(error.__cause__))


def instead_of(error: psycopg.Error, answer: psycopg.Error) -> psycopg.Error:
    """Of a COMMIT's error and the answer to the question about it, what says more."""
    if isinstance(answer, OutcomeUnknown) or is_worth_another(error.sqlstate):
        answer.__cause__ = error
        return answer
    return error


def _with_state(sqlstate: str, message: str) -> psycopg.Error:
    try:
        return errors.lookup(sqlstate)(message)
    except KeyError:
        error = psycopg.OperationalError(message)
        error.sqlstate = sqlstate
        return error
