"""The locks of create and drop, by the rules of psp.schema.locks: nobody else becomes a victim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from psp.mrv.changes import become_owner, is_adopted
from psp.output import PspError
from psp.schema import locks

MODE = "ACCESS EXCLUSIVE"

CLUSTER_MODE = "SHARE UPDATE EXCLUSIVE"
"""Under psp, until psp.ddl holds the table: rows of other servers that it waits for must still arrive."""
CLUSTER_WAIT_MS = 3000
CLUSTER_TRIES = 20

T = TypeVar("T")


def locked(
    connection: psycopg.Connection[Any], oid: int, wait_s: float, say: locks.Say, work: Callable[[], T]
) -> T:
    """Runs `work` and commits, in a transaction that holds the relation (of a view, its base table, too)."""
    results: list[T] = []
    in_cluster = is_adopted(connection)
    mode, wait_ms = (CLUSTER_MODE, CLUSTER_WAIT_MS) if in_cluster else (MODE, locks.ATTEMPT_MS)

    def once() -> None:
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(wait_ms)))
        if in_cluster:
            become_owner(connection, oid)
        for relation in _relations(connection, oid):
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN {} MODE").format(relation, sql.SQL(mode)))
        result = work()
        connection.commit()
        results.append(result)

    def attempt() -> None:
        for last in range(1, CLUSTER_TRIES + 1):
            try:
                once()
                return
            except psycopg.errors.SerializationFailure:
                connection.rollback()
                if not in_cluster or last == CLUSTER_TRIES:
                    raise
                say("lost to a transaction of another semi-primary; trying again")

    locks.retry_while_relations_locked(connection, [oid], MODE, wait_s, say, attempt)
    return results[0]


def _relations(connection: psycopg.Connection[Any], oid: int) -> list[sql.Identifier]:
    rows = connection.execute(
        """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid = %(oid)s::oid OR c.oid IN (
                  SELECT d.refobjid FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
                   WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
                     AND w.ev_class = %(oid)s::oid)
            ORDER BY c.oid = %(oid)s::oid DESC""",
        {"oid": oid},
    ).fetchall()
    if not rows:
        raise PspError("the table has vanished meanwhile")
    return [sql.Identifier(*row) for row in rows]
