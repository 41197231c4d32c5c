"""A local cluster as an object: what `psp cluster`, the tests, the demo and the benchmarks stand on.

    with LocalCluster.temporary([Zone("near"), Zone("far", rtt_ms=90)]) as cluster:
        cluster.adopt(schema_file)
        psycopg.connect(cluster.sps[0].dsn)

One thread at a time may use an object. Everything raises PspError with the log's end if a process fails.
"""

import dataclasses
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psycopg
from psycopg import sql

from psp.cluster import configs, daemons, state
from psp.cluster.configs import APP_ROLE, PRIMARY, PRIMARY_DATABASE
from psp.cluster.state import ClusterState, NodeState
from psp.output import PspError
from psp.paths import client_program, server_version
from psp.primary.database import init_primary
from psp.schema.model import Mode
from psp.servers import folders, processes
from psp.servers.pgserver import (
    PgServer,
    StopMode,
    give_to_server,
)
from psp.servers.ports import PortAllocator
from psp.servers.temporary import TemporaryFolder, remove_tree

# Every commit of the primary is on its disk; SPs may forget what the primary has.
SYNCHRONOUS_COMMIT = {"primary": "on", "sp": "off"}

Part = Literal["daemon", "postgres", "relay"]
Report = Callable[[str], None]


def _silent(_message: str) -> None:
    pass


@dataclass(frozen=True)
class Zone:
    """An SP's name, its round trip to the primary, its zone's name if that is another one, and the major
    version of its PostgreSQL if it is not that of the programs which are found first.
    """

    name: str
    rtt_ms: float = 0.0
    zone_name: str = ""
    postgres: int = 0


@dataclass(frozen=True)
class SpNode:
    """A semi-primary as others see it."""

    name: str
    zone: str
    rtt_ms: float
    dsn: str  # an application's connection, as an ordinary role
    admin_dsn: str  # a superuser's


@dataclass(frozen=True)
class Options:
    """How a cluster is made. Ports are found at run time, from `port_base` on if it is given."""

    name: str = "demo"
    directory: Path | None = None
    database: str = "app"
    port_base: int | None = None
    relay: bool = True
    relay_mbit: int = 0
    pg_settings: Mapping[str, str] = field(default_factory=dict)
    primary_options: Mapping[str, object] = field(default_factory=dict)
    sp_options: Mapping[str, object] = field(default_factory=dict)
    mode: Mode = "native"
    primary_postgres: int = 0  # as Zone.postgres


class LocalCluster:
    """One cluster on this machine. Make one with `create` or `temporary`, find one with `open`."""

    def __init__(self, cluster_state: ClusterState, report: Report = _silent) -> None:
        self.state = cluster_state
        self.report = report
        self._temporary: TemporaryFolder | None = None

    # ---- made, found, removed -------------------------------------------------------------------

    @classmethod
    def create(cls, zones: Sequence[Zone], options: Options | None = None, report: Report = _silent) -> Self:
        """Makes and starts the servers and the primary's daemon; the SPs' databases are empty and plain.

        If anything fails, or is interrupted, everything is taken away again.
        """
        options = options or Options()
        _check_names([zone.name for zone in zones])
        directory = (options.directory or state.default_directory(options.name)).resolve()
        cls._remove_remains(directory)
        ports = PortAllocator(options.port_base)
        folders.make_reachable(directory)
        cluster = cls(
            ClusterState(
                name=options.name,
                directory=directory,
                socket_dir=folders.make_socket_dir(directory),
                database=options.database,
                pg_settings=dict(options.pg_settings),
                primary_options=dict(options.primary_options),
                sp_options=dict(options.sp_options),
                relay_mbit=options.relay_mbit,
                mode=options.mode,
            ),
            report,
        )
        try:
            primary = NodeState(
                PRIMARY, "primary", ports.take(), daemon_port=ports.take(), metrics_port=ports.take(),
                postgres=_version(options.primary_postgres),
            )  # fmt: skip
            nodes = [primary]
            nodes += [_sp_state(zone, ports, options.relay) for zone in zones]
            cluster._start_new(nodes)
        except BaseException:
            cluster.down()
            raise
        return cluster

    @classmethod
    def temporary(
        cls, zones: Sequence[Zone], options: Options | None = None, report: Report = _silent
    ) -> Self:
        """`create` in a folder of its own. If this process is killed, the user's next temporary cluster
        removes what is left of this one.
        """
        folder = TemporaryFolder()
        try:
            place = dataclasses.replace(options or Options(), name=folder.path.name, directory=folder.path)
            cluster = cls.create(zones, place, report)
        except BaseException:
            folder.remove()
            raise
        cluster._temporary = folder
        return cluster

    @classmethod
    def open(cls, directory: Path, report: Report = _silent) -> Self:
        """The cluster that was made in that folder, running or not."""
        found = state.load(directory.resolve())
        if found is None:
            raise PspError(f"there is no cluster in {directory}", "make one with: psp cluster up")
        return cls(found, report)

    @classmethod
    def _remove_remains(cls, directory: Path) -> None:
        remains = state.load(directory)
        if remains is None:
            if directory.exists() and any(directory.iterdir()):
                raise PspError(f"{directory} is not empty and holds no cluster", "choose another --dir")
        elif remains.complete:
            raise PspError(f"there is a cluster in {directory} already", "psp cluster down removes it")
        else:
            cls(remains).down()

    def _start_new(self, nodes: list[NodeState]) -> None:
        self.state.nodes = nodes
        self.state.save()
        give_to_server(self.state.socket_dir)
        self.report(f"Starting {len(nodes)} PostgreSQL servers in {self.state.directory}")
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(self._make_server, nodes))
        init_primary(self.primary_dsn)
        self.start(PRIMARY, "daemon")
        self.state.complete = True
        self.state.save()

    def _make_server(self, node: NodeState) -> None:
        server = self.server(node.name)
        server.create()
        server.start()
        if node.role == "primary":
            server.create_database(PRIMARY_DATABASE)
        else:
            server.create_role(APP_ROLE)
            server.create_database(self.state.database, owner=APP_ROLE)

    def down(self, keep_data: bool = False) -> None:
        """Stops everything; without `keep_data` nothing is left on disk either. May be called twice."""
        mode: StopMode = "fast" if keep_data else "immediate"  # no checkpoint of what is removed
        for node in reversed(self.state.nodes):  # the SPs before the primary, so that they can say goodbye
            self.stop(node.name, mode=mode)
        for name in processes.find_all(self.state.directory):
            processes.end(name)
        if keep_data:
            return
        if self.state.socket_dir.exists():
            shutil.rmtree(self.state.socket_dir)
        remove_tree(self.state.directory)
        if self._temporary is not None:
            self._temporary.remove()

    def resume(self) -> None:
        """Starts everything that does not run: after `down(keep_data=True)`, a reboot or a crash."""
        self.state.socket_dir.mkdir(exist_ok=True)
        give_to_server(self.state.socket_dir)
        for node in self.state.nodes:
            self.start(node.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # ---- who is there ---------------------------------------------------------------------------

    @property
    def primary_dsn(self) -> str:
        """The primary's own database, as superuser."""
        return self.server(PRIMARY).dsn(PRIMARY_DATABASE)

    @property
    def sps(self) -> list[SpNode]:
        """The semi-primaries, in the order in which they were named."""
        return [self.sp(node.name) for node in self.state.nodes if node.role == "sp"]

    def sp(self, name: str) -> SpNode:
        """One semi-primary."""
        node, server, database = self.state.node(name), self.server(name), self.state.database
        return SpNode(name, node.zone, node.rtt_ms, server.dsn(database, APP_ROLE), server.dsn(database))

    def server(self, name: str) -> PgServer:
        """A node's PostgreSQL server."""
        node = self.state.node(name)
        settings = {"synchronous_commit": SYNCHRONOUS_COMMIT[node.role], **self.state.pg_settings}
        folder = self.state.directory / name
        return PgServer(folder, node.pg_port, self.state.socket_dir, settings, node.postgres)

    # ---- parts stopped and started --------------------------------------------------------------

    def start(self, name: str, part: Part | None = None) -> None:
        """Starts a node, or one part of it; what runs already is left alone."""
        node = self.state.node(name)
        if part in (None, "postgres"):
            self.server(name).start()
        if part in (None, "relay") and node.relay_port and not self.is_running(name, "relay"):
            self._start_relay(node)
        wants_daemon = node.role == "primary" or node.adopted
        if part == "daemon" and not wants_daemon:
            raise PspError(f"{name} is not under psp yet", "psp cluster adopt, or psp cluster join")
        if part in (None, "daemon") and wants_daemon and not self.is_running(name, "daemon"):
            self._start_daemon(node)

    def stop(self, name: str, part: Part | None = None, mode: StopMode = "fast") -> None:
        """Stops a node, or one part of it, gracefully; `immediate` is a crash of its PostgreSQL."""
        directory = self.state.directory
        if part is None:
            self.stop_mrv(name)
        if part in (None, "daemon"):
            processes.end(daemons.daemon_name(directory, name))
        if part in (None, "relay"):
            processes.end(daemons.relay_name(directory, name))
        if part in (None, "postgres"):
            self.server(name).stop(mode)

    def kill(self, name: str, part: Literal["daemon", "relay"] = "daemon") -> None:
        """SIGKILL: the process has no chance to say anything."""
        naming = daemons.daemon_name if part == "daemon" else daemons.relay_name
        if not processes.end(naming(self.state.directory, name), force=True):
            raise PspError(f"the {part} of {name} does not run")

    def is_running(self, name: str, part: Part) -> bool:
        """Whether that part of the node runs."""
        if part == "postgres":
            return self.server(name).is_running()
        return self.pid(name, part) is not None

    def pid(self, name: str, part: Part) -> int | None:
        """The process of that part of the node, or None if it does not run."""
        if part == "postgres":
            return self.server(name).pid() if self.is_running(name, part) else None
        return processes.find(processes.ProcessName(self.state.directory, name, part))

    def start_mrv(self, name: str, **options: object) -> None:
        """Starts a psp-mrv for an SP's database. It ends with the SP; `resume` does not start it again."""
        database = self.server(name).socket_dsn(self.state.database)
        daemons.start_mrv(self.state.directory, name, {"database": database, **options})

    def stop_mrv(self, name: str) -> None:
        """Ends the psp-mrv beside an SP, if there is one."""
        processes.end(daemons.mrv_name(self.state.directory, name))

    def _start_relay(self, node: NodeState) -> None:
        target = self.state.node(PRIMARY).daemon_port
        one_way_ms = node.rtt_ms / 2
        daemons.start_relay(
            self.state.directory, node.name, node.relay_port, target, one_way_ms, self.state.relay_mbit
        )

    def _start_daemon(self, node: NodeState) -> None:
        directory = self.state.directory
        if node.role == "primary":
            daemons.start_daemon(directory, node.name, daemons.PRIMARY_BINARY, self.primary_config())
        else:
            daemons.start_daemon(directory, node.name, daemons.SP_BINARY, self.sp_config(node.name))

    def primary_config(self) -> dict[str, object]:
        """The configuration of the primary's daemon."""
        return configs.primary_config(self.state, self.server(PRIMARY))

    def sp_config(self, name: str) -> dict[str, object]:
        """The configuration of an SP's daemon."""
        return configs.sp_config(self.state, self.state.node(name), self.server(name))

    # ---- databases under psp --------------------------------------------------------------------

    def load_schema(self, file: Path, name: str | None = None) -> None:
        """Runs a file at an SP (the first one) by psql, as the application's role.

        PspError: a statement failed.
        """
        target = self.sp(name) if name else self.sps[0]
        psql = str(client_program("psql", server_version()))
        done = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file), "-d", target.dsn],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise PspError(done.stderr.strip())

    def add_zone(self, zone: Zone, relay: bool = True) -> SpNode:
        """A server for one more SP, its database empty and plain. On an exception nothing is left of it."""
        _check_names([node.name for node in self.state.nodes if node.role == "sp"] + [zone.name])
        node = _sp_state(zone, PortAllocator(taken=self.state.ports()), relay)
        self.state.nodes.append(node)
        self.state.save()
        try:
            self._make_server(node)
        except BaseException:
            self.remove_zone(zone.name)
            raise
        return self.sp(zone.name)

    def remove_zone(self, name: str) -> None:
        """Takes away a server that never became an SP."""
        self.stop(name)
        self.state.nodes.remove(self.state.node(name))
        self.state.save()
        folder = self.state.directory / name
        if folder.exists():
            shutil.rmtree(folder)

    def mark_adopted(self, name: str) -> None:
        """From now on the SP's relay and daemon belong to the node: they are started here and by `start`."""
        self.state.node(name).adopted = True
        self.state.save()
        self.start(name)

    def reset_database(self, name: str) -> None:
        """A plain and empty database in place of the SP's, no daemon: what a failed join left is gone."""
        for part in ("daemon", "relay"):
            processes.end(processes.ProcessName(self.state.directory, name, part))
        self.state.node(name).adopted = False
        self.state.save()
        database = sql.Identifier(self.state.database)
        with psycopg.connect(self.server(name).dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
        self.server(name).create_database(self.state.database, owner=APP_ROLE)


def _sp_state(zone: Zone, ports: PortAllocator, relay: bool) -> NodeState:
    return NodeState(
        name=zone.name,
        role="sp",
        pg_port=ports.take(),
        zone=zone.zone_name or zone.name,
        rtt_ms=zone.rtt_ms,
        daemon_port=ports.take(),
        relay_port=ports.take() if relay and zone.rtt_ms > 0 else 0,
        client_port=ports.take(),
        metrics_port=ports.take(),
        postgres=_version(zone.postgres),
    )


def _version(wanted: int) -> int:
    """Written down: a server starts again with programs of its version, also if others are found first."""
    return wanted or server_version()


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name == PRIMARY or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise PspError(f"{name!r} cannot be an SP's name", "letters, digits, - and _; not `primary`")
    if len(set(names)) != len(names):
        raise PspError(f"SP names must differ: {', '.join(names)}")
    if not names:
        raise PspError("a cluster needs at least one SP")
