"""What to do about what a view shows, with the commands to type: pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from psp.watch.headline import headline, names
from psp.watch.limits import HOT_LOSSES, LAG_MS_MAX
from psp.watch.model import Advice, HotKey, Primary, View, Zone
from psp.watch.remedies import remedy_parts

HOT_SHOWN = 2
KEY_CHARACTERS_MAX = 80
KEEPS_BYTES_MAX = 256 * 2**20

_STANDSTILL = {
    "no answer": ("Start the primary's PostgreSQL", "Or fail over. Writing goes on by itself."),
    "no space": ("Free space on the primary's disk", "What waits is decided then."),
    "a batch fails": ("Read psp-primary's log", "It names what is missing, such as a right of its role."),
    "hearing": ("Wait for the semi-primaries", "For hear_ms at most; start the ones that are away."),
    "ahead": (
        "Promote the server that has all transactions",
        "Or accept that they are lost: psp schema accept-loss at the semi-primary, or psp primary remove.",
    ),
    "no batch ends": ("End the session that holds a lock on a table of psp", "pg_blocking_pids tells which."),
}  # fmt: skip
_LOCKED = "SELECT pid, query, pg_blocking_pids(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def advice(view: View) -> list[Advice]:
    """What stops everybody first, then each semi-primary, then what costs time."""
    return [
        *_of_primary(view.primary),
        *(one for zone in view.zones for one in _of_zone(zone, view.primary)),
        *_of_errors(view),
        *(one for zone in view.zones for one in _of_blockers(zone)),
        *(one for zone in view.zones for one in _of_lag(zone)),
        *(
            _of_key(key, view)
            for key in view.hot_within(60)[:HOT_SHOWN]
            if key.remedy and key.losses >= HOT_LOSSES
        ),
        *_of_servers(view),
    ]


def _of_primary(primary: Primary | None) -> Iterator[Advice]:
    if primary is None:
        return
    dsn = shlex.quote(primary.conninfo)
    if primary.hands_over:
        yield Advice("Was the standby promoted?", "Name it in place of this server.")
        text = "Go on with it, or take it back with --withdraw: the old server then decides again."
        yield Advice("Has the switchover stopped half-way?", text, f"psp primary switchover {dsn} STANDBY")
    elif not primary.is_served:
        text = "At the primary's machine. Writing goes on by itself."
        yield Advice("Start psp-primary", text, "systemctl start psp-primary")
    elif primary.standstill == "standby":
        missing = f"{primary.synchronous_standbys} of them are connected."
        yield Advice("Bring the standby back", f"{missing} Writing goes on by itself.")
        text = "Name another one in synchronous_standby_names, or accept that commits are on one disk only."
        yield Advice("Is it lost for good?", text, f"psp primary copies {dsn} 0")
    elif primary.standstill is not None:
        kind, _, who = primary.standstill.partition(": ")
        title, text = _STANDSTILL.get(kind, ("Read psp-primary's log", ""))
        text = f"{text} It is about {who}." if who else text
        locked = f"psql {dsn} -c {shlex.quote(_LOCKED)}" if primary.standstill == "no batch ends" else None
        yield Advice(title, text, locked)


def _of_zone(zone: Zone, primary: Primary | None) -> Iterator[Advice]:
    if zone.state == "stopped":
        yield Advice(
            f"Start the daemon of {zone.name}", "At its machine.", "systemctl start psp-semi-primary"
        )
    elif zone.state in ("away", "disconnected") and (primary is None or primary.is_served):
        yield Advice(f"Bring {zone.name} back", "Does its daemon run, and is its line to the primary whole?")
    is_away = zone.is_connected is False or zone.state == "away"
    if primary is not None and is_away and (zone.keeps_bytes or 0) > KEEPS_BYTES_MAX:
        kept = f"The primary keeps {(zone.keeps_bytes or 0) / 2**20:,.0f} MiB of its log for it."
        command = f"psp primary remove {shlex.quote(primary.conninfo)} {shlex.quote(zone.name)}"
        yield Advice(f"Is {zone.name} lost for good?", f"{kept} It can then only join again.", command)


def _of_errors(view: View) -> Iterator[Advice]:
    """An error that several semi-primaries have is one thing to do, and the headline may have told it."""
    by_error: dict[str, list[Zone]] = {}
    for zone in view.zones:
        if zone.state in ("failed", "retrying"):
            by_error.setdefault(zone.last_error or "", []).append(zone)
    told = headline(view).detail
    for error, zones in by_error.items():
        text = error or "psp.status there tells the error to members of pg_monitor."
        if error and error.rstrip(".") in told:
            text = ""
        yield Advice(f"Remove what keeps {names(zones)} from applying", text)


def _of_blockers(zone: Zone) -> Iterator[Advice]:
    for blocker in zone.blockers:
        if not blocker.waits:
            who = f"session {blocker.pid} of {blocker.role or 'an unknown role'}"
            text = f"{zone.name} waits for it before it applies what others have committed."
            yield Advice(f"End the transaction of {who} at {zone.name}", text)


def _of_lag(zone: Zone) -> Iterator[Advice]:
    if zone.state in ("streaming", "catchup") and not zone.blockers and (zone.lag_ms or 0) > LAG_MS_MAX:
        text = (
            f"What others have committed waits there for {(zone.lag_ms or 0) / 1000:,.0f} s to be applied: "
            "reads are old, and its transactions lose more. Is its disk slow, its processor full, an index "
            "or a trigger expensive?"
        )
        yield Advice(f"See why {zone.name} is behind", text)


def _of_key(key: HotKey, view: View) -> Advice:
    row = f" {key.key[:KEY_CHARACTERS_MAX]}" if key.key else ""
    where = f"{key.table or 'all tables'}{row}"
    return Advice(f"{where}: {key.losses:,} losses in a minute", *remedy_parts(key, view))


def _of_servers(view: View) -> Iterator[Advice]:
    for server in view.servers:
        if server.error is not None:
            who = server.name or server.conninfo
            command = f"psql {shlex.quote(server.conninfo)} -c 'SELECT 1'"
            yield Advice(f"See why {who} does not answer", server.error, command)
