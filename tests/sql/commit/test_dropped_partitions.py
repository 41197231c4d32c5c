"""DROP of partitions with rows, and schema changes in triggers. Nothing is committed; no daemon is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; CREATE SCHEMA apart AUTHORIZATION {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE event (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (0) TO (10);
CREATE TABLE "Event 2" PARTITION OF event FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE event_2_1 PARTITION OF "Event 2" FOR VALUES FROM (10) TO (15);
CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM (20) TO (30);
INSERT INTO event VALUES (1, 1), (2, 2), (11, 11);
CREATE TABLE apart.event_1 (id int PRIMARY KEY);
CREATE PROCEDURE drops(name text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('DROP TABLE %s', name); END $$;
CREATE TABLE item (id int PRIMARY KEY);
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM item;
CREATE FUNCTION refresh_total() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN REFRESH MATERIALIZED VIEW total; RETURN NULL; END $$;
CREATE TRIGGER refresh_total AFTER INSERT ON item FOR EACH STATEMENT EXECUTE FUNCTION refresh_total();
CREATE TABLE other (id int PRIMARY KEY);
CREATE MATERIALIZED VIEW others AS SELECT count(*) AS n FROM other;
CREATE FUNCTION refresh_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('psp.schema_changes', 'local', true);
    REFRESH MATERIALIZED VIEW others;
    PERFORM set_config('psp.schema_changes', '', true);
    RETURN NULL;
END $$;
CREATE TRIGGER refresh_here AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION refresh_here();
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """As the role that may change the schema."""
    with app.rolled_back() as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.commit()
        yield connection


def keys(connection: psycopg.Connection[Any]) -> list[str]:
    """Those of the rows that have gone. The guard has nothing to say, and nothing is left half-way."""
    connection.execute("RESET ROLE")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    assert connection.execute("SELECT FROM psp.own_commands").fetchall() == []
    rows = connection.execute("SELECT encode(payload, 'hex') FROM psp.write_set WHERE op = 'e'").fetchall()
    return sorted(key[-8:] for (key,) in rows)


DROPS = [
    ("DROP TABLE event_1", ["00000001", "00000002"]),
    ("DROP TABLE IF EXISTS public . event_1 CASCADE;", ["00000001", "00000002"]),
    ("DROP TABLE event_3", []),
    ('DROP TABLE "Event 2"', ["0000000b"]),
    ('DROP TABLE /* all */ event_2_1, "Event 2", event_1 -- gone', ["00000001", "00000002", "0000000b"]),
    ("CALL drops('event_1')", ["00000001", "00000002"]),
    ("SELECT psp.ddl('DROP TABLE event_1')", ["00000001", "00000002"]),
    ("DROP TABLE apart.event_1", []),
]


@pytest.mark.parametrize(("statement", "gone"), DROPS, ids=[entry[0] for entry in DROPS])
def test_the_keys_of_its_rows_go_along(
    connection: psycopg.Connection[Any], statement: str, gone: list[str]
) -> None:
    connection.execute(statement.encode())
    assert keys(connection) == gone


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT psp.ddl('DROP TABLE event_1; DROP TABLE event_3')",
        "SELECT psp.ddl('DROP TABLE event_3; DROP TABLE event_1')",
        "SELECT psp.ddl('DO $$ BEGIN DROP TABLE event_3; DROP TABLE event_1; DROP TABLE nothing; END $$')",
    ],
)
def test_what_drops_it_in_another_way(connection: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedTable)):
        connection.execute(statement.encode())


def test_of_one_that_stays_nothing_goes(connection: psycopg.Connection[Any]) -> None:
    """Nobody can make PostgreSQL drop another table than psp has found; if it does, nothing goes."""
    connection.execute("RESET ROLE")
    connection.execute(
        "SELECT psp.note_partitions_to_drop('DROP TABLE public.event_1', %s, '{}')",
        [APPLICATION],
    )
    with refused("has not dropped"):
        connection.execute("SELECT psp.check_partitions_have_gone()")


def test_the_whole_goes_with_its_partitions(connection: psycopg.Connection[Any]) -> None:
    connection.execute("DROP TABLE event_1, event")
    assert one(connection, "SELECT to_regclass('event')") is None


def test_a_trigger_refreshes_no_view_of_all(connection: psycopg.Connection[Any]) -> None:
    with refused("REFRESH MATERIALIZED VIEW in a trigger is not supported.*psp.schema_changes"):
        connection.execute("INSERT INTO item VALUES (1)")


def test_a_trigger_refreshes_the_view_here(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO other VALUES (1), (2)")
    assert one(connection, "SELECT n FROM others") == 2
    assert one(connection, "SELECT psp.statements_of_transaction()") == 0
