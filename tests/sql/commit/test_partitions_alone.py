"""Unique indexes and exclusion constraints that one partition has alone: which rows take their guards."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair
from tests.sql.refusals import refused
from tests.sql.write_sets import entries, written

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
CREATE SCHEMA elsewhere AUTHORIZATION {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION same(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE TABLE job (queue int, id int, state text, code text, PRIMARY KEY (queue, id))
    PARTITION BY RANGE (queue);
CREATE TABLE job_1 (code text, state text, id int, queue int, PRIMARY KEY (queue, id));
ALTER TABLE job ATTACH PARTITION job_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE elsewhere.job_2 PARTITION OF job FOR VALUES FROM (10) TO (20);
CREATE TABLE job_3 PARTITION OF job FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (id);
CREATE TABLE job_3_1 PARTITION OF job_3 FOR VALUES FROM (0) TO (10);
CREATE UNIQUE INDEX job_1_code ON job_1 (code) WHERE state = 'new';
CREATE UNIQUE INDEX job_1_state ON elsewhere.job_2 (same(code));
CREATE UNIQUE INDEX job_3_state ON job_3 (state, queue, id);
CREATE UNIQUE INDEX job_all ON job (queue, id, code);
"""
INSERT = "INSERT INTO job VALUES ({}, 1, 'new', 'a')"


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def ddl(connection: psycopg.Connection[Any], statement: str) -> None:
    """As the application's role. No daemon can be asked about the rows before it, so they are forgotten."""
    connection.execute("DELETE FROM psp.write_set WHERE table_id > 0 AND op <> 'c'")
    connection.execute(f"SET LOCAL search_path = public; SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []


def guards(connection: psycopg.Connection[Any], statement: str) -> dict[str, list[bytes | None]]:
    """The keys of the guards that a statement takes, by the names of their indexes; of partitions only."""
    before = len(written(connection))
    connection.execute(f"SET LOCAL search_path = public; SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute(statement.encode())
    connection.execute("RESET ROLE")
    rows = [row for row in written(connection)[before:] if row.op == "g" and row.name != "job_all"]
    return {row.name: entry.key for row in rows for entry in entries(row)}


def test_a_row_takes_those_of_its_partition(connection: psycopg.Connection[Any]) -> None:
    assert guards(connection, INSERT.format(1)) == {"job_1_code": [b"a"]}
    assert guards(connection, INSERT.format(11)) == {"elsewhere.job_1_state": [b"a"]}
    (found,) = guards(connection, INSERT.format(21)).items()
    assert found[0] == "job_3_state"
    assert found[1][0] == b"new"


def test_an_update_takes_them_where_it_changes_their_columns(connection: psycopg.Connection[Any]) -> None:
    guards(connection, "INSERT INTO job VALUES (1, 1, 'old', 'a')")
    assert guards(connection, "UPDATE job SET code = 'b'") == {}
    assert guards(connection, "UPDATE job_1 SET state = 'new'") == {"job_1_code": [b"b"]}
    assert guards(connection, "UPDATE job SET code = code") == {}


def test_a_row_that_moves_takes_those_of_the_other_partition(connection: psycopg.Connection[Any]) -> None:
    guards(connection, INSERT.format(1))
    assert guards(connection, "UPDATE job SET queue = 11") == {"elsewhere.job_1_state": [b"a"]}


def test_they_come_and_go_with_schema_changes(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, "CREATE UNIQUE INDEX made_later ON job_3_1 (code)")
    assert "made_later" in guards(connection, INSERT.format(21))
    ddl(connection, "DROP INDEX made_later")
    assert "made_later" not in guards(connection, "UPDATE job SET code = 'c'")


def test_a_table_with_one_becomes_a_partition_and_is_none_any_more(
    connection: psycopg.Connection[Any],
) -> None:
    ddl(
        connection,
        "CREATE TABLE job_4 (LIKE job, PRIMARY KEY (queue, id), CONSTRAINT job_4_code UNIQUE (code))",
    )
    ddl(connection, "ALTER TABLE job ATTACH PARTITION job_4 FOR VALUES FROM (40) TO (50)")
    assert guards(connection, INSERT.format(41)) == {"job_4_code": [b"a"]}
    ddl(connection, "ALTER TABLE job DETACH PARTITION job_4")
    assert guards(connection, "UPDATE job_4 SET code = 'b'")["job_4_code"] == [b"b"]
    assert guards(connection, INSERT.format(1)) == {"job_1_code": [b"a"]}


def test_no_foreign_key_refers_to_one(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, "ALTER TABLE job_1 ADD CONSTRAINT job_1_key UNIQUE (state)")
    with refused("unique in one partition only"):
        ddl(connection, "CREATE TABLE r (id int PRIMARY KEY, s text REFERENCES job_1 (state))")
