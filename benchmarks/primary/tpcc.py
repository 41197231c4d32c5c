"""What a TPC-C transaction costs the primary: CPU of its PostgreSQL and of its daemon."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from psp.cluster import growth, verify
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, Part, Zone
from psp.output import PspError
from psp.primary.members import gather

from benchmarks.overhead import cpu
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Client, Load, LoadError, Scale

PARTS: Sequence[Part] = ("postgres", "daemon")
WARM_UP_S = 5
CERTIFY = {"sql": "sql", "module": "auto"}  # the setting for each form


@dataclass(frozen=True)
class Cluster:
    """Where the clients are."""

    name: str
    zones: Sequence[Zone]
    threads: int  # in each zone
    warehouses: int  # at home in each zone

    @property
    def scale(self) -> Scale:
        """Of all zones; fewer items and customers than the specification's, so that loading is quick."""
        return Scale(self.warehouses * len(self.zones), items=10_000, customers=1000)

    def load(self, number: int, seconds: int, scale: Scale) -> Load:
        """What a zone's clients do."""
        first = number * self.warehouses + 1
        last = first + self.warehouses - 1
        return Load(threads=self.threads, seconds=seconds, scale=scale, home_first=first, home_last=last)


CLUSTERS = (
    Cluster("near", [Zone("near")], 16, 4),
    Cluster("far", [Zone("near", 30), Zone("middle", 90), Zone("far", 190)], 8, 2),
)


def measure(
    where: Cluster, seconds: int, form: str, scale: Scale | None = None, warm_up_s: int = WARM_UP_S
) -> dict[str, Any]:
    """A cluster of its own, from an empty directory on; nothing stays behind. `form`: sql or module."""
    scale = scale or where.scale
    distant = any(zone.rtt_ms for zone in where.zones)
    options = Options(database="tpcc", relay=distant, primary_options={"certify": CERTIFY[form]})
    with LocalCluster.temporary(where.zones, options) as cluster:
        runner.prepare(cluster.sps[0].dsn, scale)
        growth.adopt(cluster)
        verify.wait_drained(cluster)
        _run(cluster, where, warm_up_s, scale)
        certified_by = gather(cluster.primary_dsn)["certified_by"]
        if certified_by != form:
            raise PspError(f"the primary certifies by {certified_by}, not by {form}")
        before = _cpu_s(cluster)
        reports = _run(cluster, where, seconds, scale)
        used = {part: after - before[part] for part, after in _cpu_s(cluster).items()}
    transactions = sum(report["transactions"] for report in reports)
    if transactions == 0:
        raise LoadError("no transaction committed: the load is too short")
    return {
        "clients": where.threads * len(where.zones),
        "transactions": transactions,
        "tps": transactions / seconds,
        "commit_p50_ms": {
            zone.name: report["commit_p50_ms"] for zone, report in zip(where.zones, reports, strict=True)
        },
        "cpu_ms_per_transaction": {
            part: 1000 * seconds_of / transactions for part, seconds_of in used.items()
        },
        "transactions_per_cpu_s": transactions / sum(used.values()),
    }


def _run(cluster: LocalCluster, where: Cluster, seconds: int, scale: Scale) -> list[dict[str, Any]]:
    """All zones at once; when it returns, everything is applied."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Client(sp.dsn, where.load(number, seconds, scale)))
            for number, sp in enumerate(cluster.sps)
        ]
        reports = [client.report() for client in clients]
    for report in reports:
        if report["errors"]:
            raise LoadError(f"{report['errors']} transactions failed: {report['errors_by_sqlstate']}")
    verify.wait_drained(cluster)
    return reports


def _cpu_s(cluster: LocalCluster) -> dict[str, float]:
    return {part: cpu.group_s(cpu.running(cluster.pid(PRIMARY, part))) for part in PARTS}
