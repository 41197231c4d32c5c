"""Three nodes with the primary, three semi-primaries; made by the steps of deploy/patroni/README.md."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
from psp.cluster import daemons, growth, verify
from psp.cluster.configs import APP_ROLE, PRIMARY_DATABASE, SP_ROLE
from psp.cluster.local import SpNode
from psp.primary.database import init_primary, set_copies
from psp.schema.adopt import adopt_database
from psp.schema.join import prepare_join
from psp.servers import processes
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.ports import PortAllocator
from psp.servers.temporary import TemporaryFolder
from psp.waiting import wait_until

from tests.failover.nodes import Node, Ports
from tests.failover.programs import FETCHED, Programs

NODES = ("db1", "db2", "db3")
SPS = ("lisbon", "paris", "tokyo")
DATABASE = "shop"
LOGS = FETCHED / "logs"
WHOLE_S, DRAINED_S = 300, 120
STANDBYS: LiteralString = """
    SELECT application_name, sync_state FROM pg_stat_replication
     WHERE state = 'streaming' AND application_name = ANY ('{db1,db2,db3}')
"""
PATIENT = {"commit_timeout_ms": 60_000, "disconnected_grace_ms": 60_000}
"""COMMITs wait for a new leader; at the first semi-primary, with the defaults, they get errors."""
SP_SETTINGS = {"shared_buffers": "64MB", "synchronous_commit": "off"}


class Group:
    """One thread at a time may use it."""

    def __init__(self, folder: Path) -> None:
        give_to_server(folder)
        self.folder = folder
        programs, ports = Programs.copied_to(folder / "programs"), PortAllocator()
        places = {name: Ports.taken_from(ports) for name in NODES}
        self.nodes = [Node(name, folder / name, programs, places) for name in NODES]
        self._servers = {n: PgServer(folder / n, ports.take(), folder, SP_SETTINGS) for n in SPS}
        self._hooks = {name: ports.take() for name in SPS}
        self.sps = [
            SpNode(name, name, 0.0, server.dsn(DATABASE, APP_ROLE), server.dsn(DATABASE))
            for name, server in self._servers.items()
        ]

    # ---- made ------------------------------------------------------------------------------------

    def make(self, schema: Path) -> None:
        """Returns when all semi-primaries take commits."""
        for node in self.nodes:
            node.start_etcd()
        for node in self.nodes:
            node.start_patroni()
        leader = wait_until("a leader and its standbys", self.leader, WHOLE_S)
        leader.server.create_database(PRIMARY_DATABASE)
        init_primary(leader.dsn)
        set_copies(leader.dsn, 1)
        for node in self.nodes:
            node.start_daemon()
        wait_until(f"psp-primary at {leader.name}", lambda: leader.serves, WHOLE_S)
        first, *others = self.sps
        for sp in self.sps:
            self._make_server(sp.name)
        with psycopg.connect(first.dsn, autocommit=True) as connection:
            connection.execute(schema.read_bytes())
        adopt_database(first.admin_dsn, leader.dsn, name=first.name, zone=first.zone)
        self._start_sp(first)
        for sp in others:
            prepare_join(sp.admin_dsn, leader.dsn, name=sp.name, zone=sp.zone)
            self._start_sp(sp)

    def _make_server(self, name: str) -> None:
        server = self._servers[name]
        server.create()
        server.start()
        server.create_role(APP_ROLE)
        server.create_database(DATABASE, owner=APP_ROLE)

    def _start_sp(self, sp: SpNode) -> None:
        config: dict[str, object] = {
            "name": sp.name,
            "database": self._servers[sp.name].socket_dsn(DATABASE, SP_ROLE),
            "primary": ",".join(node.address for node in self.nodes),
            "hook_listen": f"unix:{self.folder}/.s.PGSQL.{self._hooks[sp.name]}",
            **({} if sp is self.sps[0] else PATIENT),
        }
        daemons.start_daemon(self.folder, sp.name, daemons.SP_BINARY, config)
        growth.wait_joined(sp)

    def end(self) -> None:
        """Nothing of it runs afterwards."""
        for sp in self.sps:
            processes.end(daemons.daemon_name(self.folder, sp.name), force=True)
            self._servers[sp.name].stop("immediate")
        for node in self.nodes:
            node.go_on()
            node.kill_all()

    def keep_logs(self, folder: Path) -> None:
        """Of all programs, as NODE-PROGRAM.log, in place of those of an earlier run."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for log in self.folder.glob("*/*.log"):
            shutil.copy(log, folder / f"{log.parent.name}-{log.name}")

    # ---- what is so --------------------------------------------------------------------------------

    def leads(self) -> Node | None:
        """The leader, as its own Patroni says."""
        for node in self.nodes:
            if any(m["role"] == "leader" and m["state"] == "running" and m["name"] == node.name
                   for m in node.members()):  # fmt: skip
                return node
        return None

    def standbys(self, leader: Node) -> dict[str, str]:
        """Those that stream, each with its sync_state."""
        try:
            with psycopg.connect(leader.server.dsn("postgres"), connect_timeout=5) as connection:
                return dict(connection.execute(STANDBYS).fetchall())
        except psycopg.OperationalError:  # it has just ended
            return {}

    def leader(self) -> Node | None:
        """The one with a synchronous standby and a further one; None as long as anything is missing."""
        leader = self.leads()
        found = sorted(self.standbys(leader).values()) if leader is not None else []
        return leader if found == ["async", "sync"] else None

    def synchronous_standby(self, leader: Node) -> Node:
        standbys = self.standbys(leader)
        return next(node for node in self.nodes if standbys.get(node.name) == "sync")

    def new_leader(self, old: Node) -> Node | None:
        """Another one than `old`, which its psp-primary serves."""
        leader = self.leads()
        return leader if leader is not None and leader is not old and leader.serves else None

    def ended_sps(self) -> list[str]:
        """Nobody starts their daemons again: they have to go on by themselves."""
        return [
            sp.name for sp in self.sps if processes.find(daemons.daemon_name(self.folder, sp.name)) is None
        ]

    def bring_back(self) -> Node:
        """Starts what does not run; returns the leader when all is whole."""
        for node in self.nodes:
            node.start()

        def whole() -> Node | None:
            leader = self.leader()
            return leader if leader is not None and leader.serves and self._all_stream() else None

        return wait_until("the group to be whole", whole, WHOLE_S, 0.2)

    def _all_stream(self) -> bool:
        for sp in self.sps:
            with psycopg.connect(sp.dsn, autocommit=True) as connection:
                if connection.execute("SELECT state FROM psp.status").fetchone() != ("streaming",):
                    return False
        return True

    def verify(self, leader: Node) -> verify.Verification:
        """All rows of the semi-primaries and the primary; nobody writes meanwhile."""
        return verify.verify_servers(leader.dsn, {sp.name: sp.admin_dsn for sp in self.sps}, DRAINED_S)


@contextmanager
def group(schema: Path) -> Iterator[Group]:
    """A new one, in a folder of its own; nothing is left of it."""
    with TemporaryFolder() as folder:
        made = Group(folder.path)
        try:
            made.make(schema)
            yield made
        finally:
            made.end()
            made.keep_logs(LOGS)
