"""Who is far from the primary gets a row, too, that somebody near it writes without a pause."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psp.cluster import status
from psp.cluster.local import Options, SpNode, Zone
from psp.cluster.verify import verify
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, MakeCluster, as_admin, connect, execute, retry

NEAR = Zone("near", 10)
FAR = Zone("far", 120)
UPDATE = "UPDATE contended SET n = n + 1 WHERE id = 1"
TABLE = "CREATE TABLE contended (id int PRIMARY KEY, n int NOT NULL); INSERT INTO contended VALUES (1, 0)"
COMMITS = 3
# Without reservations the far one loses for ever: none of 658 attempts in 25 s (results/fairness.json).
ATTEMPTS_MAX = 300


@contextmanager
def storm(sp: SpNode) -> Iterator[None]:
    """Somebody updates the row all the time."""
    over = threading.Event()

    def update() -> None:
        with connect(sp, autocommit=True) as connection:
            while not over.is_set():
                retry(lambda: connection.execute(UPDATE))

    thread = threading.Thread(target=update)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def update_once(connection: psycopg.Connection[tuple[object, ...]], attempts_left: list[int]) -> None:
    """One attempt."""
    attempts_left[0] -= 1
    assert attempts_left[0] > 0, "it loses for ever"
    connection.execute(UPDATE)


def test_the_far_one_commits_under_a_storm_of_the_near_one(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([NEAR, FAR], TABLE, Options())
    near, far = cluster.sps
    attempts_left = [ATTEMPTS_MAX]
    with storm(near), connect(far, autocommit=True) as connection:
        for _ in range(COMMITS):
            retry(lambda: update_once(connection, attempts_left))
    assert verify(cluster).consistent


def test_status_tells_who_loses_and_what_is_reserved(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([NEAR, FAR], TABLE, Options())
    near, far = cluster.sps
    seen: set[tuple[str, object]] = set()

    def look() -> bool:
        """A reservation lasts for a quarter of a second, so each look sees a part."""
        losses = status.gather(cluster)["primary"]["losses"] or {"losers": [], "reservations": []}
        seen.update(("loser", one["name"]) for one in losses["losers"])
        seen.update((one["table"], one["name"]) for one in losses["reservations"])
        ((total, reserved),) = execute(as_admin(far), "SELECT losses_total, reserved FROM psp.status")
        seen.add(("own losses", (total or 0) > 0))
        seen.add(("reserved for it", "(id)=(1)" in (reserved or "")))
        return seen >= {
            ("loser", far.name),
            ("public.contended", far.name),
            ("own losses", True),
            ("reserved for it", True),
        }

    with storm(near), storm(far):
        wait_until("status to tell of losses and reservations", look, WAIT_S)
