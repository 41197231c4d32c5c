"""What each job queue is tried with: its own migrations, and each job once, while things are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, LiteralString

import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import execute, needs_module, settle
from tests.engines.support import END_S, pair_for, run, running
from tests.retrying.support import wait_for_units


@needs_module()
class JobQueue:
    """The tests of one engine; a subclass says which."""

    program: ClassVar[str]
    settings: ClassVar[tuple[LiteralString, ...]]
    unfinished: ClassVar[LiteralString]  # a query
    frees_jobs: ClassVar[bool]  # whether jobs of dead workers come back by themselves

    @pytest.fixture(scope="class")
    def shared_pair(self) -> Iterator[LocalCluster]:
        with pair_for(self.settings) as cluster:
            run(cluster, 0, self.program, "schema")
            settle(cluster)
            yield cluster

    @pytest.fixture
    def pair(self, shared_pair: LocalCluster) -> Iterator[LocalCluster]:
        """At both, after each test: every job has ended, and what was to be paid is paid once."""
        execute(shared_pair.sps[0], "DELETE FROM unit")
        execute(shared_pair.sps[0], "UPDATE counter SET value = 0")
        settle(shared_pair)
        yield shared_pair
        settle(shared_pair)
        for sp in shared_pair.sps:
            assert execute(sp, self.unfinished) == []

    @contextmanager
    def worker(self, pair: LocalCluster, sp: int, pause_s: int = 0) -> Iterator[list[str]]:
        """Its lines; they are read in any case, or it would wait for its reader."""
        with running(pair, sp, self.program, "work", pause_s) as process:
            lines: list[str] = []
            assert process.stdout is not None
            reader = threading.Thread(target=lines.extend, args=[process.stdout], daemon=True)
            reader.start()
            yield lines

    def wait_for_all(self, pair: LocalCluster, numbers: range) -> None:
        def are_paid() -> bool:
            return execute(pair.sps[0], "SELECT count(*) FROM unit") == [(len(numbers),)]

        wait_until("every payment", are_paid, END_S)
        wait_until("every job's end", lambda: execute(pair.sps[0], self.unfinished) == [], END_S)
        wait_for_units(pair, [f"order {number}" for number in numbers])

    def free(self, pair: LocalCluster, sp: int) -> None:
        if not self.frees_jobs:
            run(pair, sp, self.program, "recover")

    def test_workers_at_both(self, pair: LocalCluster) -> None:
        with self.worker(pair, 0), self.worker(pair, 1):
            run(pair, 0, self.program, "defer", 0, 40)
            run(pair, 1, self.program, "defer", 40, 80)
            self.wait_for_all(pair, range(80))

    def test_a_worker_is_killed_and_another_region_goes_on(self, pair: LocalCluster) -> None:
        run(pair, 0, self.program, "defer", 100, 103)
        with self.worker(pair, 0, 60) as lines:
            wait_until("its jobs", lambda: sum("pays" in line for line in lines) == 3, END_S)
        settle(pair)
        self.free(pair, 1)
        with self.worker(pair, 1):
            self.wait_for_all(pair, range(100, 103))

    @pytest.mark.parametrize("daemon", ["north", "south", PRIMARY])
    def test_a_daemon_is_killed_while_jobs_run(self, pair: LocalCluster, daemon: str) -> None:
        other = 1 if daemon == "north" else 0
        with self.worker(pair, other), self.worker(pair, 1 - other):
            run(pair, other, self.program, "defer", 200, 230)
            run(pair, 1 - other, self.program, "defer", 230, 260)
            wait_until(
                "a payment", lambda: execute(pair.sps[other], "SELECT 1 FROM unit LIMIT 1") != [], END_S
            )
            pair.kill(daemon)
            if daemon != PRIMARY:
                run(pair, other, self.program, "defer", 260, 270)
                done = "SELECT count(*) FROM unit WHERE name BETWEEN 'order 260' AND 'order 269'"
                wait_until("the other's work", lambda: execute(pair.sps[other], done) == [(10,)], END_S)
            pair.start(daemon)
            if self.frees_jobs:
                self.wait_for_all(pair, range(200, 260 if daemon == PRIMARY else 270))
        if not self.frees_jobs:
            self.free(pair, 0)
            with self.worker(pair, 0):
                self.wait_for_all(pair, range(200, 260 if daemon == PRIMARY else 270))
