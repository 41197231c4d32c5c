# SPDX-License-Identifier: PostgreSQL
"""What an error says of a transaction, and the questions to psp: for clients, Django and SQLAlchemy."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from psp_client._retry import Backoff

FIND_PSP = "SELECT pg_catalog.to_regprocedure('psp.transaction_id()') IS NOT NULL"
FIND_ID = (
    "SELECT CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN psp.transaction_id() END"
)
"""NULL: it has written nothing, and nobody will have to ask."""
BACKOFF = Backoff(attempts=30, first_s=0.01, longest_s=2.0)
ASK_AGAIN = Backoff(first_s=0.1, longest_s=1.5)
"""The pauses between questions: a semi-primary answers 20 a second."""
TIMEOUT_S = 60.0

FORGOTTEN = "forgotten"
"""What psp.outcome says of a transaction that is so old that nobody knows it any more."""

_AGAIN = ("40", "08", "53", "57")  # classes of SQLSTATEs
_ROLLED_BACK = ("40001", "40P01", "40000", "08006", "0A000", "53200", "54000")


def may_be_committed(sqlstate: str | None) -> bool:
    """Whether a COMMIT that failed so may have committed all the same. None: the connection is lost."""
    return sqlstate is None or (sqlstate not in _ROLLED_BACK and not sqlstate.startswith("23"))


def is_worth_another(sqlstate: str | None) -> bool:
    """Whether the whole transaction may succeed if it is run again."""
    return sqlstate is None or sqlstate[:2] in _AGAIN


class Deadline:
    """Questions are asked until it is over."""

    def __init__(self, timeout_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._end_s = now_s() + timeout_s
        self._failures = 0

    def pause_s(self) -> float | None:
        """How long to wait after a question that failed; None: no longer."""
        self._failures += 1
        left_s = self._end_s - self._now_s()
        return min(ASK_AGAIN.pause_s(self._failures), left_s) if left_s > 0 else None


def as_id(value: object) -> UUID | None:
    """An id as any driver returns it."""
    return None if value is None else value if isinstance(value, UUID) else UUID(str(value))
