"""Code of indexes, CHECKs, domains and generated columns that writes captured tables where rows are applied.

No daemon is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer

from tests.sql.apply.test_triggers import row_arrives
from tests.sql.arriving import become_worker
from tests.sql.databases import APPLICATION, Pair, adopted_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE trail (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE UNLOGGED TABLE aside (v text);
CREATE FUNCTION writes(text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.trail DEFAULT VALUES; RETURN $1; END $$;
CREATE FUNCTION writes_in_sql(text) RETURNS text LANGUAGE sql AS
    $$ INSERT INTO public.trail DEFAULT VALUES; SELECT $1 $$;
CREATE FUNCTION deletes(text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN DELETE FROM public.trail; RETURN $1; END $$;
CREATE FUNCTION empties(text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN TRUNCATE public.trail; RETURN $1; END $$;
CREATE FUNCTION "pretends psp.apply_insert_1("(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE 'INSERT /* psp: a statement of the apply worker, which writes rows of other servers */ '
            'INTO public.trail DEFAULT VALUES';
    RETURN $1;
END $$;
CREATE FUNCTION tells(text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.aside VALUES ($1); PERFORM pg_notify('told', $1); RETURN $1; END $$;
CREATE FUNCTION calls(name text, v text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ DECLARE r text; BEGIN EXECUTE format('SELECT public.%I($1)', name) INTO r USING v; RETURN r; END $$;
CREATE TABLE called (only_row int PRIMARY KEY, name text);
INSERT INTO called VALUES (1, 'upper');
CREATE FUNCTION upper(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.upper($1)';
CREATE FUNCTION code(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN public.calls((SELECT c.name FROM public.called c), v); END $$;
CREATE DOMAIN judged AS text CHECK (code(VALUE) <> '');
CREATE TABLE indexed (id int PRIMARY KEY, v text);
CREATE INDEX ON indexed (code(v));
CREATE TABLE partial (id int PRIMARY KEY, v text);
CREATE INDEX ON partial (id) WHERE code(v) <> '';
CREATE TABLE only_one (id int PRIMARY KEY, v text);
CREATE UNIQUE INDEX ON only_one (code(v));
CREATE TABLE made (id int PRIMARY KEY, v text, w text GENERATED ALWAYS AS (code(v)) STORED);
CREATE TABLE checked (id int PRIMARY KEY, v text CHECK (code(v) <> '')) PARTITION BY RANGE (id);
CREATE TABLE checked_1 PARTITION OF checked DEFAULT;
CREATE TABLE of_domain (id int PRIMARY KEY, v judged) PARTITION BY RANGE (id);
CREATE TABLE of_domain_1 PARTITION OF of_domain DEFAULT;
"""
TABLES = ("indexed", "partial", "only_one", "made", "checked", "of_domain")
WRITERS = ("writes", "writes_in_sql", "deletes", "empties", "pretends psp.apply_insert_1(")


@pytest.fixture(scope="module", params=["sql", "auto"])
def app(server: PgServer, request: pytest.FixtureRequest) -> Pair:
    choice: CaptureChoice = request.param
    return adopted_pair(server, SCHEMA, capture=choice)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """The apply worker's."""
    with app.rolled_back() as connection:
        connection.execute("INSERT INTO trail DEFAULT VALUES")
        yield connection


def becomes_worker(connection: psycopg.Connection[Any], function: str) -> None:
    connection.execute("UPDATE called SET name = %s", [function])
    become_worker(connection)


@pytest.mark.parametrize("function", WRITERS)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("how", ["insert", "upsert"])
def test_who_writes_a_captured_table_is_refused(
    connection: psycopg.Connection[Any], table: str, function: str, how: str
) -> None:
    becomes_worker(connection, function)
    with refused():
        row_arrives(connection, table, how)


@pytest.mark.parametrize("table", TABLES)
def test_who_writes_what_is_local_may(connection: psycopg.Connection[Any], table: str) -> None:
    becomes_worker(connection, "tells")
    row_arrives(connection, table)
    assert one(connection, "SELECT DISTINCT v FROM aside") == "x"


OWN = "psp.apply_insert_1(psp.apply_rows_1[])"


@pytest.mark.parametrize(
    ("frames", "is_of_rows"),
    [
        (['SQL文 "INSERT {} INTO public.a AS psp_t"', f"PL/pgSQL関数{OWN}の4行目"], True),
        (["instruction SQL « DELETE {} FROM a »", f"fonction PL/pgSQL {OWN}, ligne 4"], True),
        (['SQL "INSERT {} INTO a"', "function w()", 'function "x psp.apply_insert_1("() line 4'], False),
        (['SQL "INSERT {} INTO a"', 'function f("psp.apply_insert_1(") line 4'], False),
        (['SQL "INSERT {} INTO a"', "f()", 'SQL "INSERT {} INTO b"', OWN], False),
        (['SQL "INSERT INTO a"', "f()", 'SQL "INSERT {} INTO b"', OWN], False),
    ],
)
def test_the_words_of_another_language(
    connection: psycopg.Connection[Any], frames: list[str], is_of_rows: bool
) -> None:
    """PostgreSQL says in the language of lc_messages where code runs."""
    mark = one(connection, "SELECT psp.mark_of_rows()")
    context = "\n".join(["psp.refuse_replica() 1", *(frame.replace("{}", mark) for frame in frames)])
    assert one(connection, "SELECT psp.is_of_rows(%s)", context) is is_of_rows
