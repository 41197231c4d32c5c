"""Where the time of a semi-primary's COMMITs goes, in words: pure."""

from __future__ import annotations

from psp.watch.model import Zone

PARTS = ("check", "network", "parked", "queue", "certify", "answer")
"""As psp.status and docs/metrics.md name them, in the order of a COMMIT; together they are all of it."""
_SMALL_MS = 2.0
_SMALL_SHARE = 0.1
_CAUSES = {
    "check": "before they are sent: the connection to the primary was away",
    "network": "on the way, beyond the distance",
    "parked": "parked at the primary: it is another semi-primary's turn",
    "queue": "in the primary's queue: others hold the keys, or no session is free",
    "certify": "until they are durable: the primary's PostgreSQL, its disk or its standbys",
    "answer": "until they are answered here: this daemon's processor is full",
}


def parts(zone: Zone) -> dict[str, float] | None:
    """Milliseconds of each part; None where nothing was decided in the last minute."""
    if zone.commit_ms is None:
        return None
    return {part: getattr(zone, f"{part}_ms") or 0.0 for part in PARTS}


def distance_ms(zone: Zone) -> float:
    """What of the time on the way is the round trip."""
    network = zone.network_ms or 0.0
    return network if zone.rtt_ms is None else min(network, zone.rtt_ms)


def cause(zone: Zone) -> str | None:
    """What besides the distance takes most of the time, if it takes much."""
    found = parts(zone)
    if found is None or zone.commit_ms is None:
        return None
    distance = distance_ms(zone)
    added = zone.commit_ms - distance
    beyond = found | {"network": found["network"] - distance}
    largest = max(beyond, key=lambda part: beyond[part])
    if beyond[largest] < max(_SMALL_MS, _SMALL_SHARE * zone.commit_ms):
        return f"the distance; psp adds {added:.1f} ms"
    return f"{beyond[largest]:.1f} ms {_CAUSES[largest]}"
