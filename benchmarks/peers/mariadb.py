"""A node of MariaDB with Galera: one throw-away server in its place.

Everybody in the zones may connect: never put real data here.
"""

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from psp import paths
from psp.output import PspError
from psp.servers.pgserver import give_to_server, server_identity
from psp.waiting import wait_until

from benchmarks.peers.sites import Sites

USER = "app"
PORT = 3306
START_TIMEOUT_S = 60
STATE_TRANSFER = ("wsrep_sst_rsync", "wsrep_sst_common")  # install.sh has taken them from Debian's package
# What was committed survives a crash. PostgreSQL has less memory of its own, but the kernel keeps its files.
SETTINGS = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_buffer_pool_size": "1G",
    "innodb_log_file_size": "1G",
    "innodb_autoinc_lock_mode": "2",
    "binlog_format": "ROW",
    "default_storage_engine": "InnoDB",
    "bind_address": "0.0.0.0",
    "port": str(PORT),
    "max_connections": "200",
    "skip_name_resolve": "ON",
    "wsrep_on": "ON",
    "wsrep_provider": "/usr/lib/galera/libgalera_smm.so",
    "wsrep_cluster_name": "psp_peers",
    "wsrep_slave_threads": "4",
    "wsrep_sst_method": "rsync",
}


class Node:
    """One mariadbd in its place."""

    def __init__(self, sites: Sites, name: str, folder: Path, members: Sequence[str]) -> None:
        self.name = name
        self.folder = folder
        self._sites = sites
        self._members = members
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """What MariaDB calls its datadir."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def create(self) -> None:
        """An empty server, with only what MariaDB itself needs."""
        self._make_folder()
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={self.data_dir}", "--skip-test-db",
                   "--auth-root-authentication-method=normal", "--skip-name-resolve"]  # fmt: skip
        done = subprocess.run(
            install, capture_output=True, text=True, check=False, cwd="/", **server_identity()
        )
        if done.returncode != 0:
            raise PspError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")

    def copy_of(self, other: "Node") -> None:
        """The data of another server, which does not run."""
        self._make_folder()
        shutil.copytree(other.data_dir, self.data_dir, ignore=shutil.ignore_patterns("galera.cache"))
        for path in self.data_dir.rglob("*"):
            give_to_server(path)
        give_to_server(self.data_dir)

    def _make_folder(self) -> None:
        self.folder.mkdir()
        give_to_server(self.folder)

    def start(self, *arguments: str) -> None:
        """Starts the server; `wait_ready` waits for it."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in self._settings().items()]
        command = ["setpriv", "--pdeathsig", "KILL", "mariadbd", "--no-defaults", *options, *arguments]
        with self._log.open("ab") as log, self._sites.inside(self.name):
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True, env=self._environment(), **server_identity(),
            )  # fmt: skip

    def wait_ready(self) -> None:
        """PspError with the log's end if the server does not serve its cluster in time."""
        wait_until(f"MariaDB in {self.name}; its log: {self._log}", self._is_ready, START_TIMEOUT_S)

    def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise PspError(f"MariaDB in {self.name} has ended:\n{self._log_tail()}")
        try:
            return self.status("wsrep_ready") == "ON"
        except PspError:  # it does not listen yet
            return False

    def stop(self) -> None:
        """A proper end, after which the data can be copied."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """The quick end of what is thrown away."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def query(self, statement: str, database: str = "") -> list[list[str]]:
        """The rows, as text. PspError: what the server says."""
        command = ["mariadb", "--no-defaults", f"--socket={self._socket}", "--user=root", "--batch",
                   "--skip-column-names", "--local-infile=1", "--execute", statement, database]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PspError(f"MariaDB in {self.name}: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def status(self, name: str) -> str:
        """One of Galera's own figures."""
        return self.query(f"SHOW STATUS LIKE '{name}'")[0][1]

    def server(self, database: str) -> list[str]:
        """sysbench's options of a connection, from within the node's place."""
        return ["--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={PORT}", f"--mysql-user={USER}",
                f"--mysql-db={database}"]  # fmt: skip

    def _environment(self) -> Mapping[str, str]:
        """In its PATH the programs that bring a node up to date: copies, which its account can reach."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        for name in STATE_TRANSFER:
            shutil.copy(paths.binary(name), programs)
            (programs / name).chmod(0o755)
        return {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"

    @property
    def _log(self) -> Path:
        return self.folder / "mariadbd.log"

    def _log_tail(self, lines: int = 20) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _settings(self) -> Mapping[str, str]:
        address = self._sites[self.name].address
        members = ",".join(self._sites[name].address for name in self._members)
        return {
            **SETTINGS,
            "datadir": str(self.data_dir),
            "socket": str(self._socket),
            "pid_file": str(self.folder / "pid"),
            "wsrep_node_name": self.name,
            "wsrep_node_address": address,
            "wsrep_cluster_address": f"gcomm://{members}",
            # Each place is a segment of its own, as Galera's manual has it for wide-area networks.
            "wsrep_provider_options": f"gcache.size=512M;gmcast.segment={self._members.index(self.name)}",
        }
