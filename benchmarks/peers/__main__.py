"""TPC-C in zones far from a hub: on psp, on MariaDB with Galera and on one PostgreSQL at the hub, by turns.

Needs root, for network namespaces and the lines between them. Exit code 1: rows are wrong.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psp.output import PspError, console
from psp.servers.temporary import TemporaryFolder

from benchmarks.demo.__main__ import DEFAULT_ZONES, parse_zones, positive
from benchmarks.peers import cut, report
from benchmarks.peers.forms import CUT_FORMS, FORMS
from benchmarks.peers.galera import Galera
from benchmarks.peers.measure import Clients, measure
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.result import form_result, targets
from benchmarks.peers.semi_primaries import SemiPrimaries
from benchmarks.peers.sites import Sites, require_root, sites
from benchmarks.peers.system import System
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import LoadError


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=20, help="of each measurement (20)")
    parser.add_argument("--rounds", type=positive, default=3, help="measurements of each form (3)")
    parser.add_argument("--zones", type=parse_zones, default=DEFAULT_ZONES, help=f"default {DEFAULT_ZONES}")
    parser.add_argument("--threads", type=positive, default=8, help="clients of each zone (8)")
    parser.add_argument("--warehouses", type=positive, default=2, help="warehouses of each zone (2)")
    parser.add_argument(
        "--items", type=positive, default=100_000, help="as the specification has it (100000)"
    )
    parser.add_argument(
        "--customers", type=positive, default=1000, help="of each district (1000; the specification has 3000)"
    )
    parser.add_argument(
        "--isolation", choices=("read committed", "repeatable read"), default="read committed",
        help="of all systems (read committed)",
    )  # fmt: skip
    parser.add_argument("--cut", metavar="ZONE", help="the zone that is cut off (the second one)")
    parser.add_argument("--before-seconds", type=positive, default=15, help="until it is cut off (15)")
    parser.add_argument("--cut-seconds", type=positive, default=20, help="until it is back (20)")
    parser.add_argument("--after-seconds", type=positive, default=40, help="after that (40)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for peers.json and peers.png")
    options = parser.parse_args(arguments)
    names = [zone.name for zone in options.zones]
    options.cut = options.cut or names[min(1, len(names) - 1)]
    if options.cut not in names:
        parser.error(f"--cut: there is no zone {options.cut}")
    if options.before_seconds < 2 or options.after_seconds < cut.WORKS_S:
        parser.error("--before-seconds must be at least 2, --after-seconds at least 3")
    return options


@contextmanager
def running(
    places: Sites, temporary: TemporaryFolder, clients: Clients, steps: Steps
) -> Iterator[Mapping[str, System]]:
    """All systems with the same rows; nothing of them stays behind."""
    folder = temporary.path
    with ExitStack() as stack:
        stack.callback(temporary.remove)  # while the places are there that the servers run in
        with steps.step("Starting psp's PostgreSQL servers"):
            psp = SemiPrimaries(places, clients.zones, folder)
        with steps.step(f"Loading TPC-C, {clients.scale.warehouses} warehouses"):
            runner.prepare(psp.loading_dsn, clients.scale)
        with steps.step("Copying the database to a plain PostgreSQL"):
            psp.first.stop()
            postgres = Postgres.copy_of(psp.first, places, folder)
            psp.start_first()
        galera = Galera(places, clients.zones, folder)
        stack.callback(galera.kill)
        with steps.step("The same rows for MariaDB, a node in each zone"):
            galera.start(postgres.dsn)
        with steps.step("Putting the database under psp; the other zones join"):
            psp.adopt()
        yield {"PostgreSQL": postgres, "Galera": galera, "psp": psp}


def measure_forms(
    places: Sites, systems: Mapping[str, System], clients: Clients, options: argparse.Namespace, steps: Steps
) -> dict[str, Any]:
    """All rounds; the forms take turns."""
    rounds: dict[str, list[dict[str, Any]]] = {form.name: [] for form in FORMS}
    for number in range(options.rounds):
        for form in FORMS:
            with steps.step(f"{form.name}: {options.seconds} s, round {number + 1} of {options.rounds}"):
                system = systems[form.system]
                found = measure(places, system, form.script, clients, options.seconds)
            rounds[form.name].append(found)
    return {name: form_result(found) for name, found in rounds.items()}


def measure_cut(
    places: Sites, systems: Mapping[str, System], clients: Clients, options: argparse.Namespace, steps: Steps
) -> dict[str, Any]:
    """Of each system that has a server in the zone."""
    times = cut.Times(options.before_seconds, options.cut_seconds, options.after_seconds)
    found = {}
    for form in CUT_FORMS:
        with steps.step(f"{form.name}: {options.cut} is cut off for {times.cut_s} s"):
            system = systems[form.system]
            found[form.system] = cut.run(places, system, form.script, clients, options.cut, times)
    return {"zone": options.cut, "before_s": times.before_s, "cut_s": times.cut_s, "systems": found}


def main(arguments: Sequence[str] | None = None) -> int:
    """1: rows are wrong; 2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        require_root()
        steps = Steps()
        round_trips_ms = {zone.name: zone.rtt_ms for zone in options.zones}
        # The folder first: it ends the servers of a killed run properly, whose places are then empty.
        with TemporaryFolder() as temporary, sites(round_trips_ms) as places:
            clients = Clients(
                [places[zone.name] for zone in options.zones], options.threads, options.warehouses,
                options.customers, options.items, options.isolation,
            )  # fmt: skip
            with running(places, temporary, clients, steps) as systems:
                about = {name: system.about() for name, system in systems.items()}
                forms = measure_forms(places, systems, clients, options, steps)
                after_cut = measure_cut(places, systems, clients, options, steps)
                with steps.step("Comparing rows, TPC-C's consistency conditions"):
                    wrong = [line for system in systems.values() for line in system.wrong()]
        result = {
            "load": _load(options, clients),
            "systems": about,
            "forms": forms,
            "cut": after_cut,
            "wrong": wrong,
            "targets": targets(forms),
        }
        report.show(result)
        write_json(result, options.results / "peers.json")
        report.plot(result, options.results / "peers.png")
        console.print(f"Written: {options.results / 'peers.json'} and peers.png")
        return 1 if wrong else 0

    return exit_code(work, PspError, LoadError, psycopg.Error)


def _load(options: argparse.Namespace, clients: Clients) -> dict[str, Any]:
    return {
        "benchmark": "TPC-C",
        "zones": {zone.name: zone.rtt_ms for zone in options.zones},
        "seconds": options.seconds,
        "rounds": options.rounds,
        "threads_per_zone": options.threads,
        "warehouses": clients.scale.warehouses,
        "items": options.items,
        "customers_per_district": options.customers,
        "isolation": options.isolation,
    }


if __name__ == "__main__":
    sys.exit(main())
