"""What psp.retry_autocommit spares applications that run nothing again, and what it costs them.

First: clients in three zones touch the same few rows, as logins do with a time of the last one, with pauses.
Then: one client at a semi-primary beside the primary, which writes a row of its own each time.
Each with the setting's values in turns, so that all of them meet the same machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from psp.cluster import growth
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError, console, table

from benchmarks.autocommit.touches import CLIENTS, RETRIES, USERS, Touches
from benchmarks.capture import captured_by
from benchmarks.demo.__main__ import parse_zones, positive
from benchmarks.results import RESULTS, Target, write_json
from benchmarks.steps import Steps, exit_code

ZONES = "near:30,middle:90,far:190"
ROWS = 10_000
SCHEMA = f"""
CREATE TABLE login (id int PRIMARY KEY, last_login_at timestamptz);
CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);
INSERT INTO login SELECT n, NULL FROM generate_series(1, {USERS}) n;
INSERT INTO item SELECT n, 0 FROM generate_series(1, {ROWS}) n;
"""
ERRORS_PER_THOUSAND_MAX = Target(1.0, "at most")  # with the highest value
ADDED_MS_MAX = Target(0.05, "at most")  # where nobody loses


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autocommit", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=60, help="of each part (60)")
    parser.add_argument(
        "--zones",
        type=parse_zones,
        default=ZONES,
        help=f"NAME:ROUND_TRIP_MS,… ({ZONES})",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for autocommit.json")
    return parser.parse_args(arguments)


def touch(cluster: LocalCluster, seconds: float) -> dict[int, Touches]:
    """By value of the setting: what all clients of all zones have met."""
    found = {retries: Touches() for retries in RETRIES}
    end_s = time.monotonic() + seconds
    threads = [
        threading.Thread(
            target=_client,
            args=(sp, found, end_s, random.Random(f"{sp.name} {n}")),
            daemon=True,
        )
        for sp in cluster.sps
        for n in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _client(sp: SpNode, found: dict[int, Touches], end_s: float, chance: random.Random) -> None:
    with psycopg.connect(sp.dsn, autocommit=True) as connection:
        connection.execute("UPDATE item SET stock = stock WHERE id = %s", [chance.randint(1, ROWS)])
        while time.monotonic() < end_s:
            retries = chance.choice(RETRIES)
            connection.execute("SELECT set_config('psp.retry_autocommit', %s, false)", [str(retries)])
            begun_s = time.perf_counter()
            try:
                connection.execute(
                    "UPDATE login SET last_login_at = now() WHERE id = %s",
                    [chance.randint(1, USERS)],
                )
                found[retries].committed(sp.name, (time.perf_counter() - begun_s) * 1000)
            except psycopg.errors.SerializationFailure:
                found[retries].lost(sp.name)
            time.sleep(chance.expovariate(2))


def write_alone(sp: SpNode, seconds: float) -> dict[int, float]:
    """Median milliseconds of an UPDATE by value of the setting."""
    times_ms: dict[int, list[float]] = {0: [], max(RETRIES): []}
    with psycopg.connect(sp.dsn, autocommit=True) as connection:
        end_s = time.monotonic() + seconds
        row = 0
        while time.monotonic() < end_s:
            for retries, ms in times_ms.items():
                row = row % ROWS + 1
                connection.execute(
                    "SELECT set_config('psp.retry_autocommit', %s, false)",
                    [str(retries)],
                )
                begun_s = time.perf_counter()
                connection.execute("UPDATE item SET stock = stock + 1 WHERE id = %s", [row])
                ms.append((time.perf_counter() - begun_s) * 1000)
    return {retries: median(ms) for retries, ms in times_ms.items()}


def grown(cluster: LocalCluster, steps: Steps) -> None:
    """With the tables, adopted and joined."""
    with steps.step(f"{len(cluster.sps)} semi-primaries"):
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster, steps.progress)
        for sp in cluster.sps:
            growth.wait_joined(sp)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was measured."""
    steps = Steps()
    with LocalCluster.temporary(options.zones) as cluster:
        grown(cluster, steps)
        with steps.step("Clients of three zones touch the same rows"):
            found = touch(cluster, options.seconds)
        captured = captured_by(cluster.sps[0].admin_dsn)
    with LocalCluster.temporary([Zone("one")]) as cluster:
        grown(cluster, steps)
        with steps.step("One client alone"):
            alone_ms = write_alone(cluster.sps[0], options.seconds / 2)
    most = max(RETRIES)
    return {
        "captured_by": captured,
        "users": USERS,
        "clients_per_zone": CLIENTS,
        "points": [{"retries": retries, **point} for retries in RETRIES for point in found[retries].points()],
        "alone_p50_ms": alone_ms,
        "targets": {
            "errors_per_thousand": ERRORS_PER_THOUSAND_MAX.against(found[most].errors_per_thousand()),
            "added_ms": ADDED_MS_MAX.against(alone_ms[most] - alone_ms[0]),
        },
    }


def show(result: dict[str, Any]) -> None:
    """A line for each value and zone, and the targets."""
    columns = list(result["points"][0])
    rows = [list(point.values()) for point in result["points"]]
    console.print(table("UPDATE of a shared row", [name.replace("_", " ") for name in columns], rows))
    lines = [
        (name, f"{t['measured']:.3f}", f"at most {t['target']}", t["holds"])
        for name, t in result["targets"].items()
    ]
    console.print(table(None, ("target", "measured", "aim", "holds"), lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    options = parse(arguments)

    def work() -> int:
        result = run(options)
        path = options.results / "autocommit.json"
        write_json(result, path)
        show(result)
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
