"""One row that one client in each zone updates without a pause, and tries again at once when it has lost.

A zone's fair share: as many commits as its round trip allows in its part of the time.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psp.cluster import growth, verify
from psp.cluster.local import SpNode, Zone
from psp.output import PspError

from benchmarks.fairness.zones import WARM_UP_S, Forms, ZoneCount, at_least, new_cluster, throughput

# What the aims of docs/decisions/39 say.
FAIR_SHARE = 1 / 3
THROUGHPUT = 0.8


def run(zones: Sequence[Zone], seconds: int, primary_options: dict[str, object]) -> list[ZoneCount]:
    """One form, from an empty directory on. PspError: commits are missing."""
    with new_cluster(zones, primary_options) as cluster:
        with psycopg.connect(cluster.sps[0].admin_dsn) as connection:
            connection.execute("CREATE TABLE contended (id integer PRIMARY KEY, n bigint NOT NULL)")
            connection.execute("INSERT INTO contended VALUES (1, 0)")
            connection.execute("GRANT SELECT, UPDATE ON contended TO PUBLIC")
        growth.adopt(cluster)
        verify.wait_drained(cluster)
        counts = [ZoneCount(zone.name, zone.rtt_ms) for zone in zones]
        begin = time.monotonic() + WARM_UP_S
        threads = [
            threading.Thread(target=_client, args=(sp, count, begin, begin + seconds), daemon=True)
            for sp, count in zip(cluster.sps, counts, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not verify.verify(cluster).consistent:
            raise PspError("the primary and the zones do not hold the same rows")
    return counts


def _client(sp: SpNode, count: ZoneCount, begin: float, end: float) -> None:
    with psycopg.connect(sp.dsn, autocommit=True) as connection:
        while time.monotonic() < end:
            start = time.monotonic()
            committed = _update(connection)
            if start < begin:
                continue
            if committed:
                count.commits += 1
            else:
                count.aborts += 1


def _update(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("UPDATE contended SET n = n + 1 WHERE id = 1")
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
        return False
    return True


def fair_shares(round_trips_ms: Sequence[float], seconds: float) -> list[float]:
    """Commits of each, one after the other, in its equal part of the time."""
    part_ms = 1000 * seconds / len(round_trips_ms)
    return [part_ms / max(rtt_ms, 1.0) for rtt_ms in round_trips_ms]


def result_of(forms: Forms, seconds: float) -> dict[str, Any]:
    """What results/fairness.json has. of_fair_share: 1 would be fair. seconds: of each form."""
    return {
        "forms": {form: _rows(zones, seconds) for form, zones in forms.items()},
        "targets": {
            "least_of_fair_share": at_least(min(_of_fair_shares(forms["with"], seconds)), FAIR_SHARE),
            "throughput": at_least(throughput(forms), THROUGHPUT),
        },
    }


def _rows(zones: Sequence[ZoneCount], seconds: float) -> list[dict[str, Any]]:
    shares = _of_fair_shares(zones, seconds)
    return [
        {**zone.row(), "of_fair_share": round(share, 3)} for zone, share in zip(zones, shares, strict=True)
    ]


def _of_fair_shares(zones: Sequence[ZoneCount], seconds: float) -> list[float]:
    fair = fair_shares([zone.round_trip_ms for zone in zones], seconds)
    return [zone.commits / share for zone, share in zip(zones, fair, strict=True)]
