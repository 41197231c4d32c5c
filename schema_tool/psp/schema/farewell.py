"""What a semi-primary that is released leaves behind: transactions that it lacks, others that go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.output import PspError
from psp.primary import database as primary
from psp.sql_files import read_sql
from psp.waiting import WaitTimeout, wait_until

GONE_AFTER_S = 10.0
"""Within this time psp-primary tells that a daemon has ended: its heartbeat_timeout_ms, and a second."""

_SELF = """
SELECT i.sp_id, i.name, i.cluster_id::text AS cluster_id, i.joining, w.watermark,
       ARRAY(SELECT a.global_t FROM psp.applied a WHERE a.global_t > w.watermark) AS seen,
       (SELECT (status ->> 'closed_t')::int8 FROM psp.daemon_status) AS closed_t
  FROM psp.identity i, psp.watermark w
"""


@dataclass(frozen=True)
class Self:
    """Who the semi-primary is and what it has. closed_t: the newest number that its daemon has heard of."""

    sp_id: int
    name: str
    cluster_id: str
    joining: bool
    watermark: int
    seen: list[int]
    closed_t: int | None


@dataclass(frozen=True)
class Farewell:
    """`lost`: what only the primary would have, empty if nothing; `warnings`: what people should know."""

    lost: str
    warnings: list[str]
    released_t: int | None  # its database has everything up to this number; None: not everything
    is_member: bool


def read_self(connection: psycopg.Connection[Any]) -> Self | None:
    """None: converted to views mode, of no cluster."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_SELF).fetchone()
    return None if row is None else Self(**row)


def without_primary(semi_primary: Self) -> Farewell:
    """What can be told without asking the primary."""
    lost = ""
    newest_t = semi_primary.closed_t or 0
    behind = newest_t - semi_primary.watermark - len(semi_primary.seen)
    if behind > 0 and not semi_primary.joining:
        lost = f"{semi_primary.name} lacked up to {behind} committed transactions when its daemon last looked"
    warnings = [
        f"without --primary-dsn it is not known whether {semi_primary.name} has all committed transactions, "
        f"and the primary goes on keeping its log for {semi_primary.name} until psp primary remove, which is "
        "wanted unless this is a copy and its original goes on"
    ]
    if semi_primary.joining:
        warnings.append(_joining(semi_primary))
    return Farewell(lost, warnings, None, False)


def ask_primary(
    connection: psycopg.Connection[Any], semi_primary: Self, *, may_be_connected: bool
) -> Farewell:
    """PspError if that primary is of another cluster, or has the semi-primary connected from elsewhere.

    The daemon of this database has ended, unless `may_be_connected`: the primary notices that within seconds.
    """
    if primary.read_cluster(connection).cluster_id != semi_primary.cluster_id:
        raise PspError("this primary is of another cluster", "check --primary-dsn")
    ask = _ask if may_be_connected else _ask_when_gone
    row = ask(connection, semi_primary)
    missing = _joining(semi_primary)
    if not missing and (row["missing"] or row["is_before_the_log"]):
        number = f"{row['missing']}{' or more' if row['is_before_the_log'] else ''}"
        missing = (
            f"{semi_primary.name} lacks {number} committed transactions: it has everything up to "
            f"{semi_primary.watermark}, the primary up to {row['newest_t']}"
        )
    warnings = []
    if row["others"]:
        if missing:
            warnings.append(missing)
        warnings.append(
            f"{', '.join(row['others'])} may go on writing: what is committed there from now on does not "
            "come here, and what is written here does not go there"
        )
    if not row["is_member"]:
        warnings.append(f"{semi_primary.name} has been removed from the cluster already")
    lost = "" if row["others"] else missing
    return Farewell(lost, warnings, None if missing else row["newest_t"], row["is_member"])


def _ask(connection: psycopg.Connection[Any], semi_primary: Self) -> dict[str, Any]:
    lock_class, lock = primary.daemon_lock()
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            read_sql("primary/command/release.sql"),
            {
                "sp_id": semi_primary.sp_id, "watermark": semi_primary.watermark, "seen": semi_primary.seen,
                "lock_class": lock_class, "lock": lock,
            },
        ).fetchone()  # fmt: skip
    assert row is not None
    return row


def _ask_when_gone(connection: psycopg.Connection[Any], semi_primary: Self) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        connection.rollback()  # what is committed by now
        row = _ask(connection, semi_primary)
        return None if row["is_connected"] else row

    try:
        return wait_until("the primary to notice", look, GONE_AFTER_S)
    except WaitTimeout:
        raise PspError(
            f"{semi_primary.name} is connected to the primary from another database: this one is a copy, and "
            "--primary-dsn would remove the original from the cluster",
            "release it without --primary-dsn; if the daemon of this database was killed just now, try again",
        ) from None


def _joining(semi_primary: Self) -> str:
    return f"{semi_primary.name} has not got all rows yet: it is joining" if semi_primary.joining else ""
