"""A standby of a cluster's primary, or of a semi-primary: made, cut off, and put in its server's place."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psp import paths
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.servers.pgserver import PgServer, server_identity
from psp.servers.ports import PortAllocator
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S

EXECUTORS_THAT_WAIT: LiteralString = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
    "AND application_name LIKE 'psp-primary executor%'"
)


def at_primary(cluster: LocalCluster, statement: LiteralString) -> list[tuple[Any, ...]]:
    """As superuser, in the primary's database."""
    with psycopg.connect(cluster.primary_dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def set_list(cluster: LocalCluster, names: LiteralString) -> None:
    """synchronous_standby_names, without a restart."""
    at_primary(cluster, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    at_primary(cluster, "SELECT pg_reload_conf()")


class Standby:
    """Of the cluster's primary or a semi-primary, and the only one."""

    def __init__(self, cluster: LocalCluster, of: str = PRIMARY) -> None:
        self.cluster = cluster
        self._followed = cluster.server(of)
        primary = self._followed
        folder = cluster.state.directory / "standby"
        self.server = PgServer(
            folder, PortAllocator(taken=cluster.state.ports()).take(), primary.socket_dir, primary.settings
        )
        folder.mkdir()
        subprocess.run(["chown", f"--reference={primary.data_dir}", str(folder)], check=True)
        program = str(paths.postgres_program("pg_basebackup"))
        source = f"{primary.dsn('postgres')} application_name=standby"
        subprocess.run(
            [program, "-d", source, "-D", str(self.server.data_dir), "-c", "fast", "-R", "--no-sync"],
            check=True, cwd="/", **server_identity(),
        )  # fmt: skip
        self.server.write_settings()
        self.server.start()

    def promote(self) -> None:
        """Where it is; whether the server that it follows lives is the caller's matter."""
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    def make_synchronous(self) -> None:
        """The daemon, which must be stopped meanwhile, finds it so when it starts."""
        set_list(self.cluster, "standby")
        find: LiteralString = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until("the standby to be synchronous", lambda: at_primary(self.cluster, find), WAIT_S)

    def remove(self) -> None:
        """Also if it has taken the primary's place."""
        self.server.stop("immediate")
        shutil.rmtree(self.server.folder)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing more gets to it; the primary's PostgreSQL does not know."""
        find: LiteralString = "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'"
        with psycopg.connect(self._followed.dsn("postgres")) as connection:
            [(sender,)] = connection.execute(find).fetchall()
        os.kill(sender, signal.SIGSTOP)
        try:
            yield
        finally:
            self._wake(sender)

    @staticmethod
    def _wake(pid: int) -> None:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return  # the primary was stopped meanwhile

    def take_over(self) -> None:
        """The primary's server is lost; the standby is promoted, in its place and at its address."""
        primary = self.cluster.server(PRIMARY)
        self.cluster.kill(PRIMARY)
        primary.stop("immediate")
        self.promote()
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.server.stop()
        subprocess.run(["rm", "-r", str(primary.data_dir)], check=True)
        subprocess.run(["mv", str(self.server.data_dir), str(primary.data_dir)], check=True)
        primary.write_settings()
        self.cluster.start(PRIMARY)
