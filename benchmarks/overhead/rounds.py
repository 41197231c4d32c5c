"""The rounds: the same load in turns on plain PostgreSQL and both modes of psp, with their CPU time."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from psp.cluster import growth
from psp.cluster.configs import APP_ROLE, PRIMARY
from psp.cluster.local import LocalCluster, Options, Zone
from psp.schema.model import Mode
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until

from benchmarks.overhead import cpu
from benchmarks.plain import plain_copy
from benchmarks.steps import Steps
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Load, Scale

BACKENDS_END_TIMEOUT_S = 30
WARMUP_S = 5
_MODES: tuple[Mode, ...] = ("native", "views")


@dataclass(frozen=True)
class System:
    """Where a load goes, and whose CPU time it costs: name of the part -> function that reads its seconds."""

    name: str
    dsn: str
    postmaster: int
    parts: dict[str, Callable[[], float]]
    mode: Mode = "native"


@contextmanager
def systems(scale: Scale, with_views: bool, steps: Steps) -> Iterator[list[System]]:
    """Plain PostgreSQL, psp and views mode with the same rows, all running; all is removed at the end."""
    with ExitStack() as stack:
        found: list[System] = []
        for mode in _MODES[: 1 + with_views]:
            options = Options(database="tpcc", relay=False, mode=mode)
            cluster = stack.enter_context(LocalCluster.temporary([Zone("here")], options))
            with steps.step(f"Loading TPC-C, {scale.warehouses} warehouses"):
                runner.prepare(cluster.sps[0].dsn, scale)
            if not found:
                found.append(_plain_system(stack.enter_context(plain_copy(cluster, cluster.sps[0].name))))
            with steps.step(f"Putting the database under psp, {mode} mode"):
                growth.adopt(cluster, steps.progress)
            found.append(_psp_system(cluster))
        yield found


def _plain_system(server: PgServer) -> System:
    postmaster = _pid(server.pid())
    parts = {"postgres": lambda: cpu.group_s(postmaster)}
    return System("plain", server.dsn("tpcc", APP_ROLE), postmaster, parts)


def _psp_system(cluster: LocalCluster) -> System:
    sp = cluster.sps[0]
    pids = {
        f"{label}_{part}": _pid(cluster.pid(name, part))
        for label, name in (("sp", sp.name), ("primary", PRIMARY))
        for part in ("postgres", "daemon")
    }

    def reader(pid: int) -> Callable[[], float]:
        return lambda: cpu.group_s(pid)

    parts = {label: reader(pid) for label, pid in pids.items()}
    if cluster.state.mode == "views":
        return System("views", sp.dsn, pids["sp_postgres"], parts, "views")
    return System("psp", sp.dsn, pids["sp_postgres"], parts)


def _pid(found: int | None) -> int:
    if found is None:
        raise RuntimeError("a process of the cluster does not run")
    return found


def one_round(
    system: System, load: Load, backends: Callable[[], int]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The report, and the CPU seconds of each part and of the client."""
    wait_until("the clients' backends to end", lambda: backends() == 0, BACKENDS_END_TIMEOUT_S)
    before = {part: read() for part, read in system.parts.items()}
    client_before = _ended_children_s()
    report = runner.run(system.dsn, load.in_mode(system.mode))
    wait_until("the clients' backends to end", lambda: backends() == 0, BACKENDS_END_TIMEOUT_S)
    used = {part: read() - before[part] for part, read in system.parts.items()}
    used["client"] = _ended_children_s() - client_before
    return report, used


def _ended_children_s() -> float:
    found = os.times()
    return found.children_user + found.children_system
