"""TPC-C, plain and with W_YTD, D_YTD (many records) and D_NEXT_O_ID (one) as Multi-Record Values.

The thesis's figures 35 and 36: clients by warehouses. Each hot value has as many records as there are
clients; the workers do not run. Afterwards the specification's consistency conditions are checked on both.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psp.output import PspError
from psp.servers.pgserver import PgServer

from benchmarks.mrv import comparison, program
from benchmarks.mrv.comparison import Report
from benchmarks.mrv.program import ISOLATIONS
from benchmarks.mrv.server import set_commit_delay
from benchmarks.mrv.tpcc import databases
from benchmarks.steps import Steps
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import Load, Scale

TARGET = 3
ITEMS = 10_000


@dataclass(frozen=True)
class Point:
    """Where on the grid: clients, all at home in the first `warehouses`, and records of each hot value."""

    isolation: str
    clients: int
    warehouses: int
    records: int
    commit_delay_ms: float


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = program.parser("benchmarks.mrv.tpcc", __doc__, seconds=3, rounds=1, delay_ms=10)
    parser.add_argument("--clients", type=program.counts, default=[1, 8, 64], help="(1,8,64)")
    parser.add_argument("--warehouses", type=program.counts, default=[1, 4], help="(1,4)")
    parser.add_argument(
        "--warm-up",
        type=int,
        default=2,
        help="seconds before each round, in which each session makes its plans (2)",
    )
    parser.add_argument(
        "--customers", type=int, default=1000, help="of each district (1000; the specification says 3000)"
    )
    options: argparse.Namespace = parser.parse_args(arguments)
    return options


def measure(dsns: dict[str, str], point: Point, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """One point: rounds of both databases in turns."""
    for dsn in dsns.values():
        set_commit_delay(dsn, point.commit_delay_ms)
    databases.set_records(dsns[comparison.VIEW], point.warehouses, point.records)
    scale = Scale(point.warehouses, ITEMS, options.customers)
    load = Load(
        point.clients,
        options.warm_up + options.seconds,
        scale,
        warmup_s=options.warm_up,
        isolation=point.isolation,
        prepared=True,
    )

    def run(_: str, dsn: str) -> Report:
        databases.vacuum(dsn)
        return report(runner.run(dsn, load))

    what = f"{point.isolation}, {point.clients} clients, {point.warehouses} warehouses"
    with steps.step(f"{what}, commits wait {point.commit_delay_ms:g} ms"):
        return comparison.row(point, comparison.in_turns(dsns, run, options.rounds))


def report(found: dict[str, Any]) -> Report:
    """What the client says. Raises PspError if a transaction failed other than by an abort."""
    if found["errors"]:
        raise PspError(f"transactions failed: {found['errors_by_sqlstate']}")
    return Report(found["transactions"], found["tps"], found["p50_ms"] or 0.0, found["aborts"])


def measure_all(server: PgServer, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """The grid, then the most contended point without the commit delay, where processors are the limit."""
    scale = Scale(max(options.warehouses), ITEMS, options.customers)
    with steps.step(f"Loading TPC-C, {scale.warehouses} warehouses, and a copy with MRVs"):
        dsns = databases.make(server, scale, max(options.clients))
    grid = [
        measure(dsns, Point(isolation, clients, warehouses, clients, options.commit_delay_ms), options, steps)
        for clients in options.clients
        for isolation in ISOLATIONS
        for warehouses in options.warehouses
    ]
    most, least = max(options.clients), min(options.warehouses)
    fast_disk = [
        measure(dsns, Point(isolation, most, least, most, 0), options, steps) for isolation in ISOLATIONS
    ]
    with steps.step("Checking TPC-C's consistency conditions"):
        broken = {form: [c for c in check.check(dsn) if not c.holds] for form, dsn in dsns.items()}
    if any(broken.values()):
        raise PspError(f"consistency conditions do not hold: {broken}")
    return {
        "load": program.common_load(
            options, benchmark="TPC-C", items=ITEMS, customers=options.customers, mix=runner.STANDARD_MIX
        ),
        "conditions_hold": True,
        "grid": grid,
        "beside_the_grid": fast_disk,
        "targets": targets(grid, fast_disk),
    }


def targets(grid: Sequence[dict[str, Any]], fast_disk: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One warehouse and the most clients. On a fast disk it is said what limited the plain database, too."""
    result = {}
    for name, rows in (("one_warehouse", grid), ("one_warehouse_no_commit_delay", fast_disk)):
        for isolation in ISOLATIONS:
            found = [row for row in rows if row["isolation"] == isolation and row["warehouses"] == 1]
            if found:
                most = max(found, key=lambda row: row["clients"])
                result[f"{name}_{isolation.replace(' ', '_')}"] = {
                    **comparison.target(most, TARGET),
                    **comparison.limits(most),
                }
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """As program.run."""
    options = parse(arguments)
    return program.run(program.Benchmark("mrv_tpcc", "warehouses", "warehouses", measure_all), options)


if __name__ == "__main__":
    sys.exit(main())
