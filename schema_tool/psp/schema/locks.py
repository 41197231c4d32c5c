"""Locks on all tables at once, taken without making the application's sessions victims."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.schema.model import Table

ATTEMPT_MS = 800
"""Below deadlock_timeout's default: we give up before PostgreSQL looks for a victim, maybe somebody else."""
PAUSE_S = 0.5

Say = Callable[[str], None]

_HOLDERS = """
SELECT DISTINCT format('pid %%s (%%s, %%s, %%s for %%s s)', a.pid, a.usename,
                       coalesce(nullif(a.application_name, ''), '-'), a.state,
                       round(extract(epoch FROM clock_timestamp() - a.xact_start)))
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY (%s) AND l.database =
      (SELECT oid FROM pg_database WHERE datname = current_database())
  AND a.pid <> pg_backend_pid() AND l.mode = ANY (%s)
"""

MODES = {
    "SHARE ROW EXCLUSIVE": [
        "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "ExclusiveLock",
        "AccessExclusiveLock",
    ],
    "ACCESS EXCLUSIVE": [
        "AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock",
        "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock",
    ],
}  # fmt: skip
"""A lock mode, and the modes that it waits for."""


class BlockedError(PspError):
    """The locks could not be had in time."""


def retry_while_locked(
    connection: psycopg.Connection[Any], tables: Iterable[Table], mode: str, wait_s: float, say: Say,
    work: Callable[[], Any],
) -> None:  # fmt: skip
    """Runs `work`, which starts a transaction by `lock`, again and again while it is refused locks.

    Each time `say` is told who holds them. Raises BlockedError after `wait_s`.
    """
    oids = [relation.oid for table in tables for relation in table.relations]
    retry_while_relations_locked(connection, oids, mode, wait_s, say, work)


def retry_while_relations_locked(
    connection: psycopg.Connection[Any], oids: list[int], mode: str, wait_s: float, say: Say,
    work: Callable[[], Any],
) -> None:  # fmt: skip
    """The same for relations by their OIDs; `work` sets lock_timeout itself, to ATTEMPT_MS."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            work()
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            connection.rollback()
            holders = [row[0] for row in connection.execute(_HOLDERS, (oids, MODES[mode])).fetchall()]
            connection.rollback()
            blockers = ", ".join(holders) or "a session that has ended since"
            if time.monotonic() > deadline:
                raise BlockedError(
                    f"no lock on all tables within {wait_s:g} s; held by {blockers}",
                    "end those transactions, or try again with a longer --lock-wait",
                ) from error
            say(f"waiting for locks held by {blockers}")
            time.sleep(PAUSE_S)  # between attempts: those who queued behind us go first


def lock(connection: psycopg.Connection[Any], tables: Iterable[Table], mode: str) -> None:
    """Locks the tables and their partitions to the end of the transaction."""
    connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(ATTEMPT_MS)))
    names = [sql.Identifier(table.schema, table.name) for table in tables]
    if names:
        statement = sql.SQL("LOCK TABLE {} IN {} MODE").format(sql.SQL(", ").join(names), sql.SQL(mode))
        connection.execute(statement)
