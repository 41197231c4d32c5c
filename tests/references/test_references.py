"""Children for few parents at three distant SPs, parents that end and come back, and SIGKILL: no orphan.

`make test-references SEEDS=7` runs it. No part of `make test`.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone

from tests.cluster.support import (
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    SERIALIZATION_FAILURE,
    execute,
    wait_streaming,
)
from tests.migration.faults import draw_faults, strike
from tests.references.clients import (
    FOREIGN_KEY_VIOLATION,
    ORPHANS,
    READ_COMMITTED,
    UNIQUE_VIOLATION,
    Notes,
    change_parent,
    client,
    insert_child,
    put_child,
    update_parent,
    watcher,
)
from tests.threads import running_until_left

ZONES = (Zone("near", 30), Zone("middle", 90), Zone("far", 190))
NEWCOMER = Zone("newcomer", 60)
DEADLOCK = "40P01"
CHILDREN_ALONE_S, STORM_S = 10, 20
FAULTS = 8
DRAINED_S = 120
RESULTS = Path(os.environ.get("RESULTS", "results"))
EXPECTED = {SERIALIZATION_FAILURE, DEADLOCK, FOREIGN_KEY_VIOLATION, UNIQUE_VIOLATION}
EXPECTED_WITH_FAULTS = {
    *EXPECTED,
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    None,
    "57P01",
    "57P02",
    "57P03",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SEEDS: a number, or the first and the last: 1-3."""
    first, _, last = os.environ.get("SEEDS", "1").partition("-")
    metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


def test_no_orphans(seed: int) -> None:
    with LocalCluster.temporary(ZONES, Options(pg_settings={"shared_buffers": "64MB"})) as cluster:
        cluster.load_schema(Path(__file__).with_name("schema.sql"))
        growth.adopt(cluster)
        alone, storm, faults, joining = Notes(), Notes(), Notes(), Notes()
        with children_alone(cluster, seed, alone):
            time.sleep(CHILDREN_ALONE_S)
        judge(cluster, alone)
        with a_storm(cluster, seed, storm):
            time.sleep(STORM_S)
        judge(cluster, storm)
        random = Random(seed)
        with a_storm(cluster, seed + 1_000_000, faults):
            for fault in draw_faults(random, [sp.name for sp in cluster.sps], FAULTS):
                print(fault, flush=True)
                strike(cluster, fault)
        judge(cluster, faults)
        with a_storm(cluster, seed + 2_000_000, joining):
            newcomer = growth.join(cluster, NEWCOMER)
            with running_until_left(*clients_at(newcomer, seed, joining)):
                time.sleep(STORM_S / 4)
        judge(cluster, joining)
        write_result(seed, {"children alone": alone, "storm": storm, "faults": faults, "joining": joining})
    assert alone.errors == [], "children of one parent, and updates of the parent, do not meet"
    assert {state for _, state, _ in [*storm.errors, *joining.errors]} <= EXPECTED
    assert {state for _, state, _ in faults.errors} <= EXPECTED_WITH_FAULTS
    assert (
        storm.states("children")[SERIALIZATION_FAILURE] + storm.states("parents")[SERIALIZATION_FAILURE] > 0
    )


@contextmanager
def children_alone(cluster: LocalCluster, seed: int, notes: Notes) -> Iterator[None]:
    # REPEATABLE READ: PostgreSQL itself lets a child fail whose parent was updated since the snapshot.
    levels = (READ_COMMITTED,)
    clients = [
        client("children", sp, f"{seed} {sp.name} {n}", insert_child, notes, levels)
        for sp in cluster.sps
        for n in range(3)
    ]
    clients.append(client("updates", cluster.sps[1], f"{seed}", update_parent, notes, levels))
    with running_until_left(*clients):
        yield


@contextmanager
def a_storm(cluster: LocalCluster, seed: int, notes: Notes) -> Iterator[None]:
    with running_until_left(*(body for sp in cluster.sps for body in clients_at(sp, seed, notes))):
        yield


def clients_at(sp: SpNode, seed: int, notes: Notes) -> list[Callable[[threading.Event], None]]:
    return [
        *(client("children", sp, f"{seed} {sp.name} {n}", put_child, notes) for n in range(2)),
        client("parents", sp, f"{seed} {sp.name}", change_parent, notes),
        watcher(sp, notes),
    ]


def judge(cluster: LocalCluster, notes: Notes) -> None:
    wait_streaming(cluster)
    found = verify.verify(cluster, DRAINED_S)
    assert found.consistent, found.as_dict()
    assert notes.orphans == []
    for sp in cluster.sps:
        for table, orphans in ORPHANS.items():
            assert execute(sp, orphans) == [], (sp.name, table)
        journal = {row for (row,) in execute(sp, "SELECT id FROM journal")}
        assert notes.written <= journal, f"reported committed, not at {sp.name}"
        assert not notes.refused & journal, f"reported aborted, but at {sp.name}"


def write_result(seed: int, phases: dict[str, Notes]) -> None:
    result = {
        name: {
            "committed": Counter(notes.committed),
            "errors": {who: notes.states(who) for who in ("children", "parents", "updates")},
            "texts": Counter(text.splitlines()[0] for _, _, text in notes.errors).most_common(20),
        }
        for name, notes in phases.items()
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"seed": seed, **result}, indent=2, default=str, skipkeys=True)
    (RESULTS / f"references-{seed}.json").write_text(text + "\n")
