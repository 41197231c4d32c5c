"""Plain PostgreSQL to compare with: a copy of a server's data, taken before psp adopted it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psp.cluster.local import LocalCluster
from psp.servers.pgserver import PgServer
from psp.servers.ports import PortAllocator

# The same promise as psp's: what was committed survives a crash.
DURABLE = {"synchronous_commit": "on", "fsync": "on"}


@contextmanager
def plain_copy(cluster: LocalCluster, sp_name: str, name: str = "plain") -> Iterator[PgServer]:
    """Stops the SP's server for the copy, then runs both. The copy is removed at the end."""
    source = cluster.server(sp_name)
    folder = cluster.state.directory / name
    settings = {**cluster.state.pg_settings, **DURABLE}
    copy = PgServer(folder, PortAllocator(taken=cluster.state.ports()).take(), source.socket_dir, settings)
    try:
        source.stop()
        copy_data(source, copy)
        source.start()
        copy.start()
        yield copy
    finally:
        copy.stop()
        shutil.rmtree(folder, ignore_errors=True)


def copy_data(source: PgServer, copy: PgServer) -> None:
    """The data folder of a server that does not run; the copy has its own port and settings."""
    copy.folder.mkdir()
    shutil.chown(copy.folder, *_owner(source.folder))
    subprocess.run(["cp", "-a", str(source.data_dir), str(copy.folder)], check=True)
    copy.write_settings()


def _owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid
