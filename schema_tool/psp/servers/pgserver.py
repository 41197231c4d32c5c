"""Throw-away PostgreSQL servers: made, started and stopped, by an ordinary user or by root.

PostgreSQL refuses to run as root, so root's servers run as another user (`postgres`, else `nobody`).
Everybody on this machine may connect (trust, loopback only): never put real data here.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from psp.output import PspError
from psp.paths import module_dir, postgres_program, server_version, without_modules

SUPERUSER = "psp"
START_TIMEOUT_S = 60
SOCKET_PATH_BYTES_MAX = 107  # sockaddr_un.sun_path

StopMode = Literal["fast", "immediate"]

MODULES = ("psp_capture", "psp_certify")
"""psp's server modules."""

DEFAULT_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "autovacuum": "on",
    "fsync": "on",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}


overrides: dict[str, str] = {}
"""Settings of all servers that this process makes, where a server has none of its own. For tests."""


def server_account() -> pwd.struct_passwd | None:
    """The system user that servers run as: None means the caller; root needs another one."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PspError("PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`")


def server_identity() -> dict[str, Any]:
    """What makes subprocess run a program as that user."""
    account = server_account()
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def give_to_server(path: Path) -> None:
    """Makes a file or folder belong to the account that servers run as."""
    account = server_account()
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)


@dataclass(frozen=True)
class PgServer:
    """One server: its folder (`data` and `postgres.log` in it), its port, its settings, its major version.

    Version 0: that of the programs which are found first.
    """

    folder: Path
    port: int
    socket_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    version: int = 0

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def dsn(self, database: str, user: str = SUPERUSER, **more: Any) -> str:
        """A libpq connection string, over loopback TCP."""
        return make_conninfo("", host="127.0.0.1", port=self.port, dbname=database, user=user, **more)

    def socket_dsn(self, database: str, user: str = SUPERUSER) -> str:
        """A libpq connection string, over the unix socket: cheaper, for daemons."""
        return make_conninfo("", host=str(self.socket_dir), port=self.port, dbname=database, user=user)

    def create(self) -> None:
        """The data folder and its settings. The server's folder must not hold a server yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        give_to_server(self.folder)
        make_data(self)
        self.write_settings()

    def init(self) -> None:
        """Makes the data folder by initdb."""
        self._run("initdb", "-D", str(self.data_dir), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync", "--no-instructions")  # fmt: skip

    def write_settings(self) -> None:
        """Rewrites psp.conf, which postgresql.conf includes; takes effect at the next start."""
        socket = self.socket_dir / f".s.PGSQL.{self.port}"
        if len(os.fsencode(socket)) > SOCKET_PATH_BYTES_MAX:
            raise PspError(f"the unix socket's path {socket} is longer than {SOCKET_PATH_BYTES_MAX} bytes")
        chosen = {
            **DEFAULT_SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_dir),
            "cluster_name": f"psp:{self.folder.parent.name}:{self.folder.name}",
            **self._module_settings(),
            **overrides,
            **self.settings,
        }
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in chosen.items()]
        path = self.data_dir / "psp.conf"
        path.write_text("".join(lines))
        give_to_server(path)
        main = self.data_dir / "postgresql.conf"
        include = "include 'psp.conf'\n"
        if include not in main.read_text():
            with main.open("a") as file:
                file.write(include)

    def _module_settings(self) -> Mapping[str, str]:
        """Where the server finds psp's modules: copies, since its account may not reach the build folder.

        They are found before those of another psp in its own library folder. If it is to do without them,
        files that are no libraries are found.
        """
        built = module_dir(self.version or server_version())
        if built is None and not without_modules():
            return {}
        own = self.folder / "lib"
        own.mkdir(exist_ok=True)
        give_to_server(own)
        if built is None:
            for name in MODULES:
                (own / f"{name}.so").touch()
            return {"dynamic_library_path": f"{own}:$libdir"}
        for module in built.glob("psp_*.so"):
            copy = own / f"{module.name}.new"
            shutil.copyfile(module, copy)
            copy.chmod(0o755)
            give_to_server(copy)
            copy.replace(own / module.name)  # a server that runs keeps the file that it has loaded
        return {"dynamic_library_path": f"{own}:$libdir"}

    def start(self) -> None:
        """Starts the server and returns when it takes connections."""
        if self.is_running():
            return
        self._forget_reused_pid()
        try:
            self._run("pg_ctl", "start", "-w", "-t", str(START_TIMEOUT_S), "-s",
                      "-D", str(self.data_dir), "-l", str(self.log))  # fmt: skip
        except PspError as error:
            raise PspError(f"{error}\n{self._log_tail()}".rstrip(), f"the whole log: {self.log}") from None

    def stop(self, mode: StopMode = "fast") -> bool:
        """Stops the server; `immediate` is a crash: no checkpoint, recovery at the next start.

        Returns whether it was running.
        """
        if not self.is_running():
            return False
        self._run(
            "pg_ctl", "stop", "-w", "-t", str(START_TIMEOUT_S), "-s", "-m", mode, "-D", str(self.data_dir)
        )
        return True

    def is_running(self) -> bool:
        """Whether a server runs on this very data folder (a reused pid does not count)."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(self.data_dir) in command

    def pid(self) -> int | None:
        """The pid that the data folder's pid file names."""
        try:
            first, *_ = (self.data_dir / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, ValueError):
            return None
        return int(first)

    def _forget_reused_pid(self) -> None:
        """Removes the pid file if its pid is now another program's: PostgreSQL would refuse to start.

        If the pid is nobody's the file stays: by its shared memory PostgreSQL sees whether backends survived.
        """
        pid = self.pid()
        if pid is not None and Path(f"/proc/{pid}").exists():
            (self.data_dir / "postmaster.pid").unlink()

    def create_role(self, role: str) -> None:
        """An ordinary role that may log in and owns nothing yet."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))

    def create_database(self, name: str, owner: str = SUPERUSER) -> None:
        """An empty database."""
        statement = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner))
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        """Runs one of PostgreSQL's programs as the server's account, output kept for the error only."""
        output = self.folder / "pg_ctl.out"  # a file: the server inherits it, a pipe would never close
        with output.open("wb") as stream:
            code = subprocess.run(
                [str(postgres_program(program, exactly=self.version)), *arguments],
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd="/", check=False,
                **server_identity(),
            ).returncode  # fmt: skip
        if code != 0:
            account = server_account()
            hint = f"the servers run as {account.pw_name}, who must reach that folder" if account else None
            text = output.read_text(errors="replace").strip()
            raise PspError(f"{program} failed for {self.folder}:\n{text}", hint)

    def _log_tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


make_data: Callable[[PgServer], None] = PgServer.init
"""How this process makes servers' data folders. For tests, which copy one."""
