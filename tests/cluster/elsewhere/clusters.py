"""A cluster of two semi-primaries: `near`, and `far`, whose server is in another place than its daemon."""

import dataclasses
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psp.cluster import growth
from psp.cluster.configs import SP_ROLE
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.ports import PortAllocator
from psycopg.conninfo import make_conninfo

from tests.cluster.elsewhere.places import Loopback, Place

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
PASSWORD = "of-the-daemon's role"
KEEPALIVES = {
    "keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 3, "tcp_user_timeout": 5000,
}  # fmt: skip
LOGS_MUCH = {"log_statement": "all", "log_connections": "on", "log_min_messages": "debug1"}


@dataclasses.dataclass(frozen=True)
class FarServer(PgServer):
    """It is reached from here by its unix socket only, which is in the file system."""

    place: Place | None = None

    def start(self) -> None:
        assert self.place is not None
        with self.place.inside():
            super().start()

    def dsn(self, database: str, user: str = "psp", **more: Any) -> str:
        return make_conninfo(self.socket_dsn(database, user), **more)


class FarCluster(LocalCluster):
    """`near` is as in every local cluster. Make it with `far_cluster`."""

    place: Place | None = None  # None: `far` is still being made, here

    @property
    def tls(self) -> Path:
        """The folder of the certificates."""
        return self.state.directory / "tls"

    @property
    def far(self) -> SpNode:
        """The semi-primary in question."""
        return self.sp("far")

    @property
    def near(self) -> SpNode:
        """The other one."""
        return self.sp("near")

    def server(self, name: str) -> PgServer:
        plain = super().server(name)
        if name != "far" or self.place is None:
            return plain
        settings = {
            **plain.settings,
            **LOGS_MUCH,
            "listen_addresses": self.place.server_address,
            "ssl": "on",
            "ssl_cert_file": str(self.tls / "server.crt"),
            "ssl_key_file": str(self.tls / "server.key"),
        }
        return FarServer(
            plain.folder, plain.port, plain.socket_dir, settings, plain.version, place=self.place
        )

    def sp_config(self, name: str) -> dict[str, object]:
        config = super().sp_config(name)
        if name != "far" or self.place is None:
            return config
        port = self.state.node("far").daemon_port
        database = make_conninfo(
            "", host=self.place.server_address, port=self.state.node("far").pg_port,
            dbname=self.state.database, user=SP_ROLE, passfile=str(self.tls / "pgpass"),
            sslmode="verify-full", sslrootcert=str(self.tls / "root.crt"), **KEEPALIVES,
        )  # fmt: skip
        return {
            **config,
            "log_level": "trace",
            "database": database,
            "hook_listen": f"tls://{_with_port(self.place.every_address, port)}",
            "hook_endpoint": _with_port(self.place.daemon_address, self.place.reached_by(port)),
            "hook_certificate_file": str(self.tls / "daemon.crt"),
            "hook_key_file": str(self.tls / "daemon.key"),
            "hook_root_certificate": str(self.tls / "root.crt"),
        }

    def set_up_far(self, place: Place) -> None:
        """Moves the server of `far` into its place; it is no semi-primary yet."""
        with psycopg.connect(self.server("far").dsn("postgres")) as connection:
            secret = connection.pgconn.encrypt_password(PASSWORD.encode(), SP_ROLE.encode(), b"scram-sha-256")
            connection.execute(f"CREATE ROLE {SP_ROLE} LOGIN PASSWORD '{secret.decode()}'".encode())
        self.stop("far", "postgres")
        self.tls.mkdir()
        self.tls.chmod(0o755)
        make_certificates(self.tls, place.daemon_address)
        make_server_certificate(self.tls, place.server_address)
        line = ":".join(["*", "*", "*", SP_ROLE, PASSWORD])
        (self.tls / "pgpass").write_text(line + "\n")
        (self.tls / "pgpass").chmod(0o600)
        self.place = place
        server = self.server("far")
        admitted = f"local all all trust\nhostssl {self.state.database} {SP_ROLE} all scram-sha-256\n"
        (server.data_dir / "pg_hba.conf").write_text(admitted)
        server.write_settings()
        server.start()


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def commands() -> str:
    """Those of the documentation that make the daemon's certificate."""
    found = re.search(
        r"\*\*1\. A certificate.*?^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def make_certificates(folder: Path, address: str) -> None:
    """root.crt, daemon.crt and their keys, as the documentation makes them."""
    script = commands().replace("192.0.2.10", address)
    subprocess.run(["sh", "-e", "-c", script], cwd=folder, check=True, capture_output=True)


def make_server_certificate(folder: Path, address: str) -> None:
    """server.crt, of the same authority."""
    script = commands().replace("192.0.2.10", address).replace("daemon", "server").partition("\n")[2]
    subprocess.run(["sh", "-e", "-c", script], cwd=folder, check=True, capture_output=True)
    give_to_server(folder / "server.key")


@contextmanager
def far_cluster(schema: str, place: Place | None, far_version: int = 0) -> Iterator[FarCluster]:
    """`near` is adopted, `far` joins. Without a place, on loopback."""
    zones = [Zone("near"), Zone("far", postgres=far_version)]
    with FarCluster.temporary(zones, Options(sp_options={"commit_timeout_ms": 5000})) as made:
        with psycopg.connect(made.near.dsn) as connection:
            connection.execute(schema.encode())
        ports = PortAllocator(taken=made.state.ports())
        made.set_up_far(place or Loopback(made.state.directory, ports))
        growth.adopt(made)
        yield made
