"""A primary that lost transactions: restored from an older copy of its folder, or promoted too early."""

import subprocess
from pathlib import Path
from typing import LiteralString

import psycopg
from psp import paths
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.schema.loss import accept_loss
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until

from tests.cluster.faults.following import follows, last_error
from tests.cluster.support import (
    CONNECTION_FAILURE,
    SCHEMA,
    WAIT_S,
    adopted_pair,
    execute,
    raises,
    retry,
    wait_for_row,
)
from tests.threads import running

ADD: LiteralString = "INSERT INTO account VALUES (%s, %s)"
OWNERS: LiteralString = "SELECT DISTINCT owner FROM account ORDER BY owner"


def copy_folder(source: Path, target: Path) -> None:
    """With owners and rights."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def back_up(server: PgServer, target: Path) -> None:
    """A copy of a server that runs, as of now."""
    program = str(paths.postgres_program("pg_basebackup"))
    subprocess.run(
        [program, "-d", server.socket_dsn("postgres"), "-D", str(target), "-c", "fast", "--no-sync"],
        check=True,
    )
    subprocess.run(["chown", "-R", f"--reference={server.data_dir}", str(target)], check=True)


def restore(server: PgServer, copy: Path) -> None:
    """Into the place of the server's own folder; it must be stopped."""
    subprocess.run(["rm", "-r", str(server.data_dir)], check=True)
    copy_folder(copy, server.data_dir)


def write(sp: SpNode, key: int, owner: str) -> None:
    """As soon as the SP's daemon has found the primary."""
    retry(lambda: execute(sp, ADD, (key, owner)), (CONNECTION_FAILURE,))


def accept(cluster: LocalCluster, name: str) -> None:
    """The SP waits for the primary that it has followed, until somebody says that this one is lost."""
    sp = cluster.sp(name)
    if not cluster.is_running(name, "daemon"):
        cluster.start(name, "daemon")
    wait_until(f"{name} to wait", lambda: "accept-loss" in last_error(sp), WAIT_S)
    assert cluster.is_running(name, "daemon")
    cluster.stop(name, "daemon")
    accept_loss(sp.admin_dsn)
    cluster.start(name, "daemon")


def await_refusal(cluster: LocalCluster, name: str) -> None:
    """The SP's daemon ends, and its status says what to do."""
    sp = cluster.sp(name)
    wait_until(f"{name} to be refused", lambda: not cluster.is_running(name, "daemon"), WAIT_S)
    assert "join again" in last_error(sp)


def test_who_has_lost_transactions_is_not_let_in_again(tmp_path: Path) -> None:
    """Also not when new transactions have their numbers; an SP that has none of them continues."""
    with adopted_pair([SCHEMA.read_text()]) as cluster:
        north, south = cluster.sps
        write(north, 0, "kept")
        wait_for_row(south, "SELECT 1 FROM account WHERE id = 0")
        cluster.stop(PRIMARY)
        copy_folder(cluster.server(PRIMARY).data_dir, tmp_path / "backup")
        cluster.start(PRIMARY)
        # Both have noted the last start, which the backup lacks.
        newest = cluster.primary_dsn
        wait_until("it to be followed", lambda: follows(north, newest) and follows(south, newest), WAIT_S)
        cluster.stop("south", "daemon")
        for n in range(1, 4):
            write(north, n, "lost")

        cluster.stop(PRIMARY)
        restore(cluster.server(PRIMARY), tmp_path / "backup")
        with running(lambda: cluster.start(PRIMARY)):  # it hears that both have followed a newer one
            accept(cluster, "north")
            accept(cluster, "south")
        await_refusal(cluster, "north")
        for n in range(1, 7):
            write(south, n, "filled")

        cluster.start("north", "daemon")
        await_refusal(cluster, "north")
        assert execute(north, OWNERS) == [("kept",), ("lost",)]
        with raises(CONNECTION_FAILURE):
            execute(north, ADD, (9, "of another history"))
        assert execute(south, OWNERS) == [("filled",), ("kept",)]


def test_a_copy_that_has_a_number_and_lacks_a_smaller_one(tmp_path: Path) -> None:
    """North has the missing one and is refused. South has committed the other one, and that is there."""
    with adopted_pair([SCHEMA.read_text()]) as cluster:
        north, south = cluster.sps
        primary = cluster.server(PRIMARY)
        write(north, 0, "kept")
        wait_for_row(south, "SELECT 1 FROM account WHERE id = 0")
        update: LiteralString = "UPDATE account SET owner = 'lost' WHERE id = 0"
        with psycopg.connect(cluster.primary_dsn) as session, psycopg.connect(cluster.primary_dsn) as watch:
            watch.autocommit = True
            session.execute("SELECT FROM psp.data FOR UPDATE")  # the batch that is decided first waits here
            with running(lambda: execute(north, update)):
                waits: LiteralString = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                wait_until("a batch to wait", lambda: watch.execute(waits).fetchall(), WAIT_S)
                write(south, 1, "kept")
                back_up(primary, tmp_path / "backup")
                cluster.kill("south")
                session.rollback()

        cluster.stop(PRIMARY)
        restore(primary, tmp_path / "backup")
        with running(lambda: cluster.start(PRIMARY)):
            accept(cluster, "north")
        await_refusal(cluster, "north")
        assert execute(north, OWNERS) == [("kept",), ("lost",)]
        cluster.start("south", "daemon")
        write(south, 2, "kept")
        assert execute(south, OWNERS) == [("kept",)]
