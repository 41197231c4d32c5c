"""Exclusion constraints: which rows take their guards, and under which keys."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, adopted_pair, needs_icu, one, without_case
from tests.sql.write_sets import entries, written

SCHEMA = f"""
CREATE EXTENSION btree_gist;
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TYPE size AS ENUM ('small', 'large');
CREATE TYPE pair AS (a int, b size);
CREATE DOMAIN name_of_room AS text;
CREATE TABLE booking (
    id int PRIMARY KEY, room text, during int4range, note text, cancelled boolean NOT NULL DEFAULT false,
    EXCLUDE USING gist (room WITH =, during WITH &&) WHERE (NOT cancelled));
CREATE TABLE period (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
CREATE TABLE cage (id int PRIMARY KEY, number int, animal text,
                   EXCLUDE USING gist (number WITH =, animal WITH <>));
CREATE TABLE later (id int PRIMARY KEY, v int, EXCLUDE USING btree (v WITH =) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE lower (id int PRIMARY KEY, room name_of_room, at int,
                    EXCLUDE USING gist (lower(room) WITH =, (room) WITH =, (at + 1) WITH =));
CREATE TABLE sized (id int PRIMARY KEY, s size, EXCLUDE USING gist (s WITH =));
CREATE TABLE amount (id int PRIMARY KEY, a numeric, EXCLUDE USING gist (a WITH =));
CREATE TABLE insensitive (id int PRIMARY KEY, t text COLLATE nocase, EXCLUDE USING hash (t WITH =));
CREATE TABLE area (id int PRIMARY KEY, b box, EXCLUDE USING gist (b WITH ~=));
CREATE TABLE pairs (id int PRIMARY KEY, p pair, EXCLUDE USING btree (p WITH =));
CREATE TABLE ranges (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH =));
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, without_case(server, "nocase"), SCHEMA)


def guards(app: Pair, *statements: str) -> list[list[bytes | None]]:
    """The keys of the guards that the last statement takes."""
    with app.application() as connection:
        before = 0
        for statement in statements:
            before = len(written(connection))
            connection.execute(f"SET LOCAL search_path = public; SET ROLE {APPLICATION}".encode())
            connection.execute(statement.encode())
        rows = [row for row in written(connection)[before:] if row.op == "g"]
        return [entry.key for row in rows for entry in entries(row)]


INSERT = "INSERT INTO booking VALUES (1, 'blue', '[1,3)', 'x')"
CASES = [
    ("insert", [INSERT], [[b"blue"]]),
    ("a column that is compared otherwise", [INSERT, "UPDATE booking SET during = '[1,2)'"], [[b"blue"]]),
    ("the column of the key", [INSERT, "UPDATE booking SET room = 'red'"], [[b"red"]]),
    ("the predicate's column", ["INSERT INTO booking VALUES (1, 'blue', '[1,3)', 'x', true)",
                                "UPDATE booking SET cancelled = false"], [[b"blue"]]),
    ("another column", [INSERT, "UPDATE booking SET note = 'y'"], []),
    ("a delete", [INSERT, "DELETE FROM booking"], []),
    ("the predicate is not met", ["INSERT INTO booking VALUES (1, 'blue', '[1,3)', 'x', true)"], []),
    ("null in the key", ["INSERT INTO booking VALUES (1, NULL, '[1,3)', 'x')"], []),
    ("null elsewhere", ["INSERT INTO booking VALUES (1, 'blue', NULL, 'x')"], []),
    ("no equality", ["INSERT INTO period VALUES (1, '[1,3)'), (2, '[3,4)'), (3, NULL)"], [[], []]),
    ("equality and inequality", ["INSERT INTO cage VALUES (1, 7, 'cat')"], [[b"\0\0\0\7"]]),
    ("deferrable", ["INSERT INTO later VALUES (1, 7)"], [[b"\0\0\0\7"]]),
    ("expressions and domains", ["INSERT INTO lower VALUES (1, 'Blue', 4)"],
     [[b"blue", b"Blue", b"\0\0\0\5"]]),
    ("enums", ["INSERT INTO sized VALUES (1, 'large')"], [[b"large"]]),
    ("an operator called equal that is another one", ["INSERT INTO area VALUES (1, '(1,1),(0,0)')"], [[]]),
    ("composites with nulls", ["INSERT INTO pairs VALUES (1, (1, NULL))"], [[b"\0\0\0\0"]]),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "keys"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_guards(app: Pair, statements: list[str], keys: list[list[bytes | None]]) -> None:
    assert guards(app, *statements) == keys


EQUAL = [
    ("amount", "1.0", "1.000", "1.1"),
    pytest.param("insensitive", "'Ab'", "'aB'", "'B'", marks=needs_icu),
    ("ranges", "'[1,3)'", "'(0,2]'", "'[1,4)'"),
]


@pytest.mark.parametrize(("table", "value", "equal", "other"), EQUAL, ids=["amount", "insensitive", "ranges"])
def test_equal_values_have_one_key(app: Pair, table: str, value: str, equal: str, other: str) -> None:
    keys = [guards(app, f"INSERT INTO {table} VALUES (1, {v})") for v in (value, equal, other)]
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) == 1


def test_the_key_has_no_types_of_users(app: Pair) -> None:
    """Their OIDs differ between servers."""
    with app.application() as connection:
        connection.execute("INSERT INTO public.lower VALUES (1, 'Blue', 4)")
        (guard,) = [row for row in written(connection) if row.op == "g"]
    record = guard.payload[12:]  # within the record of the key: its length, its type
    position, oids = 4, []
    for _ in range(3):
        oids.append(int.from_bytes(record[position : position + 4], "big"))
        position += 8 + int.from_bytes(record[position + 4 : position + 8], "big")
    assert oids == [25, 25, 23]


@pytest.fixture
def own_equality(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    """A user's operator = for int4, in a schema of its own: values that it calls equal have other keys."""
    pair.run(
        """CREATE EXTENSION btree_gist; CREATE SCHEMA odd;
           CREATE FUNCTION odd.same(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE
               AS 'SELECT abs($1) = abs($2)';
           CREATE OPERATOR odd.= (FUNCTION = odd.same, LEFTARG = int, RIGHTARG = int,
                                  COMMUTATOR = OPERATOR(odd.=));
           CREATE FUNCTION odd.hashed(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT abs($1)';
           CREATE OPERATOR CLASS odd.ints FOR TYPE int USING hash
               AS OPERATOR 1 odd.=, FUNCTION 1 odd.hashed(int);
           CREATE TABLE t (id int PRIMARY KEY, v int, EXCLUDE USING hash (v odd.ints WITH OPERATOR(odd.=)))"""
    )
    pair.adopt()
    with pair.rolled_back() as connection:
        yield connection


def test_an_operator_called_equal_that_is_not_the_types_equality(
    own_equality: psycopg.Connection[Any],
) -> None:
    own_equality.execute("INSERT INTO t VALUES (1, 5)")
    with pytest.raises(psycopg.errors.ExclusionViolation), own_equality.transaction():
        own_equality.execute("INSERT INTO t VALUES (2, -5)")
    assert [e.key for row in written(own_equality) if row.op == "g" for e in entries(row)] == [[]]


def test_the_check_of_a_deferrable_one_runs_for_rows_of_other_servers(
    app: Pair,
) -> None:
    with app.connect() as connection:
        query = "SELECT tgenabled FROM pg_trigger WHERE tgfoid = 'unique_key_recheck'::regproc"
        assert one(connection, query) == "A"
