"""What a killed run leaves behind is removed by the next; what a living one uses is left alone."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Zone
from psp.servers import processes
from psp.servers.pgserver import PgServer
from psp.servers.temporary import TemporaryFolder, temporary_server

# A cluster, and as in the benchmarks one more server in its folder that the cluster does not know.
MAKER = """
import signal
from psp.cluster.local import LocalCluster, Zone
from psp.servers.pgserver import PgServer
from psp.servers.ports import PortAllocator

cluster = LocalCluster.temporary([Zone("a")])
more = PgServer(cluster.state.directory / "more", PortAllocator().take(), cluster.state.socket_dir)
more.create()
more.start()
print(cluster.state.directory, flush=True)
signal.pause()
"""


@pytest.fixture
def killed() -> Iterator[Path]:
    """The folder of a temporary cluster whose maker was killed; its servers and its daemon run."""
    maker = subprocess.Popen([sys.executable, "-c", MAKER], stdout=subprocess.PIPE, text=True)
    with maker:
        assert maker.stdout is not None
        directory = Path(maker.stdout.readline().strip())
        maker.kill()
    yield directory
    TemporaryFolder().remove()


def test_a_killed_run_is_removed_by_the_next(killed: Path) -> None:
    servers = [PgServer(killed / name, 0, killed) for name in (PRIMARY, "a", "more")]
    assert all(server.is_running() for server in servers)
    assert len(processes.find_all(killed)) == 1
    with TemporaryFolder():
        assert not killed.exists()
        assert not any(server.is_running() for server in servers)
        assert processes.find_all(killed) == {}


def test_a_living_run_is_left_alone() -> None:
    with LocalCluster.temporary([Zone("a")]) as cluster:
        with TemporaryFolder() as other:
            assert other.path != cluster.state.directory
        assert cluster.state.directory.exists()
        assert cluster.is_running("a", "postgres")
        assert cluster.is_running(PRIMARY, "daemon")


def test_a_removed_folder_may_be_removed_again() -> None:
    folder = TemporaryFolder()
    folder.remove()
    assert not folder.path.exists()
    folder.remove()


def test_servers_of_tests_are_distinguished() -> None:
    """Their data folders are copies of one (tests/copied_servers.py)."""
    identifiers = set()
    for _ in range(2):
        with temporary_server({}) as server, psycopg.connect(server.dsn("postgres")) as connection:
            identifiers.add(
                connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
            )
    assert len(identifiers) == 2
