"""Our own processes: started detached, found again from any shell, ended without ever hitting another's.

Each process carries a marker in its environment that names the cluster's folder, the node and the role.
A process is signalled only through a pidfd opened before the marker was read. So a process that has got the
number of an ended one is never hit, also if a file names that number.
"""

import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from psp.output import PspError

MARKER = "PSP_LOCAL_CLUSTER_PROCESS"
READY_LINE = b"ready"

# Popen objects of this Python process, so that children that ended are reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}
# Where a marker was seen last: looked at first, since to look at every process takes long if there are many.
_seen: dict[str, int] = {}


@dataclass(frozen=True)
class ProcessName:
    """Which process of which local cluster."""

    cluster_dir: Path
    node: str
    role: str

    def marker(self) -> str:
        return f"{self.cluster_dir}|{self.node}|{self.role}"


def start(name: ProcessName, command: list[str], log: Path, ready_timeout_s: float) -> int:
    """Starts `command` in a session of its own and returns its pid once it has printed `ready`.

    stderr is appended to `log`. Raises PspError with the log's end
    if the process ends or says nothing in time.
    """
    running = find(name)
    if running is not None:
        raise PspError(f"{name.role} of {name.node} is running already (pid {running})")
    log_start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, MARKER: name.marker()},
            start_new_session=True,
        )
    _children[process.pid] = process
    try:
        _wait_ready(process, name, ready_timeout_s)
    except PspError as error:
        end(name, timeout_s=1)
        raise PspError(f"{error}\n{_tail(log, log_start)}".rstrip(), f"the whole log: {log}") from None
    except BaseException:
        end(name, timeout_s=1)
        raise
    return process.pid


def _wait_ready(process: subprocess.Popen[bytes], name: ProcessName, timeout_s: float) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    seen = b""
    with process.stdout as stdout:
        while READY_LINE not in seen.split(b"\n")[:-1]:  # whole lines: the writer may need two writes
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise PspError(f"{name.role} of {name.node} was not ready within {timeout_s:g} s")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                code = process.wait(timeout=timeout_s)
                raise PspError(f"{name.role} of {name.node} ended at its start (exit code {code})")
            seen += chunk


def _tail(log: Path, start_byte: int, lines: int = 20) -> str:
    with log.open("rb") as file:
        file.seek(start_byte)
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def find(name: ProcessName) -> int | None:
    """The pid of a process of ours, or None if it is not running."""
    wanted = name.marker()
    known = _seen.get(wanted)
    if known is not None and _marker_of(known) == wanted:
        return known
    _seen.pop(wanted, None)
    for pid, marker in _marked():
        if marker == wanted:
            _seen[wanted] = pid
            return pid
    return None


def find_all(cluster_dir: Path) -> dict[ProcessName, int]:
    """Every running process of one cluster."""
    found = {}
    for pid, marker in _marked():
        folder, node, role = marker.rsplit("|", 2)
        if folder == str(cluster_dir):
            found[ProcessName(cluster_dir, node, role)] = pid
    return found


def _marked() -> list[tuple[int, str]]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [(pid, marker) for pid in pids if (marker := _marker_of(pid)) is not None]


def _marker_of(pid: int) -> str | None:
    try:
        environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # ended meanwhile, or another user's: not ours
        return None
    _, found, rest = environment.partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def end(name: ProcessName, *, force: bool = False, timeout_s: float = 10) -> bool:
    """Ends a process: SIGTERM, and SIGKILL if it is still there after `timeout_s`; only SIGKILL with `force`.

    Returns whether there was one. The process is gone when this returns.
    """
    pid = find(name)
    if pid is None:
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if _marker_of(pid) != name.marker():
            return False
        if not force:
            _signal(pidfd, signal.SIGTERM)
        if force or not _exited(pidfd, timeout_s):
            _signal(pidfd, signal.SIGKILL)
            if not _exited(pidfd, 10):
                raise PspError(f"{name.role} of {name.node} (pid {pid}) does not end, not even by SIGKILL")
    finally:
        os.close(pidfd)
        _reap(pid)
    return True


def _signal(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return  # it ended by itself, which is what was wanted


def _exited(pidfd: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def _reap(pid: int) -> None:
    child = _children.pop(pid, None)
    if child is not None:
        child.wait(timeout=10)
