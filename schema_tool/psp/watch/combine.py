"""Makes one view of what several servers have told: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from psp.watch.model import Blocker, HotKey, Job, Primary, Server, View, Zone

# Without an answer of its own, that is what is known of a semi-primary: by whether the primary hears it.
_BY_CONNECTION = {True: "connected", False: "away", None: "unknown"}
_OWN = {f.name for f in fields(Zone)} - {"state", "can_commit", "name", "blockers"}


@dataclass(frozen=True)
class Told:
    """What one server has told: the JSON of its queries, or nothing (`server.error`)."""

    server: Server
    facts: dict[str, Any] | None = None


def combine(told: Iterable[Told], now: datetime) -> View:
    """The view. Two connections to one server count once, and the first primary is the primary."""
    told = list(told)
    leaders = [t for t in told if t.server.kind == "primary" and t.facts is not None]
    primary = leaders[0] if leaders else None
    own = {t.server.name or "": t for t in told if t.server.kind == "semi-primary"}
    return View(
        now,
        tuple(t.server for t in told),
        _primary(primary),
        tuple(_zones(primary, own)),
        tuple(_hot_keys(_conflicts(primary, own.values()))),
        tuple(_jobs(own)),
    )


def _primary(told: Told | None) -> Primary | None:
    if told is None or told.facts is None:
        return None
    names = {f.name for f in fields(Primary)}
    known = {name: value for name, value in told.facts.items() if name in names}
    return Primary(conninfo=told.server.conninfo, **known)


def _zones(primary: Told | None, own: dict[str, Told]) -> Iterable[Zone]:
    members = primary.facts["semi_primaries"] if primary and primary.facts else []
    for member in members:
        yield _zone(member["name"], member, own.get(member["name"]))
    listed = {member["name"] for member in members}
    yield from (_zone(name, None, told) for name, told in own.items() if name not in listed)


def _zone(name: str, member: dict[str, Any] | None, told: Told | None) -> Zone:
    values: dict[str, Any] = {}
    if member is not None:
        values = {key: member[key] for key in ("is_connected", "seen_at", "behind", "keeps_bytes")}
        values["place"] = member["zone"] or None
    if told is not None and told.facts is not None:
        status = told.facts["status"]
        values |= {key: value for key, value in status.items() if key in _OWN}
        blockers = tuple(Blocker(**blocker) for blocker in told.facts["blockers"])
        return Zone(
            name=name, state=status["state"] or "stopped", can_commit=status["can_commit"], answers=True,
            postgres=told.facts["postgres"], blockers=blockers, **values,
        )  # fmt: skip
    connected = member["is_connected"] if member else None
    state = "silent" if told is not None else _BY_CONNECTION[connected]
    if member is not None and member["state"] == "joining":
        state = "joining"
    # One that is not connected cannot commit; of one that is, only itself knows.
    return Zone(name=name, state=state, can_commit=False if connected is False else None, **values)


def _jobs(own: dict[str, Told]) -> list[Job]:
    """Newest first. A job has the same numbers everywhere."""
    found: dict[tuple[int, int], Job] = {}
    for name, told in own.items():
        for row in (told.facts or {}).get("jobs", ()):
            number = (row["change"], row["statement_n"])
            job = found.get(number) or Job(*number, row["statement"], row["requested_at"], {})
            states, error = job.states | {name: row["state"]}, job.last_error
            if row["last_error"] and row["state"] != "done":
                error = f"{name}: {row['last_error']}"
            found[number] = replace(job, states=states, last_error=error)
    return [found[number] for number in sorted(found, reverse=True)]


def _conflicts(primary: Told | None, own: Iterable[Told]) -> list[dict[str, Any]]:
    """The primary has those of all semi-primaries; each of these has the words of its statements."""
    told = [row for one in own if one.facts is not None for row in one.facts["conflicts"]]
    if primary is None or primary.facts is None:
        return told
    words = {(row["loser"], row["query_id"]): row["statement"] for row in told}
    return [
        row | {"statement": words.get((row["loser"], row["query_id"]))} for row in primary.facts["conflicts"]
    ]


def _hot_keys(rows: list[dict[str, Any]]) -> list[HotKey]:
    """One for each key, of all who have lost it."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        group = (row["within"], row["table_name"], row["key"], row["kind"])
        # Keys that the role may not see are different ones.
        hidden = (row["loser"], row["rank"]) if row["key"] is None else ()
        groups.setdefault((*group, *hidden), []).append(row)
    keys = [_hot_key(group) for group in groups.values()]
    return sorted(keys, key=lambda k: (k.within_s, -k.losses, k.table or "", k.key or ""))


def _hot_key(rows: list[dict[str, Any]]) -> HotKey:
    most = max(rows, key=lambda row: row["losses"])
    losers: Counter[str] = Counter()
    winners: Counter[str] = Counter()
    for row in rows:
        losers[row["loser"]] += row["losses"]
        winners.update(_counts(row["winners"]))
    return HotKey(
        within_s=most["within"], table=most["table_name"], key=most["key"], kind=most["kind"],
        losses=losers.total(), losses_error=sum(row["losses_error"] or 0 for row in rows),
        waited_ms=sum(row["waited_ms"] or 0 for row in rows),
        losers=dict(losers.most_common()), winners=dict(winners.most_common()),
        columns=most["columns"], remedy=most["remedy"],
        statement=next((row["statement"] for row in [most, *rows] if row["statement"]), None),
    )  # fmt: skip


def _counts(text: str | None) -> dict[str, int]:
    """`lisbon: 3, tokyo: 1` as psp.conflicts has it."""
    pairs = (part.rpartition(": ") for part in (text or "").split(", "))
    return {name: int(count) for name, _, count in pairs if count.isdecimal()}
