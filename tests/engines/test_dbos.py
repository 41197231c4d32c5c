"""DBOS Transact over two semi-primaries: its own migrations, and each workflow once, while things are killed.

`make test-engines` runs it, and installs the engine. docs/workflows.md says how to set it up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import LiteralString

import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, execute, needs_module, settle
from tests.engines.support import end, pair_for, running
from tests.retrying.support import wait_for_units

FOR_ROLE: tuple[LiteralString, ...] = (
    "ALTER ROLE {role} SET psp.concurrent_ddl = 'plain'",
    "ALTER ROLE {role} SET psp.serializable = 'repeatable read'",
    "ALTER ROLE {role} SET psp.lost_sqlstate = '40P01'",
    "ALTER ROLE {role} SET psp.retry_autocommit = 5",
)

pytestmark = needs_module()


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    """As docs/workflows.md sets it up, with the engine's tables made by itself."""
    with pair_for(FOR_ROLE) as cluster:
        with worker(cluster, 0, "run", 0, 1) as first:
            assert results(first) == ["reservation 0"]
        settle(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def each_once(pair: LocalCluster) -> Iterator[None]:
    """At both, after each test: every workflow that was started has ended, and has paid once."""
    yield
    settle(pair)
    unfinished = "SELECT workflow_uuid, status FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
    started = "SELECT count(*) FROM dbos.workflow_status"
    for sp in pair.sps:
        wait_until("every workflow's end", lambda sp=sp: execute(sp, unfinished) == [], WAIT_S)  # type: ignore[misc]
    names = [
        f"order {n}"
        for (n,) in execute(pair.sps[1], "SELECT substr(workflow_uuid, 7) FROM dbos.workflow_status")
    ]
    assert execute(pair.sps[0], started) == execute(pair.sps[1], started)
    wait_for_units(pair, names)


def worker(
    pair: LocalCluster, sp: int, command: str, *arguments: object
) -> AbstractContextManager[subprocess.Popen[str]]:
    """The application beside a semi-primary."""
    return running(pair, sp, "dbos_orders.py", pair.sps[sp].name, command, *arguments)


def results(process: subprocess.Popen[str]) -> list[str]:
    """What its workflows have returned."""
    return [text.strip(" '[]") for text in end(process).rsplit("results ", 1)[1].strip().split(",")]


def test_the_same_workflows_are_started_at_both(pair: LocalCluster) -> None:
    with worker(pair, 0, "run", 100, 150) as north, worker(pair, 1, "run", 100, 150) as south:
        expected = sorted(f"reservation {number}" for number in range(100, 150))
        assert sorted(results(north)) == expected
        assert sorted(results(south)) == expected


def test_a_worker_is_killed_and_another_region_goes_on(pair: LocalCluster) -> None:
    with worker(pair, 0, "run", 200, 203, "slow") as killed:
        assert killed.stdout is not None
        for _ in range(3):
            assert "reserves" in killed.stdout.readline()
        settle(pair)
    with worker(pair, 1, "recover", pair.sps[0].name) as other:
        assert len(results(other)) == 3


@pytest.mark.parametrize("daemon", ["north", "south", PRIMARY])
def test_a_daemon_is_killed_while_workflows_run(pair: LocalCluster, daemon: str) -> None:
    first = {"north": 300, "south": 400, PRIMARY: 500}[daemon]
    with (
        worker(pair, 0, "run", first, first + 40) as north,
        worker(pair, 1, "run", first + 40, first + 80) as south,
    ):
        found = "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = %s"
        wait_until("the first workflow", lambda: execute(pair.sps[0], found, [f"order-{first}"]), WAIT_S)
        pair.kill(daemon)
        pair.start(daemon)
        assert len(results(north)) == len(results(south)) == 40
