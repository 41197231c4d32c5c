"""No text of psp.ddl writes rows that nothing captures. Nothing is committed; no daemon is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, adopted_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE e1 (id int PRIMARY KEY, v int);
INSERT INTO e1 VALUES (1, 1);
CREATE TABLE other (id int PRIMARY KEY, v int);
INSERT INTO other VALUES (1, 1);
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
INSERT INTO parted VALUES (1, 1);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE other SET v = 99; RETURN 1; END';
CREATE TRIGGER own AFTER UPDATE ON e1 FOR EACH ROW EXECUTE FUNCTION nothing();
"""


@pytest.fixture(scope="module", params=["sql", "auto"])
def app(server: PgServer, request: pytest.FixtureRequest) -> Iterator[Pair]:
    choice: CaptureChoice = request.param
    pair = adopted_pair(server, SCHEMA, capture=choice)
    pair.run(f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}")
    pair.run(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}")
    pair.run(f"GRANT SET ON PARAMETER session_replication_role TO {APPLICATION}")
    yield pair
    pair.run(f"REVOKE SET ON PARAMETER session_replication_role FROM {APPLICATION}")


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.application() as connection:
        yield connection


def trigger_of(connection: psycopg.Connection[Any], relation: str) -> str:
    """The one that captures an UPDATE."""
    query = """
        SELECT t.tgname FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
         WHERE t.tgrelid = %s::regclass AND f.proname ~ '^capture_[0-9]+_(update|row)$' AND t.tgtype & 16 <> 0
         ORDER BY f.proname LIMIT 1"""
    return str(one(connection, query, relation))


ATTACKS = [
    "ALTER TABLE {table} ENABLE REPLICA TRIGGER {trigger}; UPDATE {table} SET v = 99",
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}; UPDATE {table} SET v = 99",
    "ALTER TABLE {table} DISABLE TRIGGER {trigger}; UPDATE {table} SET v = 99",
    "ALTER TRIGGER {trigger} ON {table} RENAME TO x; DROP TRIGGER x ON {table}; UPDATE {table} SET v = 99",
    "CREATE OR REPLACE TRIGGER {trigger} AFTER UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION nothing(); "
    "UPDATE {table} SET v = 99",
    "CREATE EXTENSION citext; ALTER TRIGGER {trigger} ON {table} DEPENDS ON EXTENSION citext; "
    "DROP EXTENSION citext; UPDATE {table} SET v = 99",
    "UPDATE {table} SET v = 99; ALTER TABLE {table} ADD attached int",
    "ALTER TABLE {table} ENABLE TRIGGER USER; SET session_replication_role = replica; "
    "UPDATE {table} SET v = 99; SET session_replication_role = origin",
    "ALTER TABLE {table} ENABLE TRIGGER USER; UPDATE {table} SET v = 99",
    "UPDATE {table} SET v = 99; CREATE TABLE fresh (id int PRIMARY KEY)",
]


@pytest.mark.parametrize("table", ["e1", "parted", "part"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_text_cannot_turn_capture_off(connection: psycopg.Connection[Any], attack: str, table: str) -> None:
    text = attack.format(table=table, trigger=trigger_of(connection, table))
    words = "" if table == "part" else "^psp: "  # PostgreSQL itself refuses some of a partition
    with pytest.raises(psycopg.DatabaseError, match=words):
        connection.execute("SELECT psp.ddl(%s)", [text])


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE parted DETACH PARTITION part; DELETE FROM part",
        "UPDATE e1 SET v = 99, id = 12; ALTER TABLE parted ATTACH PARTITION e1 FOR VALUES FROM (10) TO (20)",
        "ALTER TABLE e1 ADD attached int DEFAULT writes() /* other */",
        "ALTER TABLE e1 ADD made int DEFAULT writes() /* attach partition other */",
    ],
)
def test_rows_that_pass_the_triggers(connection: psycopg.Connection[Any], text: str) -> None:
    with refused("rows"):
        connection.execute("SELECT psp.ddl(%s)", [text])


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE e1 ADD attached int DEFAULT writes() /* other */",
        "ALTER TABLE e1 ADD made int DEFAULT writes() /* attach partition other */",
    ],
)
def test_rows_of_an_ordinary_statement(connection: psycopg.Connection[Any], text: str) -> None:
    with refused("rows"):
        connection.execute(text)


ALLOWED = [
    "ALTER TABLE e1 ENABLE TRIGGER USER",
    "ALTER TABLE e1 DISABLE TRIGGER own",
    "ALTER TABLE e1 ENABLE TRIGGER own",
    "ALTER TRIGGER own ON e1 RENAME TO mine",
    "CREATE OR REPLACE TRIGGER own AFTER INSERT ON e1 FOR EACH ROW EXECUTE FUNCTION nothing()",
    "ALTER TABLE e1 ADD attached int",
    "CREATE TABLE next (LIKE parted); INSERT INTO next VALUES (12, 1); "
    "ALTER TABLE parted ATTACH PARTITION next FOR VALUES FROM (10) TO (20)",
    "ALTER TABLE other DROP v",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_changes_no_row_goes_on(connection: psycopg.Connection[Any], text: str) -> None:
    connection.execute("SELECT psp.ddl(%s)", [text])
    connection.execute("RESET SESSION AUTHORIZATION")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
