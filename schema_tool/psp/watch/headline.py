"""Can everybody write? The answer of a view, as one sentence: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psp.primary.members import standstill_text
from psp.watch.limits import HOT_LOSSES, LAG_MS_MAX
from psp.watch.model import Headline, View, Zone

NAMES_SHOWN = 3
HANDS_OVER = (
    "This primary hands over, or has handed over, to its standby: it decides nothing more. "
    "Reads go on everywhere."
)


def headline(view: View) -> Headline:
    """The worst that is known comes first."""
    primary = view.primary
    if primary is None and not any(zone.answers for zone in view.zones):
        return Headline("unknown", "No server answers.", _silent_servers(view))
    if primary is not None and primary.hands_over:
        return Headline("bad", "Nobody can write.", HANDS_OVER)
    if primary is not None and not primary.is_served:
        return Headline("bad", "Nobody can write.", "psp-primary does not run. Reads go on everywhere.")
    if primary is not None and primary.standstill is not None:
        cause = standstill_text(primary.standstill)
        since = f", for {primary.standstill_s} s so far" if primary.standstill_s is not None else ""
        return Headline(
            "bad", "Nobody can write.", f"{cause[:1].upper()}{cause[1:]}{since}. Reads go on everywhere."
        )
    return _by_zones(view)


def _by_zones(view: View) -> Headline:
    cannot = [zone for zone in view.zones if zone.can_commit is False]
    unknown = [zone for zone in view.zones if zone.can_commit is None and zone.state != "connected"]
    detail = " ".join(_reasons(cannot))
    if not view.zones:
        return Headline("unknown", "No semi-primary has joined yet.")
    if len(cannot) == len(view.zones):
        sentence = "Nobody can write." if _is_whole(view) else f"{names(cannot)} cannot write."
        return Headline("bad", sentence, detail)
    if cannot:
        return Headline("warn", f"{names(cannot)} cannot write.", detail)
    if unknown or not _is_whole(view):
        told = [zone for zone in view.zones if zone not in unknown]
        sentence = f"{names(told)} can write." if told else "Nobody tells whether it can write."
        return Headline("warn" if unknown else "ok", sentence, _silent_servers(view))
    return Headline("ok", "Everybody can write.", " ".join(_notes(view)))


def _notes(view: View) -> Iterator[str]:
    """What is no reason not to write, and yet to be looked at."""
    if silent := _silent_servers(view):
        yield silent
    late = [zone for zone in view.zones if (zone.lag_ms or 0) > LAG_MS_MAX]
    if late:
        yield f"{names(late)} {'is' if len(late) == 1 else 'are'} behind."
    hot = sum(key.losses >= HOT_LOSSES for key in view.hot_within(60))
    if hot:
        yield "One key is hot." if hot == 1 else f"{hot} keys are hot."


def _is_whole(view: View) -> bool:
    """Whether the view has all semi-primaries: only the primary knows them."""
    return view.primary is not None


def _reasons(zones: Sequence[Zone]) -> list[str]:
    """A sentence for each cause: an error that several semi-primaries have stands once."""
    by_error: dict[str, list[Zone]] = {}
    for zone in zones:
        if (error := _error(zone)) is not None:
            by_error.setdefault(error, []).append(zone)
    shared = [f"{names(those)}: {error}." for error, those in by_error.items()]
    return [*shared, *(why_not(zone) for zone in zones if _error(zone) is None)][:NAMES_SHOWN]


def _error(zone: Zone) -> str | None:
    """What keeps it from writing, in its own words."""
    if zone.last_error and zone.state in ("blocked", "failed", "retrying"):
        return zone.last_error.rstrip(".")
    return None


def why_not(zone: Zone) -> str:
    """Why a semi-primary cannot write, as a sentence."""
    if (error := _error(zone)) is not None:
        return f"{zone.name}: {error}."
    reasons = {
        "away": f"{zone.name} is not connected to the primary.",
        "disconnected": f"{zone.name} is not connected to the primary.",
        "paused": f"{zone.name} waits while the primary is away for planned work.",
        "stopped": f"{zone.name}: its daemon does not run.",
        "joining": f"{zone.name} is joining.",
        "catchup": f"{zone.name} is catching up.",
        "blocked": f"{zone.name}: the primary can decide nothing.",
    }
    return reasons.get(zone.state, f"{zone.name} is {zone.state}.")


def _silent_servers(view: View) -> str:
    return " ".join(
        f"{server.name or server.conninfo} does not answer." for server in view.servers if server.error
    )


def names(zones: Sequence[Zone]) -> str:
    """`lisbon, madrid and 2 more`."""
    shown = [zone.name for zone in zones[:NAMES_SHOWN]]
    if len(zones) > NAMES_SHOWN:
        return f"{', '.join(shown)} and {len(zones) - NAMES_SHOWN} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
