"""The thesis's microbenchmark: each transaction takes 1 from the stock of a random product, or reads it.

A plain table and Multi-Record Values, in turns, on one throw-away PostgreSQL that waits for its disk. Each
value has as many records as there are clients, as in the thesis; the workers do not run. Reads and cold
values are measured with one client, cold values without the commit delay and with it.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psp.cluster.pgserver import PgServer
from psp.output import PspError, console, error_console, table

from benchmarks.mrv import cpu_busy, heatmap, pgbench, shop, targets
from benchmarks.mrv.pgbench import Load, PgbenchError
from benchmarks.mrv.targets import PLAIN, SUB, VIEW, Point
from benchmarks.steps import Steps, end_on_sigterm

RESULTS = Path(__file__).resolve().parents[2] / "results"
ISOLATIONS = ("read committed", "repeatable read")
COLD_ITEMS = 1000
READ_ITEMS = 32
READ_RECORDS = 64
SCRIPTS = {
    "write": {PLAIN: "update", VIEW: "update", SUB: "sub"},
    "read": {PLAIN: "read", VIEW: "read"},
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mrv", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="of each round (3)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each form and point; their median counts (3)"
    )
    parser.add_argument("--clients", type=_counts, default=[1, 8, 32], help="(1,8,32)")
    parser.add_argument("--items", type=_counts, default=[1, 16], help="products that are sold (1,16)")
    parser.add_argument(
        "--commit-delay-ms", type=_delay, default=5, metavar="MS",
        help="how long each commit of the grid waits besides for this machine's disk, 0 to 100"
        " (5, a slow disk or a zone nearby): commit_delay of the server",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for mrv.json and mrv.png")
    return parser.parse_args(arguments)


def _counts(text: str) -> list[int]:
    counts = sorted({int(count) for count in text.split(",")})
    if counts[0] < 1 or counts[-1] > shop.RECORDS_MAX:
        raise ValueError
    return counts


def _delay(text: str) -> float:
    delay_ms = float(text)
    if not 0 <= delay_ms <= 100:  # commit_delay's own limit
        raise ValueError
    return delay_ms


def measure(
    databases: Mapping[str, str], point: Point, seconds: int, rounds: int, steps: Steps
) -> dict[str, Any]:
    """One point of the grid: rounds of all forms in turns."""
    reports: dict[str, list[pgbench.Report]] = {form: [] for form in SCRIPTS[point.work]}
    delay = f", commits wait {point.commit_delay_ms:g} ms" if point.commit_delay_ms else ""
    what = f"{point.work}, {point.isolation}, {point.clients} clients, {point.items} products{delay}"
    busy: dict[str, list[float]] = {form: [] for form in SCRIPTS[point.work]}
    with steps.step(what):
        for _ in range(rounds):
            for form, script in SCRIPTS[point.work].items():
                dsn = databases[PLAIN if form == PLAIN else VIEW]
                shop.vacuum(dsn)
                load = Load(
                    script, point.clients, point.items, seconds, point.isolation, point.commit_delay_ms
                )
                before = cpu_busy.read()
                reports[form].append(pgbench.run(dsn, load))
                busy[form].append(cpu_busy.share(before, cpu_busy.read()))
    return targets.row(point, reports, busy)


def measure_all(server: PgServer, options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """The grid, then cold values and reads."""
    plain = shop.make(server, PLAIN, max(COLD_ITEMS, *options.items), None)

    def point(databases: Mapping[str, str], found: Point) -> dict[str, Any]:
        return measure(databases, found, options.seconds, options.rounds, steps)

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
        point({PLAIN: plain, VIEW: cold}, Point("write", ISOLATIONS[0], 1, COLD_ITEMS, 1, delay_ms))
        for delay_ms in sorted({0.0, float(options.commit_delay_ms)})
    ]
    cold_read_row = point({PLAIN: plain, VIEW: cold}, Point("read", ISOLATIONS[0], 1, COLD_ITEMS, 1, 0))
    read_row = point({PLAIN: plain, VIEW: read}, Point("read", ISOLATIONS[0], 1, READ_ITEMS, READ_RECORDS, 0))
    return {
        "load": {
            "benchmark": "stock",
            "seconds": options.seconds,
            "rounds": options.rounds,
            "commit_delay_ms": options.commit_delay_ms,
            "commit_delay_by": "the server's commit_delay, commit_siblings = 0; fsync = on",
            "pgbench_jobs": pgbench.JOBS,
        },
        "grid": grid,
        "one_client": [*cold_rows, cold_read_row, read_row],
        "targets": targets.targets(grid, cold_rows, read_row),
    }


def show(result: Mapping[str, Any]) -> None:
    """A line for each point and form, and the targets."""
    rows = [
        (found["work"], found["isolation"], found["clients"], found["items"], found["records"], form,
         measured["tps"], measured["latency_ms"], f"{measured['abort_rate']:.1%}",
         _times(found["ratios"].get(form, {}).get("throughput")), f"{measured['cpu_busy']:.0%}")
        for found in [*result["grid"], *result["one_client"]]
        for form, measured in found["forms"].items()
    ]  # fmt: skip
    delay_ms = result["load"]["commit_delay_ms"]
    title = f"Commits of the grid wait {delay_ms:g} ms (commit_delay); cpu: the whole machine's"
    columns = ("work", "isolation", "n", "items", "records", "form", "tps", "ms", "aborts", "ratio", "cpu")
    console.print(table(title, columns, rows))
    lines = [
        (name, _times(found["measured"]), f"{found['kind']} {found['target']}", found["holds"],
         ", ".join(f"{form}: {ratio:.2f}" for form, ratio in found["by_form"].items()))
        for name, found in result["targets"].items()
    ]  # fmt: skip
    console.print(table("Targets", ("ratio", "measured", "target", "holds", "by form"), lines))


def _times(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)
    end_on_sigterm()
    try:
        with shop.throw_away_server(max(options.clients)) as server:
            result = measure_all(server, options, Steps())
    except KeyboardInterrupt:
        error_console.print("Interrupted; everything that was started is stopped and removed.")
        return 130
    except (PspError, PgbenchError) as error:
        error_console.print(f"error: {error}", markup=False)
        return 2
    show(result)
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "mrv.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    picture = options.results / "mrv.png"
    heatmap.draw(result["grid"], picture)
    console.print(f"Written: {path}, {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
