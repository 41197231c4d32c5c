"""REASSIGN OWNED at one semi-primary, and psp.reassign_owned. Nothing is committed; no daemon is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psycopg.errors import InsufficientPrivilege, UndefinedObject

from tests.sql.arriving import arrive, arriving
from tests.sql.databases import Pair, changing_pair, one
from tests.sql.refusals import explained, refused

SCHEMA = """
CREATE ROLE author; CREATE ROLE keeper; CREATE ROLE other_changer;
GRANT ALL ON SCHEMA public TO author, keeper, other_changer;
CREATE FUNCTION positive(x int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT x > 0';
ALTER FUNCTION positive OWNER TO other_changer;
SET ROLE author;
CREATE TABLE item (id serial PRIMARY KEY, x int CHECK (positive(x)));
CREATE TABLE other (id int PRIMARY KEY);
CREATE INDEX item_x ON item (x);
CREATE VIEW seen AS SELECT 1 AS one;
INSERT INTO item VALUES (1, 1);
RESET ROLE;
"""
PROBLEMS = [
    f"the owner of public.{table} has changed, perhaps at this semi-primary only"
    for table in ("item", "other")
]


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SCHEMA)
    pair.run("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO author, keeper, other_changer")
    return pair


@pytest.fixture
def reassigned(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's transaction in which REASSIGN OWNED has run."""
    with app.rolled_back() as connection:
        connection.execute("REASSIGN OWNED BY author TO keeper")
        yield connection


@contextmanager
def as_role(connection: psycopg.Connection[Any], role: str) -> Iterator[None]:
    connection.execute(f"SET LOCAL ROLE {role}".encode())
    yield
    connection.execute("RESET ROLE")


def problems(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute("SELECT psp.guard_problems() ORDER BY 1").fetchall()
    assert connection.execute("SELECT FROM psp.reassigned").fetchall() == []
    assert connection.execute("SELECT FROM psp.own_commands").fetchall() == []
    return [problem for (problem,) in rows]


def owners(connection: psycopg.Connection[Any]) -> set[str]:
    """Of the tables and of psp's functions that write them."""
    rows = connection.execute(
        "SELECT relowner::regrole::text FROM pg_class WHERE relname IN ('item', 'other', 'item_id_seq') "
        "UNION SELECT proowner::regrole::text FROM pg_proc "
        "WHERE proname ~ '^(apply_clear|look)_[0-9]+$' AND proname !~ '_(0|2147483646|2147483645)$'"
    )
    return {owner for (owner,) in rows}


def announced(connection: psycopg.Connection[Any]) -> int:
    """How many tables the primary is told of as changed."""
    return int(one(connection, "SELECT count(*) FROM psp.write_set WHERE op = 'c'"))


UNRELATED = [
    "CREATE VIEW unrelated AS SELECT 1 AS one",
    "SELECT psp.ddl('CREATE VIEW unrelated AS SELECT 1 AS one')",
    "SELECT psp.job('ANALYZE item')",
]
REPLACED = "CREATE OR REPLACE FUNCTION positive(x int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT x >= 0'"


@pytest.mark.parametrize("statement", UNRELATED)
def test_a_statement_of_others_leaves_it_as_it_is(
    reassigned: psycopg.Connection[Any], statement: str
) -> None:
    with as_role(reassigned, "other_changer"):
        reassigned.execute(statement.encode())
    assert announced(reassigned) == 0
    assert problems(reassigned) == PROBLEMS


def test_a_change_that_concerns_the_table_keeps_the_owner_that_was_noted(
    reassigned: psycopg.Connection[Any],
) -> None:
    with as_role(reassigned, "other_changer"):
        reassigned.execute(REPLACED.encode())
    assert announced(reassigned) == 1
    assert problems(reassigned) == PROBLEMS


REFUSED = [
    "ALTER TABLE item ADD COLUMN y int",
    "SELECT psp.ddl('ALTER TABLE item ADD COLUMN y int')",
    "ALTER TABLE item ADD COLUMN owner int",
    "ALTER TABLE item OWNER TO keeper",  # the others might not let him
    "TRUNCATE item",
    "SELECT psp.ddl('TRUNCATE item')",
    "DROP INDEX item_x",
    "ALTER INDEX item_x RENAME TO item_other",
    "ALTER SEQUENCE item_id_seq MAXVALUE 100000000",
    "CREATE OR REPLACE VIEW seen AS SELECT 2 AS one",
    "CREATE INDEX ON item (id, x)",
    "DROP TABLE item",
    "SELECT psp.job('CREATE INDEX CONCURRENTLY item_other ON item (x)')",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_none_of_the_new_owner_goes_to_the_others(
    reassigned: psycopg.Connection[Any], statement: str
) -> None:
    reassigned.execute("SET LOCAL ROLE keeper")
    with refused("psp.reassign_owned.'author', 'keeper'."):
        reassigned.execute(statement.encode())


@pytest.mark.parametrize(
    "statement", ["CREATE INDEX CONCURRENTLY item_other ON item (x)", "DROP INDEX CONCURRENTLY item_x"]
)
def test_no_job_of_the_new_owner_begins(app: Pair, statement: str) -> None:
    indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 'item'::regclass"
    with app.connect(autocommit=True) as connection:
        before = one(connection, indexes)
        connection.execute("REASSIGN OWNED BY author TO keeper")
        try:
            connection.execute("SET ROLE keeper")
            with refused("psp.reassign_owned.'author', 'keeper'."):
                connection.execute(statement.encode())
        finally:
            connection.execute("RESET ROLE; REASSIGN OWNED BY keeper TO author")
        assert one(connection, indexes) == before


@pytest.mark.parametrize("statement", ["SELECT psp.reassign_owned('author', 'keeper')", "TRUNCATE other"])
def test_what_explain_has_made_stays_as_it_is(app: Pair, statement: str) -> None:
    with app.rolled_back() as connection:
        with as_role(connection, "author"):
            connection.execute("EXPLAIN ANALYZE CREATE TABLE explained AS SELECT 1 AS a")
        if statement.startswith("TRUNCATE"):
            connection.execute("SET LOCAL ROLE author")
        connection.execute(statement.encode())
        connection.execute("RESET ROLE; SET CONSTRAINTS ALL IMMEDIATE")
        assert len(problems(connection)) == 1


def test_what_explain_has_made_keeps_its_rows(app: Pair) -> None:
    with arriving(app) as connection:
        with as_role(connection, "author"):
            connection.execute("EXPLAIN ANALYZE CREATE TABLE explained AS SELECT 1 AS a")
        arrive_reassigned(connection, "author", "keeper")
        arrive(connection, "VACUUM other", "author", job=True)
        assert one(connection, "SELECT count(*) FROM explained") == 1


def test_what_is_temporary_is_not_refused(reassigned: psycopg.Connection[Any]) -> None:
    with as_role(reassigned, "keeper"):
        for statement in ("CREATE TEMP TABLE x (a int)", "ALTER TABLE x ADD COLUMN b int", "DROP TABLE x"):
            reassigned.execute(statement.encode())
    assert problems(reassigned) == PROBLEMS


ARRIVES = [
    "ALTER TABLE item ADD COLUMN z int",
    "TRUNCATE public.item",
    "DROP INDEX IF EXISTS public.item_x",
    "ALTER SEQUENCE item_id_seq MAXVALUE 100000000",
    "ALTER TABLE item RENAME TO thing",
    "DROP TABLE item",
    "CREATE VIEW unrelated AS SELECT 1 AS one",
]


@pytest.mark.parametrize("statement", ARRIVES)
def test_one_of_the_old_owner_arrives(app: Pair, statement: str) -> None:
    with arriving(app) as connection:
        connection.execute("REASSIGN OWNED BY author TO keeper")
        arrive(connection, statement, "author")
        assert owners(connection) == {"keeper"}
        gone = {"ALTER TABLE item RENAME TO thing": "thing", "DROP TABLE item": None}.get(statement, "item")
        assert problems(connection) == sorted(
            problem.replace("item", str(gone)) for problem in PROBLEMS if gone or "item" not in problem
        )


def test_a_new_owner_arrives(app: Pair) -> None:
    with arriving(app) as connection:
        connection.execute("REASSIGN OWNED BY author TO keeper; GRANT keeper TO author")
        arrive(connection, "ALTER TABLE item OWNER TO keeper", "author")
        arrive(connection, "ALTER TABLE other OWNER TO keeper", "author")
        assert problems(connection) == []
        assert owners(connection) == {"keeper"}


def test_it_goes_with_the_stream(app: Pair) -> None:
    with app.rolled_back() as connection:
        connection.execute("SELECT psp.reassign_owned('author', 'keeper')")
        assert connection.execute("SELECT role, statement FROM psp.schema_history").fetchall() == [
            ("keeper", "REASSIGN OWNED BY author TO keeper")
        ]
        assert announced(connection) == 2
        assert problems(connection) == []
        assert owners(connection) == {"keeper"}
        with as_role(connection, "keeper"):
            connection.execute("ALTER TABLE item ADD COLUMN y int")
        assert problems(connection) == []


def arrive_reassigned(connection: psycopg.Connection[Any], before: str, after: str) -> None:
    """The row of another server's psp.reassign_owned."""
    with connection.transaction():
        connection.execute("SET LOCAL ROLE psp_functions")
        connection.execute(
            "INSERT INTO psp.schema_history SELECT 1, 1, now(), 'other', %(after)s, "
            "psp.statement_settings() || jsonb_build_object("
            "'reassigned', jsonb_build_array(%(before)s::text, %(after)s::text)), ''",
            {"before": before, "after": after},
        )
        connection.execute("RESET ROLE")


LOCALLY = [
    "SELECT",
    "REASSIGN OWNED BY author TO keeper",
    "REASSIGN OWNED BY author TO other_changer",
    "REASSIGN OWNED BY author TO keeper; DROP OWNED BY author; DROP ROLE author",
]


@pytest.mark.parametrize("before", LOCALLY)
def test_it_arrives(app: Pair, before: str) -> None:
    with arriving(app) as connection:
        connection.execute(before.encode())
        arrive_reassigned(connection, "author", "keeper")
        assert problems(connection) == []
        assert owners(connection) == {"keeper"}


def test_it_comes_from_a_server_where_it_has_run(reassigned: psycopg.Connection[Any]) -> None:
    reassigned.execute("SELECT psp.reassign_owned('author', 'keeper')")
    assert problems(reassigned) == []
    assert owners(reassigned) == {"keeper"}


def test_the_old_owner_has_been_dropped(reassigned: psycopg.Connection[Any]) -> None:
    reassigned.execute("DROP OWNED BY author; DROP ROLE author")
    reassigned.execute("SAVEPOINT before")
    with pytest.raises(UndefinedObject, match="role author does not exist at this semi-primary"):
        reassigned.execute("SELECT psp.reassign_owned('author', 'keeper')")
    reassigned.execute("ROLLBACK TO before; SET LOCAL ROLE keeper")
    with refused("CREATE ROLE with the name of the old owner, and SELECT psp.reassign_owned"):
        reassigned.execute("ALTER TABLE item ADD COLUMN y int")
    reassigned.execute(
        "ROLLBACK TO before; CREATE ROLE author; SELECT psp.reassign_owned('author', 'keeper')"
    )
    assert problems(reassigned) == []


def test_it_is_for_superusers(app: Pair) -> None:
    forged = 'psp.statement_settings() || \'{"reassigned": ["author", "keeper"]}\''
    for statement in (
        "SELECT psp.reassign_owned('author', 'keeper')",
        f"INSERT INTO psp.new_statement (settings, statement) VALUES ({forged}, 'x')",
    ):
        with app.rolled_back() as connection:
            connection.execute("SET LOCAL ROLE keeper")
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.encode())


@pytest.mark.parametrize("roles", ["'author', 'mighty'", "'mighty', 'author'", "'author', current_user"])
def test_no_role_of_a_superuser(app: Pair, roles: str) -> None:
    with app.rolled_back() as connection:
        connection.execute("CREATE ROLE mighty SUPERUSER")
        with explained("runs no statement as"):
            connection.execute(f"SELECT psp.reassign_owned({roles})".encode())


def test_the_role_of_a_statement_is_missing(app: Pair) -> None:
    with (
        arriving(app) as connection,
        pytest.raises(UndefinedObject, match="role nobody_here does not") as error,
    ):
        arrive(connection, "CREATE VIEW unrelated AS SELECT 1 AS one", "nobody_here")
    assert "CREATE ROLE nobody_here" in str(error.value.diag.message_hint)
