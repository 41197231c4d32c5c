"""What EXPLAIN ANALYZE makes, and no event trigger sees: it is at one semi-primary. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, arriving
from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY);
CREATE MATERIALIZED VIEW adopted_view AS SELECT 1 AS a;
CREATE UNLOGGED TABLE adopted_table (a int);
"""
MADE = ["TABLE", "UNLOGGED TABLE", "MATERIALIZED VIEW"]


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        yield connection


def explain(connection: psycopg.Connection[Any], kind: str) -> None:
    connection.execute(f"EXPLAIN ANALYZE CREATE {kind} explained AS SELECT 1 AS a".encode())


def problems(connection: psycopg.Connection[Any]) -> list[str]:
    connection.execute("RESET ROLE")
    return [problem for (problem,) in connection.execute("SELECT psp.guard_problems()")]


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW over AS SELECT * FROM explained",
        "CREATE INDEX ON explained (a)",
        'COMMENT ON COLUMN u&"ex\\0070lained" . a IS NULL',
        "SELECT psp.ddl('GRANT SELECT ON Explained TO PUBLIC')",
        "DROP {} explained",
        "SELECT psp.job('ANALYZE explained')",
    ],
)
def test_no_schema_change_names_it(connection: psycopg.Connection[Any], kind: str, statement: str) -> None:
    explain(connection, kind)
    with refused("DROP (TABLE|MATERIALIZED VIEW) explained"):
        connection.execute(statement.format(kind.removeprefix("UNLOGGED ")).encode())


def test_a_view_of_explain_is_not_refreshed(connection: psycopg.Connection[Any]) -> None:
    explain(connection, "MATERIALIZED VIEW")
    with refused():
        connection.execute("REFRESH MATERIALIZED VIEW explained")


@pytest.mark.parametrize("kind", MADE)
def test_it_is_told_until_it_is_dropped(connection: psycopg.Connection[Any], kind: str) -> None:
    explain(connection, kind)
    connection.execute("CREATE VIEW unrelated AS SELECT 1 AS a")
    assert len(problems(connection)) == 1
    connection.execute("SET LOCAL psp.schema_changes = local")
    connection.execute(f"DROP {kind.removeprefix('UNLOGGED ')} explained".encode())
    assert problems(connection) == []


@pytest.mark.parametrize("kind", MADE)
def test_a_change_of_a_temporary_table_leaves_it_as_it_is(
    connection: psycopg.Connection[Any], kind: str
) -> None:
    explain(connection, kind)
    connection.execute("CREATE TEMP TABLE x (a int)")
    connection.execute("ALTER TABLE x ADD COLUMN b int")
    assert len(problems(connection)) == 1


@pytest.mark.parametrize("statement", ["SELECT psp.job('VACUUM item')", "TRUNCATE item"])
def test_it_needs_no_key_at_commit(connection: psycopg.Connection[Any], statement: str) -> None:
    explain(connection, "TABLE")
    connection.execute(statement.encode())
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert len(problems(connection)) == 1


NAMED = [
    ("item", "COMMENT ON TABLE ITEM IS NULL", True),
    ("ITEM", 'DROP TABLE "ITEM"', True),
    ("items", "DROP TABLE item", False),
    ("a$1", "DROP TABLE s.a$1", True),
    ("Größe", 'DROP TABLE "Größe"', True),
    ("größe", "DROP TABLE Größen", False),
    ('a"b c', 'DROP TABLE "a""b c"', True),
    ("a.b", "DROP TABLE a.c", False),
    ("data", 'DROP TABLE U&"d\\0061t\\+000061"', True),
    ("data", "DROP TABLE u&\"d!0061ta\" uescape '!'", True),
    ("a!b", "DROP TABLE U&\"a!!b\" UESCAPE '!'", True),
    ("data", 'DROP TABLE U&"\\zzzz", data', True),  # PostgreSQL does not take it
]


@pytest.mark.parametrize(("name", "statement", "expected"), NAMED)
def test_names_in_a_text(app: Pair, name: str, statement: str, expected: bool) -> None:
    with app.connect() as connection:
        named = "SELECT psp.is_named(%s, %s, psp.words_of(%s))"
        assert one(connection, named, name, statement, statement) is expected


KNOWN = [
    "REFRESH MATERIALIZED VIEW adopted_view",
    "ALTER TABLE adopted_table ADD COLUMN b int",
    "CREATE UNLOGGED TABLE x (a int); ALTER TABLE x ADD b int; CREATE INDEX ON x (a)",
    "CREATE UNLOGGED TABLE x AS SELECT 1 AS a; DROP TABLE x",
    "CREATE MATERIALIZED VIEW x AS SELECT 1 AS a; REFRESH MATERIALIZED VIEW x",
    "CREATE SCHEMA s CREATE TABLE inside (id int PRIMARY KEY); COMMENT ON TABLE s.inside IS 'x'",
    "SET LOCAL psp.schema_changes = local; CREATE MATERIALIZED VIEW x AS SELECT 1 AS a; "
    "RESET psp.schema_changes; COMMENT ON MATERIALIZED VIEW x IS 'x'",
    "SELECT psp.ddl('CREATE TABLE x (a int)§ ALTER TABLE x SET UNLOGGED'); ALTER TABLE x ADD COLUMN b int",
    "SELECT psp.ddl('CREATE UNLOGGED TABLE x (a int)'); SELECT psp.ddl('ALTER TABLE x ADD COLUMN b int')",
]


@pytest.mark.parametrize("script", KNOWN)
def test_what_is_made_as_ever_is_known(app: Pair, script: str) -> None:
    with app.rolled_back() as connection:
        connection.execute(f"GRANT CREATE ON DATABASE {app.name} TO {APPLICATION}".encode())
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        for statement in script.split(";"):
            connection.execute(statement.replace("§", ";").encode())
        assert problems(connection) == []


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE explained (id int PRIMARY KEY)",
        "CREATE VIEW Explained AS SELECT 1",
        "CREATE SEQUENCE explained",
    ],
)
def test_it_is_in_no_arriving_ones_way(app: Pair, kind: str, statement: str) -> None:
    with arriving(app) as connection:
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        explain(connection, kind)
        older = one(connection, "SELECT 'explained'::regclass::oid")
        connection.execute("RESET ROLE")
        arrive(connection, statement)
        assert one(connection, "SELECT %s::regclass::text", older) == f"local_{older}_explained"
        assert one(connection, "SELECT 'explained'::regclass::oid") != older
        assert len(problems(connection)) == 1
