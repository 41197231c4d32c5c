"""Measures the CPU time of applying another semi-primary's TPC-C, against plain PostgreSQL that executes it.

One SP executes, the other one only applies, the primary is beside them. Rounds are interleaved with plain
PostgreSQL's: what else the machine does hits both.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psp.output import PspError, console, table

from benchmarks.apply import targets, watermark
from benchmarks.apply.pair import Pair, pair
from benchmarks.overhead.sums import Sum
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc.runner import Load, LoadError, Scale

WARMUP_S = 5
CATCH_UP_THREADS = 4


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.apply", description=__doc__)
    parser.add_argument("--seconds", type=int, default=15, help="of each round (15)")
    parser.add_argument("--rounds", type=int, default=3, help="of each system and thread count (3)")
    parser.add_argument("--threads", default="1,4,16", help="thread counts (1,4,16)")
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for apply.json")
    return parser.parse_args(arguments)


def _measure(found: Pair, load: Load, rounds: int, steps: Steps) -> dict[str, Any]:
    plain, applier = Sum(), Sum()
    for number in range(rounds):
        what = f"{load.threads} threads, round {number + 1} of {rounds}"
        with steps.step(f"TPC-C, {what}, plain PostgreSQL"):
            plain.add(*found.execute(load))
        with steps.step(f"TPC-C, {what}, one SP executes and the other applies"):
            applier.add(*found.apply(load))
    return targets.row(load.threads, plain, applier)


def run(options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Everything, from loading to the result."""
    scale = Scale(options.warehouses)
    with pair(scale, steps) as found:
        with steps.step("Warming up"):
            found.execute(Load(CATCH_UP_THREADS, WARMUP_S, scale))
            found.apply(Load(CATCH_UP_THREADS, WARMUP_S, scale))
        counts = [int(count) for count in options.threads.split(",")]
        rows = [
            _measure(found, Load(threads, options.seconds, scale), options.rounds, steps)
            for threads in counts
        ]
        with steps.step("The applier comes back after a load"):
            away = found.catch_up(Load(CATCH_UP_THREADS, options.seconds, scale))
        nearest = min(rows, key=lambda row: abs(row["threads"] - CATCH_UP_THREADS))
        catch_up = targets.caught_up(away, nearest["cpu_ms_per_transaction"]["postgres"])
        found.cluster.stop(found.applier.name, "daemon")
        with steps.step("Looks at W"):
            watermark_us = watermark.reading(found.applier.admin_dsn)
    return {
        "load": {
            "benchmark": "TPC-C",
            "warehouses": scale.warehouses,
            "seconds": options.seconds,
            "rounds": options.rounds,
        },
        "rows": rows,
        "catch_up": catch_up,
        "watermark_us": watermark_us,
        "targets": targets.targets(rows, catch_up, watermark_us),
    }


def show(result: dict[str, Any]) -> None:
    """Prints one line for each thread count, the catching up, W, and the targets."""

    def parts(found: dict[str, Any]) -> list[str]:
        ms = found["cpu_ms_per_transaction"]
        return [f"{ms[part]:.3f}" for part in targets.APPLIER_PARTS]

    lines = [
        (found["threads"], found["applied_tps"], f"{found['cpu_ms_per_transaction']['postgres']:.3f}",
         *parts(found), f"{found['apply_cpu_ratio']:.3f}")
        for found in result["rows"]
    ]  # fmt: skip
    away = result["catch_up"]
    lines.append(
        ("away", away["transactions_per_s"], None, *parts(away), f"{away['catch_up_cpu_ratio']:.3f}")
    )
    columns = ("n", "tps", "plain", "applier's server", "daemon", "ratio")
    console.print(table("n clients elsewhere; CPU ms per transaction", columns, lines))
    looks = ", ".join(f"{name} {us:.1f}" for name, us in result["watermark_us"].items())
    console.print(f"One look at W, in microseconds: {looks}")
    console.print(f"Catching up: {away['rows_per_s']:,.0f} rows a second")
    found = [
        (name, f"{one['measured']:.3f}", f"{one['kind']} {one['target']}", one["holds"])
        for name, one in result["targets"].items()
    ]
    console.print(table("Targets", ("ratio", "measured", "target", "holds"), found))


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        result = run(options, Steps())
        show(result)
        path = options.results / "apply.json"
        write_json(result, path)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, LoadError)


if __name__ == "__main__":
    sys.exit(main())
