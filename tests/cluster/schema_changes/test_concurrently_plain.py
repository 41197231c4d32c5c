"""psp.concurrent_ddl = 'plain': migrations of others with CONCURRENTLY run as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.schema_changes.statements import exists, wait_for_relation
from tests.cluster.support import as_admin, connect, execute, needs_module, raises, retry

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, v int);
INSERT INTO item SELECT n, n, n FROM generate_series(1, 100) n;
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
"""

pytestmark = needs_module()


@pytest.fixture(autouse=True)
def preloaded(shared_pair: LocalCluster) -> Iterator[None]:
    """The first statement of a session must find the module."""
    for sp in shared_pair.sps:
        execute(as_admin(sp), "ALTER DATABASE app SET session_preload_libraries = 'psp_capture'")
    yield
    for sp in shared_pair.sps:
        execute(as_admin(sp), "ALTER DATABASE app RESET session_preload_libraries")


def session(sp: SpNode, setting: str = "plain") -> psycopg.Connection[tuple[object, ...]]:
    """Of a migration."""
    connection = connect(sp, autocommit=True)
    connection.execute(f"SET psp.concurrent_ddl = '{setting}'".encode())
    return connection


def is_unique(sp: SpNode, name: str) -> bool:
    return execute(sp, "SELECT indisunique FROM pg_index WHERE indexrelid = %s::regclass", [name]) == [
        (True,)
    ]


def test_a_unique_index_is_made_and_holds_everywhere(pair: LocalCluster) -> None:
    north, south = pair.sps
    with closing(session(north)) as migration:
        done = migration.execute(
            "-- of a library\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS item_name ON item (name)"
        )
        assert done.statusmessage == "CREATE INDEX"
    wait_for_relation(south, "item_name")
    assert is_unique(north, "item_name") and is_unique(south, "item_name")
    with connect(north) as first, connect(south) as second:
        first.execute("INSERT INTO item VALUES (201, 'twice', 1)")
        second.execute("INSERT INTO item VALUES (202, 'twice', 2)")
        first.commit()
        with raises("40001", "23505"):
            second.commit()
        second.rollback()
    with closing(session(south)) as migration:
        assert migration.execute("DROP INDEX CONCURRENTLY item_name").statusmessage == "DROP INDEX"
    retry(lambda: execute(south, "DELETE FROM item WHERE id > 200"))


def test_another_index_is_no_job(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = execute(as_admin(north), "SELECT count(*) FROM psp.schema_jobs")
    with closing(session(north)) as migration:
        migration.execute("CREATE INDEX CONCURRENTLY item_v ON item (v)")
    wait_for_relation(south, "item_v")
    assert execute(as_admin(north), "SELECT count(*) FROM psp.schema_jobs") == before
    with closing(session(north)) as migration:
        migration.execute("DROP INDEX CONCURRENTLY IF EXISTS item_v")


def test_a_partition_is_detached(pair: LocalCluster) -> None:
    north, south = pair.sps
    with closing(session(north)) as migration:
        done = migration.execute("ALTER TABLE parted DETACH PARTITION part CONCURRENTLY")
        assert done.statusmessage == "ALTER TABLE"
        migration.execute("CREATE TABLE after (id int PRIMARY KEY)")
    wait_for_relation(south, "after")
    assert execute(south, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'parted'::regclass") == [(0,)]


def test_what_one_server_has_alone_is_indexed_there(pair: LocalCluster) -> None:
    north, south = pair.sps
    with closing(session(north)) as migration:
        migration.execute("CREATE TEMP TABLE mine (id int PRIMARY KEY, v int)")
        migration.execute("CREATE INDEX CONCURRENTLY mine_v ON mine (v)")
        migration.execute("SET psp.schema_changes = local")
        migration.execute("CREATE UNLOGGED TABLE alone (id int PRIMARY KEY, v int)")
        migration.execute("CREATE INDEX CONCURRENTLY alone_v ON alone (v)")
        migration.execute("DROP TABLE alone")
        migration.execute("RESET psp.schema_changes")
        migration.execute("CREATE TABLE later (id int PRIMARY KEY)")
    wait_for_relation(south, "later")


def test_a_role_that_changes_no_schema_is_refused_as_without_it(pair: LocalCluster) -> None:
    with connect(as_admin(pair.sps[0]), autocommit=True) as admin:
        admin.execute("SET psp.concurrent_ddl = 'plain'")
        with raises("0A000"):
            admin.execute("CREATE UNIQUE INDEX CONCURRENTLY item_name ON item (name)")


def test_what_postgresql_refuses_is_refused(pair: LocalCluster) -> None:
    with closing(session(pair.sps[0])) as migration:
        with raises("25001"), migration.transaction():
            migration.execute("CREATE UNIQUE INDEX CONCURRENTLY item_name ON item (name)")
        with raises("42703"):
            migration.execute("CREATE UNIQUE INDEX CONCURRENTLY item_name ON item (nothing)")
    assert not exists(pair.sps[0], "item_name")


@pytest.mark.parametrize("setting", ["", "on"])
def test_without_the_setting_it_is_refused(pair: LocalCluster, setting: str) -> None:
    with closing(session(pair.sps[0], setting)) as migration, raises("0A000"):
        migration.execute("CREATE UNIQUE INDEX CONCURRENTLY item_name ON item (name)")
