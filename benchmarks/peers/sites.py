"""Places far from one another on this machine: a network namespace each, joined by psp-wan.

Needs root. Everything is removed at the end, and what a killed run has left is removed by the next one.
"""

import ctypes
import fcntl
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from psp import paths
from psp.output import PspError

PREFIX = "psp-peers-"
LOCK = Path("/run/psp-peers.lock")
NAMESPACES = Path("/run/netns")
OWN_NAMESPACE = Path("/proc/thread-self/ns/net")
HUB = "hub"
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Site:
    """One place: its address is that of its servers, for all other places."""

    name: str
    address: str
    rtt_ms: float
    """Round trip to the hub."""

    @property
    def namespace(self) -> str:
        """As `ip netns` calls it."""
        return PREFIX + self.name


class Sites:
    """The places and the lines between them. Make it with `sites`."""

    def __init__(self, all_sites: Sequence[Site], wan: subprocess.Popen[str]) -> None:
        self._sites = {site.name: site for site in all_sites}
        self._wan = wan

    def __getitem__(self, name: str) -> Site:
        return self._sites[name]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """This thread, and every process that it starts, is in that place as long as the block runs."""
        with OWN_NAMESPACE.open("rb") as home:
            _enter(NAMESPACES / self[name].namespace)
            try:
                yield
            finally:
                _set_namespace(home)

    @contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """No packet from or to that place arrives as long as the block runs."""
        self._command(f"cut {name}")
        try:
            yield
        finally:
            self._command(f"heal {name}")

    def _command(self, line: str) -> None:
        assert self._wan.stdin is not None and self._wan.stdout is not None
        print(line, file=self._wan.stdin, flush=True)
        answer = self._wan.stdout.readline().strip()
        if answer != "done":
            raise PspError(f"psp-wan answered {answer!r} to {line!r}")


@contextmanager
def sites(round_trips_ms: dict[str, float]) -> Iterator[Sites]:
    """A hub and the places with these round trips to it. PspError if it cannot be made."""
    require_root()
    names = [HUB, *round_trips_ms]
    _check_names(names)
    made = [
        Site(name, f"10.77.0.{number}", round_trips_ms.get(name, 0.0)) for number, name in enumerate(names, 1)
    ]
    with ExitStack() as stack:
        stack.enter_context(_only_one())
        _remove_namespaces()
        stack.callback(_remove_namespaces)
        for site in made:
            _ip("netns", "add", site.namespace)
        yield Sites(made, stack.enter_context(_wan(made)))


def require_root() -> None:
    """PspError, which says why, for everybody else."""
    if os.geteuid() != 0:
        raise PspError(
            "this benchmark needs root: it makes network namespaces and carries their packets",
            "sudo make bench-peers",
        )


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[a-z0-9_-]{1,32}", name):
            raise PspError(f"{name!r} cannot be a zone's name", "small letters, digits, - and _")
    if len(set(names)) != len(names):
        raise PspError(f"zones must differ, and none may be called {HUB}")


@contextmanager
def _only_one() -> Iterator[None]:
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PspError("another bench-peers runs on this machine") from None
        yield


def _remove_namespaces() -> None:
    """All of ours, and every process that still runs in them."""
    for path in NAMESPACES.glob(f"{PREFIX}*"):
        pids = subprocess.run(["ip", "netns", "pids", path.name], capture_output=True, text=True, check=False)
        for pid in pids.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "del", path.name)


@contextmanager
def _wan(made: Sequence[Site]) -> Iterator[subprocess.Popen[str]]:
    command = [str(paths.binary("psp-wan"))]
    for site in made:
        command += ["--site", f"{site.name}:{site.namespace}:{site.address}:{site.rtt_ms:g}"]
    # An interrupt is for this program, which ends psp-wan when all servers are gone; so a session of its own.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as wan:
        assert wan.stdin is not None and wan.stdout is not None
        try:
            if wan.stdout.readline().strip() != "ready":
                raise PspError("psp-wan did not start; what it says is above")
            yield wan
        finally:
            wan.stdin.close()


def _enter(path: Path) -> None:
    with path.open("rb") as there:
        _set_namespace(there)


def _set_namespace(file: IO[bytes]) -> None:
    if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"entering a network namespace: {os.strerror(code)}")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PspError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
