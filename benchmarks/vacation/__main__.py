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

from psp.output import PspError
from psp.servers.pgserver import PgServer

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
DELAY_MAX_MS = 100  # of the server's commit_delay; what is longer waits before COMMIT
FAR_MORE_S = 10  # a plain table commits two or three transactions a second then
SESSIONS_PER_WARM_UP_S = 16  # so many make their plans of views and functions in a second


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
        default=2,
        help="seconds before each round; of MRVs one more for 16 clients, who make their plans in it (2)",
    )
    parser.add_argument(
        "--far-ms",
        type=int,
        default=500,
        help="how long commits wait at the most contended point, once more (500): neither form is limited by"
        " processors then; 0: not at all",
    )
    parser.add_argument("--n", type=int, default=10, help="items that a task looks at (10)")
    options: argparse.Namespace = parser.parse_args(arguments)
    return options


def measure(dsns: dict[str, str], point: Point, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """One point: rounds of all forms in turns."""
    far = point.commit_delay_ms > DELAY_MAX_MS
    for dsn in dsns.values():
        set_commit_delay(dsn, 0 if far else point.commit_delay_ms)

    def run(form: str, dsn: str) -> Report:
        warm_up_s = options.warm_up + (0 if form == PLAIN else point.clients // SESSIONS_PER_WARM_UP_S)
        load = Load(
            point.clients,
            warm_up_s + options.seconds + (FAR_MORE_S if far else 0),
            point.rows,
            options.n,
            point.isolation,
            functions=form == FUNCTIONS,
            warmup_s=warm_up_s,
            commit_wait_ms=round(point.commit_delay_ms) if far else 0,
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

    Under READ COMMITTED, too, and both with commits so far away that processors are not the limit.
    """
    grid: list[dict[str, Any]] = []
    other: list[dict[str, Any]] = []
    far: list[dict[str, Any]] = []
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
                series.append((OTHER_ISOLATION, options.commit_delay_ms, other))
                if options.far_ms:
                    series += [(name, options.far_ms, far) for name in (ISOLATION, OTHER_ISOLATION)]
            for isolation, delay_ms, found in series:
                point = Point(isolation, clients, rows, records, delay_ms)
                found.append(measure(dsns, point, options, steps))
            for form, dsn in dsns.items():
                if databases.violations(dsn):
                    raise PspError(f"{form}: free units are not the total less the reservations")
    found_targets = {
        "most_contended": targets(grid),
        "most_contended_read_committed": targets(other),
    }
    for row in far:
        found_targets[f"most_contended_far_{row['isolation'].replace(' ', '_')}"] = targets([row])
    return {
        "load": program.common_load(
            options, benchmark="STAMP Vacation", n=options.n, user_percent=runner.USER_PERCENT
        ),
        "conditions_hold": True,
        "grid": grid,
        "beside_the_grid": [*other, *far],
        "targets": found_targets,
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
