"""CPU seconds of processes and their children, as the kernel counts them."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Times:
    """CPU seconds of one process, and of its children that have ended and been waited for."""

    parent: int
    own_s: float
    ended_children_s: float


def times(pid: int) -> Times:
    """From /proc/PID/stat; raises FileNotFoundError or ProcessLookupError if there is no such process."""
    # The second field is the command in parentheses, which may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    utime, stime, cutime, cstime = (int(field) / TICKS_PER_S for field in fields[11:15])
    return Times(int(fields[1]), utime + stime, cutime + cstime)


def running(pid: int | None) -> int:
    """The process, which the benchmark needs. RuntimeError: it does not run."""
    if pid is None:
        raise RuntimeError("a process of the cluster does not run")
    return pid


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if times(int(entry.name)).parent == pid:
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked; its parent counts it from now on
    return found


def group_s(pid: int) -> float:
    """CPU seconds of a process and all its children, living and ended. For a postmaster: the whole server."""
    while True:
        before = times(pid)
        living = 0.0
        for child in children(pid):
            try:
                living += times(child).own_s
            except (FileNotFoundError, ProcessLookupError):
                continue
        after = times(pid)
        if (
            after.ended_children_s == before.ended_children_s
        ):  # else a child may be counted twice, or not at all
            return living + after.own_s + after.ended_children_s
