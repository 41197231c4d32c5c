"""Folders that live as long as the process that made them, with the servers and daemons in them.

The maker holds a lock on its folder, and the kernel releases the lock however the maker ends. So a folder
without a lock is what a killed run left behind: the maker of the next one removes it first, servers and all.
One thread at a time may use an object.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from psp.servers import folders, processes
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.ports import PortAllocator

PREFIX = "run-"


class TemporaryFolder:
    """A new folder under `base`, readable for the servers' account. Raises PspError and OSError.

    PostgreSQL servers must be in folders of their own directly in it; other processes must carry its mark.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or folders.base_directory()
        while True:
            with suppress(FileNotFoundError):  # somebody's `remove` took the empty base away: once more
                folders.make_reachable(self._base)
                self.path, self._lock = _make(self._base)
                break
        self.path.chmod(0o755)

    def remove(self) -> None:
        """Ends everything that runs in the folder and removes it. May be called twice."""
        if self._lock is not None:
            remove_tree(self.path)
            os.close(self._lock)
            self._lock = None
            with suppress(OSError):  # there is something else in it
                self._base.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


@contextmanager
def temporary_server(settings: Mapping[str, str], version: int = 0) -> Iterator[PgServer]:
    """A PostgreSQL server of the block's own, of this major version if one is given; removed at its end."""
    with TemporaryFolder() as folder:
        give_to_server(folder.path)
        server = PgServer(folder.path / "pg", PortAllocator().take(), folder.path, settings, version)
        server.create()
        server.start()
        yield server


def _make(base: Path) -> tuple[Path, int | None]:
    # Between mkdir and lock nobody else may look, or the new folder would pass for one left behind.
    with _locked(base):
        for left in base.glob(f"{PREFIX}*"):
            _remove_if_dead(left)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        return folder, _try_lock(folder)


def remove_tree(folder: Path) -> None:
    """Ends every process and PostgreSQL server that lives in the folder, not gently, then removes it."""
    for name in processes.find_all(folder):
        processes.end(name, force=True)
    for server_folder in folder.glob("*/"):
        PgServer(server_folder, 0, folder).stop("immediate")  # no checkpoint of what is removed
    if folder.exists():
        shutil.rmtree(folder)


def _remove_if_dead(folder: Path) -> None:
    lock = _try_lock(folder)
    if lock is not None:
        remove_tree(folder)
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None if the folder is another's, or gone.

    Programs that are started do not inherit it (PEP 446), so the lock is the maker's alone.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
