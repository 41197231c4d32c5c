"""Daemons, servers and links die under load. What was reported is so, everywhere, afterwards."""

import threading

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Zone
from psp.output import PspError
from psp.servers.processes import ProcessName

from tests.cluster.support import (
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    SCHEMA,
    SERIALIZATION_FAILURE,
    WAIT_S,
    MakeCluster,
    connect,
    execute,
    start_second,
    wait_for_row,
    wait_streaming,
)
from tests.cluster.workload import Workload

ALLOWED = {SERIALIZATION_FAILURE, CONNECTION_FAILURE, OUTCOME_UNKNOWN}


def test_sp_daemon_killed_and_restarted_under_load(cluster: LocalCluster) -> None:
    with Workload(cluster) as load:
        for _ in range(3):
            load.wait_commits(50)
            cluster.kill("sp1")
            load.wait_commits(20)  # the other SPs do not notice
            cluster.start("sp1")
        load.wait_commits(50)
    assert set(load.attempts.errors) <= ALLOWED
    load.check()


def test_sp_daemon_stopped_gracefully_under_load(cluster: LocalCluster) -> None:
    with Workload(cluster) as load:
        load.wait_commits(50)
        cluster.stop("sp2", "daemon")
        load.wait_commits(20)
        cluster.start("sp2")
        load.wait_commits(50)
    assert set(load.attempts.errors) <= ALLOWED
    load.check()


def test_primary_daemon_killed_and_restarted_under_load(cluster: LocalCluster) -> None:
    with Workload(cluster) as load:
        for _ in range(3):
            load.wait_commits(50)
            cluster.kill(PRIMARY)
            cluster.start(PRIMARY)
        load.wait_commits(50)
    assert set(load.attempts.errors) <= ALLOWED
    load.check()


def test_primary_postgres_crashes_under_load(cluster: LocalCluster) -> None:
    with Workload(cluster) as load:
        load.wait_commits(50)
        cluster.stop(PRIMARY, "postgres", "immediate")
        cluster.start(PRIMARY)
        load.wait_commits(50)
    assert set(load.attempts.errors) <= ALLOWED
    load.check()


def test_sp_postgres_crashes_under_load(cluster: LocalCluster) -> None:
    """An SP commits asynchronously: what its crash loses comes back from the primary."""
    with Workload(cluster) as load:
        for _ in range(2):
            load.wait_commits(50)
            cluster.stop("sp3", "postgres", "immediate")
            load.wait_commits(20)
            cluster.start("sp3")
        load.wait_commits(50)
    load.check()


def test_nobody_commits_until_the_daemon_has_heard_of_a_crash(cluster: LocalCluster) -> None:
    """A crash empties psp.apply_session, which is unlogged; the worker fills it when it begins again."""
    sp = cluster.sps[0]
    with psycopg.connect(sp.admin_dsn) as admin, connect(sp) as connection:
        rows: tuple[int] | None = (1,)
        while rows != (0,):  # the worker may begin again in between
            admin.execute("DELETE FROM psp.apply_session")
            admin.commit()
            admin.execute("LOCK TABLE psp.apply_session IN SHARE ROW EXCLUSIVE MODE")
            rows = admin.execute("SELECT count(*) FROM psp.apply_session").fetchone()
        connection.execute("INSERT INTO account VALUES (990060, 'too early', NULL)")
        with pytest.raises(psycopg.errors.SerializationFailure, match="has not begun again"):
            connection.commit()
    cluster.stop(sp.name, "daemon")
    cluster.start(sp.name)
    wait_streaming(cluster)
    execute(sp, "INSERT INTO account VALUES (990060, 'after it', NULL)")
    wait_for_row(cluster.sps[1], "SELECT 1 FROM account WHERE id = 990060")
    execute(sp, "DELETE FROM account WHERE id = 990060")


def test_everything_crashes_at_once(cluster: LocalCluster) -> None:
    with Workload(cluster) as load:
        load.wait_commits(100)
        for node in cluster.state.nodes:
            cluster.stop(node.name, "postgres", "immediate")
            cluster.kill(node.name)
        cluster.resume()
        load.wait_commits(50)
    load.check()


@pytest.mark.parametrize("part", ["daemon", "primary"])
def test_a_commit_while_somebody_is_down_ends_in_bounded_time(cluster: LocalCluster, part: str) -> None:
    sp = cluster.sps[0]
    cluster.stop(sp.name if part == "daemon" else PRIMARY, "daemon")
    with connect(sp) as connection:
        connection.execute("INSERT INTO account VALUES (50, 'nobody there', NULL)")
        try:
            connection.commit()
            raise AssertionError("committed without a certificate")
        except psycopg.Error as error:
            assert error.sqlstate in (CONNECTION_FAILURE, OUTCOME_UNKNOWN), error
        connection.rollback()
        # Reading goes on.
        assert connection.execute("SELECT count(*) FROM account WHERE id = 50").fetchone() == (0,)
    cluster.resume()
    wait_streaming(cluster)
    execute(sp, "INSERT INTO account VALUES (51, 'back again', NULL)")
    wait_for_row(cluster.sps[1], "SELECT 1 FROM account WHERE id = 51")
    execute(sp, "DELETE FROM account WHERE id IN (50, 51)")


def test_link_cut_and_mended_under_load(make_cluster: MakeCluster) -> None:
    """The relay on the way to the primary dies: the far SP's commits fail, the near one's go on."""
    cluster = make_cluster([Zone("near"), Zone("far", rtt_ms=20)], SCHEMA.read_text(), None)
    with Workload(cluster) as load:
        for _ in range(2):
            load.wait_commits(50)
            cluster.kill("far", "relay")
            load.wait_commits(50)
            cluster.start("far", "relay")
            wait_streaming(cluster)
        load.wait_commits(50)
    assert set(load.attempts.errors) <= ALLOWED
    load.check()


def test_a_backend_killed_while_it_commits(cluster: LocalCluster) -> None:
    """The backend may die after the primary decided: then the daemon applies the write-set itself."""
    sp = cluster.sps[0]
    execute(sp, "INSERT INTO counter VALUES ('killed backends', 0)")
    committed = lost = 0
    stop = threading.Event()
    pid = [0]

    def killer() -> None:
        with psycopg.connect(sp.admin_dsn, autocommit=True) as admin:
            while not stop.wait(0.02):
                admin.execute("SELECT pg_terminate_backend(%s)", (pid[0],))

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        while lost < 40:
            try:
                with connect(sp) as connection:
                    pid[0] = connection.info.backend_pid
                    while True:
                        connection.execute(
                            "UPDATE counter SET value = value + 1 WHERE name = 'killed backends'"
                        )
                        connection.commit()
                        committed += 1
            except psycopg.Error:
                lost += 1
    finally:
        stop.set()
        thread.join(timeout=WAIT_S)
    row = execute(sp, "SELECT value FROM counter WHERE name = 'killed backends'")
    assert committed <= row[0][0] <= committed + lost


def test_a_daemon_with_another_name_is_refused(cluster: LocalCluster, second_daemon: ProcessName) -> None:
    """Where nobody serves the database, whose name it bears still decides."""
    cluster.stop("sp1", "daemon")
    config = {**cluster.sp_config("sp1"), "name": "somebody-else"}
    with pytest.raises(PspError, match="somebody-else"):
        start_second(cluster, second_daemon, config)
