"""psp: its primary at the hub, a semi-primary in each zone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psp.cluster import daemons, growth
from psp.cluster.configs import APP_ROLE, PRIMARY_DATABASE, PRIMARY_ROLE, SP_ROLE
from psp.cluster.local import SYNCHRONOUS_COMMIT, SpNode
from psp.cluster.verify import verify_servers, wait_servers_drained
from psp.primary.database import init_primary
from psp.schema.adopt import adopt_database
from psp.schema.join import prepare_join
from psp.servers import processes
from psp.servers.pgserver import PgServer

from benchmarks.capture import captured_by
from benchmarks.overhead import cpu
from benchmarks.peers.sites import HUB, Site, Sites
from benchmarks.peers.system import DATABASE
from benchmarks.tpcc import check
from benchmarks.tpcc.runner import Server

PG_PORT = 5432
PRIMARY_PORT = 5610
HOOK_PORT = 5640  # a part of the socket's name
SETTLE_TIMEOUT_S = 120


class SemiPrimaries:
    """The servers, at first without psp: the first zone's database can be loaded. `adopt` does the rest."""

    def __init__(self, sites: Sites, zones: Sequence[Site], folder: Path) -> None:
        self._sites = sites
        self._zones = zones
        self._folder = folder
        self._servers = {zone.name: _server(folder, zone.name, "sp") for zone in zones}
        self._primary = _server(folder, HUB, "primary")
        for name, server in [(HUB, self._primary), *self._servers.items()]:
            server.create()
            with sites.inside(name):
                server.start()
                if server is self._primary:
                    server.create_database(PRIMARY_DATABASE)
                else:
                    server.create_role(APP_ROLE)
                    server.create_database(DATABASE, owner=APP_ROLE)

    @property
    def first(self) -> PgServer:
        """The server whose database is loaded and adopted."""
        return self._servers[self._zones[0].name]

    @property
    def loading_dsn(self) -> str:
        """The application's connection to it, from anywhere on this machine."""
        return self.first.socket_dsn(DATABASE, APP_ROLE)

    def start_first(self) -> None:
        """Starts it again after it was stopped."""
        with self._sites.inside(self._zones[0].name):
            self.first.start()

    def adopt(self) -> None:
        """Puts the first zone's database under psp; the others get their rows over the lines."""
        init_primary(self._primary_dsn)
        self._start_daemon(HUB, daemons.PRIMARY_BINARY, {
            "database": self._primary.socket_dsn(PRIMARY_DATABASE, PRIMARY_ROLE),
            "listen": self._endpoint,
        })  # fmt: skip
        first, *others = (self._node(zone) for zone in self._zones)
        adopt_database(first.admin_dsn, self._primary_dsn, name=first.name, zone=first.zone)
        self._start_sp(first)
        for sp in others:
            prepare_join(sp.admin_dsn, self._primary_dsn, name=sp.name, zone=sp.zone)
            self._start_sp(sp)
            growth.wait_joined(sp)
        growth.wait_joined(first)
        self._vacuum()

    def _vacuum(self) -> None:
        """What copied rows would leave to autovacuum does not belong to the load that is measured."""
        for dsn in (self._primary_dsn, *self._sp_dsns.values()):
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("VACUUM (FREEZE, ANALYZE)")

    def _start_sp(self, sp: SpNode) -> None:
        self._start_daemon(sp.name, daemons.SP_BINARY, {
            "name": sp.name,
            "database": self._servers[sp.name].socket_dsn(DATABASE, SP_ROLE),
            "primary": self._endpoint,
            "hook_listen": f"unix:{self._folder / sp.name}/.s.PGSQL.{HOOK_PORT}",
        })  # fmt: skip

    def _start_daemon(self, name: str, binary: str, options: Mapping[str, object]) -> None:
        with self._sites.inside(name):
            daemons.start_daemon(self._folder, name, binary, options)

    def about(self) -> str:
        with psycopg.connect(self.first.socket_dsn(DATABASE)) as connection:
            row = connection.execute("SELECT current_setting('server_version')").fetchone()
        assert row is not None
        return f"rows captured by {captured_by(self.first.socket_dsn(DATABASE))}, PostgreSQL {row[0]}"

    def server(self, zone: str) -> Server:
        return self._servers[zone].dsn(DATABASE, APP_ROLE)

    def pids(self) -> Mapping[str, Sequence[int]]:
        return {
            "primary's PostgreSQL": [cpu.running(self._primary.pid())],
            "primary's daemon": [self._daemon_pid(HUB)],
            "semi-primaries' PostgreSQL": [cpu.running(server.pid()) for server in self._servers.values()],
            "semi-primaries' daemons": [self._daemon_pid(zone) for zone in self._servers],
        }

    def _daemon_pid(self, name: str) -> int:
        return cpu.running(processes.find(daemons.daemon_name(self._folder, name)))

    def settle(self) -> None:
        wait_servers_drained(self._primary_dsn, self._sp_dsns, SETTLE_TIMEOUT_S)

    def wrong(self) -> list[str]:
        verification = verify_servers(self._primary_dsn, self._sp_dsns, SETTLE_TIMEOUT_S)
        found = [f"psp: the rows of {table} differ" for table in verification.differing()]
        if not verification.consistent and not found:
            found.append("psp: the streams did not come to rest, or schemas differ")
        for zone, dsn in self._sp_dsns.items():
            found += [
                f"psp in {zone} violates {c.condition}: {c.description}"
                for c in check.check(dsn)
                if not c.holds
            ]
        return found

    @property
    def _endpoint(self) -> str:
        return f"tcp://{self._sites[HUB].address}:{PRIMARY_PORT}"

    @property
    def _primary_dsn(self) -> str:
        return self._primary.socket_dsn(PRIMARY_DATABASE)

    @property
    def _sp_dsns(self) -> Mapping[str, str]:
        return {zone: server.socket_dsn(DATABASE) for zone, server in self._servers.items()}

    def _node(self, zone: Site) -> SpNode:
        server = self._servers[zone.name]
        dsn = server.socket_dsn(DATABASE, APP_ROLE)
        return SpNode(zone.name, zone.name, zone.rtt_ms, dsn, server.socket_dsn(DATABASE))


def _server(folder: Path, name: str, role: str) -> PgServer:
    """Its sockets are in its own folder: they are reached from every place, its port only from its own."""
    return PgServer(folder / name, PG_PORT, folder / name, {"synchronous_commit": SYNCHRONOUS_COMMIT[role]})
