"""CREATE UNIQUE INDEX CONCURRENTLY: it becomes a schema change when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.schema_changes.statements import (
    changes,
    changing_pair,
    exists,
    settle_unchanged,
    wait_for_relation,
)
from tests.cluster.schema_changes.writers import written_without_a_pause
from tests.cluster.support import (
    as_admin,
    connect,
    execute,
    raises,
    retry,
    wait_for_row,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, s text NOT NULL, v int NOT NULL DEFAULT 0);
INSERT INTO item SELECT n, n, 0 FROM generate_series(1, 20) n;
"""
CREATE: LiteralString = "CREATE UNIQUE INDEX CONCURRENTLY item_s ON item (s)"
STATE: LiteralString = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('item_s')"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_pair
    settle_unchanged(shared_pair)
    north, south = shared_pair.sps
    execute(north, "DELETE FROM item WHERE id > 20")
    if exists(south, "item_s"):
        execute(north, "DROP INDEX item_s")
        wait_for_row(south, "SELECT 1 WHERE to_regclass('item_s') IS NULL")


def autocommit(sp: SpNode, statement: LiteralString) -> None:
    execute(sp, statement)


def test_it_comes_everywhere_and_holds_everywhere(pair: LocalCluster) -> None:
    north, south = pair.sps
    autocommit(
        north, "create  unique index CONCURRENTLY if not exists item_s ON item (s) -- as a tool writes it"
    )
    wait_for_relation(south, "item_s")
    assert execute(north, STATE) == execute(south, STATE) == [(True,)]
    newest: LiteralString = (
        "SELECT statement, settings ? 'job' FROM psp.schema_history ORDER BY change DESC LIMIT 1"
    )
    assert execute(as_admin(south), newest) == [("CREATE UNIQUE INDEX item_s ON item (s)", False)]
    with connect(north) as first, connect(south) as second:
        first.execute("INSERT INTO item VALUES (21, 'taken')")
        second.execute("INSERT INTO item VALUES (22, 'taken')")
        first.commit()
        with raises("40001", "57P01"):
            second.commit()
    wait_for_row(south, "SELECT 1 FROM item WHERE s = 'taken'")
    with raises("23505"):
        autocommit(south, "INSERT INTO item VALUES (22, 'taken')")


def test_on_a_table_that_all_write_without_a_pause(pair: LocalCluster) -> None:
    north, south = pair.sps
    with written_without_a_pause(south, 3), written_without_a_pause(north, 2):
        autocommit(north, CREATE)
    wait_for_relation(south, "item_s")
    assert execute(north, STATE) == [(True,)]


def test_without_a_name_and_one_that_is_there(pair: LocalCluster) -> None:
    north, south = pair.sps
    autocommit(north, "CREATE UNIQUE INDEX CONCURRENTLY ON item (s, v)")
    wait_for_relation(south, "item_s_v_idx")
    before = changes(north)
    autocommit(north, "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS item_s_v_idx ON item (s)")
    assert changes(north) == before
    autocommit(north, "DROP INDEX item_s_v_idx")


def test_who_is_no_migrator_is_told_what_to_do(pair: LocalCluster) -> None:
    with raises("0A000") as caught:
        autocommit(as_admin(pair.sps[0]), CREATE)
    assert "SET ROLE to one that may call psp.ddl" in str(caught[0].diag.message_hint)
    assert not exists(pair.sps[0], "item_s")


def test_what_was_not_made_to_its_end_can_be_dropped_and_made_again(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(north, "INSERT INTO item VALUES (21, '1')")
    with raises("23505"):
        autocommit(north, CREATE)
    autocommit(north, "DROP INDEX CONCURRENTLY item_s")
    with raises("23505"):
        autocommit(north, CREATE)
    autocommit(north, "DROP INDEX item_s")  # the other server does not have it
    execute(north, "DELETE FROM item WHERE id = 21")
    autocommit(north, CREATE)
    wait_for_relation(south, "item_s")


@contextmanager
def older_snapshot(sp: SpNode) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """An index that is made CONCURRENTLY refuses rows, and waits for this one before it is valid."""
    with connect(sp) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        yield connection


def wait_until_made(sp: SpNode) -> None:
    wait_for_row(
        as_admin(sp), "SELECT 1 FROM pg_stat_progress_create_index WHERE phase = 'waiting for old snapshots'"
    )


def test_what_was_not_made_to_its_end_refuses_no_rows_that_arrive(pair: LocalCluster) -> None:
    """PostgreSQL leaves an index that is not valid, and refuses rows by it all the same."""
    north, south = pair.sps

    def make() -> None:
        with raises("57014"):
            autocommit(north, CREATE)

    with older_snapshot(north), running(make):
        wait_until_made(north)
        execute(as_admin(north), "SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index")
    with raises("23505"):
        autocommit(north, "INSERT INTO item VALUES (21, '1')")
    execute(south, "INSERT INTO item VALUES (21, '1')")
    wait_for_row(north, "SELECT 1 FROM item WHERE id = 21")
    assert not exists(north, "item_s")


def test_the_same_value_arrives_while_it_is_made(pair: LocalCluster) -> None:
    north, south = pair.sps

    def make() -> None:
        with raises("57014", "40001"):
            autocommit(north, CREATE)

    with older_snapshot(north) as older, running(make):
        wait_until_made(north)
        with raises("23505"):
            autocommit(north, "INSERT INTO item VALUES (23, '3')")
        execute(south, "INSERT INTO item VALUES (21, '1')")
        wait_for_row(north, "SELECT 1 FROM item WHERE id = 21")
        older.rollback()
    assert not exists(north, "item_s")
    assert not exists(south, "item_s")


def test_its_daemon_is_killed_while_it_is_made(pair: LocalCluster) -> None:
    north, south = pair.sps

    def make() -> None:
        with raises("08006"):
            autocommit(north, CREATE)

    with older_snapshot(north) as older, running(make):
        wait_until_made(north)
        pair.kill("north", "daemon")
        older.rollback()
    pair.start("north", "daemon")
    retry(lambda: execute(north, "UPDATE item SET v = v + 1 WHERE id = 1"), ("08006",))
    assert execute(north, STATE) == [(False,)]
    autocommit(north, "DROP INDEX CONCURRENTLY item_s")
    autocommit(north, CREATE)
    wait_for_relation(south, "item_s")


def test_other_schema_changes_arrive_while_it_is_made(pair: LocalCluster) -> None:
    """One of another table passes. One of the same table comes first, and ends what the index waits for."""
    north, south = pair.sps
    with older_snapshot(south) as older, running(lambda: autocommit(south, CREATE)):
        wait_until_made(south)
        autocommit(north, "CREATE TABLE other (id int PRIMARY KEY)")
        wait_for_relation(south, "other")
        assert execute(south, STATE) == [(False,)]
        autocommit(north, "ALTER TABLE item ADD COLUMN w int DEFAULT 1")
        wait_for_row(south, "SELECT 1 FROM pg_attribute WHERE attrelid = 'item'::regclass AND attname = 'w'")
        with raises("57P01"):
            older.execute("SELECT 1")
    wait_for_relation(north, "item_s")
    autocommit(north, "ALTER TABLE item DROP COLUMN w")
