"""What is killed, and when: drawn from a seed, so that it can be done again."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from psp.cluster import verify
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, wait_streaming

Kind = Literal["daemon", "postgres"]
DELAY_MAX_S, DOWN_MAX_S = 0.6, 2.0


@dataclass(frozen=True)
class Fault:
    """SIGKILL for one part of a node, that long after a step has begun; and how long it stays away."""

    node: str
    part: Kind
    delay_s: float
    down_s: float


@dataclass(frozen=True)
class Outage:
    """When a fault began, and when the node ran again."""

    fault: Fault
    began: float
    ended: float


def draw_faults(random: Random, sps: list[str], count: int) -> list[Fault]:
    """Each kind of part once, at the SPs and the primary, then any."""
    some = [(random.choice(sps), "daemon"), (random.choice(sps), "postgres")]
    parts: list[tuple[str, str]] = [*some, (PRIMARY, "daemon"), (PRIMARY, "postgres")]
    parts += [(random.choice([*sps, PRIMARY]), random.choice(["daemon", "postgres"])) for _ in range(count)]
    parts = parts[:count]
    random.shuffle(parts)
    return [
        Fault(node, "daemon" if part == "daemon" else "postgres",
              round(random.uniform(0, DELAY_MAX_S), 3), round(random.uniform(0, DOWN_MAX_S), 3))
        for node, part in parts
    ]  # fmt: skip


def strike(cluster: LocalCluster, fault: Fault) -> Outage:
    """Kills it and starts it again; returns when all SPs have followed. Nobody else may use `cluster`."""
    time.sleep(fault.delay_s)
    began = time.monotonic()
    if fault.part == "daemon":
        cluster.kill(fault.node)
    else:
        kill_postgres(cluster, fault.node)
    time.sleep(fault.down_s)
    cluster.start(fault.node)
    ended = time.monotonic()
    wait_streaming(cluster)
    verify.wait_drained(cluster, WAIT_S)
    return Outage(fault, began, ended)


def kill_postgres(cluster: LocalCluster, node: str) -> None:
    """SIGKILL for the postmaster and all its processes."""
    postmaster = cluster.pid(node, "postgres")
    assert postmaster is not None, f"the PostgreSQL of {node} does not run"
    os.kill(postmaster, signal.SIGSTOP)  # it makes no more children
    family = [postmaster, *_children(postmaster)]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(f"the end of {node}'s PostgreSQL", lambda: not any(map(_lives, family)), WAIT_S)
    # A dead postmaster that its parent has not waited for yet would pass for the owner of the socket.
    server = cluster.server(node)
    (server.socket_dir / f".s.PGSQL.{server.port}.lock").unlink(missing_ok=True)


def _children(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            after_name = stat.read_text().rpartition(")")[2].split()
            if int(after_name[1]) == pid:
                yield int(stat.parent.name)


def _lives(pid: int) -> bool:
    """A process that nobody has waited for yet is dead, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
