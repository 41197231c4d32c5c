"""One load in all zones at once, and what it cost the servers."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.overhead import cpu
from benchmarks.peers.sites import Site, Sites
from benchmarks.peers.system import System
from benchmarks.tpcc.runner import Client, Load, LoadError, Scale

WARM_UP_S = 3
ZONE_FIGURES = ("tps", "p50_ms", "p95_ms", "p99_ms", "transactions", "aborts", "gave_up")


@dataclass(frozen=True)
class Clients:
    """Those of all zones: how many in each, and where they are at home."""

    zones: Sequence[Site]
    threads: int
    warehouses: int  # of each zone
    customers: int
    items: int
    isolation: str

    @property
    def scale(self) -> Scale:
        """The whole database."""
        return Scale(self.warehouses * len(self.zones), self.items, self.customers)

    def load(self, number: int, seconds: int, by_second: bool = False) -> Load:
        """What those of a zone do."""
        first = number * self.warehouses + 1
        return Load(
            threads=self.threads,
            seconds=seconds,
            scale=self.scale,
            home_first=first,
            home_last=first + self.warehouses - 1,
            isolation=self.isolation,
            by_second=by_second,
        )

    def start(
        self,
        sites: Sites,
        system: System,
        script: Path,
        seconds: int,
        stack: ExitStack,
        by_second: bool = False,
    ) -> list[Client]:
        """A client in each zone, at once; they end with the stack."""
        started = []
        for number, zone in enumerate(self.zones):
            with sites.inside(zone.name):
                client = Client(system.server(zone.name), self.load(number, seconds, by_second), script)
                started.append(stack.enter_context(client))
        return started


def run(sites: Sites, system: System, script: Path, clients: Clients, seconds: int) -> list[dict[str, Any]]:
    """A report for each zone. LoadError: transactions failed for another reason than conflicts."""
    with ExitStack() as stack:
        started = clients.start(sites, system, script, seconds, stack)
        reports = [client.report() for client in started]
    system.settle()
    for zone, report in zip(clients.zones, reports, strict=True):
        if report["errors"]:
            raise LoadError(f"{zone.name}: transactions failed: {report['errors_by_sqlstate']}")
    return reports


def measure(sites: Sites, system: System, script: Path, clients: Clients, seconds: int) -> dict[str, Any]:
    """After a warm-up; the processor time is that of all servers until all of them have everything."""
    run(sites, system, script, clients, WARM_UP_S)
    before = _cpu_s(system)
    reports = run(sites, system, script, clients, seconds)
    used = {part: after - before[part] for part, after in _cpu_s(system).items()}
    transactions = sum(report["transactions"] for report in reports)
    if transactions == 0:
        raise LoadError("no transaction was committed: the load is too short for the distance")
    return {
        "tps": sum(report["tps"] for report in reports),
        "transactions": transactions,
        "cpu_ms_per_transaction": {part: 1000 * spent / transactions for part, spent in used.items()},
        "zones": [
            {"zone": zone.name} | {name: report[name] for name in ZONE_FIGURES}
            for zone, report in zip(clients.zones, reports, strict=True)
        ],
    }


def _cpu_s(system: System) -> Mapping[str, float]:
    return {part: sum(cpu.group_s(pid) for pid in pids) for part, pids in system.pids().items()}
