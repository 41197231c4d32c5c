"""How a local cluster's databases come under psp: the first SP is adopted, the others join."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg.rows import scalar_row

from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.schema.adopt import adopt_database
from psp.schema.join import prepare_join
from psp.waiting import WaitTimeout, wait_until

JOIN_STALL_TIMEOUT_S = 60

JoinProgress = Callable[[str, int, int], None]
"""Called with the SP's name, the rows copied and their estimated total."""


def _no_progress(_name: str, _done: int, _total: int) -> None:
    pass


@dataclass(frozen=True)
class _Copy:
    done: int
    total: int
    joining: bool
    state: str | None
    error: str | None


def adopt(cluster: LocalCluster, progress: JoinProgress = _no_progress, add_keys: bool = False) -> None:
    """Adopts the first SP's database with whatever tables it holds, then lets the other SPs join."""
    first, *others = cluster.sps
    if cluster.state.node(first.name).adopted:
        raise PspError(f"{first.name} is under psp already", "a further SP joins by: psp cluster join")
    cluster.report(f"Adopting the database of {first.name}")
    adopt_database(first.admin_dsn, cluster.primary_dsn, name=first.name, zone=first.zone, add_keys=add_keys)
    cluster.mark_adopted(first.name)
    for sp in others:
        _join(cluster, sp, progress)


def join(
    cluster: LocalCluster, zone: Zone, progress: JoinProgress = _no_progress, relay: bool = True
) -> SpNode:
    """Adds an SP to a running cluster, while the others commit. Returns when it streams."""
    if not cluster.sps or not cluster.state.node(cluster.sps[0].name).adopted:
        raise PspError("the cluster holds no adopted database that could be joined", "psp cluster adopt")
    sp = cluster.add_zone(zone, relay)
    _join(cluster, sp, progress)
    return sp


def _join(cluster: LocalCluster, sp: SpNode, progress: JoinProgress) -> None:
    cluster.report(f"{sp.name} joins")
    prepare_join(sp.admin_dsn, cluster.primary_dsn, name=sp.name, zone=sp.zone)
    cluster.mark_adopted(sp.name)
    wait_joined(sp, progress)


def wait_joined(sp: SpNode, progress: JoinProgress = _no_progress) -> None:
    """Waits until the copy from the primary is complete. Gives up only if it does not move any more."""
    done = -1
    while True:
        seen = done

        def look(sp: SpNode = sp, seen: int = seen) -> _Copy | None:
            copy = _copy_state(sp)
            moved = not copy.joining or copy.state == "failed" or copy.done > seen
            return copy if moved else None

        try:
            copy = wait_until(f"{sp.name} to join", look, JOIN_STALL_TIMEOUT_S)
        except WaitTimeout:
            raise PspError(f"the join of {sp.name} stands still after {max(done, 0)} rows") from None
        if copy.joining and copy.state == "failed":
            raise PspError(f"the join of {sp.name} failed: {copy.error}")
        done = copy.done
        progress(sp.name, copy.done if copy.joining else copy.total, copy.total)
        if not copy.joining:
            return


_COPY_SQL = """
    SELECT jsonb_build_object(
        'done', coalesce((s.status->>'join_rows_done')::bigint, 0),
        'total', coalesce((s.status->>'join_rows_total')::bigint, 0),
        'joining', i.joining,
        'state', s.status->>'state',
        'error', s.status->>'last_error')
    FROM psp.identity i LEFT JOIN psp.daemon_status s ON true
"""


def _copy_state(sp: SpNode) -> _Copy:
    with psycopg.connect(sp.admin_dsn, row_factory=scalar_row) as connection:
        value = connection.execute(_COPY_SQL).fetchone()
    assert value is not None
    return _Copy(**value)
