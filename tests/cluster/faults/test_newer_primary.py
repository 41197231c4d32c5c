"""Two servers of the primary, a psp-primary beside each: semi-primaries go to the newer one, and not back."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY, PRIMARY_DATABASE, PRIMARY_ROLE
from psp.cluster.local import LocalCluster, Options
from psp.servers.ports import PortAllocator
from psp.waiting import wait_until

from tests.cluster.faults.following import follows, last_error
from tests.cluster.faults.standby import Standby
from tests.cluster.support import (
    CONNECTION_FAILURE,
    WAIT_S,
    adopted_pair,
    execute,
    retry,
    settle,
    wait_for_row,
)
from tests.threads import running

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"
ADD: LiteralString = "INSERT INTO item VALUES (%s, %s)"


class Second:
    """The psp-primary beside the standby."""

    def __init__(self, cluster: LocalCluster, standby: Standby) -> None:
        self.standby = standby
        self.port = PortAllocator(taken={*cluster.state.ports(), standby.server.port}).take()
        self.config = cluster.state.directory / "second-primary.yaml"
        self.log = cluster.state.directory / "second-primary.log"
        daemons.write_config(
            self.config,
            {
                "database": standby.server.socket_dsn(PRIMARY_DATABASE, PRIMARY_ROLE),
                "listen": f"tcp://127.0.0.1:{self.port}",
            },
        )

    @contextmanager
    def runs(self) -> Iterator[None]:
        command = [str(paths.binary(daemons.PRIMARY_BINARY)), "--config", str(self.config)]
        with self.log.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as daemon:
            try:
                yield
            finally:
                daemon.terminate()

    def says(self, text: str) -> None:
        wait_until(f"the second psp-primary to say {text}", lambda: text in self.log.read_text(), WAIT_S)

    def promote(self) -> None:
        self.promote_server()
        self.says("ready")

    def promote_server(self) -> None:
        with psycopg.connect(self.standby.server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")


@contextmanager
def with_second(
    schema: str, options: Options, *, synchronous: bool = True
) -> Iterator[tuple[LocalCluster, Second]]:
    """A pair of semi-primaries, of which the old primary's address is the first one."""
    with adopted_pair([schema], options) as cluster:
        cluster.stop(PRIMARY, "daemon")
        standby = Standby(cluster)
        if synchronous:
            standby.make_synchronous()
        second = Second(cluster, standby)
        first = cluster.sp_config(cluster.sps[0].name)["primary"]
        cluster.state.sp_options |= {"primary": f"{first},tcp://127.0.0.1:{second.port}"}
        for sp in cluster.sps:
            cluster.stop(sp.name, "daemon")
        cluster.start(PRIMARY, "daemon")
        for sp in cluster.sps:
            cluster.start(sp.name, "daemon")
        settle(cluster)
        yield cluster, second
        standby.remove()


@pytest.fixture
def second() -> Iterator[tuple[LocalCluster, Second]]:
    with with_second(SCHEMA, Options(sp_options={"commit_timeout_ms": 60000})) as both:
        yield both


def test_commits_go_on_at_the_newer_primary_while_the_old_one_lives(
    second: tuple[LocalCluster, Second],
) -> None:
    """Nobody gets an error, and a daemon that starts again does not go back to the old one."""
    cluster, other = second
    north, south = cluster.sps
    with other.runs():
        other.says("this PostgreSQL is a standby")
        execute(north, ADD, (1, "at the first one"))
        with running(other.promote):
            execute(north, ADD, (2, "north"))
            execute(south, ADD, (3, "south"))
        cluster.kill(north.name)
        cluster.start(north.name, "daemon")
        # Until the newer one takes the killed daemon's connection for lost.
        retry(lambda: execute(north, ADD, (4, "north again")), (CONNECTION_FAILURE,))
        wait_for_row(south, "SELECT 1 FROM item WHERE id = 4")
        keys = execute(south, "SELECT id FROM item ORDER BY id")
        assert keys == [(1,), (2,), (3,), (4,)]
        with psycopg.connect(other.standby.server.dsn(PRIMARY_DATABASE)) as connection:
            assert connection.execute("SELECT max(global_t) >= 4 FROM psp.replication_log").fetchone() == (
                True,
            )
        assert cluster.is_running(PRIMARY, "daemon"), "the old one lives"


def test_an_old_primary_alone_is_waited_out(second: tuple[LocalCluster, Second]) -> None:
    """The daemon does not end, and says why it waits."""
    cluster, other = second
    north, south = cluster.sps
    with other.runs():
        with running(other.promote):
            execute(north, ADD, (1, "newer"))
        wait_for_row(south, "SELECT 1 FROM item WHERE id = 1")
        newer = other.standby.server.dsn(PRIMARY_DATABASE)
        wait_until("north to follow the newer one", lambda: follows(north, newer), WAIT_S)
    find = "an older one"
    wait_until(f"{north.name} to wait", lambda: find in last_error(north), WAIT_S)
    assert cluster.is_running(north.name, "daemon")
    with other.runs():
        other.says("ready")
        execute(north, ADD, (2, "newer"))
        wait_for_row(south, "SELECT 1 FROM item WHERE id = 2")
