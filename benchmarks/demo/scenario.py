"""What the demonstration does, step by step; returns what it measured.

All systems get the same data, the same load and the same durability. On plain PostgreSQL, which stands where
psp's primary stands, each zone's clients reach it through a relay with the zone's round trip; on psp they use
the SP of their zone, and the round trip is between the SP and the primary.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from psp.cluster import daemons, growth
from psp.cluster.configs import APP_ROLE
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.cluster.verify import verify
from psp.schema.model import Mode
from psp.servers import processes
from psp.servers.pgserver import PgServer
from psp.servers.ports import PortAllocator
from psycopg.conninfo import make_conninfo

from benchmarks.capture import captured_by
from benchmarks.plain import plain_copy
from benchmarks.steps import Steps
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import Client, Load, Scale

WARMUP_S = 3
# The systems of psp by their capture mode; `psp` is what most people use.
MODE_OF_SYSTEM: Mapping[str, Mode] = {"psp": "native", "views": "views"}
SYSTEMS_OF_MODE = {"native": ("psp",), "views": ("views",), "both": ("views", "psp")}


@dataclass(frozen=True)
class Demo:
    """What is measured."""

    zones: Sequence[Zone]
    seconds: int
    threads: int
    warehouses_per_zone: int
    customers: int
    isolation: str
    prepared: bool
    systems: Sequence[str] = ("psp",)

    @property
    def scale(self) -> Scale:
        """Fewer customers than the specification's 3,000, and so fewer orders, load and join faster."""
        return Scale(self.warehouses_per_zone * len(self.zones), customers=self.customers)

    def load(self, zone_number: int, mode: Mode = "native") -> Load:
        """What the clients of a zone do: at home in the zone's warehouses, remote at the standard's rates."""
        first = zone_number * self.warehouses_per_zone + 1
        return Load(
            threads=self.threads,
            seconds=self.seconds + WARMUP_S,
            warmup_s=WARMUP_S,
            scale=self.scale,
            home_first=first,
            home_last=first + self.warehouses_per_zone - 1,
            isolation=self.isolation,
            prepared=self.prepared,
        ).in_mode(mode)


def run(demo: Demo, steps: Steps) -> dict[str, Any]:
    """Everything, from an empty directory to the result; nothing stays behind, also after an error."""
    reports: dict[str, list[dict[str, Any]]] = {}
    checks: dict[str, dict[str, Any]] = {}
    capture: dict[str, str] = {}
    for system in demo.systems:
        mode = MODE_OF_SYSTEM[system]
        with _loaded(demo, mode, steps) as cluster:
            if "postgres" not in reports:
                reports["postgres"] = _measure_plain(demo, cluster, steps)
            with steps.step(f"Putting the database of {cluster.sps[0].name} under psp; the others join"):
                growth.adopt(cluster, steps.progress)
            if mode == "native":
                capture[system] = captured_by(cluster.sps[0].admin_dsn)
            with steps.step(f"The load on psp, {mode} mode, {demo.seconds} s"):
                reports[system] = _run_clients([sp.dsn for sp in cluster.sps], demo, mode)
            checks[system] = _checks(cluster, steps)
    return _result(demo, reports) | {"capture": capture} | _verdicts(checks)


@contextmanager
def _loaded(demo: Demo, mode: Mode, steps: Steps) -> Iterator[LocalCluster]:
    with ExitStack() as stack:
        with steps.step(f"Starting {len(demo.zones) + 1} PostgreSQL servers and the primary"):
            cluster = stack.enter_context(LocalCluster.temporary(demo.zones, Options(mode=mode)))
        with steps.step(f"Loading TPC-C, {demo.scale.warehouses} warehouses"):
            runner.prepare(cluster.sps[0].dsn, demo.scale)
        yield cluster


def _measure_plain(demo: Demo, cluster: LocalCluster, steps: Steps) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        with steps.step("Copying the database to a plain PostgreSQL"):
            server = stack.enter_context(plain_copy(cluster, cluster.sps[0].name))
            dsns = stack.enter_context(_far_dsns(demo, cluster, server))
        with steps.step(f"The load on one far PostgreSQL, {demo.seconds} s"):
            return _run_clients(dsns, demo)


@contextmanager
def _far_dsns(demo: Demo, cluster: LocalCluster, server: PgServer) -> Iterator[list[str]]:
    """One connection string for each zone, through a relay of its own."""
    directory = cluster.state.directory
    ports = PortAllocator(taken=cluster.state.ports() | {server.port})
    nodes = [f"plain-{zone.name}" for zone in demo.zones]
    dsns = []
    try:
        for node, zone in zip(nodes, demo.zones, strict=True):
            (directory / node).mkdir()
            port = ports.take()
            daemons.start_relay(directory, node, port, server.port, zone.rtt_ms / 2)
            dsns.append(make_conninfo(server.dsn(cluster.state.database, APP_ROLE), port=port))
        yield dsns
    finally:
        for node in nodes:
            processes.end(daemons.relay_name(directory, node))


def _run_clients(dsns: Sequence[str], demo: Demo, mode: Mode = "native") -> list[dict[str, Any]]:
    """All zones at once; one report for each."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(dsn, demo.load(i, mode))) for i, dsn in enumerate(dsns)]
        return [client.report() for client in clients]


def _zone_result(report: dict[str, Any]) -> dict[str, Any]:
    names = ("tps", "p50_ms", "p95_ms", "p99_ms", "aborts", "retries", "errors", "errors_by_sqlstate",
             "commit_p50_ms", "commit_p95_ms", "transactions", "duration_s", "by_type")  # fmt: skip
    return {name: report[name] for name in names}


def _result(demo: Demo, reports: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    zones = [
        {"name": zone.name, "rtt_ms": zone.rtt_ms}
        | {system: _zone_result(found[i]) for system, found in reports.items()}
        for i, zone in enumerate(demo.zones)
    ]
    tps = {system: sum(report["tps"] for report in found) for system, found in reports.items()}
    # None if PostgreSQL committed nothing: a load too short for its distance
    ratios = {system: tps[system] / tps["postgres"] if tps["postgres"] else None for system in demo.systems}
    return {
        "load": {
            "benchmark": "TPC-C",
            "seconds": demo.seconds,
            "threads_per_zone": demo.threads,
            "warehouses": demo.scale.warehouses,
            "customers_per_district": demo.customers,
            "isolation": {
                system: demo.load(0, MODE_OF_SYSTEM.get(system, "native")).isolation for system in reports
            },
            "prepared_statements": demo.prepared,
        },
        "zones": zones,
        "throughput_ratio": ratios[demo.systems[-1]],
        "throughput_ratios": ratios,
        "errors": sum(report["errors"] for found in reports.values() for report in found),
    }


def _checks(cluster: LocalCluster, steps: Steps) -> dict[str, Any]:
    with steps.step("Comparing every table of the primary and all zones"):
        verification = verify(cluster)
    with steps.step("TPC-C's consistency conditions in every zone"):
        conditions = {sp.name: check.check(_reading_dsn(cluster, sp)) for sp in cluster.sps}
    violated = {
        name: [f"{c.condition}: {c.description} ({c.violations} violations)" for c in found if not c.holds]
        for name, found in conditions.items()
    }
    return {
        "consistent": verification.consistent,
        "violated": violated,
        "verification": verification.as_dict(),
    }


def _reading_dsn(cluster: LocalCluster, sp: SpNode) -> str:
    """In views mode by variant nryotw: the conditions read whole tables, and nobody writes any more."""
    if cluster.state.mode == "native":
        return sp.admin_dsn
    return make_conninfo(sp.admin_dsn, options="-c search_path=public_nryotw,public")


def _verdicts(checks: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What holds at all systems, and what each of them has found."""
    violated = {system: found["violated"] for system, found in checks.items()}
    return {
        "consistent": all(found["consistent"] for found in checks.values()),
        "conditions_hold": not any(zone for zones in violated.values() for zone in zones.values()),
        "violated_conditions": violated,
        "verification": {system: found["verification"] for system, found in checks.items()},
    }
