"""What a scenario needs and gives: a cluster with and without reservations, and a count for each zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psp.cluster.local import LocalCluster, Options, Zone

WARM_UP_S = 2
OFF: dict[str, object] = {"reservation_max_ms": 0}
# Options of the primary.
FORMS: dict[str, dict[str, object]] = {"without": OFF, "with": {}}


@dataclass
class ZoneCount:
    """What the clients of one zone have done."""

    zone: str
    round_trip_ms: float
    commits: int = 0
    aborts: int = 0

    @property
    def abort_rate(self) -> float:
        """Of all attempts."""
        return self.aborts / max(self.commits + self.aborts, 1)

    def add(self, other: ZoneCount) -> None:
        """Another round of the same zone."""
        self.commits += other.commits
        self.aborts += other.aborts

    def row(self) -> dict[str, Any]:
        """For the results."""
        return {
            "zone": self.zone,
            "round_trip_ms": self.round_trip_ms,
            "commits": self.commits,
            "aborts": self.aborts,
            "abort_rate": round(self.abort_rate, 3),
        }


Forms = dict[str, list[ZoneCount]]
# Zones, seconds, the primary's options.
Run = Callable[[Sequence[Zone], int, dict[str, object]], list[ZoneCount]]


def new_cluster(zones: Sequence[Zone], primary_options: dict[str, object]) -> LocalCluster:
    """As a context: nothing stays behind."""
    options = Options(primary_options=primary_options, pg_settings={"fsync": "on"})
    return LocalCluster.temporary(zones, options)


def commits(forms: Forms) -> dict[str, int]:
    """Of all zones."""
    return {form: sum(zone.commits for zone in zones) for form, zones in forms.items()}


def throughput(forms: Forms) -> float:
    """With reservations, as a part of that without them."""
    total = commits(forms)
    return total["with"] / max(total["without"], 1)


def at_least(measured: float, target: float) -> dict[str, Any]:
    """A target of the results."""
    return {"measured": round(measured, 3), "at_least": round(target, 3), "holds": measured >= target}


def at_most(measured: float, target: float) -> dict[str, Any]:
    """The same, the other way round."""
    return {"measured": round(measured, 3), "at_most": round(target, 3), "holds": measured <= target}
