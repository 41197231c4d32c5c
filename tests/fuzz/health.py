"""Whether the semi-primaries go on: one that has stopped is a failure, also if its rows are right."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import psycopg
from psp.cluster.local import LocalCluster, SpNode
from psp.output import PspError
from psp.waiting import WaitTimeout, wait_until

APPLIED_S = 20
FAILED_S = 2  # what may pass has passed by then
PUBLISHED = """
    SELECT greatest((SELECT truncated_t FROM psp.log_start), (SELECT max(global_t) FROM psp.replication_log))
"""
STATUS = "SELECT state, last_error, watermark FROM psp.status"

Connection = psycopg.Connection[Any]


class Watch:
    """A superuser's sessions at the primary and at some semi-primaries, all if none are named."""

    def __init__(self, cluster: LocalCluster, sps: Sequence[SpNode] = ()) -> None:
        self.primary = _open(cluster.primary_dsn)
        self.sps: Mapping[str, Connection] = {sp.name: _open(sp.admin_dsn) for sp in sps or cluster.sps}

    def wait_applied(self) -> None:
        """Waits until each has everything, streams, and has no error. Raises PspError."""
        upto = self.published()
        failed_since: float | None = None

        def look() -> bool:
            nonlocal failed_since
            states = [_status(connection) for connection in self.sps.values()]
            if not any(state == "failed" for state, *_ in states):
                failed_since = None
            elif failed_since is None:
                failed_since = time.monotonic()
            elif time.monotonic() - failed_since > FAILED_S:
                raise PspError("applying has stopped")
            return all(_is_well(*status) and status[2] >= upto for status in states)

        try:
            wait_until(f"all semi-primaries to apply everything up to {upto}", look, APPLIED_S, 0.002)
        except (PspError, WaitTimeout) as problem:
            states = (
                f"{name} is {state}: {error}"
                for name, (state, error, _) in ((name, _status(sp)) for name, sp in self.sps.items())
            )
            raise PspError("\n".join((str(problem), *states))) from problem

    def published(self) -> int:
        """The number up to which the primary has published."""
        return int(row_of(self.primary, PUBLISHED)[0])

    def close(self) -> None:
        for connection in (self.primary, *self.sps.values()):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def row_of(connection: Connection, query: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The only row of a query."""
    row: tuple[Any, ...] | None = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row


def _open(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True)


def _is_well(state: str, error: str | None, _watermark: int) -> bool:
    return state in ("streaming", "catchup") and error is None


def _status(connection: Connection) -> tuple[str, str | None, int]:
    """The daemon writes its state once a second."""
    state, error, watermark = row_of(connection, STATUS)
    return str(state), error, int(watermark)
