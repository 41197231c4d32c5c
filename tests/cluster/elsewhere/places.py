"""Two hosts on this machine: where a daemon runs, and where its PostgreSQL server does.

`namespace`: the server is in a network namespace of its own, at the other end of a line. Needs root.
`loopback`: both are here, and the server reaches the daemon through a relay. For everybody.
`Ipv6`: both are here, and all addresses between them are of IPv6.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from psp.cluster import daemons
from psp.servers import processes
from psp.servers.ports import PortAllocator

NEEDS_ROOT = "needs root: it makes a network namespace. The same runs on loopback for everybody"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Place(Protocol):
    """Where the server is, seen from the daemon."""

    daemon_address: str
    """At which the server finds the daemon."""
    server_address: str
    """At which the daemon finds the server."""
    every_address: str
    """At which the daemon listens."""

    def reached_by(self, port: int) -> int:
        """The port to which the server connects when it wants that port of the daemon's host."""

    def inside(self) -> AbstractContextManager[None]:
        """Processes that are started in the block are on the server's host."""

    def cut(self) -> AbstractContextManager[None]:
        """The server and the daemon do not hear each other in the block."""


class Namespace:
    """The server's host is a network namespace, which ends with this process at the latest."""

    every_address = "0.0.0.0"

    def __init__(self, holder: subprocess.Popen[bytes]) -> None:
        number = os.getpid() % 250
        self._link = f"psp{os.getpid()}"
        self._path = Path(f"/proc/{holder.pid}/ns/net")
        self.daemon_address = f"10.78.{number}.1"
        self.server_address = f"10.78.{number}.2"
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "line", "netns", str(holder.pid))
        _ip("addr", "add", f"{self.daemon_address}/30", "dev", self._link)
        _ip("link", "set", self._link, "up")
        with self.inside():
            _ip("addr", "add", f"{self.server_address}/30", "dev", "line")
            _ip("link", "set", "line", "up")
            _ip("link", "set", "lo", "up")

    def reached_by(self, port: int) -> int:
        """The same: nothing is between the two but the line."""
        return port

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is there, and what it starts."""
        with Path("/proc/thread-self/ns/net").open("rb") as home, self._path.open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Packets are lost without a word."""
        _ip("link", "set", self._link, "down")
        try:
            yield
        finally:
            _ip("link", "set", self._link, "up")


class Loopback:
    """Everything is here. A line that is cut ends its connections."""

    daemon_address = "127.0.0.1"
    server_address = "127.0.0.1"
    every_address = "0.0.0.0"

    def __init__(self, folder: Path, ports: PortAllocator) -> None:
        self._folder = folder
        self._listen = ports.take()
        self._target = 0

    def reached_by(self, port: int) -> int:
        """The relay's port."""
        if self._target == 0:
            self._target = port
            self._start()
        return self._listen

    def _start(self) -> None:
        (self._folder / "line").mkdir(exist_ok=True)
        daemons.start_relay(self._folder, "line", self._listen, self._target, 0)

    def inside(self) -> AbstractContextManager[None]:
        """Here."""
        return nullcontext()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Without the relay."""
        processes.end(daemons.relay_name(self._folder, "line"), force=True)
        try:
            yield
        finally:
            self._start()


class Ipv6:
    """Everything is here, without a relay: this line cannot be cut."""

    daemon_address = "::1"
    server_address = "::1"
    every_address = "::"

    def reached_by(self, port: int) -> int:
        """The same."""
        return port

    def inside(self) -> AbstractContextManager[None]:
        """Here."""
        return nullcontext()

    def cut(self) -> AbstractContextManager[None]:
        """For who has a relay."""
        raise NotImplementedError


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace that is gone afterwards. Its holder ends when its standard input does."""
    command = ["unshare", "--net", "sh", "-c", "echo there; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == b"there\n"
        try:
            yield Namespace(holder)
        finally:
            holder.stdin.close()


def _enter(namespace_fd: int) -> None:
    if _libc.setns(namespace_fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"entering a network namespace: {os.strerror(code)}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
