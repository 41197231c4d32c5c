"""Folders that the servers' account can reach."""

import os
import tempfile
from pathlib import Path

from psp.output import PspError
from psp.servers.pgserver import SOCKET_PATH_BYTES_MAX

LONGEST_SOCKET = ".s.PGSQL.65535"


def base_directory() -> Path:
    """Where clusters live if no folder is given: on disk, reachable for the servers' account, ours."""
    base = Path("/var/tmp") / f"psp-{os.getuid()}"
    make_reachable(base)
    if base.stat().st_uid != os.getuid():
        raise PspError(f"{base} belongs to another user", "give a folder of your own with --dir")
    return base


def make_reachable(folder: Path) -> None:
    """Makes the folder, if there is none; the servers' account can look into it, with any umask."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def make_socket_dir(directory: Path) -> Path:
    """A new folder in the cluster's, or with a short name elsewhere if the sockets' paths became too long."""
    folder = directory / ".sockets"
    if len(os.fsencode(folder / LONGEST_SOCKET)) <= SOCKET_PATH_BYTES_MAX:
        folder.mkdir(exist_ok=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="psp-", dir="/tmp"))
    folder.chmod(0o755)
    return folder
