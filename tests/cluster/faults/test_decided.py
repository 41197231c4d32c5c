"""PostgreSQL fails between the decision and the commit record on its disk: the transaction is not lost."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.schema.native.capture import CaptureChoice, use
from psp.servers.pgserver import server_identity
from psp.waiting import wait_until

from tests.cluster.support import (
    APPLY_WORKER,
    OUTCOME_UNKNOWN,
    WAIT_S,
    adopted_pair,
    as_admin,
    connect,
    execute,
    raises,
    settle,
    tx_id_of,
    wait_for_row,
    waiting,
)

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"
OPTIONS = Options(pg_settings={"shared_buffers": "32MB"})


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], OPTIONS) as cluster:
        yield cluster


@pytest.fixture(params=["sql", "auto"])
def pair(shared_pair: LocalCluster, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """With each capture that there is; an empty table. Afterwards everything runs, and rows are the same."""
    wanted: CaptureChoice = request.param
    north = shared_pair.sps[0]
    with psycopg.connect(north.admin_dsn) as admin:
        use(admin, wanted)
    execute(north, "DELETE FROM item")
    proofs: LiteralString = "SELECT 1 FROM psp.applied"
    wait_until("proofs to be removed", lambda: not execute(as_admin(north), proofs), WAIT_S)
    yield shared_pair
    settle(shared_pair)


def fill_disk(pid: int) -> None:
    """No file of this process can be written any more."""
    subprocess.run(["prlimit", f"--pid={pid}", "--fsize=0:"], check=True, **server_identity())


def answers(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def takes_connections(sp: SpNode) -> bool:
    try:
        connect(sp).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def crash(sp: SpNode) -> Iterator[None]:
    """Of a backend: PostgreSQL ends all other sessions and starts again by itself."""
    with connect(sp, autocommit=True) as other:
        yield
        wait_until("the other session to end", lambda: not answers(other), WAIT_S)
    wait_until("PostgreSQL to start again", lambda: takes_connections(sp), WAIT_S)


def commits(sp: SpNode) -> bool:
    """Whether a row is committed on a full disk: another process may have written the commit record."""
    with connect(sp) as connection:
        connection.execute("SET synchronous_commit = on; UPDATE item SET note = 'kept'")
        fill_disk(connection.info.backend_pid)
        try:
            connection.commit()
        except (psycopg.InternalError, psycopg.errors.TransactionResolutionUnknown):  # PostgreSQL's PANIC
            return False
    return True


def assert_kept(pair: LocalCluster) -> None:
    settle(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT note FROM item") == [("kept",)]


def test_it_is_killed(pair: LocalCluster) -> None:
    north = pair.sps[0]
    errors: list[psycopg.Error] = []

    def commit() -> None:
        try:
            execute(north, "INSERT INTO item VALUES (1, 'kept')")
        except psycopg.Error as error:
            errors.append(error)

    committer = threading.Thread(target=commit)
    with crash(north), connect(as_admin(north), autocommit=True) as holder:
        # It is decided and cannot write its proof; the apply worker waits for it.
        holder.execute("BEGIN; LOCK TABLE psp.applied IN SHARE MODE")
        committer.start()
        wait_until("the apply worker to wait", lambda: waiting(north, APPLY_WORKER, "advisory"), WAIT_S)
        ((pid,),) = holder.execute(
            "SELECT pid FROM pg_locks WHERE relation = 'psp.applied'::regclass AND NOT granted"
        ).fetchall()
        os.kill(pid, signal.SIGKILL)
        committer.join(WAIT_S)
        wait_until("the session to end", lambda: not answers(holder), WAIT_S)
    assert len(errors) == 1
    assert_kept(pair)


def test_the_disk_is_full_at_the_commit_record(pair: LocalCluster) -> None:
    north = pair.sps[0]
    execute(north, "INSERT INTO item VALUES (1, 'older')")  # psp.applied has a page now
    with crash(north):
        while commits(north):
            pass
    assert_kept(pair)


def test_the_disk_is_full_at_the_proof(pair: LocalCluster) -> None:
    """psp.applied has no page for its row."""
    north = pair.sps[0]
    with connect(as_admin(north), autocommit=True) as admin, connect(north) as connection:

        def is_empty() -> bool:
            admin.execute("VACUUM psp.applied")
            return admin.execute("SELECT pg_relation_size('psp.applied')").fetchall() == [(0,)]

        wait_until("psp.applied to have no page", is_empty, WAIT_S)
        connection.execute("INSERT INTO item VALUES (1, 'kept')")
        fill_disk(connection.info.backend_pid)
        with raises(OUTCOME_UNKNOWN) as errors:
            connection.commit()
    assert "could not extend file" in str(errors[0])
    assert wait_for_row(north, "SELECT psp.outcome(%s)", (tx_id_of(errors[0]),)) == ("committed",)
    assert_kept(pair)
