"""One throw-away PostgreSQL server for all tests here; a fresh pair of databases for each test."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.cluster.pgserver import PgServer, find_bin_dir
from psp.schema.adopt import Options, adopt
from psp.schema.primary import init_primary
from psycopg import sql

PORTS = range(5650, 5670)
APPLICATION = "application"  # an ordinary role: no superuser, owner of the tables that it creates
_numbers = itertools.count(1)


class Quiet:
    def say(self, text: str) -> None: ...
    def rows(self, table: str, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Pair:
    """An application's database and the primary's."""

    dsn: str
    primary_dsn: str
    server: PgServer

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, **more)

    def connect_as_application(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, user=APPLICATION, **more)

    def run(self, script: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(script.encode())

    def adopt(self, **more: Any) -> int:
        return adopt(self.dsn, self.primary_dsn, Options(name="one", **more), Quiet())

    def primary_rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.primary_dsn) as connection:
            return connection.execute(query.encode()).fetchall()

    def dump(self, *options: str) -> str:
        done = subprocess.run(
            [str(find_bin_dir() / "pg_dump"), *options, "-d", self.dsn],
            capture_output=True,
            text=True,
            check=True,
        )
        return "\n".join(line for line in done.stdout.splitlines() if "restrict " not in line)


def _free_port() -> int:
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError(f"no free port in {PORTS}")


@pytest.fixture(scope="session")
def server() -> Iterator[PgServer]:
    # Not pytest's own folder, which every other run of pytest closes to the server's account again.
    folder = Path(tempfile.mkdtemp(prefix="psp-sql-"))
    folder.chmod(0o755)
    settings = {"fsync": "off", "max_prepared_transactions": "5", "shared_buffers": "32MB"}
    found = PgServer(folder, _free_port(), Path("/tmp"), settings)
    found.create()
    found.start()
    found.create_role(APPLICATION)
    yield found
    found.stop("immediate")
    shutil.rmtree(folder)


@pytest.fixture
def pair(server: PgServer) -> Pair:
    number = next(_numbers)
    server.create_database(f"app{number}")
    server.create_database(f"primary{number}")
    primary_dsn = server.dsn(f"primary{number}")
    init_primary(primary_dsn)
    return Pair(server.dsn(f"app{number}"), primary_dsn, server)


def identifier(name: str) -> str:
    return sql.Identifier(name).as_string(None)
