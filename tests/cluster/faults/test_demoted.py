"""Another server, or an older state of it, answers a psp-primary that serves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psp.cluster.configs import PRIMARY, PRIMARY_DATABASE, PRIMARY_ROLE
from psp.cluster.local import LocalCluster, Options
from psp.waiting import wait_until

from tests.cluster.faults.standby import Standby
from tests.cluster.faults.test_restore import copy_folder, restore
from tests.cluster.support import WAIT_S, adopted_pair, execute, settle, wait_for_commits, wait_for_row
from tests.threads import running

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY)"


@contextmanager
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        yield cluster


@contextmanager
def daemon_ends(cluster: LocalCluster, reason: str) -> Iterator[None]:
    """By itself, in this block or soon afterwards, and says why."""
    assert cluster.is_running(PRIMARY, "daemon")
    log = cluster.state.directory / PRIMARY / "psp-primary.log"
    before = len(log.read_text())
    yield
    wait_until("psp-primary to end", lambda: not cluster.is_running(PRIMARY, "daemon"), WAIT_S)
    assert reason in log.read_text()[before:], log.read_text()[before:]


def test_a_daemon_ends_where_its_server_has_become_a_standby() -> None:
    """The next one waits there; once the server is promoted it serves."""
    with pair() as cluster:
        north, _ = cluster.sps
        server = cluster.server(PRIMARY)
        with daemon_ends(cluster, "the server is a standby now"):
            server.stop("immediate")
            (server.data_dir / "standby.signal").touch()
            server.start()
        with psycopg.connect(cluster.primary_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        settle(cluster)
        execute(north, "INSERT INTO item VALUES (1)")
        settle(cluster)


def test_a_demoted_server_lets_semi_primaries_wait() -> None:
    """As where Patroni switches: COMMITs wait for the next primary, and none fails."""
    options = Options(
        pg_settings={"shared_buffers": "32MB"},
        primary_options={"away_ms": 60000},
        sp_options={"disconnected_grace_ms": 0},
    )
    with adopted_pair([SCHEMA], options) as cluster:
        north, south = cluster.sps
        server = cluster.server(PRIMARY)
        with daemon_ends(cluster, "the server is a standby now"):
            server.stop("fast")
            (server.data_dir / "standby.signal").touch()
            server.start()
        for sp in cluster.sps:
            wait_for_row(sp, "SELECT 1 FROM psp.status WHERE state = 'paused'")
        with running(
            lambda: execute(north, "INSERT INTO item VALUES (1)"),
            lambda: execute(south, "INSERT INTO item VALUES (2)"),
        ):
            with psycopg.connect(cluster.primary_dsn, autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
            cluster.start(PRIMARY, "daemon")
        settle(cluster)


def test_a_daemon_ends_where_a_promoted_standby_answers() -> None:
    """`database` names both servers, so its sessions find the other one when the first is lost."""
    with pair() as cluster:
        north, _ = cluster.sps
        standby = Standby(cluster)
        first, second = cluster.server(PRIMARY), standby.server
        cluster.stop(PRIMARY, "daemon")
        cluster.state.primary_options = {
            "database": f"host={first.socket_dir},{second.socket_dir} port={first.port},{second.port} "
            f"dbname={PRIMARY_DATABASE} user={PRIMARY_ROLE} target_session_attrs=read-write"
        }
        settle(cluster)
        with daemon_ends(cluster, "its timeline is 00000002, not 00000001"):
            first.stop("immediate")
            with psycopg.connect(second.dsn("postgres"), autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
        cluster.start(PRIMARY, "daemon")
        wait_for_commits(north)
        execute(north, "INSERT INTO item VALUES (1)")
        cluster.stop(PRIMARY, "daemon")
        standby.remove()


def test_a_daemon_ends_where_its_disk_was_put_back(tmp_path: Path) -> None:
    """To a moment after the daemon's start, so that neither the epoch nor the timeline tells."""
    with pair() as cluster:
        north, _ = cluster.sps
        server = cluster.server(PRIMARY)
        settle(cluster)
        server.stop()
        copy_folder(server.data_dir, tmp_path / "snapshot")
        server.start()
        execute(north, "INSERT INTO item VALUES (1)")
        with daemon_ends(cluster, "the server has an older state than before"):
            server.stop("immediate")
            restore(server, tmp_path / "snapshot")
            server.start()


def test_a_daemon_goes_on_where_its_server_has_crashed() -> None:
    """What is known of it is there again."""
    with pair() as cluster:
        north, _ = cluster.sps
        settle(cluster)
        daemon = cluster.pid(PRIMARY, "daemon")
        for n in range(3):
            execute(north, "INSERT INTO item VALUES (%s)", (n,))
            cluster.server(PRIMARY).stop("immediate")
            cluster.server(PRIMARY).start()
        settle(cluster)
        assert cluster.pid(PRIMARY, "daemon") == daemon
