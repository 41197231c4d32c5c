"""Two semi-primaries without distance: one executes, the other one only applies. And plain PostgreSQL."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psp.cluster import growth, verify
from psp.cluster.configs import APP_ROLE
from psp.cluster.local import LocalCluster, Options, Part, SpNode, Zone
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until
from psycopg.rows import scalar_row

from benchmarks.overhead import cpu
from benchmarks.plain import plain_copy
from benchmarks.steps import Steps
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Load, Scale

WAIT_S = 300
LOOK_EVERY_S = 0.02

# What the load has written at the semi-primary that executed it. Sessions report when they end.
_ROWS_SQL = """
    SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables WHERE schemaname = 'public'
"""

Round = tuple[dict[str, Any], dict[str, float]]
"""The load's report, and CPU seconds by part."""


@dataclass(frozen=True)
class CatchUp:
    """What a semi-primary applied that had been away, from its daemon's start to the last transaction."""

    transactions: int
    rows: int
    seconds: float
    cpu_s: dict[str, float]


class Pair:
    """A writer and an applier, both under psp, and the plain server."""

    def __init__(self, cluster: LocalCluster, plain: PgServer) -> None:
        self.cluster = cluster
        self.plain = plain
        self._plain_postmaster = cpu.running(plain.pid())

    @property
    def writer(self) -> SpNode:
        return self.cluster.sps[0]

    @property
    def applier(self) -> SpNode:
        return self.cluster.sps[1]

    def execute(self, load: Load) -> Round:
        """The load on plain PostgreSQL."""
        dsn = self.plain.dsn(self.cluster.state.database, APP_ROLE)
        before_s = cpu.group_s(self._plain_postmaster)
        report = runner.run(dsn, load)
        return report, {"postgres": cpu.group_s(self._plain_postmaster) - before_s}

    def apply(self, load: Load) -> Round:
        """The load at the writer, until the applier has all of it."""
        pids = {f"applier_{part}": self._applier_pid(part) for part in ("postgres", "daemon")}
        before = {part: cpu.group_s(pid) for part, pid in pids.items()}
        report = runner.run(self.writer.dsn, load)
        self.wait_applied()
        return report, {part: cpu.group_s(pid) - before[part] for part, pid in pids.items()}

    def catch_up(self, load: Load) -> CatchUp:
        """The load while the applier is away; then it comes back."""
        self.cluster.stop(self.applier.name, "daemon")
        rows_before = self._rows()
        report = runner.run(self.writer.dsn, load)
        server = self._applier_pid("postgres")
        server_before_s = cpu.group_s(server)
        begin = time.monotonic()
        self.cluster.start(self.applier.name, "daemon")
        self.wait_applied()
        return CatchUp(
            transactions=report["transactions"],
            rows=self._rows() - rows_before,
            seconds=time.monotonic() - begin,
            cpu_s={
                "applier_postgres": cpu.group_s(server) - server_before_s,
                "applier_daemon": cpu.group_s(self._applier_pid("daemon")),
            },
        )

    def wait_applied(self) -> None:
        """Until the applier has everything that the primary has published."""
        published = verify.published(self.cluster.primary_dsn)
        # One session for all looks: a new one each time would be most of what the server does.
        with psycopg.connect(self.applier.admin_dsn, autocommit=True, row_factory=scalar_row) as connection:

            def look() -> bool:
                found = connection.execute("SELECT watermark FROM psp.watermark").fetchone()
                return found is not None and found >= published

            wait_until("the applier to have everything", look, WAIT_S, LOOK_EVERY_S)

    def _rows(self) -> int:
        with psycopg.connect(self.writer.admin_dsn, row_factory=scalar_row) as connection:
            found = connection.execute(_ROWS_SQL).fetchone()
        assert found is not None
        return int(found)

    def _applier_pid(self, part: Part) -> int:
        return cpu.running(self.cluster.pid(self.applier.name, part))


@contextmanager
def pair(scale: Scale, steps: Steps) -> Iterator[Pair]:
    """All of it with the same rows, running; all is removed at the end."""
    zones = [Zone("writer"), Zone("applier")]
    with LocalCluster.temporary(zones, Options(database="tpcc", relay=False)) as cluster:
        with steps.step(f"Loading TPC-C, {scale.warehouses} warehouses"):
            runner.prepare(cluster.sps[0].dsn, scale)
        with plain_copy(cluster, cluster.sps[0].name) as plain:
            with steps.step("Putting two databases under psp"):
                growth.adopt(cluster, steps.progress)
            with steps.step("VACUUM and ANALYZE everywhere"):
                for server in (plain, *(cluster.server(sp.name) for sp in cluster.sps)):
                    _tidy(server.dsn(cluster.state.database))
            yield Pair(cluster, plain)


def _tidy(dsn: str) -> None:
    """What loading and joining leave to autovacuum is not the load's."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
