"""`psp primary promote`: a plain streaming standby becomes the primary's PostgreSQL, after the checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

from psp.output import PspError
from psp.primary.database import check_version
from psp.sql_files import read_sql
from psp.waiting import WaitTimeout, wait_until

CONNECT_S = 3
REPLAY_S = 10
RECENT_S = 10
"""A standby that has heard its primary so recently is not cut off from it."""

OldServer = Literal["silent", "standby", "writable", "answers", "unknown"]


@dataclass(frozen=True)
class Standby:
    """What sql/primary/command/standby.sql finds."""

    is_standby: bool
    is_paused: bool
    is_replayed: bool
    heard_s: float | None
    old_dsn: str | None
    can_be_rewound_to: bool
    synchronous_standby_names: str
    cluster_id: str
    copies: int
    newest_t: int
    histories: list[str]
    members: list[str]


@dataclass(frozen=True)
class Followed:
    """What sql/semi_primary/command/followed.sql finds."""

    name: str
    cluster_id: str
    newest_t: int
    followed: str | None
    can_commit: bool


def objections(standby: Standby, old: OldServer, sps: Sequence[Followed]) -> Iterator[str]:
    """Why a promotion may lose what was told, or leave two primaries; none: nothing was found."""
    if old == "writable":
        yield "the old server is writable: two servers would be the primary. Stop it, and keep it down"
    elif old == "answers":
        yield "the old server answers, and does not let this command look whether it is writable"
    elif old == "unknown":
        yield "which server it follows cannot be seen here, so that was not looked at: --old DSN"
    if old == "silent" and standby.heard_s is not None and standby.heard_s < RECENT_S:
        yield (
            "the old server does not answer here, but the standby has heard of it "
            f"{standby.heard_s:.0f} s ago: it may only be cut off from here, and go on"
        )
    if standby.is_paused:
        yield "replay is paused here: SELECT pg_wal_replay_resume()"
    elif not standby.is_replayed:
        yield "it has not replayed all WAL that it has received, so its newest number is not known yet"
    for sp in sps:
        yield from _lacks(standby, sp)
    unasked = [name for name in standby.members if name not in {sp.name for sp in sps}]
    if unasked:
        yield (
            f"not asked whether they have more than this standby: {', '.join(unasked)}. "
            "Name the databases of all semi-primaries that can be reached"
        )


def _lacks(standby: Standby, sp: Followed) -> Iterator[str]:
    if sp.cluster_id != standby.cluster_id:
        yield f"{sp.name} belongs to another cluster"
        return
    if sp.can_commit:
        yield f"{sp.name} can commit at this moment: its primary lives and decides"
    if sp.newest_t > standby.newest_t:
        yield (
            f"{sp.name} knows of transactions up to {sp.newest_t}, and the standby has them up to "
            f"{standby.newest_t}: it was not synchronous, and they would be lost"
        )
    if sp.followed is not None and sp.followed not in standby.histories:
        yield (
            f"{sp.name} has followed a start of psp-primary that the standby lacks: "
            "it would wait for a newer primary, until psp schema accept-loss is said there"
        )


def look(dsn: str) -> Standby:
    """PspError if the database is no primary's, or no standby's."""
    with psycopg.connect(dsn, connect_timeout=CONNECT_S, autocommit=True) as connection:
        check_version(connection)
        found = read_server(connection)
    if not found.is_standby:
        raise PspError(
            "this server is no standby: it is writable already",
            "Start psp-primary beside it, or name the database at the standby.",
        )
    return found


def read_server(connection: psycopg.Connection[tuple[object, ...]]) -> Standby:
    with connection.cursor(row_factory=class_row(Standby)) as cursor:
        found = cursor.execute(read_sql("primary/command/standby.sql")).fetchone()
    assert found is not None
    return found


def look_replayed(dsn: str) -> Standby:
    """The same as soon as all that was received is replayed, if that is soon."""
    try:
        return wait_until("the WAL to be replayed", lambda: _if_replayed(look(dsn)), REPLAY_S)
    except WaitTimeout:
        return look(dsn)


def _if_replayed(standby: Standby) -> Standby | None:
    return standby if standby.is_replayed or standby.is_paused else None


def look_at_sp(dsn: str) -> Followed:
    """PspError if the database is no semi-primary."""
    with psycopg.connect(dsn, connect_timeout=CONNECT_S) as connection:
        row = connection.execute("SELECT to_regclass('psp.identity') IS NOT NULL").fetchone()
        if row is None or not row[0]:
            raise PspError(f"{connection.info.dbname} is no semi-primary's database")
        with connection.cursor(row_factory=class_row(Followed)) as cursor:
            found = cursor.execute(read_sql("semi_primary/command/followed.sql")).fetchone()
    assert found is not None
    return found


def look_at_old(dsn: str | None) -> OldServer:
    """`dsn`: where the standby streams from, or what the operator says."""
    if dsn is None:
        return "unknown"
    target = make_conninfo(dsn, connect_timeout=CONNECT_S)
    if "dbname" not in conninfo_to_dict(target):
        target = make_conninfo(target, dbname="postgres")
    if psycopg.pq.PGconn.ping(target.encode()) == psycopg.pq.Ping.NO_RESPONSE:
        return "silent"
    try:
        with psycopg.connect(target) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    except psycopg.Error:
        return "answers"
    return "standby" if row is not None and row[0] else "writable"


def promote(connection: psycopg.Connection[Any], timeout_s: int) -> Standby:
    """Returns what is there when the server is writable. PspError if it is not in time.

    After any error it may be, or become so. The connection must be in autocommit.
    """
    row = connection.execute("SELECT pg_promote(true, %s)", (timeout_s,)).fetchone()
    if row is None or not row[0]:
        raise PspError(
            f"the standby is not writable after {timeout_s} s", "It may still become so: see its log."
        )
    return read_server(connection)


def next_steps(dsn: str, server: Standby) -> list[str]:
    """What is left to do after the promotion."""
    steps = [
        "psp-primary beside this server begins by itself if it waits there. One whose `database` leads "
        "elsewhere: let it lead here, and start it."
    ]
    if server.copies > 0 or server.synchronous_standby_names:
        steps.append(
            "It decides nothing before a synchronous standby is there: set one up, or go on without "
            f"one: empty synchronous_standby_names and run psp primary copies {_quoted(dsn)} 0"
        )
    return [*steps, make_a_standby(dsn, server)]


def make_a_standby(dsn: str, server: Standby) -> str:
    source = {name: value for name, value in conninfo_to_dict(dsn).items() if name != "password"}
    if server.can_be_rewound_to:
        source["dbname"] = "postgres"
        return (
            "The old server must not start as it is. When it is stopped, on its machine, with its "
            "data directory in PGDATA: "
            f'pg_rewind --target-pgdata="$PGDATA" --source-server={_quoted(make_conninfo("", **source))} '
            "--write-recovery-conf, and start it as a standby."
        )
    source.pop("dbname", None)
    return (
        "The old server must not start as it is, and pg_rewind cannot work here (neither wal_log_hints "
        "nor data checksums are on). Copy this one into an empty folder: "
        f'pg_basebackup --dbname={_quoted(make_conninfo("", **source))} --pgdata="$PGDATA" '
        "--write-recovery-conf, and start it as a standby."
    )


def _quoted(conninfo: str) -> str:
    return '"' + conninfo.replace('"', '\\"') + '"'
