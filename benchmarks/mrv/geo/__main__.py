"""The stock microbenchmark on three semi-primaries far from one another.

Every client takes 1 from the stock of a random product, the same products everywhere, at its own
semi-primary; the round trip to the primary is its zone's. Forms, in turns: a plain table; MRVs through the
view and with the function `sub`, records of the own part of the ring first; `uniform`, the view again,
records chosen from the whole ring. Each value has as many records in each semi-primary's part as it has
clients there. Then one product and the most clients again, from a cold value on, with a psp-mrv beside each
semi-primary that finds the number of records by itself.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psp.cluster import verify
from psp.output import PspError

from benchmarks.demo.__main__ import parse_zones
from benchmarks.mrv import program
from benchmarks.mrv.comparison import VIEW
from benchmarks.mrv.geo import adaptive, shop
from benchmarks.mrv.geo.bench import Bench
from benchmarks.mrv.geo.load import UNIFORM
from benchmarks.mrv.targets import SUB
from benchmarks.results import RESULTS
from benchmarks.steps import Steps

ZONES = "near:30,middle:90,far:190"
HOT_RATIO = 10
OWN_PART_RATIO = 0.5
WORKERS_ABORTED = 0.01


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mrv.geo", description=__doc__)
    parser.add_argument("--seconds", type=int, default=4, help="of each round (4)")
    parser.add_argument("--rounds", type=int, default=1, help="of each form and point (1)")
    parser.add_argument("--clients", type=program.counts, default=[1, 8], help="of each zone (1,8)")
    parser.add_argument("--items", type=program.counts, default=[1, 16], help="products that are sold (1,16)")
    parser.add_argument("--zones", type=parse_zones, default=ZONES, help=f"NAME:ROUND_TRIP_MS,… ({ZONES})")
    parser.add_argument(
        "--adapt-seconds", type=int, default=15, help="that the workers have before it is measured (15)"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Everything, from an empty directory to the result; nothing stays behind. PspError: it is not right."""
    with shop.cluster_of(options.zones, max(options.items), max(options.clients)) as cluster:
        bench = Bench(cluster, options, steps)
        grid = bench.grid()
        found = adaptive.measure(bench)
        with steps.step("Comparing every row, and the stock with what was sold"):
            if not verify.verify(cluster).consistent:
                raise PspError("the primary and the zones do not hold the same rows")
            for sp in cluster.sps:
                if shop.sold(sp) != bench.sold:
                    raise PspError(f"sold: {bench.sold}, but missing at {sp.name}: {shop.sold(sp)}")
    return {
        "load": {
            "benchmark": "stock",
            "seconds": options.seconds,
            "rounds": options.rounds,
            "adapt_seconds": options.adapt_seconds,
            "round_trips_ms": {zone.name: zone.rtt_ms for zone in options.zones},
        },
        "same_rows_everywhere": True,
        "stock_is_what_was_not_sold": True,
        "grid": grid,
        "beside_the_grid": [found],
        "targets": targets(grid, found),
    }


def targets(grid: Sequence[dict[str, Any]], found: dict[str, Any]) -> dict[str, Any]:
    """One product and the most clients: throughput over the plain table, aborts over uniform choice."""
    result = {}
    most = max(row["clients"] for row in grid)
    for row in grid:
        if (row["clients"], row["items"]) != (most, 1):
            continue
        name = row["isolation"].replace(" ", "_")
        by_form = {form: row["ratios"][form]["throughput"] or 0.0 for form in (VIEW, SUB)}
        result[f"hot_item_{name}"] = _target(min(by_form.values()), HOT_RATIO, by_form)
        rates = {form: row["forms"][form]["abort_rate"] for form in (VIEW, SUB, UNIFORM)}
        ratio = rates[VIEW] / rates[UNIFORM] if rates[UNIFORM] else 1.0
        result[f"aborts_own_part_over_uniform_{name}"] = _target(ratio, OWN_PART_RATIO, rates, "at most")
    by_form = {VIEW: found["ratios"][VIEW]["throughput"] or 0.0}
    result["hot_item_records_found_by_the_workers"] = _target(by_form[VIEW], HOT_RATIO, by_form)
    result["workers_own_aborts"] = _target(found["workers"]["abort_rate"], WORKERS_ABORTED, {}, "at most")
    return result


def _target(
    measured: float, target: float, by_form: dict[str, float], kind: str = "at least"
) -> dict[str, Any]:
    holds = measured >= target if kind == "at least" else measured <= target
    return {"measured": measured, "target": target, "kind": kind, "holds": holds, "by_form": by_form}


def main(arguments: Sequence[str] | None = None) -> int:
    """As program.finish."""
    options = parse(arguments)
    return program.finish(
        "mrv_geo", "items", "products", options.results, lambda steps: measure(options, steps)
    )


if __name__ == "__main__":
    sys.exit(main())
