"""A zone is cut off for some seconds and comes back: the throughput of each zone in each second."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.peers.measure import Clients
from benchmarks.peers.sites import Sites
from benchmarks.peers.system import System

# A zone works again when it has this part of its throughput before the cut, as a mean of so many seconds.
WORKS = 0.5
WORKS_S = 3


@dataclass(frozen=True)
class Times:
    """In whole seconds: how long everything works, how long the line is cut, how long it works again."""

    before_s: int
    cut_s: int
    after_s: int

    @property
    def all_s(self) -> int:
        """The whole load."""
        return self.before_s + self.cut_s + self.after_s


def run(
    sites: Sites, system: System, script: Path, clients: Clients, zone: str, times: Times
) -> dict[str, Any]:
    """Cuts the zone off in the middle of a load. Transactions that fail are counted, and no error here."""
    with ExitStack() as stack:
        started = clients.start(sites, system, script, times.all_s, stack, by_second=True)
        begin = time.monotonic()
        time.sleep(times.before_s)
        with sites.cut(zone):
            time.sleep(times.cut_s)
        reports = [client.report() for client in started]
    system.settle()
    found = [
        {
            "zone": place.name,
            "cut_off": place.name == zone,
            **summary(series(report["by_second"], begin, times.all_s), times),
            "aborts": report["aborts"],
            "errors_by_sqlstate": report["errors_by_sqlstate"],
        }
        for place, report in zip(clients.zones, reports, strict=True)
    ]
    return {"zones": found, "all_work_again_s": latest([zone["works_again_s"] for zone in found])}


def series(by_second: Mapping[str, int], begin: float, seconds: int) -> list[int]:
    """Commits in each second since `begin`, which is rounded down to a second of the clock."""
    return [by_second.get(str(int(begin) + second), 0) for second in range(seconds)]


def summary(commits: Sequence[int], times: Times) -> dict[str, Any]:
    """A zone's throughput before, in and after the cut.

    works_again_s: since the line is back; None: never.
    """
    heal = times.before_s + times.cut_s
    # The first second has the clients' connecting in it.
    before = mean(commits[1 : times.before_s])
    return {
        "tps_before": before,
        "tps_cut": mean(commits[times.before_s : heal]),
        "tps_after": mean(commits[heal:]),
        "seconds_without_commits": commits[times.before_s :].count(0),
        "works_again_s": works_again(commits[heal:], before),
        "by_second": list(commits),
    }


def works_again(commits: Sequence[int], before: float) -> int | None:
    """The first second from which the zone works as WORKS says."""
    for second in range(len(commits) - WORKS_S + 1):
        if mean(commits[second : second + WORKS_S]) >= WORKS * before:
            return second
    return None


def latest(seconds: Sequence[int | None]) -> int | None:
    """Of all zones; None if one of them never works again."""
    known = [second for second in seconds if second is not None]
    return max(known) if len(known) == len(seconds) else None
