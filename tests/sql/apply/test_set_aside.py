"""What makes way where rows of others are cancelled since they take long. No test commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import become_worker
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
GRANT CREATE, USAGE ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE FUNCTION half_of(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 / 2; END';
CREATE TABLE item (id int PRIMARY KEY, v int, w text, CONSTRAINT c CHECK (half_of(v) < 9));
CREATE INDEX w ON item (w);
CREATE INDEX item_f ON item (f(v));
CREATE INDEX item_half ON item (half_of(v));
RESET ROLE;
"""
CANCELLED = "57014 ERROR: canceling statement due to user request"
ROWS = 'SQL statement "INSERT INTO public.item (id, v, w) SELECT"'


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


@pytest.mark.parametrize(
    ("problem", "gone", "is_lifted"),
    [
        (f"{CANCELLED} CONTEXT: {ROWS}", [], False),
        (f"57P01 FATAL: terminating connection CONTEXT: {ROWS}", [], False),
        (f"{CANCELLED} CONTEXT: PL/pgSQL function f(integer) line 1 at RETURN {ROWS}", ["item_f"], False),
        (f"{CANCELLED} CONTEXT: PL/pgSQL function public.half_of(integer) line 1", ["item_half"], True),
        (f'{CANCELLED} CONTEXT: SQL function "f" statement 1', ["item_f"], False),
    ],
)
def test_only_what_context_shows_at_work(
    connection: psycopg.Connection[Any], problem: str, gone: list[str], is_lifted: bool
) -> None:
    """A large transaction costs no index: neither w, which may refuse rows and is named as a column is."""
    number = one(connection, "SELECT table_id FROM psp.captured_relations WHERE relation = 'item'::regclass")
    become_worker(connection)
    connection.execute("SELECT psp.set_aside(ARRAY[%s]::bigint[], ARRAY[%s]::text[])", (number, problem))
    connection.execute("RESET ROLE")
    lost = connection.execute("SELECT name FROM psp.lost_indexes ORDER BY 1").fetchall()
    assert [name for (name,) in lost] == gone
    check = "SELECT pg_get_constraintdef(oid) ~ 'replica' FROM pg_constraint WHERE conname = 'c'"
    assert one(connection, check) == is_lifted
