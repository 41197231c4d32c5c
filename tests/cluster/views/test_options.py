"""Views mode: each option of the daemon makes the difference that it promises, from the file and on the
command line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from uuid import UUID

import psp_client
import psycopg
import pytest
import zmq
from psp import paths
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.servers import processes
from psp.waiting import wait_until
from psp_client._messages import Kind, Status, read_reply, request

from tests.cluster.support import (
    APPLY_WORKER,
    LOCAL_WORKER,
    as_admin,
    connect,
    execute,
    paused,
    wait_for_row,
    wait_streaming,
    waiting,
)
from tests.cluster.wire import ask, ask_until_final, commits, socket, stock, written

Options = dict[str, object]

ITEMS = count(301)  # each test takes new ones
HOUR_MS = 3_600_000

# No transaction is ended for being in the way: the tests hold the daemon's steps up by row locks.
PATIENT: Options = {"conflict_grace_ms": HOUR_MS}
OFF: Options = {
    "local_certification": False,
    "wait_for_apply": False,
    "lworkers": 3,
    "gc_interval_ms": HOUR_MS,
}
ON: Options = {"local_certification": True, "wait_for_apply": True, "lworkers": 1, "gc_interval_ms": 20}


@dataclass(frozen=True)
class Daemon:
    """North's daemon, with options in its file and others over them on its command line."""

    cluster: LocalCluster
    in_file: Options
    as_arguments: Options

    @property
    def sp(self) -> SpNode:
        return self.cluster.sp("north")

    @property
    def options(self) -> Options:
        return {**self.in_file, **self.as_arguments}

    def start(self) -> None:
        """Stops the one that runs."""
        name, folder = self.sp.name, self.cluster.state.directory / self.sp.name
        self.cluster.stop(name, "daemon")
        config = folder / "options.yaml"
        daemons.write_config(config, {**self.cluster.sp_config(name), **self.in_file})
        command = [str(paths.binary(daemons.SP_BINARY)), "--config", str(config)]
        for key, value in self.as_arguments.items():
            command += [f"--{key}", str(value).lower()]
        processes.start(daemons.daemon_name(self.cluster.state.directory, name), command, folder / "log", 30)


@contextmanager
def started(cluster: LocalCluster, in_file: Options, as_arguments: Options) -> Iterator[Daemon]:
    """Commits are taken when it begins. Afterwards the daemon is the cluster's own again."""
    daemon = Daemon(cluster, in_file, as_arguments)
    daemon.start()
    try:
        wait_until("a commit", partial(commits, daemon.sp), 60)
        yield daemon
    finally:
        cluster.stop(daemon.sp.name, "daemon")
        cluster.start(daemon.sp.name)
        wait_until("a commit", partial(commits, daemon.sp), 60)


@pytest.fixture(scope="module", params=["in the file", "on the command line"])
def daemon(shared_views_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """Everything off, by the file; everything on, by the command line over the same file."""
    arguments = ON if request.param == "on the command line" else {}
    with started(shared_views_cluster, {**PATIENT, **OFF}, arguments) as found:
        yield found


@contextmanager
def locked(sp: SpNode, *items: int) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Nothing that writes to the items can be applied before the block ends, or the connection's rollback."""
    with connect(as_admin(sp)) as connection:
        connection.execute("SELECT FROM item_persistent WHERE id = ANY (%s) FOR UPDATE", (list(items),))
        yield connection
        connection.rollback()


def is_known_to_primary(cluster: LocalCluster, tx_id: UUID) -> bool:
    with psycopg.connect(cluster.primary_dsn) as connection:
        return bool(connection.execute("SELECT FROM psp.tx_log WHERE tx_id = %s", (tx_id,)).fetchall())


def sell_at_south(cluster: LocalCluster, item: int) -> None:
    with psp_client.connect(cluster.sp("south").dsn) as south:
        south.run(lambda run: run.execute("UPDATE item SET stock = 50 WHERE id = %s", (item,)))


def test_local_certification(daemon: Daemon) -> None:
    """What has arrived and is not applied yet is a conflict: found here, or at the primary alone."""
    item = next(ITEMS)
    tx_id = written(daemon.sp, item)
    with locked(daemon.sp, item):
        sell_at_south(daemon.cluster, item)
        wait_until("the winner to arrive", lambda: waiting(daemon.sp, APPLY_WORKER), 60)
        reply = ask(daemon.sp, Kind.COMMIT, tx_id)
    assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40001")
    assert is_known_to_primary(daemon.cluster, tx_id) is not daemon.options["local_certification"]


def test_wait_for_apply(daemon: Daemon) -> None:
    """COMMITTED is told when it can be read here, or as soon as the primary has decided."""
    item = next(ITEMS)
    tx_id = written(daemon.sp, item)
    with socket(daemon.sp) as client, locked(daemon.sp, item) as lock:
        client.send(request(1, Kind.COMMIT, tx_id))
        wait_until("the worker to apply", lambda: waiting(daemon.sp, LOCAL_WORKER), 60)
        if daemon.options["wait_for_apply"]:
            assert is_known_to_primary(daemon.cluster, tx_id)
            assert client.poll(0) == 0
            lock.rollback()
        else:
            assert client.poll(60_000) == zmq.POLLIN
            assert stock(daemon.sp, item) == 100
        reply = read_reply(client.recv())
        assert reply is not None
        assert reply.status == Status.COMMITTED
        assert daemon.options["wait_for_apply"] is (stock(daemon.sp, item) == 99)
    wait_for_row(daemon.sp, "SELECT 1 FROM item WHERE id = %s AND stock = 99", (item,))


def test_lworkers(daemon: Daemon) -> None:
    """So many transactions can be in work at once; the others wait for their turn."""
    items = [next(ITEMS) for _ in range(5)]
    transactions = [written(daemon.sp, item) for item in items]
    workers = daemon.options["lworkers"]
    with socket(daemon.sp) as client:
        with locked(daemon.sp, *items):
            for number, tx_id in enumerate(transactions):
                client.send(request(number, Kind.COMMIT, tx_id))
            wait_until(f"{workers} workers", lambda: waiting(daemon.sp, LOCAL_WORKER) == workers, 60)
        wait_until("all of them", lambda: all(stock(daemon.sp, item) == 99 for item in items), 60)
    rows = execute(
        as_admin(daemon.sp),
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'psp local worker%'",
    )
    assert len(rows) == workers


def test_gc_interval(daemon: Daemon) -> None:
    """Temporary rows of a finished transaction go in the next round, which comes soon, or in an hour."""
    item = next(ITEMS)
    admin = as_admin(daemon.sp)
    assert ask(daemon.sp, Kind.COMMIT, written(daemon.sp, item)).status == Status.COMMITTED
    if daemon.options["gc_interval_ms"] == HOUR_MS:
        assert execute(admin, "SELECT 1 FROM item_temp WHERE id = %s", (item,))
    else:
        wait_for_row(admin, "SELECT 1 WHERE NOT EXISTS (SELECT FROM item_temp WHERE id = %s)", (item,))


def test_a_conflict_is_one_also_after_a_crash(views_cluster: LocalCluster) -> None:
    """What the primary's log tells of a pending transaction is what its client was told before."""
    item = next(ITEMS)
    with started(views_cluster, {"local_certification": False}, {}) as daemon:
        tx_id = written(daemon.sp, item)
        sell_at_south(views_cluster, item)
        before = ask(daemon.sp, Kind.COMMIT, tx_id)
        assert (before.status, before.sqlstate) == (Status.ABORTED, "40001")
        views_cluster.kill(daemon.sp.name)
        execute(  # as a crash may leave it: COMMIT does not wait for the disk
            as_admin(daemon.sp),
            "UPDATE psp.transactions SET status = 'waiting', sqlstate = NULL, reason = NULL, detail = NULL, "
            "hint = NULL WHERE tx_id = %s",
            (tx_id,),
        )
        views_cluster.start(daemon.sp.name)
        after = ask_until_final(daemon.sp, tx_id)
    assert (after.status, after.sqlstate, after.detail) == (Status.ABORTED, "40001", before.detail)


def test_running_timeout(views_cluster: LocalCluster) -> None:
    """A transaction whose commit is not requested in time is aborted."""
    with started(views_cluster, {}, {"running_timeout_ms": 1}) as daemon:
        tx_id = written(daemon.sp, next(ITEMS))
        wait_for_row(daemon.sp, "SELECT 1 WHERE psp.outcome(%s) = 'aborted'", (tx_id,))


def test_heartbeat_timeout(views_cluster: LocalCluster) -> None:
    """A silent primary is waited for, or taken to be lost: then nothing is sent, and the abort is final."""
    impatient = {"commit_timeout_ms": 500, "disconnected_grace_ms": 100}
    for heartbeat_timeout_ms, expected in (
        (HOUR_MS, (Status.FAILED, "08007")),
        (1500, (Status.ABORTED, "08006")),
    ):
        options: Options = {**impatient, "heartbeat_timeout_ms": heartbeat_timeout_ms}
        with started(views_cluster, options, {}) as daemon:
            tx_id = written(daemon.sp, next(ITEMS))
            wait_streaming(views_cluster)
            assert execute(daemon.sp, "SELECT psp.can_commit()") == [(True,)]
            with paused(views_cluster, PRIMARY):
                if expected[1] == "08006":
                    wait_for_row(daemon.sp, "SELECT 1 FROM psp.status WHERE state = 'disconnected'")
                    assert execute(daemon.sp, "SELECT psp.can_commit()") == [(False,)]
                reply = ask(daemon.sp, Kind.COMMIT, tx_id)
            assert (reply.status, reply.sqlstate) == expected
