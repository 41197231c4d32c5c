"""Views mode where names, constraints, rights and statements are out of the ordinary."""

from __future__ import annotations

import pytest
from psp.paths import server_version
from psycopg import errors

from tests.sql.databases import APPLICATION, Pair, needs_icu
from tests.sql.views.converted import begin, begun, convert_pair, one, release_pair, write

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 10)"


def converted(pair: Pair, schema: str) -> Pair:
    pair.run(schema)
    convert_pair(pair)
    return pair


def test_columns_named_like_the_functions_variables(pair: Pair) -> None:
    names = "number, decided_t, written, tx, found, ended"
    converted(
        pair, f"CREATE TABLE t ({names.replace(',', ' int,')} int, v int UNIQUE, PRIMARY KEY ({names}))"
    )
    write(pair, 2, "INSERT INTO t VALUES (1, 2, 3, 4, 5, 6, 7)")
    assert one(pair, "SELECT v FROM t") == 7
    assert one(pair, "SELECT psp.collect_garbage('0')") == 1


ONE_VALUE = {
    "citext": (
        "CREATE EXTENSION citext; CREATE TABLE t (id int PRIMARY KEY, e citext UNIQUE)",
        "A",
        "a",
    ),
    "hstore": (
        "CREATE EXTENSION hstore; CREATE TABLE t (id int PRIMARY KEY, e hstore UNIQUE)",
        "a=>1",
        "a=>1",
    ),
    "collate": (
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
        "CREATE TABLE t (id int PRIMARY KEY, e text); CREATE UNIQUE INDEX ON t (e COLLATE ci)",
        "A",
        "a",
    ),
}


@pytest.mark.parametrize("kind", ["citext", "hstore", pytest.param("collate", marks=needs_icu)])
def test_equality_is_the_index_own(pair: Pair, kind: str) -> None:
    """What is taken passes certification otherwise, and no semi-primary can ever apply it."""
    schema, first, second = ONE_VALUE[kind]
    converted(pair, schema)
    write(pair, 2, f"INSERT INTO t VALUES (1, '{first}')")
    with begun(pair) as transaction, pytest.raises(errors.UniqueViolation):
        transaction.run(f"INSERT INTO t VALUES (2, '{second}')")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET id = s.n FROM (VALUES (1, 9), (1, 10)) s (k, n) WHERE t.id = s.k",
        "WITH a AS (UPDATE t SET id = 9 WHERE id = 1) UPDATE t SET id = 10 WHERE id = 1",
    ],
)
def test_a_changed_key_leaves_one_row(pair: Pair, statement: str) -> None:
    converted(pair, TABLE)
    with begun(pair) as transaction:
        transaction.run(statement)
        assert transaction.run("SELECT count(*) FROM t") == [(2,)]


def test_a_deleted_row_stays_deleted(pair: Pair) -> None:
    converted(pair, TABLE)
    with begun(pair) as transaction:
        transaction.run(
            "WITH d AS (DELETE FROM t WHERE id = 1 RETURNING id) UPDATE t SET v = 5 FROM d WHERE t.id = d.id"
        )
        assert transaction.run("SELECT id FROM t") == [(2,)]


@pytest.mark.parametrize(
    "before", ["SELECT", "UPDATE t SET v = 3", "DELETE FROM t; INSERT INTO t VALUES (1, 5)"]
)
def test_a_row_is_updated_once(pair: Pair, before: str) -> None:
    converted(pair, TABLE)
    with begun(pair) as transaction:
        transaction.run(before)
        twice = "UPDATE t SET v = s.n FROM (VALUES (1, 7), (1, 8)) s (k, n) WHERE id = s.k RETURNING v, s.n"
        ((value, other),) = transaction.run(twice)
        assert transaction.run("SELECT v FROM t WHERE id = 1") == [(value,)] and value == other


def test_an_update_in_mode_nryotw_begins_from_the_committed_row(pair: Pair) -> None:
    converted(pair, TABLE)
    with begun(pair) as transaction:
        transaction.run("UPDATE t SET v = 5 WHERE id = 2")
        assert transaction.run("UPDATE public_nryotw.t SET v = v + 1 WHERE id = 2 RETURNING v") == [(11,)]
        assert transaction.run("SELECT v FROM t WHERE id = 2") == [(11,)]


def test_a_row_is_deleted_once(pair: Pair) -> None:
    converted(pair, TABLE)
    with begun(pair) as transaction:
        found = transaction.run("DELETE FROM t USING (VALUES (1), (1)) s (k) WHERE id = s.k RETURNING id")
        assert found == [(1,)]


def test_the_owners_functions_do_not_run_what_the_writer_has_made(pair: Pair) -> None:
    """A CHECK's function runs as T's owner, in the writer's search_path."""
    converted(
        pair,
        "CREATE FUNCTION ok(x text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN length(x) > 0; END';"
        "CREATE TABLE t (id int PRIMARY KEY, v text CHECK (public.ok(v)));"
        f"GRANT INSERT ON t TO {APPLICATION}; CREATE SCHEMA evil AUTHORIZATION {APPLICATION}",
    )
    with pair.connect_as_application() as connection:
        connection.execute("GRANT USAGE ON SCHEMA evil TO PUBLIC")
        connection.execute(
            "CREATE FUNCTION evil.length(text) RETURNS int LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'as %', current_user; END$$"
        )
        connection.execute("SET search_path = evil, pg_catalog, public")
        begin(connection)
        connection.execute("INSERT INTO public.t VALUES (1, 'x')")


def test_a_prepared_transaction_does_not_outlive_its_rows(pair: Pair) -> None:
    """PostgreSQL's crash keeps a prepared transaction and empties T_temp: its commit must not look empty."""
    converted(pair, TABLE)
    with pair.connect(autocommit=True) as connection:
        connection.execute("BEGIN")
        tx_id = begin(connection)
        connection.execute("UPDATE t SET v = 5")
        connection.execute(f"PREPARE TRANSACTION '{pair.name}'".encode())
        connection.execute("DELETE FROM psp.temp_alive")  # the crash
        connection.execute("SELECT psp.make_pending()")
        connection.execute(f"COMMIT PREPARED '{pair.name}'".encode())
        connection.execute("DELETE FROM t_temp")  # the crash again: the lock let nobody else at it
        connection.execute("SELECT * FROM psp.take_commit_request(%s)", (tx_id,))
    assert one(pair, "SELECT psp.outcome(%s)::text", tx_id) == "pending"


NOT_VALID = """
CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT old CHECK (v < 90), u int UNIQUE);
INSERT INTO t VALUES (1, -1, 1), (2, -2, 2), (3, -3, 3);
ALTER TABLE t ADD CONSTRAINT "not ""valid" CHECK (v > 0) NO INHERIT NOT VALID;
COMMENT ON CONSTRAINT "not ""valid" ON t IS 'later'
"""


def test_rows_that_break_a_check_that_is_not_valid(pair: Pair) -> None:
    """As on a table they may go, by DELETE or by a changed key, and nothing like them may come."""
    converted(pair, NOT_VALID)
    write(pair, 2, "DELETE FROM t WHERE id = 1", "UPDATE t SET id = 4, v = 4 WHERE id = 2")
    assert one(pair, "SELECT array_agg(id ORDER BY id) FROM t") == [3, 4]
    for statement in ("UPDATE t SET u = 7 WHERE id = 3", "INSERT INTO t VALUES (1, -1, 1)"):
        with begun(pair) as transaction, pytest.raises(errors.CheckViolation) as caught:
            transaction.run(statement)
        assert caught.value.diag.constraint_name == 'not "valid'
    write(pair, 3, "UPDATE t SET v = 3 WHERE id = 3", "INSERT INTO t VALUES (1, 1, 1)")
    assert one(pair, "SELECT sum(v) FROM t") == 8


def test_release_gives_a_check_back_that_is_not_valid(pair: Pair) -> None:
    pair.run(NOT_VALID)
    before = pair.dump()
    convert_pair(pair)
    release_pair(pair)
    assert pair.dump() == before


UNSTEADY = """
CREATE SCHEMA s; CREATE FUNCTION s.limit() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 10';
CREATE TABLE "T" (id int PRIMARY KEY, "x y" text DEFAULT 'a''b',
                  "V" int CONSTRAINT small CHECK ("V" < s.limit()),
                  CONSTRAINT "it's" CHECK ("x y" <> 'a''b' OR "V" IS NULL OR "V" <> 5),
                  g int GENERATED ALWAYS AS ("V" * 2) STORED NOT NULL, CHECK (g > -100 AND g <> "V" - 1));
INSERT INTO "T" (id, "V") VALUES (1, 1), (2, 2)
"""


def test_checks_that_ask_for_more_than_the_row(pair: Pair) -> None:
    """What breaks one by now can be deleted; release keeps the rows, and the CHECK for new ones."""
    converted(pair, UNSTEADY)
    pair.run("CREATE OR REPLACE FUNCTION s.limit() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 0'")
    write(pair, 2, 'DELETE FROM "T" WHERE id = 1')
    broken = {"3, 0": "small", "3, -1": "T_check", "3, 5": "it's", "2, -2": "T_pkey", "3, NULL": None}
    for values, name in broken.items():
        with begun(pair) as transaction, pytest.raises(errors.IntegrityError) as caught:
            transaction.run(f'INSERT INTO "T" (id, "V") VALUES ({values})')
        assert caught.value.diag.constraint_name == name
    release_pair(pair)
    valid = one(pair, "SELECT array_agg(conname::text ORDER BY 1) FROM pg_constraint "
                      "WHERE contype = 'c' AND conrelid = '\"T\"'::regclass AND convalidated")  # fmt: skip
    assert sorted(valid) == ["T_check", "it's"]


@pytest.mark.skipif(server_version() < 18, reason="it needs PostgreSQL 18")
def test_virtual_columns(pair: Pair) -> None:
    converted(pair, "CREATE TABLE t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) VIRTUAL)")
    write(pair, 2, "INSERT INTO t (id, a) VALUES (1, 2)")
    with begun(pair) as transaction:
        assert transaction.run("UPDATE t SET a = 5 RETURNING a, b") == [(5, 10)]
        assert transaction.run("INSERT INTO t (id, a) VALUES (2, 3) RETURNING b") == [(6,)]
        assert transaction.run("SELECT id, b FROM t ORDER BY id") == [(1, 10), (2, 6)]
