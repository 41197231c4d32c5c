"""One plain PostgreSQL at the hub, distant from all clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psp.cluster.configs import APP_ROLE
from psp.servers.pgserver import PgServer
from psycopg.conninfo import make_conninfo

from benchmarks.overhead import cpu
from benchmarks.peers.sites import HUB, Sites
from benchmarks.peers.system import DATABASE
from benchmarks.plain import DURABLE, copy_data
from benchmarks.tpcc import check
from benchmarks.tpcc.runner import Server

PORT = 5433  # psp's primary is at the hub, too
# All of psp-wan's places; who else could reach a server in a namespace is root here.
TRUST_ALL = "host all all 0.0.0.0/0 trust\n"


class Postgres:
    """The server, running."""

    def __init__(self, sites: Sites, server: PgServer) -> None:
        self._address = sites[HUB].address
        self._server = server

    @classmethod
    def copy_of(cls, source: PgServer, sites: Sites, folder: Path) -> "Postgres":
        """The data of a server that does not run."""
        place = folder / "postgres"
        server = PgServer(place, PORT, place, {**DURABLE, "listen_addresses": "*"})
        copy_data(source, server)
        with (server.data_dir / "pg_hba.conf").open("a") as rules:
            rules.write(TRUST_ALL)
        with sites.inside(HUB):
            server.start()
        return cls(sites, server)

    @property
    def dsn(self) -> str:
        """A superuser's connection, from anywhere on this machine."""
        return self._server.socket_dsn(DATABASE)

    def about(self) -> str:
        with psycopg.connect(self.dsn) as connection:
            return f"PostgreSQL {connection.info.parameter_status('server_version')}"

    def server(self, zone: str) -> Server:
        return make_conninfo("", host=self._address, port=PORT, dbname=DATABASE, user=APP_ROLE)

    def pids(self) -> Mapping[str, Sequence[int]]:
        return {"PostgreSQL": [cpu.running(self._server.pid())]}

    def settle(self) -> None:
        pass  # there is one server only

    def wrong(self) -> list[str]:
        return [
            f"PostgreSQL violates {c.condition}: {c.description}"
            for c in check.check(self.dsn)
            if not c.holds
        ]
