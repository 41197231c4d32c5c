"""What clients have met that touch shared rows and run nothing again."""

from dataclasses import dataclass, field
from statistics import median
from threading import Lock
from typing import Any

USERS = 20  # that log in
CLIENTS = 4  # in each zone; each waits for half a second in the mean
RETRIES = (0, 1, 5)  # values of psp.retry_autocommit


@dataclass
class Zone:
    """One zone's clients. Times of the commits, in milliseconds."""

    ms: list[float] = field(default_factory=list)
    errors: int = 0


@dataclass
class Touches:
    """By zone. Threads may add at the same time."""

    zones: dict[str, Zone] = field(default_factory=dict)

    _lock: Lock = field(default_factory=Lock)

    def committed(self, zone: str, ms: float) -> None:
        """One more."""
        with self._lock:
            self._of(zone).ms.append(ms)

    def lost(self, zone: str) -> None:
        """One more, which the application saw as an error."""
        with self._lock:
            self._of(zone).errors += 1

    def _of(self, zone: str) -> Zone:
        return self.zones.setdefault(zone, Zone())

    def errors_per_thousand(self) -> float:
        """Of all statements of all zones."""
        errors = sum(zone.errors for zone in self.zones.values())
        return 1000 * errors / max(errors + sum(len(zone.ms) for zone in self.zones.values()), 1)

    def points(self) -> list[dict[str, Any]]:
        """For the results."""
        return [
            {
                "zone": name,
                "commits": len(zone.ms),
                "errors": zone.errors,
                "per_thousand": round(1000 * zone.errors / max(zone.errors + len(zone.ms), 1), 1),
                "p50_ms": round(median(zone.ms), 1) if zone.ms else None,
                "p99_ms": round(sorted(zone.ms)[int(len(zone.ms) * 0.99)], 1) if zone.ms else None,
            }
            for name, zone in sorted(self.zones.items())
        ]
