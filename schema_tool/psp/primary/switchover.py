"""`psp primary switchover`: planned work. A standby takes a living server's place, and no COMMIT fails.

The order makes it safe: a row in psp.hand_over keeps every psp-primary of the old server from deciding, on
its timeline and for good; the standby is promoted only when it has replayed all that was decided before.
Until then everything can be taken back. A mark in the row, from before the promotion, says that this is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.rows import class_row

from psp.output import PspError
from psp.primary.database import check_version, daemon_lock
from psp.primary.members import standstill_text
from psp.primary.promote import CONNECT_S, Standby, make_a_standby, promote
from psp.sql_files import constant, read_sql
from psp.waiting import WaitTimeout, wait_until

END_S = 30
"""At least so long for psp-primary to end: it decides what it has, tells all of them, and starts."""
LOOK_S = 0.02
CATCH_UP_S = 5
"""A standby that needs longer for what was written before would keep COMMITs waiting."""

LOOK_FIRST = (
    "Look: SELECT pg_is_in_recovery() there. Is it writable, start psp-primary beside it. Is it still a "
    "standby, say psp primary switchover again (first start the old server, if it is stopped: it decides "
    "nothing); --withdraw --force only if the standby can never become writable."
)
UNLESS_PROMOTED = "--force withdraws all the same: only if it was not promoted, and never will be."

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
    standstill: str | None
    was_asked: bool
    target: str | None
    is_promoting: bool


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
    timeline: int
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
    if source.standstill is not None:
        yield (
            f"nothing can be decided at the old server now: {standstill_text(source.standstill)}. Not every "
            "semi-primary would be told to wait"
        )
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
    required = max(source.copies, 1 if target.synchronous_standby_names else 0)
    if target.standbys < required:
        yield (
            f"the new server must have synchronous standbys ({required} at least), and {target.standbys} "
            "follow the standby now: COMMITs would wait until they are set up. To go on without: empty "
            "synchronous_standby_names at the standby, and run psp primary copies with 0 at the old server"
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
    assert source.timeline is not None, "it is no standby"
    if target.timeline > int(source.timeline, 16):
        raise PspError(
            "the second server has followed a server that was promoted since: the first one is not the "
            "cluster's newest",
        )


def refuse_unserved(source: Source) -> None:
    """PspError if there is no psp-primary to end the hand-over and to tell the semi-primaries to wait."""
    if not source.is_served and not source.was_asked:
        raise PspError(
            "no psp-primary serves the old server's database: nobody would tell the semi-primaries to wait",
            "Start it. Where it cannot run: stop the old server, then psp primary promote.",
        )


def refuse_withdrawal(source: Source, target: Target, address: str) -> None:
    """PspError unless the standby that was to take over still is one, and will not be promoted.

    Otherwise two servers would decide.
    """
    if not target.is_standby:
        raise PspError(
            "the standby was promoted: if the old server went on, two servers would decide",
            "Start psp-primary beside the new one, and make the old one its standby.",
        )
    refuse_unfit(source, target)
    if source.target is not None and source.target != address:
        raise PspError(
            f"the hand-over is to {source.target}, and {address} was asked",
            "Name the standby as before. --force withdraws all the same: only if that one was not "
            "promoted, and never will be.",
        )
    if source.is_promoting:
        raise PspError(
            "the standby may be about to become writable: its promotion was to begin",
            f"Say psp primary switchover again to finish it. {UNLESS_PROMOTED}",
        )


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
def alone_at(dsn: str, name: str) -> Iterator[Connection]:
    """A connection to the server. While it is open, nobody else switches or withdraws there."""
    with psycopg.connect(dsn, connect_timeout=CONNECT_S, autocommit=True) as connection:
        lock = (constant("LOCK_CLASS"), constant("SWITCHOVER_LOCK"))
        row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", lock).fetchone()
        if row is None or not row[0]:
            raise PspError(f"another psp primary switchover is at work at the {name}")
        yield connection


def at_old(old_dsn: str) -> AbstractContextManager[Connection]:
    """Alone at the old server."""
    return alone_at(old_dsn, "old server")


def at_standby(standby_dsn: str) -> AbstractContextManager[Connection]:
    """Alone at the standby: the lock lasts where the old server, and the lock there, ends meanwhile."""
    return alone_at(standby_dsn, "standby")


def address(connection: Connection) -> str:
    """Of its server, as the command names it."""
    return f"{connection.info.host}:{connection.info.port}"


def withdraw_checked(old: Connection, standby_dsn: str) -> bool:
    """As withdraw(). PspError unless the standby was not promoted, and will not be."""
    try:
        with at_standby(standby_dsn) as standby:
            refuse_withdrawal(look_at_source(old), look_at_target(standby), address(standby))
            return withdraw(old, even_if_promoting=False)
    except psycopg.OperationalError as error:
        raise PspError(
            f"whether the standby was promoted cannot be seen: {error}", UNLESS_PROMOTED
        ) from error


def limit_s(timeout_s: int) -> int:
    """For how long semi-primaries let COMMITs wait: the end at the old server, and five more steps."""
    return max(END_S, timeout_s) + 5 * timeout_s + END_S


def switch(
    old: Connection,
    standby: Connection,
    timeout_s: int,
    tell: Tell,
    stop: Callable[[], None] | None = None,
) -> Switched:
    """PspError, and the hand-over is withdrawn, if a step before the promotion fails.

    `stop`: stops the old server when it decides nothing more, in fast mode.
    """
    _prepare(old, standby, tell)
    since = time.monotonic()
    may_be_promoted = is_marked = False
    try:
        may_be_promoted = begin(old, limit_s(timeout_s), address(standby))
        tell("The old server's psp-primary ends: COMMITs wait.")
        position = wait_until(
            "psp-primary to end at the old server", lambda: end(old), max(END_S, timeout_s), LOOK_S
        )
        _await_replay(standby, position, timeout_s)
        begun = _newest_start(standby)
        is_marked = True
        mark_promoting(old)
        if stop is not None:
            tell("The old server is stopped.")
            stop()
            wait_until(
                "the standby to have the old server's end", lambda: _has_all(standby), timeout_s, LOOK_S
            )
    except BaseException as problem:
        if may_be_promoted:
            raise PspError(f"{problem}; an earlier switchover may have promoted it", LOOK_FIRST) from problem
        _take_back(old, problem, even_if_promoting=is_marked)
        raise
    tell("It decides nothing more, and the standby has everything: the standby is promoted.")
    try:
        server = promote(standby, timeout_s)
    except (PspError, psycopg.Error, KeyboardInterrupt) as problem:
        raise PspError(
            f"the standby may be promoted, or become so: {str(problem) or 'interrupted'}", LOOK_FIRST
        ) from problem
    try:
        wait_until("psp-primary to begin", lambda: _newest_start(standby) > begun, timeout_s, LOOK_S)
    except (WaitTimeout, psycopg.Error):
        return Switched(server, stop is not None, None)
    return Switched(server, stop is not None, time.monotonic() - since)


def next_steps(standby_dsn: str, switched: Switched) -> list[str]:
    """What is left to do at the old server."""
    others = "Other standbys of the old server must follow the new one (primary_conninfo)."
    if switched.was_stopped:
        return [
            "The old server can follow the new one as it is, if its shutdown has reached that: an empty file "
            "standby.signal in its data directory, primary_conninfo for the new one, and start it. Leave its "
            "psp-primary beside it. Should it log that the new timeline forked off before, then: "
            + make_a_standby(standby_dsn, switched.server),
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


def begin(old: Connection, limit_s: int, target: str) -> bool:
    """From its COMMIT on, no psp-primary of this server goes on to decide. `target`: the standby's address().

    Returns whether an earlier command may have promoted that one: then nothing is taken back. PspError if
    that may hold for another one.
    """
    row = _write(old, "begin_hand_over", (limit_s * 1000, target))
    if row is None:
        raise PspError(
            "an earlier switchover may have promoted another standby",
            f"Name that one. Otherwise --withdraw --force first. {UNLESS_PROMOTED}",
        )
    return bool(row[0])


def mark_promoting(old: Connection) -> None:
    """From its COMMIT on nobody withdraws without --force, also if this connection, and its lock, is lost."""
    if _write(old, "promote_hand_over", None) is None:
        raise PspError("the hand-over was withdrawn meanwhile")


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


def _take_back(old: Connection, problem: BaseException, *, even_if_promoting: bool) -> None:
    """Of this command's own, which has not promoted the standby."""
    try:
        withdraw(old, even_if_promoting=even_if_promoting)
    except psycopg.Error as error:
        raise PspError(
            f"{problem}; and the hand-over could not be withdrawn: {error}",
            "Nothing was promoted. Start the old server if it is stopped, and say psp primary switchover "
            f"--withdraw{' --force' if even_if_promoting else ''}: COMMITs wait for it, for minutes at most.",
        ) from problem


def withdraw(old: Connection, *, even_if_promoting: bool) -> bool:
    """The old server's psp-primary begins again. Returns whether there was something to withdraw.

    Only while the standby is none of the cluster's primaries: otherwise two servers decide.
    """
    return _write(old, "withdraw_hand_over", (even_if_promoting,)) is not None


def _write(old: Connection, name: str, parameters: Sequence[object] | None) -> tuple[Any, ...] | None:
    """Its COMMIT waits for no standby: the one that counts is waited for here."""
    with old.transaction():
        old.execute("SET LOCAL synchronous_commit = local")
        return old.execute(read_sql(f"primary/command/{name}.sql"), parameters).fetchone()
