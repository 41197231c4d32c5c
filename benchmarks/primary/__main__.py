"""Measures what certification costs the primary.

Batches of updates by both forms of the statement, SQL and the server module, beside a raw upsert of equal
batches, by turns on one PostgreSQL; and TPC-C, without distance and in three zones, with either.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psp.output import PspError, console, table

from benchmarks.demo.__main__ import positive
from benchmarks.primary import batches, tpcc
from benchmarks.primary.targets import targets
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc.runner import LoadError


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.primary", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=3, help="of each kind of batch (3)")
    parser.add_argument("--seconds", type=positive, default=15, help="of each TPC-C (15)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for primary.json")
    return parser.parse_args(arguments)


def measure_batches(rounds: int, steps: Steps) -> list[dict[str, Any]]:
    """A row for each point of the grid; all points take turns."""
    points = batches.points()
    said: dict[batches.Point, list[dict[str, Any]]] = {point: [] for point in points}
    with batches.primary() as dsn:
        for number in range(rounds):
            with steps.step(f"Batches beside a raw upsert, round {number + 1} of {rounds}"):
                for point in points:
                    said[point].append(batches.measure(dsn, point))
    return [batches.row(point, found) for point, found in said.items()]


def measure_tpcc(seconds: int, steps: Steps) -> dict[str, dict[str, Any]]:
    """For each cluster a result for each form of the statement."""
    found: dict[str, dict[str, Any]] = {}
    for where in tpcc.CLUSTERS:
        for form in batches.FORMS:
            clients = f"{where.threads} clients in each zone"
            with steps.step(f"TPC-C, {where.name}, certified by {form}: {clients}, {seconds} s"):
                found.setdefault(where.name, {})[form] = tpcc.measure(where, seconds, form)
    return found


def show(result: dict[str, Any]) -> None:
    """Prints a line for each measurement, and the targets."""
    batch_lines = [
        (row["transactions"], row["rows"], row["conflicts_percent"], *_us(row["sql"]), *_us(row["module"]),
         *_us(row["upsert"]), f"{row['sql']['upsert_ratio']:.2f}", f"{row['module']['upsert_ratio']:.2f}")
        for row in result["batches"]
    ]  # fmt: skip
    batch_names = (
        "in a batch", "rows", "conflicts %", "SQL", "client", "module", "client", "upsert", "client",
        "SQL's ratio", "module's",
    )  # fmt: skip
    console.print(table("CPU µs of a transaction", batch_names, batch_lines))
    tpcc_lines = []
    for name, forms in result["tpcc"].items():
        for form, found in forms.items():
            ms = [f"{one:.2f}" for one in found["cpu_ms_per_transaction"].values()]
            per_s = f"{found['transactions_per_cpu_s']:.0f}"
            tpcc_lines.append((name, found["clients"], form, f"{found['tps']:.0f}", *ms, per_s))
    tpcc_names = ("clients", "n", "by", "tps", "PostgreSQL", "daemon", "for a CPU second")
    console.print(table("TPC-C: CPU ms of a transaction at the primary", tpcc_names, tpcc_lines))
    target_lines = [
        (name, f"{found['sql']:.2f}", f"{found['measured']:.2f}", f"{found['kind']} {found['target']}",
         found["holds"])
        for name, found in result["targets"].items()
    ]  # fmt: skip
    console.print(table("Targets", ("name", "by SQL", "by the module", "target", "holds"), target_lines))


def _us(costs: dict[str, Any]) -> tuple[str, str]:
    return f"{costs['us']['server']:.0f}", f"{costs['us']['client']:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        steps = Steps()
        rows = measure_batches(options.rounds, steps)
        found = measure_tpcc(options.seconds, steps)
        result = {"batches": rows, "tpcc": found, "targets": targets(rows, found)}
        show(result)
        path = options.results / "primary.json"
        write_json(result, path)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, LoadError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
