"""Indexes of jobs come to each SP at its own time. What PostgreSQL makes of them is the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import LiteralString

import pytest
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.schema_changes.statements import ddl, exists, wait_for_relation
from tests.cluster.schema_changes.test_jobs import autocommit, is_valid, wait_for_job
from tests.cluster.support import as_admin, connect, execute, raises, wait_for_row

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, v int UNIQUE);
INSERT INTO item SELECT n, n, n FROM generate_series(1, 100) n;
CREATE INDEX item_v ON item (v);
CREATE TABLE slow (id int PRIMARY KEY);
CREATE SCHEMA other;
CREATE TABLE other.item (id int PRIMARY KEY, v int);
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
"""


@contextmanager
def made_at_one(pair: LocalCluster, statement: str) -> Iterator[None]:
    """The first server has run the statement. At the second one an older job waits for a transaction."""
    north, south = pair.sps
    older = "CREATE INDEX CONCURRENTLY older ON slow (id)"
    with closing(connect(south)) as writer:
        writer.execute("INSERT INTO slow VALUES (1)")
        autocommit(north, older)
        wait_for_job(south, older, "running")
        autocommit(north, statement)
        wait_for_job(south, statement, "waiting")
        autocommit(north, "DROP INDEX CONCURRENTLY older")
        yield
    wait_for_job(south, statement, "done")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('older') IS NULL")


def definitions(sp: SpNode, table: str) -> list[tuple[str, ...]]:
    return execute(
        sp,
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename = %s ORDER BY 1",
        [table],
    )


@pytest.mark.parametrize("first", [0, 1], ids=["where it is", "where it is not yet"])
def test_a_table_like_one_with_an_index_of_a_job(pair: LocalCluster, first: int) -> None:
    sp, other = pair.sps[first], pair.sps[1 - first]
    with made_at_one(pair, "CREATE INDEX CONCURRENTLY item_job ON item (v, name)"):
        with connect(sp) as connection:
            connection.execute("CREATE TABLE copied (LIKE item INCLUDING ALL)")
            connection.execute("CREATE INDEX ON copied (v, name)")
            connection.execute("INSERT INTO copied SELECT * FROM item")
        wait_for_row(other, "SELECT 1 WHERE to_regclass('copied') IS NOT NULL")
        assert definitions(other, "copied") == definitions(sp, "copied")
    made = [name for (name,) in execute(sp, "SELECT indexname FROM pg_indexes WHERE tablename = 'copied'")]
    assert sum("v_name_idx" in name for name in made) == 2 - first
    with connect(sp) as connection:  # nothing that names one stops the other server
        for name in made:
            connection.execute(f"COMMENT ON INDEX {name} IS 'one of all servers'".encode())
        connection.execute("ALTER INDEX copied_v_name_idx RENAME TO renamed")
    wait_for_row(other, "SELECT 1 WHERE to_regclass('renamed') IS NOT NULL")
    autocommit(other, "DROP TABLE copied")
    autocommit(other, "DROP INDEX item_job")
    wait_for_row(sp, "SELECT 1 WHERE to_regclass('item_job') IS NULL AND to_regclass('copied') IS NULL")


def test_a_text_with_like_and_an_index_of_a_job(pair: LocalCluster) -> None:
    """Which indexes it has made is known when it has run. A text of several statements goes before that."""
    north, south = pair.sps
    copy = "CREATE TABLE copied (LIKE item INCLUDING ALL)"
    with made_at_one(pair, "CREATE INDEX CONCURRENTLY item_job ON item (v, name)"):
        with raises("0A000"):
            ddl(north, f"{copy}; CREATE VIEW beside AS SELECT 1 AS one")
        ddl(north, copy.replace("ALL", "DEFAULTS, PRIMARY KEY (id)"), "DROP TABLE copied", copy)
        wait_for_row(south, "SELECT 1 WHERE to_regclass('copied_v_name_idx') IS NOT NULL")
        assert definitions(south, "copied") == definitions(north, "copied")
    ddl(north, "DROP INDEX item_job", f"{copy.replace('copied', 'again')}; DROP TABLE again, copied")


def test_an_index_of_a_job_does_not_become_a_part(pair: LocalCluster) -> None:
    """Others would have another one there, or stop."""
    north, south = pair.sps
    with made_at_one(pair, "CREATE INDEX CONCURRENTLY part_job ON part (v)"):
        with connect(north) as connection:
            connection.execute("CREATE INDEX parted_v ON ONLY parted (v)")
        with raises("0A000"):
            autocommit(north, "ALTER INDEX parted_v ATTACH PARTITION part_job")
        with raises("0A000"):
            autocommit(north, "CREATE INDEX whole_v ON parted (v)")
        autocommit(south, "DROP INDEX parted_v")
    assert is_valid(south, "part_job")
    for sp in pair.sps:
        with raises("0A000"):
            autocommit(sp, "CREATE INDEX whole_v ON parted (v)")
    autocommit(north, "DROP INDEX part_job")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('part_job') IS NULL")


def test_an_index_of_the_whole_comes_beside_that_of_a_job(pair: LocalCluster) -> None:
    """Where it ran first the job had still to make its own. Elsewhere that one does not become the part."""
    north, south = pair.sps
    with made_at_one(pair, "CREATE INDEX CONCURRENTLY part_job ON part (v)"):
        autocommit(south, "CREATE INDEX whole_v ON parted (v)")
        wait_for_row(north, "SELECT 1 WHERE to_regclass('part_v_idx') IS NOT NULL")
    for sp in pair.sps:  # the first server makes its own once more
        wait_for_row(sp, "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('part_job') AND indisvalid")
    assert definitions(north, "part") == definitions(south, "part")
    autocommit(south, "DROP INDEX whole_v, part_job")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('whole_v') IS NULL AND to_regclass('part_job') IS NULL")


LONG = "a" * 63


def test_which_indexes_of_jobs_a_statement_concerns(pair: LocalCluster) -> None:
    """By objects: not by what its words may be."""
    north, south = pair.sps
    with connect(south) as connection:
        connection.execute("CREATE INDEX same ON other.item (v)")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('other.same') IS NOT NULL")
    with made_at_one(pair, f"CREATE INDEX CONCURRENTLY {LONG} ON item (v, name)"):
        for name in (LONG, f"{LONG}bc", f'"{LONG}bc"', f"public . {LONG.upper()}b", f"/* */ other.x, {LONG}"):
            with raises("55006"):
                autocommit(south, f"DROP INDEX IF EXISTS {name}")
        with raises("55006"):
            autocommit(south, f"ALTER INDEX IF EXISTS {LONG}bc RENAME TO brief")
        with raises("55006"):
            ddl(south, f"DROP INDEX IF EXISTS public.{LONG}bc")
    autocommit(south, f"DROP INDEX {LONG}")
    with made_at_one(pair, "CREATE INDEX CONCURRENTLY same ON item (v, name)"):
        with raises("55006"):
            autocommit(south, "DROP INDEX IF EXISTS same")
        autocommit(south, "DROP INDEX other.same -- not same")
        wait_for_row(north, "SELECT 1 WHERE to_regclass('other.same') IS NULL")
    assert is_valid(south, "same")
    autocommit(north, "DROP INDEX same")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('same') IS NULL")


def test_an_index_of_one_server_is_dropped_concurrently_there(pair: LocalCluster) -> None:
    """Another server may have another one of that name."""
    for sp in pair.sps:
        with connect(sp, autocommit=True) as connection:
            connection.execute("SET psp.schema_changes = local")
            connection.execute("CREATE INDEX here ON item (name)")
    north, south = pair.sps
    autocommit(north, "DROP INDEX CONCURRENTLY IF EXISTS public.here")
    assert not exists(north, "here")
    autocommit(north, "CREATE VIEW next AS SELECT 1 AS one; DROP VIEW next")
    jobs = execute(as_admin(south), "SELECT 1 FROM psp.schema_jobs WHERE statement LIKE '%here%'")
    assert jobs == []
    assert exists(south, "here")
    with connect(south, autocommit=True) as connection:
        connection.execute('DROP INDEX CONCURRENTLY "here"')
    assert not exists(south, "here")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX CONCURRENTLY of_here ON here_only (v)",
        "create index concurrently if not exists of_here on public.here_only (v)",
        "CREATE UNIQUE INDEX CONCURRENTLY of_here ON ONLY here_only (v)",
        "-- of a tool\nCREATE INDEX CONCURRENTLY ON here_only (v)",
    ],
)
def test_an_index_of_a_table_of_one_server_is_made_concurrently_there(
    pair: LocalCluster, statement: LiteralString
) -> None:
    """No other server could make it: there is no such table."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE UNLOGGED TABLE here_only (id int PRIMARY KEY, v int)")
    autocommit(north, statement)
    made: LiteralString = (
        "SELECT indisvalid FROM pg_index WHERE indrelid = 'here_only'::regclass AND NOT indisprimary"
    )
    assert execute(north, made) == [(True,)]
    autocommit(north, "CREATE VIEW next AS SELECT 1 AS one")
    wait_for_relation(south, "next")
    for sp in pair.sps:
        assert (
            execute(as_admin(sp), "SELECT 1 FROM psp.schema_jobs WHERE statement LIKE '%%here_only%%'") == []
        )
    autocommit(north, "DROP VIEW next")
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("DROP TABLE here_only")
