"""Schemas of a statement's search_path that are at one semi-primary only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psycopg.types.json import Jsonb

from tests.sql.arriving import arrive, arriving
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

CREATE = "CREATE TABLE placed (id int PRIMARY KEY)"


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, f"GRANT ALL ON SCHEMA public TO {APPLICATION}; CREATE SCHEMA closed;")
    pair.run(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}")
    return pair


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with arriving(app) as connection:
        yield connection


def schemas_of_placed(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'placed'"
    )
    return [name for (name,) in rows]


def make_schema(connection: psycopg.Connection[Any], name: str) -> None:
    """At this semi-primary only."""
    connection.execute(f"CREATE SCHEMA {name}; GRANT ALL ON SCHEMA {name} TO {APPLICATION}".encode())


@pytest.mark.parametrize(
    ("local", "path"),
    [
        ("legacy", "legacy, public"),
        ('"a, ""b"', '"a, ""b", public'),
        (APPLICATION, '"$user", public'),
        ("legacy", "Legacy,public"),
    ],
)
def test_a_schema_that_is_here_only(connection: psycopg.Connection[Any], local: str, path: str) -> None:
    make_schema(connection, local)
    arrive(connection, CREATE, search_path=path, schemas=["public"])
    assert schemas_of_placed(connection) == ["public"]


def test_a_schema_that_is_there_only(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="schema legacy"):
        arrive(connection, CREATE, search_path="legacy, public", schemas=["legacy", "public"])


def test_a_schema_that_the_statement_makes(connection: psycopg.Connection[Any]) -> None:
    arrive(connection, f"CREATE SCHEMA fresh; {CREATE}", search_path="fresh, public", schemas=["public"])
    assert schemas_of_placed(connection) == ["fresh"]


MAKES = "CREATE SCHEMA IF NOT EXISTS fresh"


@pytest.mark.parametrize("table", ["placed", "fresh.placed"])
@pytest.mark.parametrize("path", ["public", "fresh, public"])
@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_a_schema_that_the_statement_makes_if_it_is_not_there(
    app: Pair, table: str, path: str, here: bool, there: bool
) -> None:
    text = f"{MAKES}; {CREATE.replace('placed', table)}"
    place = "fresh" if "fresh" in path + table else "public"
    with app.rolled_back() as connection:
        if here:
            make_schema(connection, "fresh")
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute(f"SET LOCAL search_path = {path}".encode())
        connection.execute("SELECT psp.ddl(%s)", [text])
        connection.execute("SET LOCAL ROLE NONE")
        assert schemas_of_placed(connection) == [place]
        settings = one(connection, "SELECT settings FROM psp.schema_history")
    with arriving(app) as connection:
        if there:
            make_schema(connection, "fresh")
        arrive(connection, text, **settings)
        assert schemas_of_placed(connection) == [place]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (f"{MAKES}; {CREATE}", ["fresh"]),
        (f'-- two\n{MAKES} authorization x ; /* */ create schema if\nnot exists "B ""c"', ["fresh", 'B "c']),
        (f"{CREATE}; {MAKES}", []),
        ("CREATE SCHEMA fresh", []),
        ("CREATE SCHEMA IF NOT EXISTS AUTHORIZATION fresh", []),
    ],
)
def test_what_a_text_makes_at_its_beginning(
    connection: psycopg.Connection[Any], text: str, made: list[str]
) -> None:
    assert one(connection, "SELECT psp.schemas_to_make(%s)", text) == made


def test_an_index_of_a_table_that_is_here_only(connection: psycopg.Connection[Any]) -> None:
    make_schema(connection, "legacy")
    arrive(connection, CREATE, search_path="public", schemas=["public"])
    connection.execute("CREATE MATERIALIZED VIEW legacy.placed AS SELECT 1 AS id")
    more = {"search_path": "legacy, public", "schemas": ["public"]}
    found = "SELECT psp.relation_named('placed', %s, %s) = 'public.placed'::regclass"
    assert one(connection, found, APPLICATION, Jsonb(more))


def test_schemas_are_those_before_the_statement(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL session_replication_role = origin")
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute('SET LOCAL search_path = fresh, closed, "$user", public')
    connection.execute("CREATE SCHEMA fresh")
    connection.execute(CREATE)
    connection.execute(f"CREATE SCHEMA {APPLICATION}".encode())
    connection.execute("SELECT psp.ddl('DROP SCHEMA fresh CASCADE')")
    connection.execute(CREATE)
    connection.execute("SET LOCAL ROLE NONE")
    rows = connection.execute("SELECT settings -> 'schemas' FROM psp.schema_history ORDER BY statement_n")
    assert [schemas for (schemas,) in rows] == [
        ["public"],
        ["fresh", "public"],
        ["fresh", "public"],
        ["fresh", APPLICATION, "public"],
        [APPLICATION, "public"],
    ]


@pytest.mark.parametrize("path", ["public, pg_temp", "pg_temp, public"])
def test_the_schema_of_temporary_objects_is_none_of_them(app: Pair, path: str) -> None:
    """It has another name in each session, and a server that joins has none of that name."""
    with app.application() as connection:
        connection.execute("CREATE TEMP TABLE gone (id int)")
        connection.execute(f"SET search_path = {path}".encode())
        connection.execute("CREATE VIEW public.placed AS SELECT 1")
        connection.execute("SELECT psp.ddl('CREATE VIEW public.placed_by_ddl AS SELECT 1')")
        connection.execute("RESET SESSION AUTHORIZATION")
        found = connection.execute(
            "SELECT settings -> 'schemas' FROM psp.schema_history ORDER BY statement_n"
        ).fetchall()
        assert found == [(["public"],), (["public"],)]
