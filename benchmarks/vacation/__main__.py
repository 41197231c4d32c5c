"""STAMP Vacation on plain tables and with NUMFREE, NUMTOTAL and PRICE as Multi-Record Values.

The thesis's figures 37 and 38: clients by rows of each table. Each value has as many records as there are
clients, or --records-max; the workers do not run. The form `view` executes the same statements as the plain
tables, `functions` calls functions where many want one value. Afterwards each item must have as many free
units as its total less its reservations.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psp.cluster.pgserver import PgServer
from psp.output import PspError

from benchmarks.mrv import comparison, program
from benchmarks.mrv.comparison import PLAIN, VIEW, Report
from benchmarks.mrv.server import set_commit_delay
from benchmarks.steps import Steps
from benchmarks.vacation import databases, runner
from benchmarks.vacation.runner import Load

FUNCTIONS = "functions"
TARGET = 24  # the thesis's maximum
ISOLATION = "repeatable read"  # of the thesis's figures
OTHER_ISOLATION = "read committed"


@dataclass(frozen=True)
class Point:
    """Where on the grid: clients, rows of each table, records of each value."""

    isolation: str
    clients: int
    rows: int
    records: int
    commit_delay_ms: float


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = program.parser("benchmarks.vacation", __doc__, seconds=3, rounds=1, delay_ms=100)
    parser.add_argument("--clients", type=program.counts, default=[1, 16, 128], help="(1,16,128)")
    parser.add_argument("--rows", type=program.counts, default=[20, 200], help="of each table (20,200)")
    parser.add_argument(
        "--records-max",
        type=int,
        default=16,
        help="of each value, if there are more clients (16): there are a few hundred of each item only",
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        default=3,
        help="seconds before each round, in which each session makes its plans (3)",
    )
    parser.add_argument("--n", type=int, default=10, help="items that a task looks at (10)")
    options: argparse.Namespace = parser.parse_args(arguments)
    return options


def measure(dsns: dict[str, str], point: Point, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """One point: rounds of all forms in turns."""
    for dsn in dsns.values():
        set_commit_delay(dsn, point.commit_delay_ms)

    def run(form: str, dsn: str) -> Report:
        load = Load(
            point.clients,
            options.warm_up + options.seconds,
            point.rows,
            options.n,
            point.isolation,
            functions=form == FUNCTIONS,
            warmup_s=options.warm_up,
        )
        return report(runner.run(dsn, load))

    what = f"{point.isolation}, {point.clients} clients, {point.rows} rows"
    with steps.step(f"{what}, commits wait {point.commit_delay_ms:g} ms"):
        return comparison.row(point, comparison.in_turns(dsns, run, options.rounds))


def report(found: dict[str, Any]) -> Report:
    """What the client says. Raises PspError if a task failed other than by an abort."""
    if found["errors"]:
        raise PspError(f"tasks failed: {found['errors_by_sqlstate']}")
    return Report(found["transactions"], found["tps"], found["p50_ms"] or 0.0, found["aborts"])


def measure_all(server: PgServer, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """The grid, and the most contended point in other ways.

    Under READ COMMITTED, too, and without the commit delay, where processors are the limit.
    """
    grid: list[dict[str, Any]] = []
    other: list[dict[str, Any]] = []
    for rows in options.rows:
        for clients in options.clients:
            records = min(clients, options.records_max)
            split = databases.make(server, f"split_{rows}_{clients}", rows, records)
            dsns = {
                PLAIN: databases.make(server, f"plain_{rows}_{clients}", rows, None),
                VIEW: split,
                FUNCTIONS: split,
            }
            series = [(ISOLATION, options.commit_delay_ms, grid)]
            if (rows, clients) == (min(options.rows), max(options.clients)):
                series += [(OTHER_ISOLATION, options.commit_delay_ms, other), (ISOLATION, 0, other)]
            for isolation, delay_ms, found in series:
                point = Point(isolation, clients, rows, records, delay_ms)
                found.append(measure(dsns, point, options, steps))
            for form, dsn in dsns.items():
                if databases.violations(dsn):
                    raise PspError(f"{form}: free units are not the total less the reservations")
    return {
        "load": program.common_load(
            options, benchmark="STAMP Vacation", n=options.n, user_percent=runner.USER_PERCENT
        ),
        "conditions_hold": True,
        "grid": grid,
        "beside_the_grid": other,
        "targets": {
            "most_contended": targets(grid),
            "most_contended_read_committed": targets(other[:1]),
            "most_contended_no_commit_delay": targets(other[1:]),
        },
    }


def targets(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fewest rows and the most clients; and what limited them, processors or locks."""
    most = max(rows, key=lambda row: (row["clients"], -row["rows"]))
    return {
        **comparison.target(most, TARGET),
        "rows": most["rows"],
        **comparison.limits(most),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """As program.run."""
    options = parse(arguments)
    return program.run(program.Benchmark("vacation", "rows", "rows of each table", measure_all), options)


if __name__ == "__main__":
    sys.exit(main())
