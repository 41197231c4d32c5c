"""What psp.request and psp.request_done add to a transaction, and what it costs to be told a stored answer.

One semi-primary, no distance. One connection runs the kinds of transactions in turns, so that all of them
meet the same machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Zone
from psp.output import PspError, console, table

from benchmarks.capture import captured_by
from benchmarks.results import RESULTS, Target, write_json
from benchmarks.steps import Steps, exit_code

ROWS = 10_000
SCHEMA = (
    "CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);"
    f"INSERT INTO item SELECT n, 0 FROM generate_series(1, {ROWS}) n"
)
ADDED_MS_MAX = Target(0.15, "at most")

Connection = psycopg.Connection[Any]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.once", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of the measurement (20)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for once.json")
    return parser.parse_args(arguments)


def update(connection: Connection, row: int) -> None:
    """What every kind does."""
    connection.execute("UPDATE item SET stock = stock + 1 WHERE id = %s", [row])


def plain(connection: Connection, row: int) -> None:
    """Without a request."""
    with connection.transaction():
        update(connection, row)


def with_two_selects(connection: Connection, row: int) -> None:
    """As many statements as a request needs, which do nothing."""
    with connection.transaction():
        connection.execute("SELECT %s::text, %s::text", [str(uuid4()), "what is asked for"])
        update(connection, row)
        connection.execute("SELECT %s::jsonb", ['{"served": true}'])


def with_request(connection: Connection, row: int) -> None:
    """A new request."""
    with connection.transaction():
        connection.execute("SELECT * FROM psp.request(%s, %s)", [str(uuid4()), "what is asked for"])
        update(connection, row)
        connection.execute("SELECT psp.request_done(%s)", ['{"served": true}'])


def known(connection: Connection, _: int) -> None:
    """The answer of a request that was served."""
    with connection.transaction():
        state = connection.execute("SELECT state FROM psp.request('known', '')").fetchone()
    if state != ("known",):
        raise PspError(f"the stored answer was not found: {state}")


KINDS: dict[str, Callable[[Connection, int], None]] = {
    "plain": plain, "two SELECTs": with_two_selects, "request": with_request, "known": known,
}  # fmt: skip


def measure(connection: Connection, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each transaction, by kind."""
    times_ms: dict[str, list[float]] = {kind: [] for kind in KINDS}
    end_s = time.monotonic() + seconds
    row = 0
    while time.monotonic() < end_s:
        row = row % ROWS + 1
        for kind, run in KINDS.items():
            begun_s = time.perf_counter()
            run(connection, row)
            times_ms[kind].append((time.perf_counter() - begun_s) * 1000)
    return times_ms


def show(result: dict[str, Any]) -> None:
    """A line for each kind, and the target."""
    rows = [(p["kind"], p["transactions"], p["p50_ms"], p["p95_ms"]) for p in result["points"]]
    console.print(table("A transaction of one UPDATE", ("kind", "transactions", "p50 ms", "p95 ms"), rows))
    found = result["targets"]["added_ms"]
    line = (f"{found['measured']:.2f}", f"at most {found['target']}", found["holds"])
    console.print(table("A request adds, at p50", ("measured ms", "target", "holds"), [line]))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was measured."""
    steps = Steps()
    with LocalCluster.temporary([Zone("one")]) as cluster:
        sp = cluster.sps[0]
        with steps.step("A semi-primary beside the primary"):
            with psycopg.connect(sp.dsn, autocommit=True) as connection:
                connection.execute(SCHEMA.encode())
            growth.adopt(cluster, steps.progress)
            growth.wait_joined(sp)
        with psycopg.connect(sp.dsn, autocommit=True) as connection:
            connection.execute("SELECT FROM psp.request_failed('known')")
            with steps.step("Transactions with and without a request, in turns"):
                measure(connection, 1)  # plans, caches
                times_ms = measure(connection, options.seconds)
        captured = captured_by(sp.admin_dsn)
    p50_ms = {kind: median(ms) for kind, ms in times_ms.items()}
    points = [
        {
            "kind": kind,
            "transactions": len(ms),
            "p50_ms": p50_ms[kind],
            "p95_ms": sorted(ms)[int(len(ms) * 0.95)],
        }
        for kind, ms in times_ms.items()
    ]
    return {
        "captured_by": captured,
        "points": points,
        "targets": {"added_ms": ADDED_MS_MAX.against(p50_ms["request"] - p50_ms["plain"])},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        result = run(options)
        path = options.results / "once.json"
        write_json(result, path)
        show(result)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
