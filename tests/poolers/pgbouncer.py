"""A pgbouncer in front of a semi-primary. `make test-poolers` fetches the program."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg
from psp import paths
from psp.cluster.local import SpNode
from psp.servers.pgserver import give_to_server, server_identity
from psp.servers.ports import PortAllocator
from psp.waiting import wait_until
from psycopg.conninfo import conninfo_to_dict, make_conninfo

POOL_SIZE = 3
PoolMode = Literal["session", "transaction", "statement"]


@contextmanager
def pgbouncer(sp: SpNode, mode: PoolMode) -> Iterator[SpNode]:
    """The SP behind it, for tests.cluster.support: few sessions for many clients."""
    server = conninfo_to_dict(sp.dsn)
    port = PortAllocator().take()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        users = folder / "users.txt"
        users.write_text(f'"{server["user"]}" ""\n')
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n"
            f"{server['dbname']} = host=127.0.0.1 port={server['port']}\n"
            f"[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\n"
            f"pool_mode = {mode}\ndefault_pool_size = {POOL_SIZE}\nmax_client_conn = 100\n"
        )
        for path in (folder, users, config):
            give_to_server(path)
        process = _start(config)
        try:
            dsn = make_conninfo("", **{**server, "host": "127.0.0.1", "port": port})
            node = SpNode(sp.name, sp.zone, sp.rtt_ms, dsn, sp.admin_dsn)
            wait_until("pgbouncer", lambda: process.poll() is not None or _answers(dsn), 30)
            assert process.poll() is None
            yield node
        finally:
            process.kill()
            process.wait()


def _start(config: Path) -> subprocess.Popen[bytes]:
    fetched = paths.binary("psp-semi-primary").parents[1] / "pgbouncer"
    (library,) = {path.parent for path in fetched.rglob("libcares.so.2")}
    return subprocess.Popen(
        [str(fetched / "usr/sbin/pgbouncer"), "-q", str(config)],
        env={**os.environ, "LD_LIBRARY_PATH": str(library)},
        **server_identity(),  # it does not run as root
    )


def _answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn, connect_timeout=2, autocommit=True) as connection:
            return connection.execute("SELECT true").fetchone() == (True,)
    except psycopg.OperationalError:
        return False
