"""TPC-C in several zones, on one distant PostgreSQL and on psp. Exit code 0 only if all rows are right."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from psp.cluster.local import Zone
from psp.output import PspError, console

from benchmarks.demo import report, scenario
from benchmarks.demo.scenario import SYSTEMS_OF_MODE, Demo
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc.runner import LoadError

DEFAULT_ZONES = "near:30,middle:90,far:190"


def parse_zones(text: str) -> list[Zone]:
    """NAME:MILLISECONDS,... as zones."""
    zones = []
    for part in text.split(","):
        name, colon, rtt_ms = part.partition(":")
        try:
            zones.append(Zone(name, float(rtt_ms)))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME:ROUND_TRIP_MS") from None
        if not colon or not name or float(rtt_ms) < 0:
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME:ROUND_TRIP_MS")
    return zones


def positive(text: str) -> int:
    """A whole number of at least one."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=60, help="measured part, for each system (60)")
    parser.add_argument("--threads", type=positive, default=8, help="clients of each zone (8)")
    parser.add_argument("--warehouses", type=positive, default=2, help="warehouses of each zone (2)")
    parser.add_argument(
        "--customers", type=positive, default=1000, help="of each district (1000; the specification has 3000)"
    )
    parser.add_argument("--zones", type=parse_zones, default=DEFAULT_ZONES, help=f"default {DEFAULT_ZONES}")
    parser.add_argument(
        "--isolation",
        choices=("read committed", "repeatable read"),
        default="read committed",
        help="read committed, PostgreSQL's default, is the default here too",
    )
    parser.add_argument(
        "--mode",
        choices=tuple(SYSTEMS_OF_MODE),
        default="native",
        help="how psp captures writes (native); both: one after the other",
    )
    parser.add_argument("--prepared", action="store_true", help="clients use prepared statements")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for demo.json and demo.png")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs, shows, writes. 1: something is not right; 2: it could not run; 130: interrupted."""
    options = parse(arguments)
    demo = Demo(
        zones=options.zones,
        seconds=options.seconds,
        threads=options.threads,
        warehouses_per_zone=options.warehouses,
        customers=options.customers,
        isolation=options.isolation,
        prepared=options.prepared,
        systems=SYSTEMS_OF_MODE[options.mode],
    )

    def work() -> int:
        result = scenario.run(demo, Steps())
        report.show(result)
        write_json(result, options.results / "demo.json")
        report.plot(result, options.results / "demo.png")
        console.print(f"Written: {options.results / 'demo.json'} and demo.png")
        console.print("To watch a cluster of your own: psp cluster up --console")
        return 0 if result["consistent"] and result["conditions_hold"] else 1

    return exit_code(work, PspError, LoadError)


if __name__ == "__main__":
    sys.exit(main())
