"""A TPC-C whose zones share all warehouses: how often the transactions of each zone lose.

Small, so that they meet: two warehouses and two clients in each zone. A client that has lost waits as in
../tpcc/, for 64 ms at most.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from psp.cluster import growth, verify
from psp.cluster.local import Zone
from psp.output import PspError

from benchmarks.fairness.zones import (
    WARM_UP_S,
    Forms,
    ZoneCount,
    at_least,
    at_most,
    new_cluster,
    throughput,
)
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Client, Load, Scale

SCALE = Scale(warehouses=2, items=1000, customers=100)
THREADS = 2
# What the aims of docs/decisions/39 say.
WORST_TO_MEAN = 1.5
THROUGHPUT = 0.8


def run(zones: Sequence[Zone], seconds: int, primary_options: dict[str, object]) -> list[ZoneCount]:
    """One form, from an empty directory on. PspError: commits are missing."""
    load = Load(threads=THREADS, seconds=seconds + WARM_UP_S, warmup_s=WARM_UP_S, scale=SCALE)
    with new_cluster(zones, primary_options) as cluster:
        runner.prepare(cluster.sps[0].dsn, SCALE)
        growth.adopt(cluster)
        verify.wait_drained(cluster)
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(sp.dsn, load)) for sp in cluster.sps]
            reports = [client.report() for client in clients]
        if not verify.verify(cluster).consistent:
            raise PspError("the primary and the zones do not hold the same rows")
    return [
        ZoneCount(zone.name, zone.rtt_ms, report["transactions"], report["aborts"])
        for zone, report in zip(zones, reports, strict=True)
    ]


def worst_to_mean(zones: Sequence[ZoneCount]) -> float:
    """The highest abort rate of a zone, as a multiple of the zones' mean; 1 is fair."""
    rates = [zone.abort_rate for zone in zones]
    return max(rates) * len(rates) / sum(rates) if sum(rates) > 0 else 1.0


def result_of(forms: Forms) -> dict[str, Any]:
    """What results/fairness.json has."""
    return {
        "forms": {form: [zone.row() for zone in zones] for form, zones in forms.items()},
        "worst_to_mean": {form: round(worst_to_mean(zones), 3) for form, zones in forms.items()},
        "targets": {
            "worst_to_mean": at_most(worst_to_mean(forms["with"]), WORST_TO_MEAN),
            "throughput": at_least(throughput(forms), THROUGHPUT),
        },
    }
