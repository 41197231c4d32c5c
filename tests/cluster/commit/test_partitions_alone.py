"""A unique index that one partition has alone holds at all semi-primaries, and there alone."""

from collections.abc import Iterator
from typing import LiteralString

import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Zone

from tests.cluster.commit.test_conflicts import assert_one_winner, race
from tests.cluster.schema_changes.statements import changing_pair, settle_unchanged
from tests.cluster.support import connect, execute, paused, settle, wait_for_row

SCHEMA = """
CREATE TABLE job (queue int, id int, state text, code text, PRIMARY KEY (queue, id))
    PARTITION BY LIST (queue);
CREATE TABLE job_1 (code text, id int, queue int, state text, PRIMARY KEY (queue, id));
CREATE UNIQUE INDEX job_1_code ON job_1 (coalesce(code, '')) WHERE state = 'new';
CREATE TABLE job_3 PARTITION OF job FOR VALUES IN (3);
CREATE UNIQUE INDEX job_3_code ON job_3 (code);
ALTER TABLE job ATTACH PARTITION job_1 DEFAULT;
"""
ADD: LiteralString = "INSERT INTO job VALUES (%s, %s, 'new', %s)"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_pair
    settle_unchanged(shared_pair)


@pytest.mark.parametrize(("queue", "index"), [(1, "job_1_code"), (3, "job_3_code")])
def test_the_same_value_in_one_partition(pair: LocalCluster, queue: int, index: str) -> None:
    _, losers = assert_one_winner(pair.sps, race(pair.sps, ADD, [(queue, 1, "a"), (queue, 2, "a")]))
    assert index in (losers[0].diag.message_detail or "")


def test_the_same_value_in_two_partitions(pair: LocalCluster) -> None:
    assert race(pair.sps, ADD, [(1, 11, "b"), (3, 11, "b")]) == [None, None]


def test_one_that_is_made_in_a_running_cluster(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(north, "CREATE TABLE job_4 PARTITION OF job FOR VALUES IN (4)")
    execute(north, "CREATE UNIQUE INDEX job_4_code ON job_4 (code)")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('job_4_code') IS NOT NULL")
    assert_one_winner(pair.sps, race(pair.sps, ADD, [(4, 21, "c"), (4, 22, "c")]))
    settle(pair)
    execute(south, "DROP INDEX job_4_code")
    settle(pair)
    assert race(pair.sps, ADD, [(4, 23, "c"), (4, 24, "c")]) == [None, None]


def test_values_that_change_hands_in_one_batch(pair: LocalCluster) -> None:
    """What comes while the daemon is stopped is one batch, and the index checks each row of it."""
    north, south = pair.sps
    execute(north, "INSERT INTO job VALUES (3, 31, 'new', 'd'), (3, 32, 'new', 'e')")
    wait_for_row(south, "SELECT 1 FROM job WHERE id = 32")
    with paused(pair, "south"):
        for value, number in (("x", 31), ("d", 32), ("e", 31)):
            execute(north, "UPDATE job SET code = %s WHERE id = %s", (value, number))
    settle(pair)
    assert execute(south, "SELECT id, code FROM job_3 WHERE id > 30 ORDER BY 1") == [(31, "e"), (32, "d")]


def test_one_becomes_a_table_of_its_own_and_a_partition_again(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("ALTER TABLE job DETACH PARTITION job_3")
    settle(pair)
    execute(south, "DELETE FROM job_3 WHERE code = 'f'")
    assert_one_winner(pair.sps, race(pair.sps, ADD.replace("job ", "job_3 "), [(3, 41, "f"), (3, 42, "f")]))
    settle(pair)
    execute(south, "ALTER TABLE job ATTACH PARTITION job_3 FOR VALUES IN (3)")
    settle(pair)
    assert_one_winner(pair.sps, race(pair.sps, ADD, [(3, 43, "g"), (3, 44, "g")]))


def test_a_server_that_joins_has_it(shared_pair: LocalCluster) -> None:
    growth.join(shared_pair, Zone("west"))
    settle(shared_pair)
    sps = [shared_pair.sps[0], shared_pair.sps[2]]
    assert_one_winner(sps, race(sps, ADD, [(3, 51, "h"), (3, 52, "h")]))
