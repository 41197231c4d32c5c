"""Tables with an index on a function in SQL that names another one without its schema.

PostgreSQL parses it when it plans a reading of the table.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cluster import sums
from psp.schema.catalog import read_database
from psp.schema.strides import unstrided
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, adopted_pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN lower($1); END';
CREATE FUNCTION f_plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT plain($1)';
CREATE TABLE page (id serial PRIMARY KEY, title text);
CREATE INDEX page_plain ON page (f_plain(title));
INSERT INTO page VALUES (1, 'One');
CREATE FUNCTION who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE 'it has the rights of %', current_user;
    END IF;
    RETURN $1;
END $$;
CREATE TABLE trap (id int PRIMARY KEY, v int, title text) PARTITION BY RANGE (id);
CREATE TABLE trap_1 PARTITION OF trap FOR VALUES FROM (0) TO (10);
CREATE INDEX ON trap_1 (id) WHERE v > who(1);
CREATE STATISTICS trap_kinds ON (v + who(2)), id FROM trap_1;
INSERT INTO trap VALUES (1, 1, 'One'), (2, 2, 'Two');
CREATE TABLE snare (id serial PRIMARY KEY);
CREATE INDEX ON snare ((id + who(1)));
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def test_it_is_adopted_and_read(connection: psycopg.Connection[Any]) -> None:
    definitions, found = sums.read_sp(connection)
    (table_id,) = (number for number, table in definitions.items() if table.label == "public.page")
    assert found[table_id].rows == 1


def test_no_code_of_an_owner_runs_with_the_rights_of_who_reads(connection: psycopg.Connection[Any]) -> None:
    """PostgreSQL calls it to plan a reading. The adoption has read the table, too."""
    definitions, found = sums.read_sp(connection)
    (table_id,) = (number for number, table in definitions.items() if table.label == "public.trap")
    assert found[table_id].rows == 2
    assert one(connection, "SELECT current_setting('search_path')") == "pg_catalog, pg_temp"
    assert one(connection, "SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()") == 0


def test_sequences_are_read_so_too(connection: psycopg.Connection[Any]) -> None:
    database = read_database(connection)
    drawn = [unstrided(connection, database, sequence) for sequence in database.sequences]
    assert len(drawn) == 2
    assert None not in drawn


def test_psp_looks_for_its_rows(connection: psycopg.Connection[Any]) -> None:
    assert one(connection, "SELECT psp.has_rows('page')")
