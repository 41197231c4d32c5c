"""How a local cluster's databases come under psp: the first SP is adopted, the others join."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg.rows import scalar_row

from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.primary.database import mark_released
from psp.schema.adopt import adopt_database
from psp.schema.join import prepare_join
from psp.schema.materialized import refresh
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
    watermark: int


def adopt(
    cluster: LocalCluster, progress: JoinProgress = _no_progress, add_keys: bool = False,
    drop_foreign_keys: bool = False, schema_roles: Sequence[str] = (),
) -> None:  # fmt: skip
    """Adopts the first SP's database with all its tables, then lets the other SPs join.

    Returns when all of them take commits. `drop_foreign_keys`: in views mode, which does not check them. If a
    join fails, what was done before it stays, and the next call goes on from there. `schema_roles`: that may
    change the schema.
    """
    first, *others = cluster.sps
    remaining = [sp for sp in others if not cluster.state.node(sp.name).adopted]
    if not cluster.state.node(first.name).adopted:
        cluster.report(f"Adopting the database of {first.name}")
        adopt_database(
            first.admin_dsn, cluster.primary_dsn, name=first.name, zone=first.zone, add_keys=add_keys,
            mode=cluster.state.mode, drop_foreign_keys=drop_foreign_keys, schema_roles=schema_roles,
        )  # fmt: skip
        cluster.mark_adopted(first.name)
    elif not remaining:
        raise PspError("every SP is under psp already", "a further SP joins by: psp cluster join")
    for sp in remaining:
        _join(cluster, sp, progress, schema_roles)
    wait_joined(first)  # nothing was to be copied there, but a COMMIT is refused until its daemon streams


def join(
    cluster: LocalCluster, zone: Zone, progress: JoinProgress = _no_progress, relay: bool = True,
    schema_roles: Sequence[str] = (),
) -> SpNode:  # fmt: skip
    """Adds an SP to a running cluster, while the others commit. Returns when it streams.

    On an exception the cluster is as it was before.
    """
    if not cluster.sps or not cluster.state.node(cluster.sps[0].name).adopted:
        raise PspError("the cluster holds no adopted database that could be joined", "psp cluster adopt")
    sp = cluster.add_zone(zone, relay)
    try:
        _join(cluster, sp, progress, schema_roles)
    except BaseException:
        cluster.remove_zone(sp.name)
        raise
    return sp


def _join(cluster: LocalCluster, sp: SpNode, progress: JoinProgress, schema_roles: Sequence[str]) -> None:
    cluster.report(f"{sp.name} joins")
    sp_id = _prepare(cluster, sp, schema_roles)
    try:
        cluster.mark_adopted(sp.name)
        wait_joined(sp, progress)
        refresh(sp.admin_dsn, cluster.report)
    except BaseException:
        cluster.reset_database(sp.name)
        with psycopg.connect(cluster.primary_dsn) as connection:
            mark_released(connection, sp_id)
        raise


def _prepare(cluster: LocalCluster, sp: SpNode, schema_roles: Sequence[str]) -> int:
    """From the schema of another SP, if that can be had; else with all schema changes. Returns its number."""
    prepare = partial(
        prepare_join, sp.admin_dsn, cluster.primary_dsn, name=sp.name, zone=sp.zone,
        schema_roles=schema_roles, say=cluster.report,
    )  # fmt: skip
    member = _member(cluster, sp)
    if member is not None:
        try:
            return prepare(schema_from=member)
        except (PspError, psycopg.Error) as error:  # the database is as it was
            cluster.report(f"not from the schema as it is, but by all schema changes: {error}")
    return prepare()


def _member(cluster: LocalCluster, joiner: SpNode) -> str | None:
    """The database of a semi-primary with all rows: of one that the joiner's PostgreSQL understands best.

    None: no such server answers.
    """
    with psycopg.connect(joiner.admin_dsn) as connection:
        here = connection.info.server_version // 10000
    found: list[tuple[bool, int, str]] = []
    for sp in cluster.sps:
        if not cluster.state.node(sp.name).adopted:
            continue
        try:
            with psycopg.connect(sp.admin_dsn) as connection:
                row = connection.execute("SELECT joining FROM psp.identity").fetchone()
                version = connection.info.server_version // 10000
        except psycopg.Error:
            continue
        if row == (False,):
            found.append((version > here, abs(version - here), sp.admin_dsn))
    return min(found)[2] if found else None


def wait_joined(sp: SpNode, progress: JoinProgress = _no_progress) -> None:
    """Waits until the copy from the primary is complete and the SP streams.

    Gives up only if nothing moves any more.
    """
    copy: _Copy | None = None
    while True:
        before = copy

        def look(sp: SpNode = sp, before: _Copy | None = before) -> _Copy | None:
            now = _copy_state(sp)
            return now if now != before else None

        try:
            copy = wait_until(f"{sp.name} to join", look, JOIN_STALL_TIMEOUT_S)
        except WaitTimeout:
            raise PspError(_stalled(sp.name, before)) from None
        if copy.state == "failed":
            raise PspError(f"the join of {sp.name} failed: {copy.error}")
        progress(sp.name, copy.done if copy.joining else copy.total, copy.total)
        if not copy.joining and copy.state == "streaming":
            return


def _stalled(name: str, copy: _Copy | None) -> str:
    done = copy.done if copy else 0
    because = f": {copy.error}" if copy and copy.error else ""
    return f"the join of {name} stands still after {done} rows{because}"


_COPY_SQL = """
    SELECT jsonb_build_object(
        'done', coalesce((s.status->>'join_rows_done')::bigint, 0),
        'total', coalesce((s.status->>'join_rows_total')::bigint, 0),
        'joining', i.joining,
        'state', s.status->>'state',
        'error', s.status->>'last_error',
        'watermark', w.watermark)
    FROM psp.identity i CROSS JOIN psp.watermark w LEFT JOIN psp.daemon_status s ON true
"""


def _copy_state(sp: SpNode) -> _Copy:
    with psycopg.connect(sp.admin_dsn, row_factory=scalar_row) as connection:
        value = connection.execute(_COPY_SQL).fetchone()
    assert value is not None
    return _Copy(**value)
