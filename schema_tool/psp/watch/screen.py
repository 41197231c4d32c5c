"""A view for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from psp.output import table
from psp.watch import commit_parts
from psp.watch.advice import advice
from psp.watch.headline import headline
from psp.watch.model import HotKey, Primary, View, Zone

KEYS_SHOWN = 5
MINUTE_S, HOUR_S = 60, 3600
_KEY_CHARACTERS_MAX = 120
_STYLES = {"ok": "bold green", "warn": "bold yellow", "bad": "bold red", "unknown": "bold yellow"}


def plain(text: str, characters_max: int | None = None) -> str:
    """What a database holds, without what a terminal would obey."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if characters_max is not None and len(shown) > characters_max:
        return shown[: characters_max - 1] + "…"
    return shown


def render(view: View) -> Group:
    """The whole screen."""
    answer = headline(view)
    parts: list[RenderableType] = [
        Text(f"{plain(answer.sentence)}   {view.taken_at:%H:%M:%S} UTC", style=_STYLES[answer.state]),
    ]
    if answer.detail:
        parts.append(Text(plain(answer.detail)))
    if view.primary is not None:
        parts.append(Text(_primary_line(view.primary), style="dim"))
    parts += [Text(), _zones(view.zones), *_members_away(view), *_blockers(view.zones)]
    parts += _commits(view.zones)
    return Group(*parts, *_hot_keys(view), *_what_to_do(view))


def _primary_line(primary: Primary) -> str:
    standbys = ""
    if primary.copies or primary.synchronous_standby_names:
        standbys = f", {primary.synchronous_standbys} synchronous standby(s)"
    free = "" if primary.disk_free_bytes is None else f", {primary.disk_free_bytes / 2**30:,.1f} GiB free"
    return (
        f"primary: epoch {primary.epoch}, catalog version {primary.catalog_version}, "
        f"log {primary.log_bytes / 2**20:,.1f} MiB{free}{standbys}"
    )


def _zones(zones: Iterable[Zone]) -> Table:
    columns = (
        "SP", "state", "writes", "commits\nper s", "lost\nper s", "waiting", "rtt\nms", "lag\nms", "lag\ntx",
    )  # fmt: skip
    shown = table(None, columns, [])
    for column in shown.columns[3:]:
        column.justify = "right"
    for zone in zones:
        behind = zone.behind if zone.lag_transactions is None else zone.lag_transactions
        rates = (zone.commits_per_s, zone.losses_per_s, zone.waiting, zone.rtt_ms, zone.lag_ms, behind)
        cells = (plain(zone.name, 14), zone.state, _can(zone.can_commit), *(number(rate) for rate in rates))
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def _commits(zones: Iterable[Zone]) -> Iterable[RenderableType]:
    """The parts of a COMMIT, where semi-primaries tell them."""
    timed = [(zone, found) for zone in zones if (found := commit_parts.parts(zone)) is not None]
    if not timed:
        return
    yield Text("\nA COMMIT of the last minute in ms: 99 of 100, the mean and its parts", style="bold")
    shown = table(None, ("SP", "p99", "mean", *commit_parts.PARTS), [])
    for column in shown.columns[1:]:
        column.justify = "right"
    for zone, found in timed:
        times = (zone.commit_p99_ms, zone.commit_ms, *found.values())
        shown.add_row(Text(plain(zone.name, 14)), *(Text(number(time)) for time in times))
    yield shown
    for zone, _ in timed:
        yield Text(f"{plain(zone.name)}: {commit_parts.cause(zone)}")


def number(value: float | None) -> str:
    """At most six characters."""
    if value is None:
        return "-"
    if isinstance(value, float) and value < 100:
        return f"{value:.1f}"
    if value < 99_999.5:
        return f"{value:,.0f}"
    return f"{value / 1e3:.0f}k" if value < 999_500 else f"{value / 1e6:.4g}M"


def _can(can_commit: bool | None) -> str:
    return {True: "yes", False: "no", None: "?"}[can_commit]


def _members_away(view: View) -> Iterable[Text]:
    for zone in view.zones:
        if zone.is_connected is False:
            kept = f", keeps {zone.keeps_bytes / 2**20:,.1f} MiB of the log" if zone.keeps_bytes else ""
            yield Text(f"{plain(zone.name)} is away{_since(zone.seen_at)}{kept}", style="yellow")
        if zone.warnings:
            yield Text(f"{plain(zone.name)} warns: {plain(zone.warnings)}", style="yellow")


def _since(seen_at: datetime | None) -> str:
    return "" if seen_at is None else f", last heard {seen_at:%Y-%m-%d %H:%M:%S}"


def _blockers(zones: Iterable[Zone]) -> Iterable[Text]:
    for zone in zones:
        for blocker in zone.blockers:
            age = f", its transaction is {blocker.age_s:,.1f} s old" if blocker.age_s is not None else ""
            who = f"session {blocker.pid} ({plain(blocker.role or '?')}, {plain(blocker.application or '-')})"
            yield Text(f"{plain(zone.name)} cannot apply for {who}{age}", style="yellow")


def _hot_keys(view: View) -> Iterable[RenderableType]:
    keys, window = view.hot_within(MINUTE_S), "the last minute"
    if not keys:
        keys, window = view.hot_within(HOUR_S), "the last hour"
    if not keys:
        return
    yield Text(f"\nHot keys: losses of {window}", style="bold")
    for key in keys[:KEYS_SHOWN]:
        yield Text(f"{key.losses:>7,}  {_key(key)}  {key.kind}")
        yield Padding(Text(_who(key)), (0, 0, 0, 9))
        if key.statement:
            yield Padding(Text(plain(key.statement), style="italic"), (0, 0, 0, 9))
        if key.remedy:
            yield Padding(Text(plain(key.remedy), style="dim"), (0, 0, 0, 9))


def _key(key: HotKey) -> str:
    columns = f" columns {key.columns}" if key.columns else ""
    return plain(f"{key.table or 'all tables'} {key.key or '(not shown)'}{columns}", _KEY_CHARACTERS_MAX)


def _who(key: HotKey) -> str:
    parts = [
        f"{what} {', '.join(f'{name} {count:,}' for name, count in counts.items())}"
        for what, counts in (("lost by", key.losers), ("won by", key.winners))
        if counts
    ]
    return plain("; ".join(parts))


def _what_to_do(view: View) -> Iterable[RenderableType]:
    shown = advice(view)
    if not shown:
        return
    yield Text("\nWhat to do", style="bold")
    for number, one in enumerate(shown, 1):
        yield Text(f"{number}. {plain(one.title, _KEY_CHARACTERS_MAX)}")
        if one.text:
            yield Padding(Text(plain(one.text)), (0, 0, 0, 3))
        if one.command:
            yield Padding(Text(f"$ {plain(one.command)}", style="cyan"), (0, 0, 0, 3))
