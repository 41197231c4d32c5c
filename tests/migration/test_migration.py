"""A migration of 24 steps at one SP, TPC-C at three, and SIGKILL for daemons and servers: nothing is lost.

`make test-migration SEEDS=7` runs it: the seed draws the faults, and what clients do. No part of `make test`.
"""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.paths import client_program, server_version

from benchmarks.tpcc import check, runner
from tests.cluster.schema_changes.statements import allow_ddl, changes
from tests.cluster.support import as_admin, execute, wait_streaming
from tests.migration.clients import EXPECTED, Clients, Failure, Notes
from tests.migration.faults import Fault, Outage, draw_faults, strike
from tests.migration.steps import SECOND_STEPS, STEPS, Step
from tests.migration.tool import StepResult, Tool
from tests.migration.tpcc import SCALE
from tests.threads import running

ZONES = (Zone("near", 30), Zone("middle", 90), Zone("far", 190))
SETTINGS = {"shared_buffers": "64MB"}
LATE = Zone("late", 60)
CALM_S = 15
FAULTS_ALONE, FAULTS_IN_MIGRATION = 4, 8
STEPS_WHILE_JOINING = 4
RESULTS = Path(os.environ.get("RESULTS", "results"))
DRAINED_S = 120


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SEEDS: a number, or the first and the last: 1-3."""
    first, _, last = os.environ.get("SEEDS", "1").partition("-")
    metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


def test_a_migration_under_load_and_faults(seed: int) -> None:
    random = Random(seed)
    with storm_cluster() as cluster:
        names = [sp.name for sp in cluster.sps]
        sp = random.choice(cluster.sps)
        alone = draw_faults(random, names, FAULTS_ALONE)
        join_at = random.randrange(len(STEPS) - STEPS_WHILE_JOINING)
        joining = range(join_at, join_at + STEPS_WHILE_JOINING)
        disturbed = sorted(random.sample(sorted({*range(len(STEPS))} - {*joining}), FAULTS_IN_MIGRATION))
        faults = dict(zip(disturbed, draw_faults(random, names, FAULTS_IN_MIGRATION), strict=True))
        scene = Scene(cluster, sp, seed, alone, faults, joining)
        try:
            scene.play()
            scene.judge()
        finally:
            scene.write_result(RESULTS)


@contextmanager
def storm_cluster() -> Iterator[LocalCluster]:
    """Three distant SPs with TPC-C and the application's other tables."""
    with LocalCluster.temporary(ZONES, Options(pg_settings=SETTINGS)) as cluster:
        runner.prepare(cluster.sps[0].dsn, SCALE)
        cluster.load_schema(Path(__file__).with_name("before.sql"))
        growth.adopt(cluster)
        for sp in cluster.sps:
            execute(as_admin(sp), "CREATE ROLE reporting")
            allow_ddl(sp)
        yield cluster


def join(cluster: LocalCluster) -> None:
    """One more SP, which has the schema and the rows of today afterwards."""
    execute(as_admin(cluster.add_zone(LATE)), "CREATE ROLE reporting")
    growth.adopt(cluster)


class Scene:
    """What happens, and what is known of it afterwards."""

    def __init__(
        self, cluster: LocalCluster, sp: SpNode, seed: int, alone: list[Fault], faults: dict[int, Fault],
        joining: range,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.sp = sp
        self.second = next(other for other in cluster.sps if other.name != sp.name)
        self.seed = seed
        self.alone = alone
        self.faults = faults
        self.joining = joining
        self.notes = Notes()
        self.steps: list[StepResult] = []
        self.second_steps: list[StepResult] = []
        self.outages: list[Outage] = []
        self.phases: list[tuple[str, str, float]] = []  # name, what is done in it, when it began

    # ---- what happens ---------------------------------------------------------------------------

    def play(self) -> None:
        with Clients(self.cluster, self.seed) as clients:
            self.notes = clients.notes
            self._phase("load alone", "nothing")
            time.sleep(CALM_S)
            for fault in self.alone:
                self._phase("load and faults", str(fault))
                self._strike(fault)
            tool = Tool(self.sp, Random(f"{self.seed} tool"))
            with running(self._migrate_second):
                self._migrate(tool)
            self._phase("end", "nothing")

    def _migrate(self, tool: Tool) -> None:
        for at, step in enumerate(STEPS[: self.joining.start]):
            self._migrate_step(tool, at, step)
        with running(partial(join, self.cluster)):
            for step in STEPS[self.joining.start : self.joining.stop]:
                self._phase("migration and join", step.name)
                self.steps.append(tool.run(step))
        for at, step in enumerate(STEPS[self.joining.stop :], start=self.joining.stop):
            self._migrate_step(tool, at, step)

    def _migrate_second(self) -> None:
        tool = Tool(self.second, Random(f"{self.seed} second"))
        self.second_steps = [tool.run(step) for step in SECOND_STEPS]

    def _migrate_step(self, tool: Tool, at: int, step: Step) -> None:
        faults = [partial(self._strike, self.faults[at])] if at in self.faults else []
        self._phase("migration and faults" if faults else "migration", step.name)
        with running(*faults):
            self.steps.append(tool.run(step))

    def _strike(self, fault: Fault) -> None:
        self.outages.append(strike(self.cluster, fault))

    def _phase(self, name: str, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {name}: {what}", flush=True)
        self.phases.append((name, what, time.monotonic()))

    # ---- what must hold -------------------------------------------------------------------------

    def judge(self) -> None:
        self.cluster.resume()
        wait_streaming(self.cluster)
        found = verify.verify(self.cluster, DRAINED_S)
        assert found.consistent, found.as_dict()
        assert {changes(sp) for sp in self.cluster.sps} == {len(STEPS) + len(SECOND_STEPS)}
        for sp in self.cluster.sps:
            assert execute(as_admin(sp), "SELECT psp.guard_problems()") == [], sp.name
            assert check.check(sp.dsn) == [c for c in check.check(sp.dsn) if c.holds], sp.name
            journal = {row for (row,) in execute(sp, "SELECT id FROM journal")}
            assert self.notes.written <= journal, f"reported committed, not at {sp.name}"
            assert not self.notes.refused & journal, f"reported aborted, but at {sp.name}"
        dumps = {sp.name: dump(sp) for sp in self.cluster.sps}
        first = dumps[self.cluster.sps[0].name]
        assert all(text == first for text in dumps.values())
        assert self.unexpected() == []

    def unexpected(self) -> list[Failure]:
        """Errors that no client should see. A lost connection is none while its server was killed."""
        return [
            f for f in self.notes.failures if f.sqlstate not in EXPECTED and not self._server_was_killed(f)
        ]

    def _server_was_killed(self, failure: Failure) -> bool:
        return any(
            outage.fault.part == "postgres" and outage.fault.node == failure.sp
            and failure.began <= outage.ended and failure.ended >= outage.began
            for outage in self.outages
        )  # fmt: skip

    # ---- what is told ---------------------------------------------------------------------------

    def write_result(self, folder: Path) -> None:
        """migration-SEED.json, and beside it the logs of all servers and daemons."""
        place = folder / f"migration-{self.seed}"
        place.mkdir(parents=True, exist_ok=True)
        for log in self.cluster.state.directory.glob("*/*.log"):
            shutil.copy(log, place / f"{log.parent.name}-{log.name}")
        text = json.dumps(self._result(), indent=2, default=str) + "\n"
        (folder / f"migration-{self.seed}.json").write_text(text)

    def _result(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "migrated_at": self.sp.name,
            "joined_during": [step.name for step in STEPS[self.joining.start : self.joining.stop]],
            "steps": [asdict(step) for step in self.steps],
            "second": {"at": self.second.name, "steps": [asdict(step) for step in self.second_steps]},
            "faults": [asdict(outage) for outage in self.outages],
            "tpcc_commits": Counter(self.notes.tpcc),
            "errors": Counter(f"{f.sp} {f.sqlstate}" for f in self.notes.failures),
            "unexpected": [asdict(failure) for failure in self.unexpected()],
            "commit_ms_max": self._slowest(),
        }

    def _slowest(self) -> dict[str, dict[str, Any]]:
        """The longest COMMIT of the table that is not changed, by SP and phase."""
        ends = [began for _, _, began in self.phases[1:]]
        found: dict[str, dict[str, Any]] = {sp.name: {} for sp in self.cluster.sps}
        for commit in self.notes.commits:
            for (name, what, began), end in zip(self.phases, ends, strict=False):
                if began <= commit.began < end:
                    slowest = found[commit.sp].setdefault(name, {"commits": 0, "max": 0.0, "during": ""})
                    slowest["commits"] += 1
                    if commit.ms > slowest["max"]:
                        slowest.update({"max": round(commit.ms, 1), "during": what})
        return found


def dump(sp: SpNode) -> str:
    """The schema without psp's, and without what each SP has of its own: the strides of its sequences."""
    command = [
        str(client_program("pg_dump", server_version())),
        "--schema-only",
        "--exclude-schema=psp",
        sp.admin_dsn,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    own = ("START WITH", "INCREMENT BY", "MINVALUE", "MAXVALUE", "\\restrict", "\\unrestrict")
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(own))
