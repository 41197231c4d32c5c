"""`make test-failover SEEDS=7`: parts of the primary's nodes fail; the seed draws order and moments."""

import os
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.local import SpNode
from psp.waiting import wait_until

from tests.failover import outages
from tests.failover.faults import FAULTS, Fault, draw
from tests.failover.group import Group, group
from tests.failover.load import ACCOUNTS, AMOUNT, Notes, load
from tests.failover.nodes import Node
from tests.failover.outages import Outage

RESULTS = Path(os.environ.get("RESULTS", "results"))
ONLY = os.environ.get("FAULTS", "")
COMMITS = 20  # at each semi-primary before the fault, and again after it
AGAIN_S = 120


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SEEDS: a number, or the first and the last: 1-3."""
    first, _, last = os.environ.get("SEEDS", "1").partition("-")
    metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


@pytest.mark.timeout(1800)
def test_nothing_is_lost(seed: int) -> None:
    random = Random(seed)
    found: list[Outage] = []
    faults = [fault for fault in draw(random) if ONLY in fault.name]
    assert faults, [fault.name for fault in FAULTS]
    with group(Path(__file__).with_name("schema.sql")) as made:
        for fault in faults:
            found.append(fail(made, fault, seed, random))
        print(outages.show(found), flush=True)
    if not ONLY:
        outages.write(found, RESULTS)


def fail(made: Group, fault: Fault, seed: int, random: Random) -> Outage:
    """Load, the fault, commits at every semi-primary again, all repaired, and what must hold then."""
    leader = made.bring_back()
    led: float | None = None
    with load(made.sps, f"{seed} {fault.name}") as notes:
        commits_since(made, notes, time.monotonic(), COMMITS + random.randrange(40))
        node = place(made, fault, leader, random)
        print(f"{time.strftime('%H:%M:%S')} {fault.name}: {node.name}", flush=True)
        struck = time.monotonic()
        fault.strike(node)
        if fault.moves:
            wait_until("another leader", partial(made.new_leader, leader), AGAIN_S)
            led = time.monotonic()
        commits_since(made, notes, time.monotonic(), COMMITS)
        node.go_on()
        leader = made.bring_back()
        commits_since(made, notes, time.monotonic(), COMMITS)
    verified = made.verify(leader)  # which waits until all is applied
    assert verified.consistent, verified.as_dict()
    judge(made, notes)
    return outages.measure(fault.name, seed, notes, struck, led)


def place(made: Group, fault: Fault, leader: Node, random: Random) -> Node:
    if fault.place == "the leader":
        return leader
    if fault.place == "the synchronous standby":
        return made.synchronous_standby(leader)
    return random.choice(made.nodes)


def commits_since(made: Group, notes: Notes, since: float, number: int) -> None:
    """Waits until every semi-primary has told so many commits that began since then."""

    def enough() -> bool:
        assert made.ended_sps() == [], "semi-primaries whose daemon has ended"
        return all(sum(told.began >= since for told in notes.commits(sp.name)) >= number for sp in made.sps)

    wait_until(f"{number} commits at every semi-primary", enough, AGAIN_S, 0.5)


def judge(made: Group, notes: Notes) -> None:
    """What the clients were told is so, at every semi-primary."""
    assert notes.sums == [], "a snapshot with another sum"
    for sp in made.sps:
        rows = {row for (row,) in read(sp, "SELECT id FROM journal")}
        assert notes.rows("committed") <= rows, f"told committed, not at {sp.name}"
        assert not notes.rows("aborted") & rows, f"told aborted, but at {sp.name}"
        for told in notes.told:
            if told.sp == sp.name and told.transaction is not None:
                known = read(sp, "SELECT psp.outcome(%s)", (told.transaction,))
                assert known == [("committed" if told.row in rows else "aborted",)], told
        assert read(sp, "SELECT sum(amount)::bigint FROM account") == [(ACCOUNTS * AMOUNT,)]
        assert read(sp, TWICE_OR_HALF) == [], f"twice, or half of it, at {sp.name}"


TWICE_OR_HALF: LiteralString = """
    SELECT coalesce(c.id, j.what), c.n, j.n
      FROM counter c FULL JOIN (SELECT what, count(*) AS n FROM journal WHERE kind = 'count' GROUP BY what) j
           ON j.what = c.id
     WHERE c.n IS DISTINCT FROM j.n
    UNION ALL
    SELECT coalesce(c.name, j.what), 0, 0
      FROM claim c FULL JOIN (SELECT id, what FROM journal WHERE kind = 'claim') j ON j.id = c.id
     WHERE c.name IS DISTINCT FROM j.what
"""


def read(sp: SpNode, query: LiteralString, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    with psycopg.connect(sp.dsn, autocommit=True) as connection:
        return connection.execute(query, values).fetchall()
