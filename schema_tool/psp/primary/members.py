"""The semi-primaries of a cluster, as the primary's database knows them: listing and removing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import dict_row
from rich.table import Table

from psp.output import PspError, table
from psp.primary import database as primary
from psp.primary import losses
from psp.sql_files import read_sql

CERTIFIED_BY = {"module": "the server module", "sql": "SQL"}
STANDSTILL = {
    "no answer": "psp-primary has lost this server",
    "no space": "there is no space on the disk",
    "a batch fails": "a batch fails again and again",
    "standby": "synchronous standbys lack what was written",
    "no batch ends": "no batch ends: see pg_stat_activity, for a lock perhaps",
    "hearing": "psp-primary has just started and hears first what each semi-primary has",
    "ahead": "this server lacks what a semi-primary has, and waits until that is accepted",
}
"""What sql/primary/command/cluster_status.sql finds, for people."""


def standstill_text(cause: str) -> str:
    """A cause, perhaps with the names that it is about, for people."""
    kind, _, who = cause.partition(": ")
    text = STANDSTILL.get(kind, kind)
    return f"{text} ({who})" if who else text


def gather(dsn: str) -> dict[str, Any]:
    """What `psp primary status --json` prints."""
    with psycopg.connect(dsn) as connection:
        return read(connection)


def read(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """The same over a connection that is there. It only reads."""
    primary.check_version(connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        status = cursor.execute(_sql("cluster_status"), primary.daemon_lock()).fetchone()
        assert status is not None
        known = ("newest_t", "is_served", "log_bytes", "log_begins_t")
        members = cursor.execute(_sql("members"), [status[name] for name in known]).fetchall()
        lost = cursor.execute(losses.SQL).fetchone()
    return {**status, "semi_primaries": members, "losses": lost and lost["losses"]}


def _sql(name: str) -> bytes:
    return read_sql(f"primary/command/{name}.sql")


def show(status: dict[str, Any]) -> Table:
    """The same for people."""
    served = "psp-primary runs" if status["is_served"] else "psp-primary does not run"
    if status["certified_by"] is not None:
        served += f" and certifies by {CERTIFIED_BY[status['certified_by']]}"
    title = (
        f"{served}, epoch {status['epoch']}, {status['mode']} mode\n"  # at most 80 columns each
        f"catalog version {status['catalog_version']}, newest number {status['newest_t']}, "
        f"log from {status['log_begins_t']}, {status['log_bytes'] / 2**20:,.1f} MiB"
    )
    if status["disk_free_bytes"] is not None:
        title += f"\nfree on the disk: {status['disk_free_bytes'] / 2**30:,.1f} GiB"
    columns = ("id", "name", "zone", "state", "connected", "on its disk\nup to", "transactions\nbehind",
               "keeps of\nthe log", "since")  # fmt: skip
    return table(
        title,
        columns,
        [
            (
                m["sp_id"], m["name"], m["zone"], m["state"], _connected(m), m["acked_t"], m["behind"],
                "" if m["keeps_bytes"] is None else f"{m['keeps_bytes'] / 2**20:,.1f} MiB",
                f"{m['registered_at']:%Y-%m-%d %H:%M}",
            )
            for m in status["semi_primaries"]
        ],
    )  # fmt: skip


def _connected(member: dict[str, Any]) -> str:
    """Whether a semi-primary is connected, or when it was heard last."""
    if member["is_connected"]:
        return "yes"
    seen_at = member["seen_at"]
    heard = "never heard" if seen_at is None else f"last heard {seen_at:%Y-%m-%d %H:%M:%S}"
    return f"no, {heard}" if member["is_connected"] is False else heard


def show_standstill(status: dict[str, Any]) -> str | None:
    """Why no transaction can be decided, if it is so."""
    cause = status["standstill"]
    if cause is None:
        return None
    return (
        f"No transaction can be decided, for {status['standstill_s']} s so far: "
        f"{standstill_text(cause)}. psp-primary's log and last_error in psp.status of each "
        "semi-primary tell more."
    )


def show_hand_over(status: dict[str, Any]) -> str | None:
    """That psp-primary waits, if the server hands over to its standby."""
    if not status["hands_over"]:
        return None
    return (
        "This server hands over, or has handed over, to its standby: psp-primary decides nothing here. If "
        "the standby was not promoted: psp primary switchover --withdraw, or again without that."
    )


def show_copies(status: dict[str, Any]) -> str:
    """Which standbys must have a decision, and whether they are there."""
    names = status["synchronous_standby_names"]
    text = (
        f"Synchronous standbys that must have a decision: at least {status['copies']} (psp primary copies), "
        f"and what synchronous_standby_names = '{names}' asks for. "
        f"Connected: {status['synchronous_standbys']}."
    )
    if status["waits_for_standbys_s"] is not None:
        text += f" COMMITs have waited for them for {status['waits_for_standbys_s']:.1f} s."
    elif status["synchronous_standbys"] < status["copies"]:
        text += " COMMITs wait."
    return text


def remove(dsn: str, name: str, *, force: bool, confirm: Callable[[str], None] = lambda _: None) -> None:
    """The primary waits for this semi-primary no more and never lets it in again.

    PspError: there is none, or it is connected and not `force`. `confirm` gets what is lost, and raises what
    it likes if people do not agree.
    """
    with psycopg.connect(dsn) as connection:
        primary.check_version(connection)
        member = confirm_loss(connection, name, force=force, confirm=confirm)
        if not primary.mark_released(connection, member["sp_id"]):
            raise _no_member(name)


def confirm_loss(
    connection: psycopg.Connection[Any], name: str, *, force: bool, confirm: Callable[[str], None]
) -> dict[str, Any]:
    """Tells what its removal costs, outside of a transaction; returns what the primary knows of it.

    PspError and `confirm` as in `remove`.
    """
    member = removable(connection, name, force=force)
    connection.rollback()
    confirm(f"{_presence(name, member)}: {_loss(name, member)}.")
    return member


def replace(connection: psycopg.Connection[Any], name: str, *, force: bool) -> tuple[int, str]:
    """Removes it in the caller's transaction, in which another database takes its name.

    Returns its number and zone. PspError as from `remove`.
    """
    member = removable(connection, name, force=force)
    if not primary.mark_released(connection, member["sp_id"]):
        raise _no_member(name)
    return member["sp_id"], str(member["zone"])


def removable(connection: psycopg.Connection[Any], name: str, *, force: bool) -> dict[str, Any]:
    """What the primary knows of it. PspError: there is none, or it is connected and not `force`."""
    with connection.cursor(row_factory=dict_row) as cursor:
        member = cursor.execute(_sql("member"), (*primary.daemon_lock(), name)).fetchone()
    if member is None:
        raise _no_member(name)
    if member["is_connected"] and not force:
        is_now = "is connected" if member["is_served"] else "was connected when psp-primary ran last"
        raise PspError(
            f"{name} {is_now}: {_loss(name, member)}",
            "stop its psp-semi-primary first, with psp-primary running; --force removes it all the same",
        )
    return member


def _no_member(name: str) -> PspError:
    return PspError(f"the cluster has no semi-primary named {name}", "psp primary status lists them")


def _presence(name: str, member: dict[str, Any]) -> str:
    if member["is_connected"]:
        return f"{name} is connected"
    if member["seen_at"] is None:
        return f"{name} has never been heard"
    return f"{name} is not connected, last heard {member['seen_at']:%Y-%m-%d %H:%M:%S}"


def _loss(name: str, member: dict[str, Any]) -> str:
    """What a removal costs, as the end of a sentence."""
    lost = "once removed, its applications can commit nothing any more" if member["is_connected"] else ""
    if member["behind"] is None:
        lacks = f"{name} has no row yet" if not lost else "it has no row yet"
    elif member["behind"]:
        lacks = f"it lacks {member['behind']:,} committed transactions and never gets them"
    else:
        lacks = ""
    parts = [lost, lacks, "it can only join again, with an empty database"]
    return "; ".join(part for part in parts if part)
