"""`psp primary switchover`: planned work. A standby takes a living server's place, and no COMMIT fails.

The order makes it safe: a row in psp.hand_over keeps every psp-primary of the old server from deciding, on
its timeline and for good; the standby is promoted only when it has replayed all that was decided before.
Until then everything can be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.rows import class_row

from psp.output import PspError
from psp.primary.database import check_version, daemon_lock
from psp.primary.promote import CONNECT_S, Standby, make_a_standby, promote
from psp.sql_files import constant, read_sql
from psp.waiting import WaitTimeout, wait_until

LIMIT_MIN_S = 60
LIMIT_MAX_S = 600
LOOK_S = 0.02
CATCH_UP_S = 5
"""A standby that needs longer for what was written before would keep COMMITs waiting."""

Connection = psycopg.Connection[tuple[Any, ...]]
Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """What sql/primary/command/hand_over_from.sql finds."""

    is_standby: bool
    system_identifier: str
    cluster_id: str
    copies: int
    timeline: str | None
    is_served: bool
    lost_slots: Sequence[str]
    was_asked: bool


@dataclass(frozen=True)
class Target:
    """What sql/primary/command/hand_over_to.sql finds."""

    is_standby: bool
    system_identifier: str
    cluster_id: str
    streams: bool
    is_paused: bool
    synchronous_standby_names: str
    standbys: int
    awaits_restart: Sequence[str]


@dataclass(frozen=True)
class Switched:
    """The new server; for how long nothing was decided, None: no psp-primary has begun there in time.

    was_stopped: the old server, before the promotion.
    """

    server: Standby
    was_stopped: bool
    seconds: float | None


def objections(source: Source, target: Target) -> Iterator[str]:
    """Why COMMITs would wait for long, or something would be missing afterwards; none: nothing was found."""
    if not source.is_served and not source.was_asked:
        yield "no psp-primary serves the old server's database: nobody would tell the semi-primaries to wait"
    if not target.streams:
        yield "the standby does not stream at this moment: it would not get what is decided last"
    if target.is_paused:
        yield "replay is paused at the standby: SELECT pg_wal_replay_resume()"
    if target.awaits_restart:
        yield f"these settings of the standby count after a restart only: {', '.join(target.awaits_restart)}"
    if source.lost_slots:
        yield (
            f"the standby does not have these logical slots of the old server: {', '.join(source.lost_slots)}"
        )
    if (source.copies > 0 or target.synchronous_standby_names) and target.standbys == 0:
        yield (
            "the new server must have a synchronous standby, and none follows the standby yet: COMMITs would "
            "wait until it is set up. To go on without one: empty synchronous_standby_names at the standby, "
            "and run psp primary copies with 0 at the old server"
        )


def refuse_unfit(source: Source, target: Target) -> None:
    """PspError if these two cannot be switched at all."""
    if source.is_standby:
        raise PspError(
            "the first server is a standby: it has nothing to hand over",
            "First the old one, then its standby.",
        )
    if not target.is_standby:
        raise PspError("the second server is no standby: it is writable already")
    if source.system_identifier != target.system_identifier or source.cluster_id != target.cluster_id:
        raise PspError("the second server is no standby of the first one")


def look_at_source(connection: Connection) -> Source:
    """PspError if the database is no primary's."""
    check_version(connection)
    return _look(connection, Source, "hand_over_from", daemon_lock())


def look_at_target(connection: Connection) -> Target:
    """PspError if the database is no primary's."""
    check_version(connection)
    return _look(connection, Target, "hand_over_to", ())


def _look(connection: Connection, kind: type[T], name: str, parameters: Sequence[object]) -> T:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        found = cursor.execute(read_sql(f"primary/command/{name}.sql"), parameters or None).fetchone()
    assert found is not None
    return found


@contextmanager
def at_old(old_dsn: str) -> Iterator[Connection]:
    """A connection to the old server. While it is open, nobody else switches or withdraws."""
    with psycopg.connect(old_dsn, connect_timeout=CONNECT_S, autocommit=True) as old:
        lock = (constant("LOCK_CLASS"), constant("SWITCHOVER_LOCK"))
        row = old.execute("SELECT pg_try_advisory_lock(%s, %s)", lock).fetchone()
        if row is None or not row[0]:
            raise PspError("another psp primary switchover is at work at the old server")
        yield old


def at_standby(standby_dsn: str) -> Connection:
    """A connection to the standby."""
    return psycopg.connect(standby_dsn, connect_timeout=CONNECT_S, autocommit=True)


def refuse_promoted(standby_dsn: str) -> None:
    """PspError unless the standby still is one: if the old server goes on, two servers must not decide."""
    try:
        with at_standby(standby_dsn) as standby:
            is_standby = look_at_target(standby).is_standby
    except psycopg.OperationalError as error:
        raise PspError(
            f"whether the standby was promoted cannot be seen: {error}",
            "--force withdraws all the same: only if it was not, and never will be.",
        ) from error
    if not is_standby:
        raise PspError(
            "the standby was promoted: if the old server went on, two servers would decide",
            "Start psp-primary beside the new one, and make the old one its standby.",
        )


def switch(
    old: Connection,
    standby: Connection,
    standby_dsn: str,
    timeout_s: int,
    tell: Tell,
    stop: Callable[[], None] | None = None,
) -> Switched:
    """PspError, and the hand-over is withdrawn, if a step before the promotion fails.

    `stop`: stops the old server when it decides nothing more, in fast mode.
    """
    _prepare(old, standby, tell)
    begun = _newest_start(standby)
    limit_s = min(max(LIMIT_MIN_S, 3 * timeout_s), LIMIT_MAX_S)
    since = time.monotonic()
    try:
        begin(old, limit_s)
        tell("The old server's psp-primary ends: COMMITs wait.")
        position = wait_until("psp-primary to end at the old server", lambda: end(old), timeout_s, LOOK_S)
        if stop is not None:
            tell("The old server is stopped.")
            stop()
            wait_until(
                "the standby to have the old server's end", lambda: _has_all(standby), timeout_s, LOOK_S
            )
        _await_replay(standby, position, timeout_s)
    except BaseException as problem:
        _take_back(old, problem)
        raise
    tell("It decides nothing more, and the standby has everything: the standby is promoted.")
    server = promote(standby_dsn, timeout_s)
    try:
        wait_until("psp-primary to begin", lambda: _newest_start(standby) > begun, timeout_s, LOOK_S)
    except WaitTimeout:
        return Switched(server, stop is not None, None)
    return Switched(server, stop is not None, time.monotonic() - since)


def next_steps(standby_dsn: str, switched: Switched) -> list[str]:
    """What is left to do at the old server."""
    others = "Other standbys of the old server must follow the new one (primary_conninfo)."
    if switched.was_stopped:
        return [
            "The old server can follow the new one as it is: an empty file standby.signal in its data "
            "directory, primary_conninfo for the new one, and start it. Leave its psp-primary beside it.",
            others,
        ]
    return [
        "The old server still runs. Its psp-primary waits and decides nothing: leave that so. " + others,
        make_a_standby(standby_dsn, switched.server),
    ]


def _prepare(old: Connection, standby: Connection, tell: Tell) -> None:
    """What takes long is done while COMMITs go on: the checkpoints, and catching up."""
    tell("Checkpoints at both servers.")
    old.execute("CHECKPOINT")
    [(written,)] = old.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()
    try:
        _await_replay(standby, written, CATCH_UP_S)
    except WaitTimeout as late:
        raise PspError(
            f"the standby has not replayed in {CATCH_UP_S} s what was written before: COMMITs would wait",
            "See replay_lag in pg_stat_replication; a long query at the standby may hold it up.",
        ) from late
    standby.execute("CHECKPOINT")


def begin(old: Connection, limit_s: int) -> None:
    """From its COMMIT on, no psp-primary of this server goes on to decide."""
    _write(old, read_sql("primary/command/begin_hand_over.sql"), (limit_s * 1000,))


def end(old: Connection) -> str | None:
    """Where its WAL ends, as soon as no psp-primary of the old server decides; None before."""
    row = old.execute(read_sql("primary/command/hand_over_end.sql")).fetchone()
    if row is None:
        raise PspError("the hand-over was withdrawn meanwhile")
    return None if row[0] is None else str(row[0])


def _await_replay(standby: Connection, position: str, timeout_s: float) -> None:
    def has_replayed() -> bool:
        [(done,)] = standby.execute(
            "SELECT coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)", (position,)
        ).fetchall()
        return bool(done)

    wait_until("the standby to replay what was decided", has_replayed, timeout_s, LOOK_S)


def _has_all(standby: Connection) -> bool:
    """What a server sends until it ends: in fast mode its shutdown is the last of it."""
    [(done,)] = standby.execute(
        "SELECT pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() "
        "AND NOT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')"
    ).fetchall()
    return bool(done)


def _newest_start(standby: Connection) -> int:
    """Of a psp-primary that decides. One that ends for a hand-over raises the number in psp.cluster only."""
    [(epoch,)] = standby.execute("SELECT coalesce(max(epoch), 0) FROM psp.epochs").fetchall()
    return int(epoch)


def _take_back(old: Connection, problem: BaseException) -> None:
    try:
        withdraw(old)
    except psycopg.Error as error:
        raise PspError(
            f"{problem}; and the hand-over could not be withdrawn: {error}",
            "Nothing was promoted. Start the old server if it is stopped, and say psp primary switchover "
            "--withdraw: COMMITs wait for it for a minute.",
        ) from problem


def withdraw(old: Connection) -> bool:
    """The old server's psp-primary begins again. Returns whether there was something to withdraw.

    Only while the standby is none of the cluster's primaries: otherwise two servers decide.
    """
    return _write(old, "DELETE FROM psp.hand_over", None) > 0


def _write(old: Connection, statement: Any, parameters: Sequence[object] | None) -> int:
    """Its COMMIT waits for no standby: the one that counts is waited for here."""
    with old.transaction():
        old.execute("SET LOCAL synchronous_commit = local")
        return old.execute(statement, parameters).rowcount
