"""Measures what psp costs on one SP with the primary beside it and no distance, against plain PostgreSQL.

All make the same promise (a committed transaction survives a crash): plain PostgreSQL by its own synchronous
commit, psp in both modes by the primary's. Rounds are interleaved: what else the machine does hits all.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psp.output import PspError, console, table

from benchmarks.overhead import targets
from benchmarks.overhead.profile import profile
from benchmarks.overhead.rounds import (
    FOREIGN_KEYS,
    NATIVE,
    SQL_CAPTURE,
    VIEWS,
    WARMUP_S,
    System,
    one_round,
    systems,
)
from benchmarks.overhead.sums import Sum
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import READ_ONLY_MIX, STANDARD_MIX, Load, LoadError, Scale

READ_THREADS = 4


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--seconds", type=int, default=15, help="of each round (15)")
    parser.add_argument("--rounds", type=int, default=3, help="of each system and thread count (3)")
    parser.add_argument("--threads", default="1,4,16", help="thread counts (1,4,16)")
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument(
        "--isolation", choices=("read committed", "repeatable read"), default="read committed"
    )
    parser.add_argument("--prepared", action="store_true", help="clients use prepared statements")
    parser.add_argument(
        "--perf", action="store_true", help="also profile the SP's and plain backends with perf"
    )
    parser.add_argument("--no-views", action="store_true", help="without psp's views mode")
    parser.add_argument("--no-sql-capture", action="store_true", help="without capture by SQL")
    parser.add_argument("--no-foreign-keys", action="store_true", help="without TPC-C with foreign keys")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for overhead.json")
    return parser.parse_args(arguments)


def backends(dsn: str) -> Callable[[], int]:
    """How many clients' backends still run in the load's database, ours and psp's own not counted."""

    def count() -> int:
        with psycopg.connect(dsn) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchone()
        assert found is not None
        return int(found[0])

    return count


def measure(found: Sequence[System], load: Load, rounds: int, steps: Steps) -> dict[str, Sum]:
    """Interleaved rounds of one load; what they sum up to, by the system's name."""
    sums = {system.name: Sum() for system in found}
    what = "read-only" if load.mix == READ_ONLY_MIX else "TPC-C"
    for number in range(rounds):
        for system in found:
            with steps.step(f"{what}, {load.threads} threads, round {number + 1} of {rounds}, {system.name}"):
                sums[system.name].add(*one_round(system, load, backends(system.dsn)))
    return sums


def _warm_up(found: Sequence[System], load: Load, steps: Steps) -> None:
    with steps.step("Warming up"):
        for system in found:
            runner.run(system.dsn, load.in_mode(system.mode))


def run(options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Everything, from loading to the result."""
    scale = Scale(options.warehouses)

    def load(threads: int, mix: str, seconds: int) -> Load:
        return Load(threads, seconds, scale, isolation=options.isolation, mix=mix, prepared=options.prepared)

    variants = [NATIVE]
    variants += [] if options.no_sql_capture else [SQL_CAPTURE]
    variants += [] if options.no_foreign_keys else [FOREIGN_KEYS]
    variants += [] if options.no_views else [VIEWS]
    with systems(scale, variants, steps) as found:
        # Reads first, while all hold the same rows in the same places.
        _warm_up(found, load(READ_THREADS, READ_ONLY_MIX, WARMUP_S), steps)
        sums = measure(found, load(READ_THREADS, READ_ONLY_MIX, options.seconds), options.rounds, steps)
        read_rows = [targets.row(READ_THREADS, "read-only", sums)]
        _warm_up(found, load(READ_THREADS, STANDARD_MIX, WARMUP_S), steps)
        write_rows = []
        for threads in [int(count) for count in options.threads.split(",")]:
            sums = measure(found, load(threads, STANDARD_MIX, options.seconds), options.rounds, steps)
            write_rows.append(targets.row(threads, "standard", sums))
        if options.perf:
            _profiles(found, load(READ_THREADS, STANDARD_MIX, options.seconds), options.results, steps)
    return {
        "load": {
            "benchmark": "TPC-C",
            "warehouses": scale.warehouses,
            "seconds": options.seconds,
            "rounds": options.rounds,
            "isolation": options.isolation,
            "prepared_statements": options.prepared,
        },
        "rows": [*write_rows, *read_rows],
        "targets": targets.targets(write_rows, read_rows),
    }


def _profiles(found: Sequence[System], load: Load, results: Path, steps: Steps) -> None:
    for system in found:
        with steps.step(f"perf on the backends of {system.name}"):
            output = results / f"overhead-perf-{system.name}.txt"
            profile(system.dsn, load.in_mode(system.mode), system.postmaster, output)


def show(result: dict[str, Any]) -> None:
    """Prints one line for each thread count and system, and the targets."""
    rows = []
    for found in result["rows"]:
        for name in ("plain", "psp", "psp_sql", "plain_fk", "psp_fk", "views"):
            if name not in found:
                continue
            system = found[name]
            cpu_ms = system["cpu_ms_per_transaction"]
            server = cpu_ms.get("postgres", cpu_ms.get("sp_postgres"))
            parts = [
                server,
                *(cpu_ms.get(part) for part in ("sp_daemon", "primary_postgres", "primary_daemon")),
            ]
            rows.append(
                (found["mix"], found["threads"], name, system["tps"], system["commit_p50_ms"],
                 *(None if part is None else f"{part:.2f}" for part in parts))
            )  # fmt: skip
    columns = ("mix", "n", "system", "tps", "commit", "server", "daemon", "primary", "its")
    console.print(
        table(
            "n clients; COMMIT p50 in ms; CPU ms per transaction of server, daemon, primary and its daemon",
            columns,
            rows,
        )
    )
    lines = [
        (name, f"{found['measured']:.2f}", f"{found['kind']} {found['target']}", found["holds"],
         ", ".join(f"{threads}: {ratio:.2f}" for threads, ratio in found["by_threads"].items()))
        for name, found in result["targets"].items()
    ]  # fmt: skip
    console.print(table("Targets", ("ratio", "measured", "target", "holds", "by threads"), lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        result = run(options, Steps())
        show(result)
        path = options.results / "overhead.json"
        write_json(result, path)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, LoadError)


if __name__ == "__main__":
    sys.exit(main())
