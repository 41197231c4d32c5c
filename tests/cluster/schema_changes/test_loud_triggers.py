"""Triggers that a schema change lets fire for rows of other servers, too."""

from __future__ import annotations

from typing import LiteralString

import pytest
from psp.cluster.local import Options, SpNode

from tests.cluster.schema_changes.statements import changing_pair
from tests.cluster.support import as_admin, connect, execute, settle, wait_for_row

SCHEMA = """
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE TABLE trail (id serial PRIMARY KEY, v text);
CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.trail (v) VALUES (NEW.v); RETURN NULL; END $$;
CREATE TRIGGER log AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION log();
"""


def is_set_aside(sp: SpNode) -> bool:
    problems = execute(as_admin(sp), "SELECT psp.guard_problems()")
    return any("trigger log of public.doc is set aside" in problem for (problem,) in problems)


def test_what_a_trigger_writes_is_there_once() -> None:
    """And the stream goes on."""
    with changing_pair(SCHEMA) as cluster:
        north, south = cluster.sps
        execute(north, "ALTER TABLE doc ENABLE ALWAYS TRIGGER log")
        for n in range(5):
            execute(north, "INSERT INTO doc VALUES (%s, 'north')", [n])
        wait_for_row(south, "SELECT 1 FROM doc WHERE id = 4")
        settle(cluster)
        assert (is_set_aside(north), is_set_aside(south)) == (False, True)
        execute(south, "INSERT INTO doc VALUES (5, 'south')")
        wait_for_row(north, "SELECT 1 FROM doc WHERE id = 5")
        settle(cluster)
        for sp in (north, south):
            assert is_set_aside(sp)
            assert execute(sp, "SELECT v, count(*) FROM trail GROUP BY v ORDER BY v") == [
                ("north", 5),
                ("south", 1),
            ]


EVENT_TRIGGERS = """
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE UNLOGGED TABLE seen (tag text);
CREATE FUNCTION fails() RETURNS event_trigger LANGUAGE plpgsql AS
    $$ BEGIN IF tg_tag = 'CREATE VIEW' THEN RAISE 'no view'; END IF; END $$;
CREATE FUNCTION sees() RETURNS event_trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.seen VALUES (tg_tag); END $$;
CREATE FUNCTION writes() RETURNS event_trigger LANGUAGE plpgsql AS
    $$ BEGIN IF tg_tag = 'COMMENT' THEN INSERT INTO public.doc VALUES (7, 'by it'); END IF; END $$;
GRANT INSERT ON seen, doc TO PUBLIC;
"""


def event_problems(sp: SpNode) -> list[str]:
    problems = execute(as_admin(sp), "SELECT psp.guard_problems()")
    return [problem for (problem,) in problems if "event trigger" in problem]


def test_event_triggers_for_statements_of_others() -> None:
    """Those that are ENABLE ALWAYS fire there. One that fails stops nothing."""
    with changing_pair(EVENT_TRIGGERS) as cluster:
        north, south = cluster.sps
        for name in ("sees", "fails"):
            for statement in (
                "CREATE EVENT TRIGGER {0} ON ddl_command_end EXECUTE FUNCTION {0}()",
                "ALTER EVENT TRIGGER {0} ENABLE ALWAYS",
            ):
                with connect(as_admin(south), autocommit=True) as connection:
                    connection.execute(statement.format(name).encode())
        execute(north, "CREATE FUNCTION made() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        wait_for_row(south, "SELECT 1 FROM pg_proc WHERE proname = 'made'")
        assert execute(as_admin(south), "SELECT 1 FROM seen WHERE tag = 'CREATE FUNCTION'")
        assert event_problems(south) == []
        execute(north, "CREATE VIEW of_doc AS SELECT id FROM doc")
        wait_for_row(south, "SELECT 1 FROM pg_views WHERE viewname = 'of_doc'")
        enabled: LiteralString = (
            "SELECT evtname, evtenabled FROM pg_event_trigger WHERE evtname IN ('fails', 'sees')"
        )
        assert sorted(execute(as_admin(south), enabled)) == [("fails", "O"), ("sees", "O")]
        assert ["no view" in problem for problem in event_problems(south)] == [True, True]
        for name in ("sees", "fails"):
            with connect(as_admin(south), autocommit=True) as connection:
                connection.execute(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS".encode())
        assert event_problems(south) == []
        settle(cluster)


def test_an_event_trigger_that_writes_a_captured_table() -> None:
    with changing_pair(EVENT_TRIGGERS) as cluster:
        north, south = cluster.sps
        with connect(as_admin(south), autocommit=True) as connection:
            connection.execute("CREATE EVENT TRIGGER writes ON ddl_command_end EXECUTE FUNCTION writes()")
            connection.execute("ALTER EVENT TRIGGER writes ENABLE ALWAYS")
        execute(north, "COMMENT ON TABLE doc IS 'a'")
        wait_for_row(south, "SELECT 1 WHERE obj_description('doc'::regclass) = 'a'")
        assert execute(south, "SELECT count(*) FROM doc") == [(0,)]
        assert len(event_problems(south)) == 1
        settle(cluster)


SLEEPS = """
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE TABLE other (id int PRIMARY KEY, v text);
CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        {}
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('other', NEW.v); RETURN NULL; END $$;
CREATE TRIGGER log AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION waits();
CREATE TRIGGER tells AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION tells();
"""
SLEEPS_ONCE = "PERFORM pg_sleep(3600);"
# It gives the session another name, too.
CATCHES_CANCELS = """
    PERFORM set_config('application_name', 'psp apply worker', false);
    LOOP
        BEGIN
            PERFORM pg_sleep(3600);
        EXCEPTION WHEN query_canceled THEN
            NULL;
        END;
    END LOOP;
"""
ENABLE: LiteralString = "ALTER TABLE doc ENABLE ALWAYS TRIGGER log"
ENABLE_OTHER: LiteralString = "ALTER TABLE other ENABLE ALWAYS TRIGGER tells"
WRITE: LiteralString = "INSERT INTO doc SELECT i, 'north' FROM generate_series(1, 3) i"
WRITE_OTHER: LiteralString = "INSERT INTO other VALUES (1, 'north')"
CANCELLED = "canceling statement"
TERMINATED = "they do not end, and catch their cancel"


def check_it_is_set_aside(
    code: str, problem: str, *transactions: list[LiteralString], tables: str = ""
) -> None:
    """A trigger whose code runs where rows are applied holds up the stream."""
    options = Options(sp_options={"trigger_timeout_ms": 500})
    with changing_pair(SLEEPS.format(code) + tables, options) as cluster:
        north, south = cluster.sps
        for statements in transactions:
            with connect(north) as connection:
                for statement in statements:
                    connection.execute(statement)
        wait_for_row(south, "SELECT 1 FROM doc WHERE id = 3")
        assert (is_set_aside(north), is_set_aside(south)) == (False, True)
        (told,) = (text for (text,) in execute(as_admin(south), "SELECT psp.guard_problems()"))
        assert problem in told, "and no other trigger is"
        execute(north, "INSERT INTO doc VALUES (4, 'north')")
        wait_for_row(south, "SELECT 1 FROM doc WHERE id = 4")
        settle(cluster)


def test_a_trigger_that_does_not_end() -> None:
    check_it_is_set_aside(SLEEPS_ONCE, CANCELLED, [ENABLE], [WRITE])


def test_a_trigger_that_catches_its_cancel() -> None:
    check_it_is_set_aside(CATCHES_CANCELS, TERMINATED, [ENABLE], [WRITE])


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (f"FOR i IN 1..50 LOOP PERFORM psp.mark_triggers(i); END LOOP; {CATCHES_CANCELS}", TERMINATED),
        (f"PERFORM psp.mark_triggers(NULL); {SLEEPS_ONCE}", CANCELLED),
    ],
)
def test_a_trigger_that_takes_the_locks_of_others(code: str, problem: str) -> None:
    """It neither hides itself, nor has another table's triggers set aside."""
    check_it_is_set_aside(code, problem, [ENABLE, ENABLE_OTHER], [WRITE])


@pytest.mark.parametrize(("code", "problem"), [(SLEEPS_ONCE, CANCELLED), (CATCHES_CANCELS, TERMINATED)])
def test_a_trigger_that_is_enabled_in_the_same_transaction(code: str, problem: str) -> None:
    """Nobody but the worker sees it in the catalog."""
    check_it_is_set_aside(code, problem, [ENABLE, WRITE])


def test_a_trigger_after_another_one_of_the_same_transaction() -> None:
    """The worker sets its session back between the parts of a transaction that changes the schema."""
    check_it_is_set_aside(SLEEPS_ONCE, CANCELLED, [ENABLE_OTHER, WRITE_OTHER, ENABLE, WRITE])


def test_a_trigger_with_a_long_error() -> None:
    code = "RAISE '%', repeat('x', 100000000);"
    check_it_is_set_aside(code, "trigger log of public.doc", [ENABLE], [WRITE])


def test_a_trigger_with_a_long_statement() -> None:
    code = "EXECUTE 'SELECT 1/0 -- ' || repeat('x', 100000000);"
    check_it_is_set_aside(code, "trigger log of public.doc", [ENABLE], [WRITE])


@pytest.mark.parametrize(("code", "problem"), [(SLEEPS_ONCE, CANCELLED), (CATCHES_CANCELS, TERMINATED)])
def test_one_trigger_of_two_is_set_aside(code: str, problem: str) -> None:
    """The other one fires in the same statement of the worker, before it or after it."""
    check_it_is_set_aside(
        code, problem, [ENABLE, ENABLE_OTHER], [WRITE_OTHER, WRITE, "UPDATE other SET v = 'again'"]
    )


def test_a_trigger_of_one_table_of_many() -> None:
    """The worker's statement is longer than what pg_stat_activity shows of it."""
    names: list[LiteralString] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"]
    tables = "".join(f"CREATE TABLE many_{name} (id int PRIMARY KEY, v text);" for name in names)
    writes: list[LiteralString] = ["INSERT INTO many_" + name + " VALUES (1, 'north')" for name in names]
    check_it_is_set_aside(SLEEPS_ONCE, CANCELLED, [ENABLE], [*writes, WRITE], tables=tables)
