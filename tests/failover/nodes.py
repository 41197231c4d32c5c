"""One node of the primary's group: an etcd member, Patroni, its PostgreSQL, and psp-primary beside it."""

import json
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from psp import paths
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY_DATABASE, PRIMARY_ROLE
from psp.servers.pgserver import SUPERUSER, PgServer, give_to_server
from psp.servers.ports import PortAllocator

from tests.failover import programs
from tests.failover.programs import Programs
from tests.failover.supervised import Supervised

SHIPPED = Path("deploy/patroni")
Part = Literal["etcd", "patroni", "postgres", "daemon"]


@dataclass(frozen=True)
class Ports:
    """Of one node, on loopback."""

    postgres: int
    api: int  # Patroni's
    client: int  # etcd's
    peer: int
    daemon: int

    @classmethod
    def taken_from(cls, ports: PortAllocator) -> Self:
        return cls(*(ports.take() for _ in range(5)))


class Node:
    """One thread at a time may use it."""

    def __init__(self, name: str, folder: Path, programs_: Programs, all_ports: Mapping[str, Ports]) -> None:
        self.name = name
        self.folder = folder
        self.ports = all_ports[name]
        self._all_ports = all_ports
        self._programs = programs_
        self.server = PgServer(folder, self.ports.postgres, folder)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._patroni: subprocess.Popen[bytes] | None = None
        self._daemon: Supervised | None = None
        folder.mkdir()
        give_to_server(folder)
        self._write_patroni_config()
        self._write_daemon_config()

    # ---- configurations -------------------------------------------------------------------------

    def _etcd_environment(self) -> Mapping[str, str]:
        """The shipped file, with this machine's addresses."""
        lines = (SHIPPED / "etcd-db1").read_text().splitlines()
        shipped = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        members = ",".join(f"{n}=http://127.0.0.1:{p.peer}" for n, p in self._all_ports.items())
        peer, client = f"http://127.0.0.1:{self.ports.peer}", f"http://127.0.0.1:{self.ports.client}"
        own = {
            "ETCD_NAME": self.name,
            "ETCD_DATA_DIR": str(self.folder / "etcd"),
            "ETCD_LISTEN_PEER_URLS": peer,
            "ETCD_LISTEN_CLIENT_URLS": client,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer,
            "ETCD_ADVERTISE_CLIENT_URLS": client,
            "ETCD_INITIAL_CLUSTER": members,
        }
        assert own.keys() <= shipped.keys()
        return {**shipped, **own}

    def _write_patroni_config(self) -> None:
        """The shipped file, and what is not the same on one machine: addresses, accounts, no watchdog."""
        (self.folder / "patroni").mkdir()
        give_to_server(self.folder / "patroni")
        self._write("patroni/cluster.yml", (SHIPPED / "cluster.yml").read_text())
        account = {"username": SUPERUSER, "password": "unused"}
        own: dict[str, Any] = {
            "name": self.name,
            "etcd3": {"hosts": [f"127.0.0.1:{p.client}" for p in self._all_ports.values()]},
            "restapi": _at(self.ports.api),
            "postgresql": {
                **_at(self.ports.postgres),
                "bin_dir": str(paths.postgres_program("postgres").parent),
                "data_dir": str(self.server.data_dir),
                "pgpass": str(self.folder / "pgpass"),
                "parameters": {
                    "unix_socket_directories": str(self.folder),
                    "shared_buffers": "64MB",
                    "logging_collector": "off",
                    "log_line_prefix": "%m [%p] %q%u@%d ",
                    **self._modules(),
                },
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
                "authentication": {
                    "superuser": account,
                    "replication": {"username": "replicator", "password": "unused"},
                },
            },
            "watchdog": {"mode": "off"},
        }  # fmt: skip
        self._write("patroni/node.yml", json.dumps(own))

    def _modules(self) -> Mapping[str, str]:
        """psp's server modules, where the server's account reaches them."""
        built = paths.module_dir(paths.server_version())
        if built is None:
            return {}
        own = self.folder / "lib"
        shutil.copytree(built, own)
        return {"dynamic_library_path": f"$libdir:{own}"}

    def _write_daemon_config(self) -> None:
        config = {
            "database": self.server.socket_dsn(PRIMARY_DATABASE, PRIMARY_ROLE),
            "listen": f"tcp://127.0.0.1:{self.ports.daemon}",
        }
        daemons.write_config(self.folder / "psp-primary.yaml", config)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        give_to_server(path)

    # ---- started, killed, stopped ---------------------------------------------------------------

    def start_etcd(self) -> None:
        if self._etcd is None or self._etcd.poll() is not None:
            command, log = [str(self._programs.etcd)], self.folder / "etcd.log"
            environment = self._etcd_environment()
            self._etcd = programs.start(command, log, as_server=True, environment=environment)

    def start_patroni(self) -> None:
        if self._patroni is None or self._patroni.poll() is not None:
            command = self._programs.patroni_command(self.folder / "patroni")
            log, environment = self.folder / "patroni.log", self._programs.patroni_environment()
            self._patroni = programs.start(command, log, as_server=True, environment=environment)

    def start_daemon(self) -> None:
        if self._daemon is None:
            command = [
                str(paths.binary(daemons.PRIMARY_BINARY)),
                "--config",
                str(self.folder / "psp-primary.yaml"),
            ]
            self._daemon = Supervised(command, self.folder / "psp-primary.log")

    def start(self) -> None:
        """What does not run. Patroni starts PostgreSQL."""
        self.start_etcd()
        self.start_patroni()
        self.start_daemon()

    def kill(self, part: Part) -> None:
        """SIGKILL. Only psp-primary is started again by itself."""
        if part == "daemon":
            assert self._daemon is not None
            self._daemon.kill()
        elif part == "postgres":
            programs.send(self._postgres(), signal.SIGKILL)
        else:
            process = self._etcd if part == "etcd" else self._patroni
            assert process is not None
            process.kill()
            process.wait(10)

    def kill_all(self) -> None:
        """The machine is gone: nothing of it has a chance to say anything. `start` brings it back."""
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None
        programs.send(self._postgres(), signal.SIGKILL)
        for process in (self._patroni, self._etcd):
            if process is not None:
                process.kill()
                process.wait(10)
        programs.send(self._postgres(), signal.SIGKILL)  # Patroni may have started it again meanwhile

    def freeze(self) -> None:
        """SIGSTOP to all that runs here: the machine does nothing, and its connections stay open."""
        programs.send(self._all(), signal.SIGSTOP)

    def go_on(self) -> None:
        """As if no time had passed."""
        programs.send(self._all(), signal.SIGCONT)

    def _all(self) -> list[int]:
        own = [process.pid for process in (self._etcd, self._patroni) if process and process.poll() is None]
        daemon = self._daemon.pid if self._daemon is not None else None
        return [*own, *([daemon] if daemon else []), *self._postgres()]

    def _postgres(self) -> list[int]:
        pid = self.server.pid() if self.server.is_running() else None
        return [] if pid is None else [pid, *programs.children(pid)]

    # ---- what it says ---------------------------------------------------------------------------

    @property
    def serves(self) -> bool:
        """Whether its psp-primary has said that it is ready."""
        return self._daemon is not None and self._daemon.is_ready()

    @property
    def daemon_ends(self) -> list[int]:
        """The exit codes of its psp-primary so far."""
        return [] if self._daemon is None else self._daemon.ends

    @property
    def address(self) -> str:
        """Where semi-primaries find its psp-primary."""
        return f"tcp://127.0.0.1:{self.ports.daemon}"

    @property
    def dsn(self) -> str:
        """psp's database here, as superuser."""
        return self.server.dsn(PRIMARY_DATABASE)

    def members(self) -> list[dict[str, Any]]:
        """All nodes as this one's Patroni sees them; nothing if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports.api}/cluster", timeout=2) as answer:
                return list(json.load(answer)["members"])
        except (urllib.error.URLError, TimeoutError, ConnectionError, KeyError):
            return []


def _at(port: int) -> dict[str, str]:
    return {"listen": f"127.0.0.1:{port}", "connect_address": f"127.0.0.1:{port}"}
