"""Triggers of the application that fire where rows of other servers are written. No daemon is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, become_worker
from tests.sql.databases import APPLICATION, Pair, adopted_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE trail (id serial PRIMARY KEY, v text);
CREATE UNLOGGED TABLE aside (v text);
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.trail (v) VALUES (NEW.v); RETURN NULL; END $$;
CREATE FUNCTION changes_itself() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN UPDATE public.doc SET v = 'other' WHERE v = 'x'; RETURN NULL; END $$;
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('doc', NEW.v); INSERT INTO public.aside VALUES (NEW.v); RETURN NULL; END $$;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no %', NEW.v; END $$;
CREATE FUNCTION seems_to_pass() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE SQLSTATE '40001'; END $$;
CREATE FUNCTION seems_cancelled() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE SQLSTATE '57014'; END $$;
CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$;
CREATE FUNCTION asserts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ASSERT false; RETURN NULL; END $$;
CREATE FUNCTION sets_aside() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM psp.set_triggers_aside('by hand'); RETURN NULL; END $$;
CREATE FUNCTION alters() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN CREATE TABLE public.made_here (id int PRIMARY KEY); RETURN NULL; END $$;
CREATE FUNCTION changes() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.v := clock_timestamp()::text; RETURN NEW; END $$;
"""


@pytest.fixture(scope="module", params=["sql", "auto"])
def app(server: PgServer, request: pytest.FixtureRequest) -> Pair:
    choice: CaptureChoice = request.param
    pair = adopted_pair(server, SCHEMA, capture=choice)
    pair.run(f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}")
    return pair


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def ddl(connection: psycopg.Connection[Any], *statements: str) -> None:
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    for statement in statements:
        connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")


def makes(function: str, table: str = "doc", enabled: str = "ALWAYS") -> tuple[str, str]:
    return (
        f"CREATE TRIGGER own AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
        f"ALTER TABLE {table} ENABLE {enabled} TRIGGER own",
    )


def row_arrives(connection: psycopg.Connection[Any], table: str = "doc", function: str = "upsert") -> None:
    number = one(connection, "SELECT table_id FROM psp.tables WHERE table_name = %s", table)
    row = f"ARRAY[ROW(1, 'x')::psp.apply_rows_{number}]::psp.apply_rows_{number}[]"
    connection.execute(f"SELECT psp.apply_{function}_{number}({row})".encode())


def problems(connection: psycopg.Connection[Any]) -> list[str]:
    return [problem for (problem,) in connection.execute("SELECT psp.guard_problems()")]


@pytest.mark.parametrize("table", ["doc", "parted"])
@pytest.mark.parametrize("enabled", ["ALWAYS", "REPLICA"])
def test_who_tells_and_writes_what_is_local_fires(
    connection: psycopg.Connection[Any], table: str, enabled: str
) -> None:
    told: list[str | None] = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    ddl(connection, *makes("tells", table, enabled))
    assert told == [f"psp: trigger own of public.{table} fires for rows of other servers, too"]
    become_worker(connection)
    row_arrives(connection, table)
    assert one(connection, "SELECT v FROM aside") == "x"
    assert problems(connection) == []


FAILING = [
    ("logs", "by a trigger that fires for rows of other servers"),
    ("changes_itself", "by a trigger that fires for rows of other servers"),
    ("fails", "no x"),
    ("seems_to_pass", "40001"),
    ("seems_cancelled", "57014"),
    ("asserts", "assertion failed"),
    ("sets_aside", "only a function that writes rows"),
    ("alters", "made_here"),
]


@pytest.mark.parametrize("table", ["doc", "parted"])
@pytest.mark.parametrize(("function", "problem"), FAILING)
def test_who_fails_is_set_aside(
    connection: psycopg.Connection[Any], table: str, function: str, problem: str
) -> None:
    ddl(connection, *makes(function, table))
    become_worker(connection)
    for kind in ("upsert", "upsert", "insert"):
        if kind == "insert":
            connection.execute(f"DELETE FROM {table}".encode())
        row_arrives(connection, table, kind)
    assert connection.execute(f"SELECT id, v FROM {table}".encode()).fetchall() == [(1, "x")]
    assert one(connection, "SELECT count(*) FROM trail") == 0
    found = problems(connection)
    assert found, "it is told"
    assert all("is set aside" in text and problem in text for text in found)
    # It fires where a row is written first, and is as it was when its owner enables it again.
    connection.execute("SET LOCAL session_replication_role = origin")
    enabled = "SELECT tgenabled FROM pg_trigger WHERE tgname = 'own' AND tgrelid = %s::regclass"
    assert one(connection, enabled, table) == "O"
    ddl(connection, f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER own")
    assert one(connection, enabled, table) == "A"
    assert problems(connection) == []


def test_who_does_not_end_is_set_aside_by_a_cancel(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, *makes("sleeps"))
    become_worker(connection)
    connection.execute("SET LOCAL statement_timeout = '300ms'")
    row_arrives(connection)
    assert connection.execute("SELECT id, v FROM doc").fetchall() == [(1, "x")]
    assert "canceling statement" in problems(connection)[0]


def test_an_error_of_the_rows_sets_nothing_aside(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, *makes("tells"), "ALTER TABLE doc ADD CHECK (v <> 'x')")
    become_worker(connection)
    with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
        row_arrives(connection)
    assert problems(connection) == []
    assert one(connection, "SELECT count(*) FROM pg_trigger WHERE tgname = 'own' AND tgenabled = 'A'") == 1


@pytest.mark.parametrize(
    ("state", "context", "answer"),
    [
        (
            "40P01",
            'while locking tuple (0,1)\nSQL statement "INSERT INTO doc AS psp_t …"\n'
            "PL/pgSQL function psp.apply_insert_1(psp.apply_rows_1[]) line 5 at SQL statement",
            False,
        ),
        (
            "55P03",
            'SQL statement "DELETE FROM doc AS psp_t …"\nPL/pgSQL function psp.apply_clear_1() line 5',
            False,
        ),
        ("40P01", 'PL/pgSQL function f() line 1\nSQL statement "INSERT INTO doc AS psp_t …"', True),
        ("23505", 'SQL statement "INSERT INTO doc AS psp_t …"\nPL/pgSQL function a', True),
        ("53200", "PL/pgSQL function psp.mark_triggers(integer) line 5 at PERFORM", False),
        ("55P03", 'SQL statement "LOCK TABLE x NOWAIT -- AS psp_t"\nPL/pgSQL function f() line 1', True),
        ("40P01", f'SQL statement "{"x" * 200_000}"\nPL/pgSQL function f() line 1', True),
    ],
)
def test_errors_that_can_pass_set_nothing_aside(
    connection: psycopg.Connection[Any], state: str, context: str, answer: bool
) -> None:
    assert one(connection, "SELECT psp.may_be_of_trigger(%s, %s)", state, context) is answer


REFUSED = [
    "CREATE TRIGGER own BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION changes(); "
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER own",
    "CREATE TRIGGER own BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION changes(); "
    "ALTER TABLE {table} ENABLE REPLICA TRIGGER own",
    "CREATE TRIGGER own AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION tells(); "
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER own; "
    "CREATE OR REPLACE TRIGGER own BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION changes(); "
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER own",
    "CREATE TRIGGER own AFTER TRUNCATE ON {table} EXECUTE FUNCTION logs(); "
    "ALTER TABLE {table} ENABLE ALWAYS TRIGGER own",
    "CREATE RULE own AS ON INSERT TO {table} DO ALSO INSERT INTO trail (v) VALUES (NEW.v); "
    "ALTER TABLE {table} ENABLE ALWAYS RULE own",
    "CREATE RULE own AS ON UPDATE TO {table} DO INSTEAD NOTHING; ALTER TABLE {table} ENABLE REPLICA RULE own",
]


@pytest.mark.parametrize("table", ["doc", "parted", "part"])
@pytest.mark.parametrize("text", REFUSED)
def test_what_would_change_a_row_is_refused(
    connection: psycopg.Connection[Any], text: str, table: str
) -> None:
    with refused("ENABLE ALWAYS or REPLICA"):
        ddl(connection, text.format(table=table))


def test_a_clone_at_a_partition(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, "CREATE TRIGGER own BEFORE INSERT ON parted FOR EACH ROW EXECUTE FUNCTION changes()")
    with refused("before each row"):
        ddl(connection, "ALTER TABLE part ENABLE ALWAYS TRIGGER own")


def test_a_local_table_that_becomes_captured(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "CREATE UNLOGGED TABLE late (id int PRIMARY KEY, v text)",
        "CREATE TRIGGER own BEFORE INSERT ON late FOR EACH ROW EXECUTE FUNCTION changes()",
        "ALTER TABLE late ENABLE ALWAYS TRIGGER own",
    )
    with refused("before each row"):
        ddl(connection, "ALTER TABLE late SET LOGGED")


def test_a_table_without_a_key(connection: psycopg.Connection[Any]) -> None:
    with refused("no primary key"):
        ddl(connection, "CREATE TABLE late (id int, v text); " + "; ".join(makes("tells", "late")))


def test_a_new_table_with_such_a_trigger_arrives(connection: psycopg.Connection[Any]) -> None:
    """Its rows of here go again: what its trigger does then is in nobody's way."""
    become_worker(connection)
    arrive(
        connection,
        "CREATE TABLE late (id int PRIMARY KEY, v text); INSERT INTO late VALUES (1, 'a'); "
        "CREATE TRIGGER own AFTER DELETE ON late EXECUTE FUNCTION logs(); "
        "ALTER TABLE late ENABLE ALWAYS TRIGGER own",
    )
    assert one(connection, "SELECT count(*) FROM late") == 0
    assert one(connection, "SELECT depth FROM psp.apply_session") == 1
    row_arrives(connection, "late")
    assert one(connection, "SELECT count(*) FROM late") == 1
