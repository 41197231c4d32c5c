"""One row that three semi-primaries far from one another update without a pause: how often each commits.

Measured without and with reservations (reservation_max_ms of the primary: 0 and its default), on a cluster of
its own each. A semi-primary's fair share: as many commits as its round trip allows in its part of the time.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.output import PspError, console, table

from benchmarks.demo.__main__ import parse_zones, positive
from benchmarks.steps import Steps, exit_code

RESULTS = Path(__file__).resolve().parents[2] / "results"
ZONES = "near:30,middle:90,far:190"
WARM_UP_S = 2.0
# What the aims of docs/decisions/39 say.
FAIR_SHARE = 1 / 3
THROUGHPUT = 0.8
OFF: dict[str, object] = {"reservation_max_ms": 0}
FORMS: dict[str, dict[str, object]] = {"without": OFF, "with": {}}


@dataclass
class Client:
    """One session that updates the row of its semi-primary and tries again at once when it has lost."""

    sp: SpNode
    rtt_ms: float
    commits: int = 0
    aborts: int = 0

    def run(self, begin: float, end: float) -> None:
        """Counts what ends between the two points of time."""
        with psycopg.connect(self.sp.dsn, autocommit=True) as connection:
            while time.monotonic() < end:
                start = time.monotonic()
                committed = _update(connection)
                if start < begin:
                    continue
                if committed:
                    self.commits += 1
                else:
                    self.aborts += 1


def _update(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("UPDATE contended SET n = n + 1 WHERE id = 1")
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
        return False
    return True


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=40, help="measured part of each form (40)")
    parser.add_argument("--zones", type=parse_zones, default=ZONES, help=f"NAME:ROUND_TRIP_MS,… ({ZONES})")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args(arguments)


def run(zones: Sequence[Zone], seconds: int, primary_options: dict[str, object]) -> list[Client]:
    """One form, from an empty directory on. PspError: commits are missing."""
    options = Options(primary_options=primary_options, pg_settings={"fsync": "on"})
    with LocalCluster.temporary(zones, options) as cluster:
        with psycopg.connect(cluster.sps[0].admin_dsn) as connection:
            connection.execute("CREATE TABLE contended (id integer PRIMARY KEY, n bigint NOT NULL)")
            connection.execute("INSERT INTO contended VALUES (1, 0)")
            connection.execute("GRANT SELECT, UPDATE ON contended TO PUBLIC")
        growth.adopt(cluster)
        verify.wait_drained(cluster)
        clients = [Client(sp, zone.rtt_ms) for sp, zone in zip(cluster.sps, zones, strict=True)]
        begin = time.monotonic() + WARM_UP_S
        threads = [
            threading.Thread(target=client.run, args=(begin, begin + seconds), daemon=True)
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not verify.verify(cluster).consistent:
            raise PspError("the primary and the zones do not hold the same rows")
    return clients


def fair_shares(round_trips_ms: Sequence[float], seconds: float) -> list[float]:
    """Commits of each, one after the other, in its equal part of the time."""
    part_ms = 1000 * seconds / len(round_trips_ms)
    return [part_ms / max(rtt_ms, 1.0) for rtt_ms in round_trips_ms]


def rows_of(clients: Sequence[Client], seconds: float) -> list[dict[str, Any]]:
    """A form's results; of_fair_share: 1 would be fair."""
    fair = fair_shares([client.rtt_ms for client in clients], seconds)
    return [
        {
            "zone": client.sp.zone,
            "round_trip_ms": client.rtt_ms,
            "commits": client.commits,
            "aborts": client.aborts,
            "of_fair_share": round(client.commits / share, 3),
        }
        for client, share in zip(clients, fair, strict=True)
    ]


def result_of(forms: dict[str, list[Client]], seconds: int) -> dict[str, Any]:
    """What results/fairness.json has."""
    total = {form: sum(client.commits for client in clients) for form, clients in forms.items()}
    measured = {form: rows_of(clients, seconds) for form, clients in forms.items()}
    return {
        "seconds": seconds,
        "same_rows_everywhere": True,
        "forms": measured,
        "commits": total,
        "targets": {
            "least_of_fair_share": _target(
                min(float(row["of_fair_share"]) for row in measured["with"]), FAIR_SHARE
            ),
            "throughput": _target(total["with"] / max(total["without"], 1), THROUGHPUT),
        },
    }


def _target(measured: float, target: float) -> dict[str, Any]:
    return {"measured": round(measured, 3), "target": round(target, 3), "holds": measured >= target}


def show(result: dict[str, Any]) -> None:
    """A line for each form and zone, and the targets."""
    rows = [
        (form, row["zone"], f"{row['round_trip_ms']:g}", row["commits"], row["aborts"],
         f"{row['of_fair_share']:.2f}")
        for form, zones in result["forms"].items()
        for row in zones
    ]  # fmt: skip
    console.print(
        table("One row", ("reservations", "zone", "ms", "commits", "aborts", "of fair share"), rows)
    )
    lines = [
        (name, f"{found['measured']:.2f}", f"{found['target']:.2f}", found["holds"])
        for name, found in result["targets"].items()
    ]
    console.print(table("Targets", ("name", "measured", "at least", "holds"), lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, shows, writes. 2: it could not run; 130: interrupted. A missed target is no error."""
    options = parse(arguments)

    def work() -> int:
        steps = Steps()
        forms = {}
        for form, primary_options in FORMS.items():
            with steps.step(f"{options.seconds} s {form} reservations"):
                forms[form] = run(options.zones, options.seconds, primary_options)
        result = result_of(forms, options.seconds)
        show(result)
        options.results.mkdir(parents=True, exist_ok=True)
        path = options.results / "fairness.json"
        path.write_text(json.dumps(result, indent=2) + "\n")
        console.print(f"Written: {path}")
        return 0

    return exit_code(work, PspError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
