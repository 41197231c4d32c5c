"""The rounds: the same load in turns on plain PostgreSQL and psp's modes, with their CPU time."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psp.cluster import growth
from psp.cluster.configs import APP_ROLE, PRIMARY
from psp.cluster.local import LocalCluster, Options, Zone
from psp.schema.model import Mode
from psp.schema.native.capture import CaptureChoice, use
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until

from benchmarks.overhead import cpu
from benchmarks.plain import plain_copy
from benchmarks.steps import Steps
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Load, Scale

BACKENDS_END_TIMEOUT_S = 30
WARMUP_S = 5


@dataclass(frozen=True)
class Variant:
    """A cluster of psp with TPC-C, and its name among the systems."""

    name: str
    plain: str | None = None  # the name of a copy of it in plain PostgreSQL
    mode: Mode = "native"
    foreign_keys: bool = False
    capture: CaptureChoice = "auto"  # in native mode


NATIVE = Variant("psp", plain="plain")
FOREIGN_KEYS = Variant("psp_fk", plain="plain_fk", foreign_keys=True)
SQL_CAPTURE = Variant("psp_sql", capture="sql")
VIEWS = Variant("views", mode="views")


@dataclass(frozen=True)
class System:
    """Where a load goes, and whose CPU time it costs: name of the part -> function that reads its seconds."""

    name: str
    dsn: str
    postmaster: int
    parts: dict[str, Callable[[], float]]
    mode: Mode = "native"


@contextmanager
def systems(scale: Scale, variants: Sequence[Variant], steps: Steps) -> Iterator[list[System]]:
    """The variants and their plain copies with the same rows, all running; all is removed at the end."""
    with ExitStack() as stack:
        found: list[System] = []
        for variant in variants:
            options = Options(database="tpcc", relay=False, mode=variant.mode)
            cluster = stack.enter_context(LocalCluster.temporary([Zone("here")], options))
            with steps.step(f"Loading TPC-C for {variant.name}, {scale.warehouses} warehouses"):
                runner.prepare(cluster.sps[0].dsn, scale, foreign_keys=variant.foreign_keys)
            if variant.plain is not None:
                server = stack.enter_context(plain_copy(cluster, cluster.sps[0].name))
                found.append(_plain_system(variant.plain, server))
            with steps.step(f"Putting the database under psp, {variant.mode} mode"):
                growth.adopt(cluster, steps.progress)
            if variant.mode == "native":
                with psycopg.connect(cluster.sps[0].admin_dsn) as connection:
                    use(connection, variant.capture)
            found.append(psp_system(variant.name, cluster))
        yield found


def _plain_system(name: str, server: PgServer) -> System:
    postmaster = cpu.running(server.pid())
    parts = {"postgres": lambda: cpu.group_s(postmaster)}
    return System(name, server.dsn("tpcc", APP_ROLE), postmaster, parts)


def psp_system(name: str, cluster: LocalCluster) -> System:
    sp = cluster.sps[0]
    pids = {
        f"{label}_{part}": cpu.running(cluster.pid(name, part))
        for label, name in (("sp", sp.name), ("primary", PRIMARY))
        for part in ("postgres", "daemon")
    }

    def reader(pid: int) -> Callable[[], float]:
        return lambda: cpu.group_s(pid)

    parts = {label: reader(pid) for label, pid in pids.items()}
    return System(name, sp.dsn, pids["sp_postgres"], parts, cluster.state.mode)


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
