"""The thesis's microbenchmark: each transaction takes 1 from the stock of a random product, or reads it.

A plain table and Multi-Record Values, in turns, on one throw-away PostgreSQL that waits for its disk. Each
value has as many records as there are clients, as in the thesis; the workers run only where it is said
(adaptive.py). Reads and cold values are measured with one client, in many short rounds, cold values without
the commit delay and with it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from psp.servers.pgserver import PgServer

from benchmarks.mrv import adaptive, comparison, pgbench, program, shop, targets
from benchmarks.mrv.comparison import PLAIN, VIEW, Report
from benchmarks.mrv.pgbench import Load
from benchmarks.mrv.program import ISOLATIONS
from benchmarks.mrv.targets import SUB, Point
from benchmarks.steps import Steps

COLD_ITEMS = 1000
READ_ITEMS = 32
READ_RECORDS = 64
ONE_CLIENT_ROUNDS = 4
SCRIPTS = {
    "write": {PLAIN: "update", VIEW: "update", SUB: "sub"},
    "read": {PLAIN: "read", VIEW: "read"},
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = program.parser("benchmarks.mrv", __doc__, seconds=2, rounds=1, delay_ms=5)
    parser.add_argument("--clients", type=program.counts, default=[1, 8, 32], help="(1,8,32)")
    parser.add_argument("--warm-up", type=int, default=8, help="seconds for psp-mrv to find the records (8)")
    parser.add_argument("--items", type=program.counts, default=[1, 16], help="products that are sold (1,16)")
    options: argparse.Namespace = parser.parse_args(arguments)
    return options


def measure(
    databases: Mapping[str, str], point: Point, seconds: int, rounds: int, steps: Steps
) -> dict[str, Any]:
    """One point of the grid: rounds of all forms in turns."""

    def run(form: str, dsn: str) -> Report:
        shop.vacuum(dsn)
        script = SCRIPTS[point.work][form]
        return pgbench.run(
            dsn, Load(script, point.clients, point.items, seconds, point.isolation, point.commit_delay_ms)
        )

    dsns = {form: databases[PLAIN if form == PLAIN else VIEW] for form in SCRIPTS[point.work]}
    delay = f", commits wait {point.commit_delay_ms:g} ms" if point.commit_delay_ms else ""
    with steps.step(
        f"{point.work}, {point.isolation}, {point.clients} clients, {point.items} products{delay}"
    ):
        return comparison.row(point, comparison.in_turns(dsns, run, rounds))


def measure_all(server: PgServer, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """The grid, then cold values and reads."""
    plain = shop.make(server, PLAIN, max(COLD_ITEMS, *options.items), None)

    def point(databases: Mapping[str, str], found: Point) -> dict[str, Any]:
        return measure(databases, found, options.seconds, options.rounds, steps)

    def one_client(databases: Mapping[str, str], found: Point) -> dict[str, Any]:
        return measure(databases, found, 1, ONE_CLIENT_ROUNDS * options.rounds, steps)

    grid = []
    for clients in options.clients:
        split = shop.make(server, f"split_{clients}", max(options.items), clients)
        grid += [
            point(
                {PLAIN: plain, VIEW: split},
                Point("write", isolation, clients, items, clients, options.commit_delay_ms),
            )
            for isolation in ISOLATIONS
            for items in options.items
        ]
    cold = shop.make(server, "cold", COLD_ITEMS, 1)
    read = shop.make(server, "read", READ_ITEMS, READ_RECORDS)
    cold_rows = [
        one_client({PLAIN: plain, VIEW: cold}, Point("write", ISOLATIONS[0], 1, COLD_ITEMS, 1, delay_ms))
        for delay_ms in sorted({0.0, float(options.commit_delay_ms)})
    ]
    cold_read_row = one_client({PLAIN: plain, VIEW: cold}, Point("read", ISOLATIONS[0], 1, COLD_ITEMS, 1, 0))
    read_row = one_client(
        {PLAIN: plain, VIEW: read}, Point("read", ISOLATIONS[0], 1, READ_ITEMS, READ_RECORDS, 0)
    )
    adaptive_rows = measure_adaptive(server, options, steps)
    return {
        "load": program.common_load(options, benchmark="stock", pgbench_jobs=pgbench.JOBS),
        "grid": grid,
        "beside_the_grid": [*cold_rows, cold_read_row, read_row, *adaptive_rows],
        "targets": {
            **targets.targets(grid, cold_rows, read_row),
            **{name: found for row in adaptive_rows for name, found in adaptive.targets(row).items()},
        },
    }


def measure_adaptive(server: PgServer, options: argparse.Namespace, steps: Steps) -> list[dict[str, Any]]:
    """One product and the most clients, with the workers and without."""
    clients = max(options.clients)
    databases = adaptive.Databases(server, clients)
    rows = []
    with databases.served():
        for isolation in ISOLATIONS:
            point = Point("both", isolation, clients, adaptive.ITEMS, clients, options.commit_delay_ms)
            with steps.step(f"with workers, {isolation}, {clients} clients"):
                rows.append(
                    adaptive.measure(databases, point, options.seconds, options.rounds, options.warm_up)
                )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """As program.run."""
    options = parse(arguments)
    return program.run(program.Benchmark("mrv", "items", "products", measure_all), options)


if __name__ == "__main__":
    sys.exit(main())
