"""The primary ends for planned work: clients wait, and none sees an error."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import psycopg
from psp.cluster.configs import PRIMARY
from psp.cluster.local import Options, SpNode
from psp.waiting import wait_until

from tests.cluster.faults.test_newer_primary import with_second
from tests.cluster.support import WAIT_S, adopted_pair, connect, execute
from tests.threads import running_until_left

TABLE = "CREATE TABLE kept (client text, n int, note text, PRIMARY KEY (client, n))"
AWAY = {"away_ms": 60000}
RESTARTS = 4
LARGE_ROWS = 1000
"""Of a transaction that takes a while to be sent and decided."""


class Writer:
    """Commits in a loop over one connection; every error fails the test."""

    def __init__(self, sp: SpNode, rows: int, label: str) -> None:
        self.sp = sp
        self.rows = rows
        self.label = f"{sp.name} {label}"
        self.acknowledged = 0
        self.longest_s = 0.0

    def __call__(self, stop: threading.Event) -> None:
        with connect(self.sp, autocommit=True) as connection:
            while not stop.is_set():
                begins = time.monotonic()
                self._commit(connection)
                self.longest_s = max(self.longest_s, time.monotonic() - begins)
                self.acknowledged += 1

    def _commit(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        first = self.acknowledged * self.rows
        connection.execute(
            "INSERT INTO kept SELECT %s, n, repeat('x', 100) FROM generate_series(%s::int, %s::int) AS n",
            (self.label, first, first + self.rows - 1),
        )

    def has_committed_again(self) -> None:
        before = self.acknowledged
        wait_until(f"{self.label} to commit", lambda: self.acknowledged > before + 1, WAIT_S)

    def is_whole_at(self, sp: SpNode) -> bool:
        """Each acknowledged row is there, once, as the key says, and no other one."""
        [(count,)] = execute(sp, "SELECT count(*) FROM kept WHERE client = %s", (self.label,))
        return bool(count == self.acknowledged * self.rows)


def under_load(sps: Sequence[SpNode], *works: Callable[[], None]) -> float:
    """Every client commits before, between and after. Returns how long the longest COMMIT took."""
    writers = [Writer(sp, rows, str(rows)) for sp in sps for rows in (1, LARGE_ROWS)]
    with running_until_left(*writers):
        for work in works:
            for writer in writers:
                writer.has_committed_again()
            work()
        for writer in writers:
            writer.has_committed_again()
    for writer in writers:
        for sp in sps:
            wait_until(f"what {writer.label} wrote at {sp.name}", partial(writer.is_whole_at, sp), WAIT_S)
    return max(writer.longest_s for writer in writers)


def test_restarts_are_no_error() -> None:
    """Without any grace: who has not heard that its primary ends would refuse COMMITs at once."""
    options = Options(primary_options=AWAY, sp_options={"disconnected_grace_ms": 0})
    with adopted_pair([TABLE], options) as cluster:

        def restart() -> None:
            cluster.stop(PRIMARY, "daemon")
            cluster.start(PRIMARY, "daemon")

        under_load(cluster.sps, *[restart] * RESTARTS)


def test_a_switch_to_the_standby_is_no_error() -> None:
    """The old server ends before, so that its last word is at the standby."""
    options = Options(primary_options=AWAY, sp_options={"commit_timeout_ms": 60000})
    with with_second(TABLE, options) as (cluster, second), second.runs():

        def switch() -> None:
            cluster.stop(PRIMARY)
            second.promote()

        second.says("this PostgreSQL is a standby")
        under_load(cluster.sps, switch)
