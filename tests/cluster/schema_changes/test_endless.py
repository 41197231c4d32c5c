"""Functions that end where a row is written, and not where it is applied."""

from collections.abc import Iterator
from typing import LiteralString

import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options, SpNode

from tests.cluster.schema_changes.statements import changing_pair, ddl, settle_unchanged
from tests.cluster.support import as_admin, execute, wait_for_row, wait_streaming

SCHEMA = """
CREATE FUNCTION endless(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
    WHILE current_setting('session_replication_role') = 'replica' LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN $1;
END$$;
CREATE FUNCTION catches(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
    WHILE current_setting('session_replication_role') = 'replica' LOOP
        BEGIN
            PERFORM pg_sleep(0.01);
        EXCEPTION WHEN query_canceled THEN
            NULL;
        END;
    END LOOP;
    RETURN $1;
END$$;
CREATE TABLE indexed (id int PRIMARY KEY, v int);
CREATE INDEX indexed_v ON indexed (endless(v));
CREATE INDEX indexed_plain ON indexed (v);
CREATE TABLE only_one (id int PRIMARY KEY, v int);
CREATE UNIQUE INDEX only_one_v ON only_one (endless(v));
CREATE TABLE made (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (endless(v)) STORED);
CREATE TABLE made_catching (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (catches(v)) STORED);
"""
ENDS: LiteralString = (
    "CREATE OR REPLACE FUNCTION public.{}(int) RETURNS int "
    "LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'"
)


@pytest.fixture
def pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA, Options(sp_options={"trigger_timeout_ms": 500})) as cluster:
        yield cluster
        settle_unchanged(cluster)


def repair(sp: SpNode, statement: str) -> None:
    execute(as_admin(sp), "SELECT psp.repair(%s)", (statement,))


def test_an_index_that_is_not_unique_is_dropped(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(north, "INSERT INTO indexed VALUES (1, 1)")
    wait_for_row(south, "SELECT 1 FROM indexed WHERE id = 1")
    wait_for_row(south, "SELECT 1 FROM psp.status WHERE position('index indexed_v of' IN warnings) > 0")
    assert execute(south, "SELECT to_regclass('indexed_plain')::text") == [("indexed_plain",)]
    execute(as_admin(south), "DELETE FROM psp.lost_indexes")


@pytest.mark.parametrize(
    ("table", "function"), [("only_one", "endless"), ("made", "endless"), ("made_catching", "catches")]
)
def test_what_nothing_sets_aside_is_told(pair: LocalCluster, table: LiteralString, function: str) -> None:
    north, south = pair.sps
    execute(north, "INSERT INTO " + table + " VALUES (1, 1)")
    (error,) = wait_for_row(as_admin(south), "SELECT last_error FROM psp.status WHERE state = 'failed'")
    assert 'docs/operating.md, "When applying has stopped"' in error
    if function == "endless":
        assert "function endless(integer)" in error
    repair(south, ENDS.format(function))
    ddl(north, ENDS.format(function))
    wait_streaming(pair)
    verify.wait_drained(pair)
    assert execute(south, "SELECT id FROM " + table) == [(1,)]
