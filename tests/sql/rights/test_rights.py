"""What an application role may do with psp: ask three things, and nothing more.

The role is no superuser and owns its tables. It writes in a transaction that stays open, and looks at what it
can reach from there.
"""

from __future__ import annotations

import pytest
from psp.servers.pgserver import PgServer
from psycopg import errors
from psycopg.rows import dict_row

from tests.sql.databases import APPLICATION, Pair, adopted_pair
from tests.sql.refusals import not_allowed, refused
from tests.sql.write_sets import Written, written

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {APPLICATION};
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO {APPLICATION};
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {APPLICATION};
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {APPLICATION}', current_database()); END $$;
SET ROLE {APPLICATION};
CREATE TABLE t (id int PRIMARY KEY, v int, s text);
CREATE SCHEMA own; CREATE TYPE own.mood AS ENUM ('a', 'b'); CREATE DOMAIN own.positive AS int NOT NULL;
CREATE TABLE own.u (id own.positive PRIMARY KEY, m own.mood);
CREATE TABLE plain (id int PRIMARY KEY, v int);
INSERT INTO plain VALUES (1, 1);
CREATE UNIQUE INDEX t_s ON t (lower(s)) WHERE v > 0;
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
"""

ASKABLE = [
    "advisory_xact_lock", "can_commit", "certify_read", "certify_read", "certify_read_referrers",
    "certify_read_referrers", "certify_read_table", "complete_request", "job", "key_to_add",
    "makes_temporary", "mark_triggers", "may_be_of_trigger", "names_of_settings", "notify", "outcome",
    "refuse_read_only",
    "request", "request_done", "request_failed", "role_of_statement",
    "runs_as_it_is", "schemas_in_path", "set_triggers_aside", "snapshot", "statement_has_ended",
    "statement_settings", "statements_of_transaction", "texts_of", "token", "transaction_id",
    "truncation_waits", "wait_for",
]  # fmt: skip


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    """One database for all tests here: each rolls back."""
    return adopted_pair(server, SCHEMA)


def test_executable_functions(app: Pair) -> None:
    """Functions of the guard against schema changes, made last, and those of dblink are psp's alone, too."""
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT proname FROM pg_proc WHERE has_function_privilege(%s, oid, 'EXECUTE') "
            "AND (pronamespace = 'psp'::regnamespace OR probin LIKE '%%dblink%%') ORDER BY 1",
            (APPLICATION,),
        ).fetchall()
    assert [row[0] for row in rows] == ASKABLE


def test_readable_tables(app: Pair) -> None:
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'psp'::regnamespace AND relkind IN ('r', 'v') "
            "AND has_table_privilege(%s, oid, "
            "'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') ORDER BY relname",
            (APPLICATION,),
        ).fetchall()
        assert rows == [("conflicts",), ("new_request",), ("status",)]
        can_create = "SELECT has_schema_privilege(%s, 'psp', 'CREATE')"
        assert connection.execute(can_create, (APPLICATION,)).fetchone() == (False,)


def test_may_ask(app: Pair) -> None:
    with app.connect_as_application() as connection:
        assert connection.execute("SELECT watermark, seen FROM psp.snapshot()").fetchone() == (0, [])
        with connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute("SELECT name, state FROM psp.status").fetchone()
    assert found == {"name": "one", "state": "stopped"}


FORBIDDEN = [
    "SELECT token FROM psp.identity",
    "SELECT * FROM psp.write_set",
    "INSERT INTO psp.write_set VALUES (pg_current_xact_id(), 1, 'd', '')",
    "DELETE FROM psp.write_set",
    "UPDATE psp.commit_intent SET decided = true",
    "INSERT INTO psp.commit_intent (xid) VALUES (pg_current_xact_id())",
    "INSERT INTO psp.applied VALUES (1, gen_random_uuid())",
    "INSERT INTO psp.watermarks VALUES (100)",
    "SELECT psp.forget_watermarks()",
    "TRUNCATE psp.write_set",
    "SELECT psp.refuse_commit(true, 1)",
    "SELECT psp.end_disturbed_commit(gen_random_uuid(), '', '', '', '', '', '')",
    "SELECT psp.look_again(gen_random_uuid())",
    "SELECT psp.look_1('{}', '{}')",
    "SELECT psp.proof('x', '')",
    "SELECT psp.begin_intent(pg_current_xact_id(), false)",
    "SELECT psp.clean()",
    "SELECT psp.hook_connect()",
    "SELECT psp.is_captured('t'::regclass)",
    "SELECT psp.dblink_connect('psp', 'host=127.0.0.1')",
    "SELECT * FROM psp.dblink('host=127.0.0.1', 'ping x') AS r(x text)",
    "SELECT psp.dblink_disconnect('psp')",
    "SET session_replication_role = replica",
    "ALTER TABLE psp.write_set DISABLE TRIGGER ALL",
    "CREATE TRIGGER evil AFTER INSERT ON psp.commit_intent EXECUTE FUNCTION psp.commit_hook()",
    "CREATE TRIGGER evil AFTER INSERT ON t EXECUTE FUNCTION psp.record_truncation()",
    "CREATE FUNCTION psp.evil() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP SCHEMA psp CASCADE",
    "ALTER EVENT TRIGGER psp_on_ddl DISABLE",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_forbidden(app: Pair, statement: str) -> None:
    with app.connect_as_application() as connection:
        connection.execute("INSERT INTO t VALUES (3, 3, 'c')")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.encode())
        connection.rollback()


def test_nobody_may_capture_what_he_likes(app: Pair) -> None:
    """A trigger with the capture's function would write keys of other tables into the write-set."""
    function = "psp.capture_1_row('1', '0', '0')" if app.uses_module else "psp.capture_1_delete()"
    with app.connect_as_application() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(f"CREATE TRIGGER evil AFTER INSERT ON t EXECUTE FUNCTION {function}".encode())


SWITCHES = [
    "ALTER TABLE t DISABLE TRIGGER ALL",
    "ALTER TABLE t DISABLE TRIGGER psp_truncate",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t ADD COLUMN w int",
    "ALTER TABLE t SET UNLOGGED",
    "DROP TRIGGER psp_capture_insert ON t",
    "ALTER TRIGGER psp_capture_insert ON t RENAME TO harmless",
    "CREATE TRIGGER zz AFTER INSERT ON t EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE UNIQUE INDEX ON t (v)",
    "DROP INDEX t_s",
    "ALTER INDEX t_s RENAME TO other",
    "ALTER TABLE t RENAME CONSTRAINT t_pkey TO other",
    "DROP TYPE own.mood CASCADE",
    "ALTER SCHEMA own RENAME TO mine",
    "ALTER TYPE own.mood ADD VALUE 'c'",
    "ALTER DOMAIN own.positive DROP NOT NULL",
    "CREATE RULE evil AS ON INSERT TO t DO INSTEAD NOTHING",
    "DROP TABLE t",
    "DROP TABLE t CASCADE",
    "CREATE TABLE u (a int PRIMARY KEY)",
    "CREATE TABLE u AS SELECT 1 AS a",
    "CREATE TABLE u () INHERITS (t)",
]


@pytest.mark.parametrize("statement", SWITCHES)
def test_owner_cannot_switch_capture_off(app: Pair, statement: str) -> None:
    """The owner of a table may do all this to it, were it not for psp."""
    with app.connect_as_application() as connection:
        with not_allowed():
            connection.execute(statement.encode())
        connection.rollback()


SETTINGS = [
    "SET CONSTRAINTS ALL IMMEDIATE",
    "SET check_function_bodies = off; SET row_security = off",
    "SET enable_indexscan = off; SET enable_seqscan = off; SET enable_bitmapscan = off",
    "SET bytea_output = 'escape'; SET datestyle = 'German'; SET standard_conforming_strings = off",
    "SET plpgsql.variable_conflict = 'error'",
    "SET transform_null_equals = on; SET array_nulls = off",
    "SET search_path = ''",
    "SET client_min_messages = error",
    "SET TIME ZONE 'Asia/Tokyo'",
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_do_not_reach_capture(app: Pair, setting: str) -> None:
    def rows(first: str) -> list[Written]:
        with app.application() as connection:
            connection.execute(first.encode())
            connection.execute("INSERT INTO public.t VALUES (3, 3, 'C')")
            connection.execute("UPDATE public.t SET v = 7 WHERE id = 1; DELETE FROM public.t WHERE id = 2")
            return written(connection)

    expected = rows("SELECT 1")
    assert [row.op for row in expected] == ["i", "g", "i", "g", "d"]
    assert rows(setting) == expected


IMPOSTORS = """
CREATE SCHEMA evil AUTHORIZATION application;
SET ROLE application;
CREATE FUNCTION evil.yes(anyelement, anyelement) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = anyelement, RIGHTARG = anyelement);
CREATE OPERATOR evil.<> (FUNCTION = evil.yes, LEFTARG = anyelement, RIGHTARG = anyelement);
CREATE OPERATOR evil.> (FUNCTION = evil.yes, LEFTARG = anyelement, RIGHTARG = anyelement);
CREATE FUNCTION evil.int_equal(int, int) RETURNS boolean LANGUAGE plpgsql AS
    $$BEGIN RAISE 'the evil operator ran as %', current_user; END$$;
CREATE OPERATOR evil.= (FUNCTION = evil.int_equal, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR evil.> (FUNCTION = evil.int_equal, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION evil.same(xid8, xid8) RETURNS boolean LANGUAGE plpgsql AS
    $$BEGIN RAISE 'the evil operator ran as %', current_user; END$$;
CREATE OPERATOR evil.= (FUNCTION = evil.same, LEFTARG = xid8, RIGHTARG = xid8);
CREATE FUNCTION evil.differs(bytea, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.<> (FUNCTION = evil.differs, LEFTARG = bytea, RIGHTARG = bytea);
CREATE FUNCTION evil.concat(bytea, bytea) RETURNS bytea LANGUAGE sql AS $$SELECT ''::bytea$$;
CREATE OPERATOR evil.|| (FUNCTION = evil.concat, LEFTARG = bytea, RIGHTARG = bytea);
CREATE FUNCTION evil.record_send(record) RETURNS bytea LANGUAGE plpgsql AS $$BEGIN RETURN 'evil'; END$$;
CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS $$SELECT 'evil'$$;
CREATE FUNCTION evil.pg_trigger_depth() RETURNS int LANGUAGE sql AS 'SELECT 77';
CREATE FUNCTION evil.pg_current_xact_id() RETURNS xid8 LANGUAGE sql AS $$SELECT '1'::xid8$$;
CREATE FUNCTION evil.pg_client_encoding() RETURNS name LANGUAGE sql AS $$SELECT 'LATIN1'::name$$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'evil'$$;
CREATE TABLE evil.write_set (xid xid8, table_id int, op "char", depth smallint, payload bytea,
                             PRIMARY KEY (xid));
"""


@pytest.fixture(scope="module")
def app_with_impostors(server: PgServer) -> Pair:
    return adopted_pair(server, IMPOSTORS, SCHEMA)


@pytest.mark.parametrize("path", ["evil, pg_catalog, public", "evil, public", "pg_temp, evil, pg_catalog"])
def test_search_path_does_not_reach_capture(app: Pair, app_with_impostors: Pair, path: str) -> None:
    def rows(pair: Pair, first: str) -> list[Written]:
        with pair.application() as connection:
            connection.execute(
                f"CREATE TEMP TABLE write_set (x int); SET LOCAL search_path = {first}".encode()
            )
            connection.execute("INSERT INTO public.t VALUES (3, 3, 'C')")
            connection.execute("UPDATE public.t SET id = 9, s = 'new' WHERE id OPERATOR(pg_catalog.=) 1")
            connection.execute("DELETE FROM public.t WHERE id OPERATOR(pg_catalog.=) 2")
            connection.execute("INSERT INTO public.plain VALUES (7, 7)")
            connection.execute("UPDATE public.plain SET id = 8 WHERE id OPERATOR(pg_catalog.=) 1")
            connection.execute("DELETE FROM public.plain WHERE id OPERATOR(pg_catalog.=) 7")
            return written(connection)

    expected = [(row.op, row.payload) for row in rows(app, "public")]
    assert [op for op, _ in expected] == ["i", "g", "d", "i", "g", "d", "i", "d", "i", "d"]
    assert [(row.op, row.payload) for row in rows(app_with_impostors, path)] == expected


def test_constraints_made_immediate_wait_for_the_commit(app: Pair) -> None:
    """The hook is not run off early: later writes are captured as well, and COMMIT still needs the daemon."""
    with app.connect_as_application() as connection:
        connection.execute("INSERT INTO t VALUES (3, 3, 'c')")
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (4, 4, 'd')")
        with pytest.raises(errors.ConnectionFailure) as caught:
            connection.commit()
        assert caught.value.sqlstate == "08006"
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_constraint_by_name_is_out_of_reach(app: Pair) -> None:
    with app.connect_as_application() as connection:
        connection.execute("INSERT INTO t VALUES (3, 3, 'c')")
        connection.execute("SET CONSTRAINTS psp.psp_commit IMMEDIATE")
        with pytest.raises(errors.ConnectionFailure):
            connection.commit()


def test_commit_in_a_procedure_needs_the_daemon(app: Pair) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        with pytest.raises(errors.ConnectionFailure):
            connection.execute("DO $$ BEGIN INSERT INTO t VALUES (3, 3, 'c'); COMMIT; END $$")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


REFUSED = [
    ("TRUNCATE t", "TRUNCATE of public.t is not supported"),
    (
        "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (3, 3, 'c')",
        "SERIALIZABLE",
    ),
    (
        "BEGIN; INSERT INTO t VALUES (3, 3, 'c'); PREPARE TRANSACTION 'x'",
        "PREPARE TRANSACTION",
    ),
]


@pytest.mark.parametrize(("script", "message"), REFUSED, ids=["truncate", "serializable", "prepare"])
def test_refused(app: Pair, script: str, message: str) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        with refused(message):
            for statement in script.split("; "):
                connection.execute(statement.encode())
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


@pytest.mark.parametrize("prepare", ["/* a */ prepare\n transaction 'x'", "-- c\nPREPARE TRANSACTION 'x'"])
def test_prepare_is_seen_through_comments(app: Pair, prepare: str) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (3, 3, 'c')")
        with refused("PREPARE TRANSACTION"):
            connection.execute(prepare.encode())


def test_reads_are_not_certified(app: Pair) -> None:
    """Without a daemon: reading needs none, at any isolation level."""
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
        connection.execute("COMMIT")


def test_last_error_is_shown_to_members_of_pg_monitor_only(app: Pair) -> None:
    """It quotes what PostgreSQL says, rows included."""
    status = '{"state": "failed", "last_error": "Key (id)=(4711) is secret"}'
    ask = "SELECT last_error FROM psp.status"
    with app.connect() as connection:
        connection.execute("INSERT INTO psp.daemon_status VALUES (true, now(), %s)", (status,))
        assert connection.execute(ask).fetchone() == ("Key (id)=(4711) is secret",)
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        assert connection.execute(ask).fetchone() == ("there is one, which members of pg_monitor can see",)
        connection.execute("RESET ROLE")
        connection.execute(f"GRANT pg_monitor TO {APPLICATION}".encode())
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        assert connection.execute(ask).fetchone() == ("Key (id)=(4711) is secret",)
        connection.rollback()
