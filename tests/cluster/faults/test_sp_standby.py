"""A semi-primary's own PostgreSQL fails over: its daemon serves the standby; nothing is lost or twice."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import daemons, verify
from psp.cluster.configs import SP_ROLE
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.output import PspError
from psp.servers import processes
from psp.waiting import wait_until

from tests.cluster.faults.standby import Standby, at_primary
from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    execute,
    raises,
    settle,
    wait_for_commits,
    wait_streaming,
)
from tests.cluster.workload import Workload

SCHEMA = """
    CREATE TABLE item (id serial PRIMARY KEY, note text);
    CREATE TABLE counter (name text PRIMARY KEY, value int NOT NULL DEFAULT 0);
    CREATE TABLE journal (attempt uuid PRIMARY KEY, sp text, counter text);
"""
ADD: LiteralString = "INSERT INTO item (note) VALUES ('added') RETURNING id"
ITEMS: LiteralString = "SELECT id FROM item ORDER BY id"
LAG_MS = 60_000
NAME = "north"


class Group:
    """A cluster whose first semi-primary has an asynchronous standby; its daemon's `database` names both."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.standby = Standby(cluster, NAME)
        self._name(cluster.server(NAME).port, self.standby.server.port)
        cluster.stop(NAME, "daemon")
        self.start_daemon()
        wait_streaming(cluster)

    @property
    def north(self) -> SpNode:
        return self.cluster.sp(NAME)

    def log(self) -> str:
        return (self.cluster.state.directory / NAME / f"{daemons.SP_BINARY}.log").read_text()

    def _name(self, *ports: int) -> None:
        """The servers that the daemon's next start may serve."""
        folder = str(self.cluster.state.socket_dir)
        database = psycopg.conninfo.make_conninfo(
            "", host=",".join(folder for _ in ports), port=",".join(map(str, ports)),
            dbname=self.cluster.state.database, user=SP_ROLE,
            target_session_attrs="read-write" if len(ports) > 1 else "any",
        )  # fmt: skip
        self._config = {**self.cluster.sp_config(NAME), "database": database}

    def name_standby_only(self) -> None:
        self._name(self.standby.server.port)

    def start_daemon(self, timeout_s: float = 30) -> None:
        folder = self.cluster.state.directory / NAME
        file = folder / f"{daemons.SP_BINARY}.yaml"
        daemons.write_config(file, self._config)
        command = [str(paths.binary(daemons.SP_BINARY)), "--config", str(file)]
        name = daemons.daemon_name(self.cluster.state.directory, NAME)
        processes.start(name, command, folder / f"{daemons.SP_BINARY}.log", timeout_s)

    def fail_over(self) -> None:
        """The server is lost, the standby promoted. The daemon ends, and its unit starts it again."""
        self.cluster.server(NAME).stop("immediate")
        self.standby.promote()
        wait_until("the daemon to end", lambda: not self.cluster.is_running(NAME, "daemon"), WAIT_S)
        assert "its next start serves that one" in self.log()
        self.cluster.state.node(NAME).pg_port = self.standby.server.port
        self.start_daemon()


@contextmanager
def group(**sp_options: object) -> Iterator[Group]:
    options = Options(
        pg_settings={"shared_buffers": "32MB"},
        primary_options={"log_truncation_interval_ms": 100},
        sp_options={"ack_interval_ms": 20, **sp_options},
    )
    with adopted_pair([SCHEMA], options) as cluster:
        settle(cluster)
        made = Group(cluster)
        yield made
        made.standby.server.stop("immediate")


def add(sp: SpNode, count: int) -> list[int]:
    """The numbers that were drawn."""
    return [execute(sp, ADD)[0][0] for _ in range(count)]


def log_begins(cluster: LocalCluster) -> int:
    [(upto,)] = at_primary(cluster, "SELECT truncated_t FROM psp.log_start")
    return int(upto)


def newest(cluster: LocalCluster) -> int:
    [(upto,)] = at_primary(cluster, "SELECT max(global_t) FROM psp.tx_log")
    return int(upto)


def check_equal(cluster: LocalCluster) -> None:
    """Both semi-primaries have the same rows as the primary."""
    result = verify.verify(cluster, WAIT_S)
    assert result.consistent, result.as_dict()


def test_what_a_standby_lacks_comes_from_the_stream() -> None:
    with group(standby_lag_ms=LAG_MS) as one:
        numbers = add(one.north, 5)
        settle(one.cluster)
        with one.standby.cut():
            numbers += add(one.north, 40)
            one.fail_over()
        wait_for_commits(one.north)
        wait_streaming(one.cluster)
        numbers += add(one.north, 40)
        assert len(set(numbers)) == 85, "a number was drawn twice"
        check_equal(one.cluster)
        for sp in one.cluster.sps:
            assert [number for (number,) in execute(sp, ITEMS)] == sorted(numbers)


def test_an_old_server_that_comes_back_commits_nothing() -> None:
    with group(standby_lag_ms=LAG_MS) as one:
        old, lost = one.cluster.server(NAME), one.north
        one.fail_over()
        wait_for_commits(one.north)
        old.start()
        try:
            with raises("08006") as caught:
                add(lost, 1)
        finally:
            old.stop("immediate")
        assert "another database" in (caught[0].diag.message_detail or "")
        assert execute(one.north, ITEMS) == []


def test_a_load_goes_on_at_the_promoted_standby() -> None:
    with group(standby_lag_ms=LAG_MS) as one:
        with Workload(one.cluster) as load:
            load.wait_commits(100)
            one.fail_over()
            wait_for_commits(one.north)
        load.check()
        with Workload(one.cluster) as load:
            load.wait_commits(100)
        load.check()


def test_a_daemon_beside_a_standby_waits_for_its_turn() -> None:
    """As with one daemon beside each server of the group."""
    with group(standby_lag_ms=LAG_MS) as one:
        one.cluster.kill(NAME)
        one.name_standby_only()
        with pytest.raises(PspError, match="this PostgreSQL is a standby"):
            one.start_daemon(timeout_s=2)
        one.cluster.server(NAME).stop("immediate")
        one.standby.promote()
        one.cluster.state.node(NAME).pg_port = one.standby.server.port
        one.start_daemon()
        wait_for_commits(one.north)


def test_without_the_setting_who_lags_is_refused() -> None:
    """The primary's log does not reach back to it: it must join again, and nobody takes it for whole."""
    with group() as one:
        add(one.north, 1)
        settle(one.cluster)
        with one.standby.cut():
            add(one.north, 40)
            last = newest(one.cluster)
            wait_until("the log to begin later", lambda: log_begins(one.cluster) >= last, WAIT_S)
            with suppress(PspError):  # it may end before it is ready
                one.fail_over()
            wait_until("it to end", lambda: not one.cluster.is_running(NAME, "daemon"), WAIT_S)
        assert "the log begins after" in one.log()
