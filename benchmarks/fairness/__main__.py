"""What semi-primaries far from one another get of rows that all of them write: one row, and a shared TPC-C.

Measured without and with reservations (reservation_max_ms of the primary: 0 and its default) by turns, on a
cluster of its own each.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psp.cluster.local import Zone
from psp.output import PspError, console, table

from benchmarks.demo.__main__ import parse_zones, positive
from benchmarks.fairness import one_row, shared_tpcc
from benchmarks.fairness.zones import FORMS, Forms, Run, ZoneCount, commits
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc.runner import LoadError

ZONES = "near:30,middle:90,far:190"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=40, help="of each measurement (40)")
    parser.add_argument("--rounds", type=positive, default=2, help="measurements of each form (2)")
    parser.add_argument("--zones", type=parse_zones, default=ZONES, help=f"NAME:ROUND_TRIP_MS,… ({ZONES})")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args(arguments)


def measure(name: str, run: Run, options: argparse.Namespace, steps: Steps) -> Forms:
    """All rounds of a scenario, added up."""
    zones: Sequence[Zone] = options.zones
    forms = {form: [ZoneCount(zone.name, zone.rtt_ms) for zone in zones] for form in FORMS}
    for _ in range(options.rounds):
        for form, primary_options in FORMS.items():
            with steps.step(f"{name}: {options.seconds} s {form} reservations"):
                measured = run(zones, options.seconds, primary_options)
            for zone, more in zip(forms[form], measured, strict=True):
                zone.add(more)
    return forms


def show(title: str, result: dict[str, Any]) -> None:
    """A line for each form and zone, and the targets."""
    columns = list(result["forms"]["with"][0])
    rows = [(form, *zone.values()) for form, zones in result["forms"].items() for zone in zones]
    console.print(table(title, ("reservations", *(name.replace("_", " ") for name in columns)), rows))
    lines = [(name, *(str(value) for value in target.values())) for name, target in result["targets"].items()]
    console.print(table(None, ("target", "measured", "aim", "holds"), lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, shows, writes. 2: it could not run; 130: interrupted. A missed target is no error."""
    options = parse(arguments)

    def work() -> int:
        steps = Steps()
        row = measure("one row", one_row.run, options, steps)
        tpcc = measure("shared TPC-C", shared_tpcc.run, options, steps)
        result = {
            "seconds": options.seconds,
            "rounds": options.rounds,
            "same_rows_everywhere": True,
            "one_row": {
                "commits": commits(row),
                **one_row.result_of(row, options.seconds * options.rounds),
            },
            "shared_tpcc": {"commits": commits(tpcc), **shared_tpcc.result_of(tpcc)},
        }
        show("One row", result["one_row"])
        show("TPC-C, all warehouses shared", result["shared_tpcc"])
        path = options.results / "fairness.json"
        write_json(result, path)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, LoadError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
