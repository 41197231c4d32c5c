"""Throughput of one connection with 1, 4 and 16 transactions in flight, the primary 100 ms away.

In views mode the connection is free while the primary decides (thesis, section 3.4.3: commit_async and get).
In native mode COMMIT itself waits: it is measured beside, one transaction at a time.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import matplotlib
import psp_client
import psycopg
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.output import PspError, console, table
from psp.schema.model import Mode

from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code

matplotlib.use("Agg")
from matplotlib import pyplot

ROWS = 10_000
SCHEMA = (
    "CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);"
    f"INSERT INTO item SELECT n, 0 FROM generate_series(1, {ROWS}) n"
)
# Of the ideal, as many transactions in each round trip as are in flight.
SPEEDUP_SHARE_MIN = 0.7


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commit_async", description=__doc__)
    parser.add_argument("--in-flight", default="1,4,16", help="transactions in flight (1,4,16)")
    parser.add_argument("--rtt-ms", type=float, default=100, help="round trip to the primary (100)")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement (15)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for commit_async.json and .png")
    return parser.parse_args(arguments)


def measure(client: psp_client.Client, in_flight: int, seconds: float) -> dict[str, Any]:
    """One connection increments rows one after the other, `in_flight` commits waiting at a time."""
    begun_s = time.monotonic()
    waiting: deque[tuple[UUID, float]] = deque()
    times_s: list[float] = []

    def get_one() -> None:
        tx_id, asked_s = waiting.popleft()
        client.get(tx_id)
        times_s.append(time.monotonic() - asked_s)

    row = 0
    while time.monotonic() - begun_s < seconds:
        row = row % ROWS + 1
        client.begin()
        client.execute("UPDATE item SET stock = stock + 1 WHERE id = %s", (row,))
        asked_s = time.monotonic()  # in native mode COMMIT is over when commit_async returns
        waiting.append((client.commit_async(), asked_s))
        if len(waiting) >= in_flight:
            get_one()
    while waiting:
        get_one()
    duration_s = time.monotonic() - begun_s
    ordered = sorted(times_s)
    return {
        "mode": client.mode,
        "in_flight": in_flight,
        "transactions": len(ordered),
        "tps": len(ordered) / duration_s,
        "commit_p50_ms": ordered[len(ordered) // 2] * 1000,
        "commit_p95_ms": ordered[int(len(ordered) * 0.95)] * 1000,
    }


def measure_mode(mode: Mode, options: argparse.Namespace, steps: Steps) -> list[dict[str, Any]]:
    """All numbers in flight; one in native mode, where more would change nothing."""
    numbers = [int(n) for n in options.in_flight.split(",")] if mode == "views" else [1]
    with LocalCluster.temporary([Zone("far", options.rtt_ms)], Options(mode=mode)) as cluster:
        sp = cluster.sps[0]
        with steps.step(f"A semi-primary {options.rtt_ms:g} ms away, {mode} mode"):
            with psycopg.connect(sp.dsn, autocommit=True) as connection:
                connection.execute(SCHEMA.encode())
            growth.adopt(cluster, steps.progress)
            growth.wait_joined(sp)  # till it has found the primary
        points = []
        for in_flight in numbers:
            with steps.step(f"{in_flight} in flight"), psp_client.connect(sp.dsn) as client:
                points.append(measure(client, in_flight, options.seconds))
        _check(sp, sum(point["transactions"] for point in points))
        return points


def _check(sp: SpNode, transactions: int) -> None:
    """Every transaction that was answered committed counts exactly once."""
    with psycopg.connect(sp.dsn) as connection:
        row = connection.execute("SELECT sum(stock) FROM item").fetchone()
    if row is None or row[0] != transactions:
        raise PspError(f"{transactions} transactions were committed, the rows hold {row and row[0]}")


def targets(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How much more throughput each number in flight has than one, against what it can have at most."""
    views = {point["in_flight"]: point["tps"] for point in points if point["mode"] == "views"}
    result = {}
    for in_flight, tps in views.items():
        if in_flight > 1 and 1 in views:
            goal = SPEEDUP_SHARE_MIN * in_flight
            ratio = tps / views[1]
            result[f"speedup_{in_flight}"] = {
                "measured": ratio, "target": goal, "kind": "at least", "holds": ratio >= goal,
            }  # fmt: skip
    return result


def show(result: dict[str, Any]) -> None:
    """One line for each measurement, and the targets."""
    columns = ("mode", "in flight", "tps", "commit p50 ms", "p95 ms")
    rows = [
        (p["mode"], p["in_flight"], p["tps"], p["commit_p50_ms"], p["commit_p95_ms"])
        for p in result["points"]
    ]
    console.print(table(f"One connection, {result['rtt_ms']:g} ms from the primary", columns, rows))
    lines = [
        (name, f"{found['measured']:.1f}", f"at least {found['target']:.1f}", found["holds"])
        for name, found in result["targets"].items()
    ]
    console.print(table("Targets", ("ratio to one in flight", "measured", "target", "holds"), lines))


def plot(result: dict[str, Any], path: Path) -> None:
    """Throughput by the number in flight."""
    figure, axis = pyplot.subplots(figsize=(5, 4))
    labels = [f"{p['mode']}, {p['in_flight']}" for p in result["points"]]
    bars = axis.bar(labels, [p["tps"] for p in result["points"]], color="tab:blue")
    axis.bar_label(bars, fmt="%.0f")
    axis.set_ylabel("transactions/s")
    axis.set_title(f"One connection, {result['rtt_ms']:g} ms from the primary: in flight")
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        steps = Steps()
        points = measure_mode("native", options, steps) + measure_mode("views", options, steps)
        result = {
            "rtt_ms": options.rtt_ms,
            "seconds": options.seconds,
            "points": points,
            "targets": targets(points),
        }
        show(result)
        path = options.results / "commit_async.json"
        write_json(result, path)
        plot(result, path.with_suffix(".png"))
        console.print(f"Written: {path} and commit_async.png")
        return 0

    return exit_code(work, PspError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
