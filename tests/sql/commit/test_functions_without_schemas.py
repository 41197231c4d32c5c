"""Tables with an index on a function in SQL that names another one without its schema.

PostgreSQL parses it when it plans a reading of the table.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cluster import sums
from psp.output import PspError
from psp.schema.join import prepare_join
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, adopted_pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION plain(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN lower($1); END';
CREATE FUNCTION f_plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT plain($1)';
CREATE TABLE page (id int PRIMARY KEY, title text);
CREATE INDEX page_plain ON page (f_plain(title));
INSERT INTO page VALUES (1, 'One');
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def test_it_is_adopted_and_read(app: Pair, connection: psycopg.Connection[Any]) -> None:
    definitions, found = sums.read_sp(connection, app.primary_dsn)
    (table_id,) = (number for number, table in definitions.items() if table.label == "public.page")
    assert found[table_id].rows == 1


def test_a_join_says_how_its_index_can_be_restored(app: Pair) -> None:
    joiner = Pair(f"{app.name}_two", app.server)
    app.server.create_database(joiner.name)
    with pytest.raises(PspError, match=r"function plain\(text\) does not exist") as failed:
        prepare_join(joiner.dsn, app.primary_dsn, "two")
    assert "ALTER FUNCTION … SET search_path" in str(failed.value.hint)


def test_with_a_search_path_of_its_own_it_can_be_joined(server: PgServer) -> None:
    pair = adopted_pair(server, SCHEMA, "ALTER FUNCTION f_plain SET search_path = public")
    server.create_database(f"{pair.name}_two")
    prepare_join(server.dsn(f"{pair.name}_two"), pair.primary_dsn, "two")


def test_psp_looks_for_its_rows(connection: psycopg.Connection[Any]) -> None:
    assert one(connection, "SELECT psp.has_rows('page')")
