"""The daemon and its PostgreSQL server are on two hosts: what works beside it works there, over TLS."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY, SP_ROLE
from psp.schema.native.capture import CaptureChoice, use
from psp.waiting import wait_until

from tests.cluster.elsewhere.clusters import (
    PASSWORD,
    FarCluster,
    far_cluster,
    make_certificates,
)
from tests.cluster.elsewhere.places import NEEDS_ROOT, namespace
from tests.cluster.support import (
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    SERIALIZATION_FAILURE,
    WAIT_S,
    as_admin,
    connect,
    execute,
    needs_module,
    paused,
    raises,
    retry,
    settle,
    tx_id_of,
    wait_for_row,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, told text);
CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO counter VALUES (1, 0);
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)


@pytest.fixture(scope="module", params=["loopback", pytest.param("namespace", marks=needs_root)])
def made(request: pytest.FixtureRequest) -> Iterator[FarCluster]:
    place_of = namespace if request.param == "namespace" else nullcontext
    with place_of() as place, far_cluster(SCHEMA, place) as cluster:
        yield cluster


@pytest.fixture(params=["sql", pytest.param("module", marks=needs_module())])
def cluster(made: FarCluster, request: pytest.FixtureRequest) -> Iterator[FarCluster]:
    """With each capture; at the end everything is the same everywhere."""
    choice: CaptureChoice = request.param
    with connect(as_admin(made.far)) as connection:
        assert use(connection, choice) == choice
    retry(lambda: execute(made.near, "DELETE FROM item"))
    wait_until("the deletion", lambda: not execute(made.far, "SELECT 1 FROM item"), WAIT_S)
    yield made
    settle(made)


def restart_daemon(cluster: FarCluster) -> None:
    cluster.stop("far", "daemon")
    cluster.start("far", "daemon")


def test_commits_go_both_ways_and_who_comes_second_fails(cluster: FarCluster) -> None:
    far, near = cluster.far, cluster.near
    with connect(far) as late:
        late.execute("INSERT INTO item VALUES (1, 'far')")
        late.commit()
        wait_for_row(near, "SELECT 1 FROM item WHERE told = 'far'")
        late.execute("UPDATE item SET told = 'late' WHERE id = 1")
        execute(near, "UPDATE item SET told = 'near' WHERE id = 1")
        with raises(SERIALIZATION_FAILURE):
            late.commit()
    wait_for_row(far, "SELECT 1 FROM item WHERE told = 'near'")


def test_backends_connect_with_tls(cluster: FarCluster) -> None:
    rows = execute(as_admin(cluster.far), "SELECT hook_conninfo FROM psp.identity")
    assert "sslmode=verify-full" in rows[0][0] and "password" not in rows[0][0]
    rows = execute(
        as_admin(cluster.far),
        "SELECT count(*), bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
        "WHERE a.usename = %s",
        (SP_ROLE,),
    )
    assert rows[0][0] > 0 and rows[0][1]


def _keepalive_s(pid: int, client_port: int) -> float | None:
    """When the server looks whether the session's client is there; None: it waits for something else."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, _, _, timer, *_ = line.split()
        kind, _, ticks = timer.partition(":")
        if int(remote.partition(":")[2], 16) == client_port and kind == "02":
            return int(ticks, 16) / os.sysconf("SC_CLK_TCK")
    return None


def test_the_server_looks_whether_the_daemon_is_still_there(cluster: FarCluster) -> None:
    """The session of a lost daemon has locks, which the next one needs. The system looks after two hours."""
    sessions = execute(
        as_admin(cluster.far),
        "SELECT application_name, pid, client_port FROM pg_stat_activity WHERE usename = %s",
        (SP_ROLE,),
    )
    assert "psp apply worker" in {name for name, _, _ in sessions}
    for name, pid, port in sessions:
        seconds = wait_until(name, lambda pid=pid, port=port: _keepalive_s(pid, port), WAIT_S)  # type: ignore[misc]
        assert seconds < 60, name


def test_large_write_sets_and_doubts(cluster: FarCluster) -> None:
    """The write-set and the daemon's questions about it are many records of TLS."""

    def write() -> None:
        with connect(cluster.far) as connection:
            for told in ("x" * 100, "y"):
                connection.execute(
                    "INSERT INTO item SELECT n, %s FROM generate_series(1, 20000) n "
                    "ON CONFLICT (id) DO UPDATE SET told = excluded.told",
                    (told,),
                )
            connection.execute("DELETE FROM item WHERE id % 2 = 0")

    retry(write)
    wait_for_row(cluster.near, "SELECT 1 FROM item WHERE told = 'y' HAVING count(*) = 10000")


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_session_goes_on_after_a_restart_of_the_daemon(cluster: FarCluster, is_killed: bool) -> None:
    """The session sees at its COMMIT that its connection has ended, before it sends anything."""
    with connect(cluster.far) as connection:
        for number in range(2):
            connection.execute("INSERT INTO item VALUES (%s, 'before and after')", (number,))
            connection.commit()
            if number == 0:
                if is_killed:
                    cluster.kill("far")
                restart_daemon(cluster)
                wait_until("a commit", lambda: _commits(cluster), WAIT_S)
    wait_for_row(cluster.near, "SELECT 1 FROM item WHERE told = 'before and after' HAVING count(*) = 2")


def _commits(cluster: FarCluster) -> bool:
    try:
        execute(cluster.far, "UPDATE counter SET n = n + 1")
    except psycopg.Error as error:
        assert error.sqlstate in (CONNECTION_FAILURE, SERIALIZATION_FAILURE), error
        return False
    return True


def test_the_line_is_cut_in_the_middle_of_a_commit(cluster: FarCluster) -> None:
    """The primary decides while nobody can tell the session. The outcome is told when the line is back."""
    place = cluster.place
    assert place is not None
    unknown: list[psycopg.Error] = []

    def commit() -> None:
        with raises(OUTCOME_UNKNOWN) as caught:
            execute(cluster.far, "INSERT INTO item VALUES (1, 'cut')")
        unknown.extend(caught)

    with paused(cluster, PRIMARY), running(commit):
        wait_until("the COMMIT to wait for the primary", lambda: _in_flight(cluster), WAIT_S)
        with place.cut():
            wait_until("the session's error", lambda: unknown, WAIT_S)
            with raises(CONNECTION_FAILURE):
                execute(cluster.far, "INSERT INTO item VALUES (2, 'while it is cut')")
    tx_id = tx_id_of(unknown[0])

    def outcome() -> object:
        try:
            return execute(cluster.far, "SELECT psp.outcome(%s)", (tx_id,))[0][0]
        except psycopg.Error as error:
            assert error.sqlstate == CONNECTION_FAILURE, error
            return None

    told = wait_until("the outcome", outcome, WAIT_S)
    wait_until("a commit", lambda: _commits(cluster), WAIT_S)
    rows = [("cut",)] if told == "committed" else []
    settle(cluster)
    assert execute(cluster.far, "SELECT told FROM item") == rows
    assert execute(cluster.near, "SELECT told FROM item") == rows


def _in_flight(cluster: FarCluster) -> bool:
    """A backend is between its request and the answer: it holds what shows so."""
    return bool(
        execute(
            as_admin(cluster.far),
            "SELECT 1 FROM pg_locks WHERE relation = 'psp.committing'::regclass AND granted",
        )
    )


def test_a_wrong_certificate_is_named_in_the_error_of_commit(cluster: FarCluster) -> None:
    good = {name: (cluster.tls / name).read_bytes() for name in ("daemon.crt", "daemon.key")}
    place = cluster.place
    assert place is not None
    other = cluster.tls / "other"
    other.mkdir(exist_ok=True)
    make_certificates(other, place.daemon_address)
    try:
        for name in good:
            (cluster.tls / name).write_bytes((other / name).read_bytes())
        restart_daemon(cluster)
        with raises(CONNECTION_FAILURE) as caught:
            execute(cluster.far, "INSERT INTO item VALUES (1, 'to somebody else')")
        assert "certificate verify failed" in (caught[0].diag.message_detail or "")
        assert "password" not in str(caught[0])
    finally:
        for name, content in good.items():
            (cluster.tls / name).write_bytes(content)
        restart_daemon(cluster)
    wait_until("a commit", lambda: _commits(cluster), WAIT_S)


def test_without_a_root_certificate_it_is_encrypted_at_least(cluster: FarCluster) -> None:
    config = {**cluster.sp_config("far"), "hook_root_certificate": "none"}
    cluster.stop("far", "daemon")
    daemons.start_daemon(cluster.state.directory, "far", daemons.SP_BINARY, config)
    try:
        wait_until("a commit", lambda: _commits(cluster), WAIT_S)
        log = (cluster.state.directory / "far" / "psp-semi-primary.log").read_text()
        assert "hook_root_certificate is none" in log
    finally:
        restart_daemon(cluster)


def test_no_password_is_in_any_log(cluster: FarCluster) -> None:
    """PostgreSQL logs each statement here, and the daemon all it can: also of the tests before this one."""
    far = cluster.far
    with raises(CONNECTION_FAILURE, OUTCOME_UNKNOWN) as caught:
        cluster.stop("far", "daemon")
        execute(far, "INSERT INTO item VALUES (1, 'nobody there')")
    cluster.start("far", "daemon")
    wait_until("a commit", lambda: _commits(cluster), WAIT_S)
    row = execute(as_admin(far), "SELECT token, psp.proof(token, 'login') FROM psp.identity")[0]
    logs = [
        caught[0].diag.message_detail or "",
        cluster.server("far").log.read_text(),
        *(log.read_text() for log in (cluster.state.directory / "far").glob("*.log")),
    ]
    assert "statement:" in logs[1] and "connection authorized" in logs[1]
    for log in logs:
        for secret in (*row, PASSWORD):
            assert secret not in log
