"""The rounds: the same load in turns on plain PostgreSQL and on psp, with the CPU time of every process."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psp.cluster import growth
from psp.cluster.local import PRIMARY, LocalCluster, Options, Zone
from psp.cluster.pgserver import APP_ROLE, PgServer
from psp.waiting import wait_until

from benchmarks.overhead import cpu
from benchmarks.plain import plain_copy
from benchmarks.steps import Steps
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Load, Scale

BACKENDS_END_TIMEOUT_S = 30
WARMUP_S = 5


@dataclass(frozen=True)
class System:
    """Where a load goes, and whose CPU time it costs: name of the part -> function that reads its seconds."""

    name: str
    dsn: str
    parts: dict[str, Callable[[], float]]


@contextmanager
def systems(scale: Scale, steps: Steps) -> Iterator[tuple[System, System, LocalCluster]]:
    """Plain PostgreSQL and psp with the same rows, both running; everything is removed at the end."""
    options = Options(database="tpcc", relay=False)
    with LocalCluster.temporary([Zone("here")], options) as cluster:
        sp = cluster.sps[0]
        with steps.step(f"Loading TPC-C, {scale.warehouses} warehouses"):
            runner.prepare(sp.dsn, scale)
        with plain_copy(cluster, sp.name) as plain:
            with steps.step("Putting the database under psp"):
                growth.adopt(cluster, steps.progress)
            yield _plain_system(plain), _psp_system(cluster), cluster


def _plain_system(server: PgServer) -> System:
    postmaster = _pid(server.pid())
    return System("plain", server.dsn("tpcc", APP_ROLE), {"postgres": lambda: cpu.group_s(postmaster)})


def _psp_system(cluster: LocalCluster) -> System:
    sp = cluster.sps[0]
    pids = {
        f"{label}_{part}": _pid(cluster.pid(name, part))
        for label, name in (("sp", sp.name), ("primary", PRIMARY))
        for part in ("postgres", "daemon")
    }

    def reader(pid: int) -> Callable[[], float]:
        return lambda: cpu.group_s(pid)

    return System("psp", sp.dsn, {label: reader(pid) for label, pid in pids.items()})


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
    report = runner.run(system.dsn, load)
    wait_until("the clients' backends to end", lambda: backends() == 0, BACKENDS_END_TIMEOUT_S)
    used = {part: read() - before[part] for part, read in system.parts.items()}
    used["client"] = _ended_children_s() - client_before
    return report, used


def _ended_children_s() -> float:
    found = os.times()
    return found.children_user + found.children_system
