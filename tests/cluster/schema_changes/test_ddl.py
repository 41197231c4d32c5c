"""psp.ddl: a statement runs at every SP, as its caller, at its place in the stream, or nowhere."""

import json
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cli import app
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Zone
from psp.output import PspError
from psp.schema.history import read_history
from psp.schema.join import prepare_join
from psp.sql_files import read_sql
from psycopg import sql
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from tests.cluster.schema_changes.statements import (
    allow_ddl,
    changes,
    changing_pair,
    check_a_second_change_waits,
    ddl,
    exists,
    wait_for_relation,
)
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    as_admin,
    connect,
    execute,
    paused,
    raises,
    settle,
    wait_for_row,
    wait_streaming,
)

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, secret text);
CREATE TABLE log (id int PRIMARY KEY);
CREATE FUNCTION calls_ddl() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM psp.ddl('CREATE VIEW by_trigger AS SELECT 1'); RETURN NULL; END $$;
CREATE TRIGGER calls_ddl AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION calls_ddl();
"""


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        for sp in cluster.sps:
            execute(as_admin(sp), "CREATE ROLE other")
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Two SPs, which hold the same rows, the history of schema changes among them, after the test."""
    yield shared_pair
    settle(shared_pair)


STATEMENTS: list[tuple[str, str, LiteralString]] = [
    ("function", "CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql AS 'SELECT 2*x'", "SELECT twice(21)"),
    ("view", "CREATE VIEW names AS SELECT name FROM item", "SELECT count(*) FROM names"),
    ("index", "CREATE INDEX item_name ON item (lower(name))", "SELECT 'item_name'::regclass::text"),
    ("enum", "CREATE TYPE mood AS ENUM ('sad')", "SELECT 'sad'::mood::text"),
    ("enum-value", "ALTER TYPE mood ADD VALUE 'glad'", "SELECT 'glad'::mood::text"),
    ("constraint-name", "ALTER TABLE item RENAME CONSTRAINT item_pkey TO item_key",
     "SELECT 'item_key'::regclass::text"),
    ("schema", "CREATE SCHEMA part CREATE VIEW v AS SELECT 1 AS one", "SELECT one FROM part.v"),
    ("comment", "COMMENT ON TABLE item IS 'it''s'", "SELECT obj_description('item'::regclass)"),
    ("grant", "GRANT SELECT (name) ON item TO other",
     "SELECT has_column_privilege('other', 'item', 'name', 'SELECT')"),
    ("unlogged", "CREATE UNLOGGED TABLE scratch AS SELECT 1 AS one", "SELECT one FROM scratch"),
    ("materialized", "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM item", "SELECT n >= 0 FROM m"),
    ("two-in-one", "CREATE VIEW v1 AS SELECT 1; CREATE VIEW v2 AS TABLE v1", "SELECT count(*) FROM v2"),
    ("policy", "CREATE POLICY own ON item USING (secret IS NULL)",
     "SELECT count(*) FROM pg_policy WHERE polname = 'own'"),
]  # fmt: skip


def test_statements_run_at_every_sp(pair: LocalCluster) -> None:
    north, south = pair.sps
    for at, (name, statement, query) in enumerate(STATEMENTS):
        ddl((north, south)[at % 2], statement)  # each change is met by the next one, from the other side
        wait_streaming(pair)
        verify.wait_drained(pair)
        assert execute(north, query) == execute(south, query), name


def test_who_has_not_been_allowed_changes_no_schema(pair: LocalCluster) -> None:
    with connect(as_admin(pair.sps[0])) as connection:
        for statement in (
            "SELECT psp.ddl('SELECT 1')",
            "INSERT INTO psp.new_statement (settings, statement) "
            "VALUES (psp.statement_settings(), 'SELECT 1')",
        ):
            connection.execute("SET ROLE other")
            with raises("42501"):
                connection.execute(statement.encode())
            connection.rollback()


def test_the_history_tells_who_changed_what(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(south, "CREATE VIEW told AS\n  SELECT 1")
    wait_for_relation(north, "told")
    with connect(south) as connection, raises("42501"):
        connection.execute("SELECT * FROM psp.schema_history")
    told = read_history(north.admin_dsn, pair.primary_dsn)[-1]
    assert told["statement"] == "CREATE VIEW told AS\n  SELECT 1"
    assert (told["sp_name"], told["role"]) == ("south", execute(south, "SELECT current_user")[0][0])
    assert 0 < told["global_t"] <= execute(as_admin(north), "SELECT watermark FROM psp.watermark")[0][0]
    options = [north.admin_dsn, "--primary-dsn", pair.primary_dsn]
    shown = CliRunner().invoke(app, ["schema", "history", *options], env={"COLUMNS": "200"})
    assert "CREATE VIEW told AS SELECT 1" in shown.output
    machine = CliRunner().invoke(app, ["schema", "history", *options, "--json"])
    assert json.loads(machine.stdout)[-1]["global_t"] == told["global_t"]


def test_a_rolled_back_statement_runs_nowhere(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("SELECT psp.ddl('CREATE VIEW kept AS SELECT 1')")
        connection.execute("SAVEPOINT s")
        connection.execute("SELECT psp.ddl('CREATE VIEW undone AS SELECT 1')")
        connection.execute("ROLLBACK TO s")
    with connect(north) as connection:
        connection.execute("SELECT psp.ddl('CREATE VIEW undone AS SELECT 1')")
        connection.rollback()
    wait_for_relation(south, "kept")
    assert not exists(north, "undone")
    assert not exists(south, "undone")


def test_of_two_concurrent_changes_one_commits(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        first.execute("SELECT psp.ddl('CREATE VIEW of_north AS SELECT 1')")
        second.execute("SELECT psp.ddl('CREATE VIEW of_south AS SELECT 1')")
        first.commit()
        with raises(SERIALIZATION_FAILURE):
            second.commit()
    verify.wait_drained(pair)
    ddl(south, "CREATE VIEW of_south AS SELECT 1")
    wait_for_relation(north, "of_south")
    assert exists(south, "of_north")


def test_a_second_change_at_one_sp_waits(pair: LocalCluster) -> None:
    north, south = pair.sps
    check_a_second_change_waits(
        north,
        "SELECT psp.ddl('CREATE VIEW before AS SELECT 1')",
        "SELECT psp.ddl('CREATE VIEW after AS SELECT * FROM before')",
    )
    wait_for_relation(south, "after")


def test_a_snapshot_that_lacks_a_change_is_refused(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(south) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        ddl(north, "CREATE VIEW unseen AS SELECT 1")
        wait_for_relation(south, "unseen")
        with raises(SERIALIZATION_FAILURE):
            connection.execute("SELECT psp.ddl('CREATE VIEW late AS SELECT 1')")
    assert not exists(north, "late")


REFUSED: list[tuple[str, str, str]] = [
    ("temporary", "CREATE TEMP TABLE here (id int)", "0A000"),
    ("temporary-type", "CREATE TYPE pg_temp.here AS ENUM ('a')", "0A000"),
    ("rows", "INSERT INTO item VALUES (7, 'seven')", "0A000"),
    ("no-key", "CREATE TABLE keyless (x int)", "0A000"),
    ("psp", "DROP SCHEMA psp CASCADE", "42501"),
    ("commit", "COMMIT", "0A000"),
    ("role", "SET ROLE other", "42501"),
    ("nested", "CREATE UNLOGGED TABLE nested AS SELECT psp.ddl('CREATE VIEW v AS SELECT 1')::text", "0A000"),
    ("syntax", "CREATE VIEW", "42601"),
]


@pytest.mark.parametrize(("name", "statement", "sqlstate"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_refused(pair: LocalCluster, name: str, statement: str, sqlstate: str) -> None:
    north = pair.sps[0]
    before = changes(north)
    with raises(sqlstate):
        ddl(north, statement)
    assert changes(north) == before


def test_refused_in_a_trigger(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with raises("0A000"):
        execute(north, "INSERT INTO log VALUES (1)")
    assert not exists(north, "by_trigger")


def test_a_statement_has_the_rights_and_the_path_of_its_caller(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, 'CREATE SCHEMA "its own"')
    with connect(north) as connection:
        connection.execute("""SET search_path = "its own", public""")
        connection.execute("SET timezone = 'Asia/Tokyo'")
        connection.execute(
            "SELECT psp.ddl($d$CREATE VIEW v AS SELECT timestamptz '2020-01-01 00:00' AS t$d$)"
        )
    wait_for_relation(south, '"its own".v')
    query: LiteralString = """
        SELECT v.t = '2019-12-31 15:00Z', pg_get_userbyid(c.relowner)
          FROM "its own".v CROSS JOIN pg_class c WHERE c.oid = '"its own".v'::regclass
    """
    owner = execute(north, "SELECT current_user::text")[0][0]
    assert execute(north, query) == execute(south, query) == [(True, owner)]


def test_nothing_runs_as_a_superuser(pair: LocalCluster) -> None:
    admin = as_admin(pair.sps[0])
    execute(
        admin,
        "CREATE ROLE creator CREATEROLE; CREATE ROLE outside; GRANT pg_execute_server_program TO outside",
    )
    execute(admin, "CREATE ROLE member; GRANT creator TO member")
    execute(admin, "GRANT EXECUTE ON FUNCTION psp.ddl(text) TO creator, outside, member")
    for role in ("postgres_or_so", "creator", "outside", "member"):
        with connect(admin) as connection, raises("0A000"):
            if role != "postgres_or_so":
                connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            connection.execute("SELECT psp.ddl('CREATE VIEW of_superuser AS SELECT 1')")


def test_who_may_write_every_table_does_not_become_a_superuser(pair: LocalCluster) -> None:
    admin = as_admin(pair.sps[0])
    execute(admin, "CREATE ROLE writer; GRANT pg_write_all_data TO writer; CREATE ROLE plain")
    for role in ("writer", "psp_semi_primary"):
        for victim in ("plain", "psp_functions"):
            with connect(admin) as connection, raises("42501"):
                connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
                connection.execute(
                    "INSERT INTO psp.schema_history "
                    "VALUES (1000, 1, now(), 'a', %s, psp.statement_settings(), %s)",
                    [victim, "CREATE SCHEMA stolen"],
                )
            with connect(admin) as connection, raises("42501"):
                connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
                connection.execute(
                    "INSERT INTO psp.new_statement VALUES (%s, psp.statement_settings(), %s)",
                    [victim, "CREATE SCHEMA stolen"],
                )


def test_what_was_changed_stays_in_the_history(pair: LocalCluster) -> None:
    admin = as_admin(pair.sps[0])
    for write in ("UPDATE psp.schema_history SET statement = ''", "DELETE FROM psp.schema_history"):
        with raises("42501"):
            execute(admin, write)
    with raises("0A000"):
        execute(admin, "TRUNCATE psp.schema_history")


def test_nobody_chooses_another_role_or_setting(pair: LocalCluster) -> None:
    north, south = pair.sps
    with raises("42501"):
        execute(
            north,
            "INSERT INTO psp.new_statement (role, settings, statement) "
            "VALUES ('postgres', '{}', 'CREATE ROLE x')",
        )
    with raises("42501"):
        ddl(north, "CREATE ROLE bad")
    with raises("42501"):
        execute(
            north,
            "INSERT INTO psp.schema_history VALUES (1000, 1, now(), 'a', 'postgres', '{}', 'CREATE ROLE x')",
        )
    with connect(north) as connection:
        connection.execute(
            "INSERT INTO psp.new_statement (settings, statement) VALUES "
            '(psp.statement_settings() || \'{"session_replication_role": "replica"}\', '
            "$$CREATE VIEW replication_role AS SELECT 1$$)"
        )
        assert connection.execute("SHOW session_replication_role").fetchone() == ("origin",)
    wait_for_relation(south, "replication_role")


def test_a_function_that_runs_as_its_owner_changes_the_schema_as_its_owner(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(
        north,
        """CREATE FUNCTION make_view() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public
           AS $$ SELECT psp.ddl('CREATE VIEW of_owner AS SELECT 1') $$""",
    )
    with connect(as_admin(north)) as connection:
        connection.execute("SELECT make_view()")  # as a superuser
    wait_for_relation(south, "of_owner")
    owner: LiteralString = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'of_owner'"
    assert execute(south, owner) == execute(north, "SELECT current_user")


def test_a_statement_is_not_the_apply_worker(pair: LocalCluster) -> None:
    """It runs in the worker's session there, leaves nothing in it, and does not write past the capture."""
    north, south = pair.sps
    worker: LiteralString = "SELECT pid FROM pg_stat_activity WHERE application_name = 'psp apply worker'"
    ddl(
        north,
        "DO $$ BEGIN LISTEN news; PERFORM pg_advisory_lock(4711); EXECUTE 'PREPARE p AS SELECT 1'; END $$;"
        "SELECT 1",  # not a block alone: so the text runs once here
    )
    ddl(north, "CREATE VIEW came_after AS SELECT 1 AS one")
    wait_for_relation(south, "came_after")
    assert execute(south, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711") == []
    pids = execute(as_admin(south), worker)
    ddl(
        north,
        "DO $$ BEGIN IF session_user = 'psp_semi_primary' THEN "
        "BEGIN INSERT INTO item VALUES (666, 'forged'); EXCEPTION WHEN feature_not_supported THEN NULL; END; "
        "END IF; END $$",
    )
    verify.wait_drained(pair)
    assert execute(south, "SELECT 1 FROM item WHERE id = 666") == []
    assert execute(as_admin(south), worker) == pids


def test_a_server_that_was_away_catches_up_in_order(pair: LocalCluster) -> None:
    north, south = pair.sps
    with paused(pair, "south"):
        for at in range(5):
            ddl(north, f"CREATE OR REPLACE FUNCTION counted() RETURNS int LANGUAGE sql AS 'SELECT {at}'")
            execute(north, "INSERT INTO item VALUES (%s, counted()::text)", [100 + at])
    wait_streaming(pair)
    verify.wait_drained(pair)
    assert execute(south, "SELECT counted()") == [(4,)]


OPERATOR: LiteralString = "CREATE OPERATOR {} (LEFTARG = int, RIGHTARG = int, FUNCTION = {})"
"""PostgreSQL cannot rename one, so that it stands in the way of another."""


def test_an_obstacle_stops_one_server_until_it_is_gone(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(south, "SET psp.schema_changes = local; " + OPERATOR.format("<~>", "int4eq"))
    ddl(north, OPERATOR.format("<~>", "int4ne"))
    status = wait_for_row(
        as_admin(south), "SELECT last_error FROM psp.status WHERE last_error LIKE '%%<~>%%'"
    )
    assert "already exists" in status[0]
    assert "int4ne" in status[0]  # the statement, and nothing of how psp came to it
    assert "psp." not in status[0].replace("docs/operating.md", "")
    assert status[0].endswith('ways out: docs/operating.md, "When applying has stopped"')
    execute(south, "SET psp.schema_changes = local; DROP OPERATOR <~> (int, int)")
    wait_for_row(south, "SELECT 1 FROM pg_operator WHERE oprname = '<~>' AND oprcode::text = 'int4ne'")


def test_an_administrator_lets_a_statement_count_as_run(pair: LocalCluster) -> None:
    """And rows and changes that come after it are taken."""
    north, south = pair.sps
    execute(south, "SET psp.schema_changes = local; " + OPERATOR.format("<~~>", "int4eq"))
    ddl(north, OPERATOR.format("<~~>", "int4ne"))
    stopped: LiteralString = "SELECT last_error FROM psp.status WHERE last_error LIKE '%%<~~>%%'"
    wait_for_row(as_admin(south), stopped)
    row = execute(as_admin(north), "SELECT * FROM psp.schema_history ORDER BY change DESC LIMIT 1")[0]
    values = [Jsonb(value) if isinstance(value, dict) else value for value in row]
    execute(
        as_admin(south),
        "INSERT INTO psp.statements_of_older_copy VALUES (%s, %s, %s, %s, %s, %s, %s)",
        values,
    )
    execute(north, "INSERT INTO item VALUES (200, 'later')")
    wait_for_row(south, "SELECT 1 FROM item WHERE id = 200")
    execute(north, "DELETE FROM item WHERE id = 200")
    ddl(north, "DROP OPERATOR <~~> (int, int)")
    wait_for_row(south, "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_operator WHERE oprname = '<~~>')")


def test_what_could_stop_a_change_is_told_before(pair: LocalCluster) -> None:
    """Roles and objects of one server. A change that names the role stops the other one until it is there."""
    north, south = pair.sps
    execute(
        as_admin(north),
        "CREATE ROLE reader; CREATE ROLE changer; GRANT EXECUTE ON FUNCTION psp.ddl(text) TO changer; "
        "CREATE FUNCTION public.of_one() RETURNS int LANGUAGE sql AS 'SELECT 1'; "
        "CREATE EXTENSION pg_trgm SCHEMA public; GRANT other TO reader",
    )
    execute(as_admin(south), "CREATE ROLE here_only")

    def told(*command: str) -> tuple[int, dict[str, dict[str, str]]]:
        shown = CliRunner().invoke(app, [*command, "--json"])
        found = json.loads(shown.stdout)
        return shown.exit_code, {p["object"]: p for p in found.get("problems", found.get("obstacles"))}

    code, found = told("schema", "check", south.admin_dsn, north.admin_dsn)
    assert code == 1
    assert found["role changer"]["severity"] == "error"
    assert found["role reader"]["problem"] == "it is only at north"
    assert "CREATE ROLE at south" in found["role reader"]["hint"]
    assert found["role here_only"]["problem"] == "it is only at south"
    assert found["extension pg_trgm"]["problem"].startswith("it is only at north")
    assert found["function public.of_one()"]["problem"] == "it is only at north"
    code, found = told("primary", "verify", pair.primary_dsn, north.admin_dsn, south.admin_dsn)
    assert (code, found["role reader"]["problem"]) == (0, "it is only at north")

    execute(north, "GRANT SELECT ON item TO reader")
    status = wait_for_row(
        as_admin(south), "SELECT last_error FROM psp.status WHERE last_error LIKE '%%reader%%'"
    )
    assert 'role "reader" does not exist' in status[0]
    assert "GRANT SELECT ON item TO reader" in status[0]
    code, found = told("schema", "check", south.admin_dsn)
    assert code == 1
    assert "GRANT SELECT ON item TO reader" in found["semi-primary south"]["problem"]
    execute(
        as_admin(south),
        "CREATE ROLE reader; CREATE ROLE changer; GRANT other TO reader; DROP ROLE here_only",
    )
    wait_for_row(south, "SELECT 1 WHERE has_table_privilege('reader', 'item', 'SELECT')")
    execute(as_admin(north), "DROP FUNCTION public.of_one(); DROP EXTENSION pg_trgm")
    settle(pair)
    _, found = told("schema", "check", south.admin_dsn, north.admin_dsn)
    assert not {"role changer", "role reader", "role here_only", "extension pg_trgm"} & found.keys()


def test_a_copy_that_begins_again_runs_no_statement_twice(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE VIEW copied AS SELECT 1")
    wait_for_relation(south, "copied")
    insert: LiteralString = "SET LOCAL ROLE psp_functions; INSERT INTO psp.schema_history SELECT "
    back: LiteralString = insert + "* FROM psp.statements_of_older_copy WHERE {}; RESET ROLE"
    other: LiteralString = insert + (
        "change, statement_n, executed_at, sp_name, role, settings, 'DROP VIEW copied' "
        "FROM psp.statements_of_older_copy; RESET ROLE"
    )
    joined: LiteralString = "UPDATE psp.identity SET joining = false"

    def begin_again(connection: psycopg.Connection[Any]) -> None:
        connection.rollback()
        connection.execute(read_sql("semi_primary/daemon/apply_claim.sql"))
        connection.execute("SET session_replication_role = replica")
        connection.execute("SELECT psp.apply_clear_0(); UPDATE psp.identity SET joining = true")

    with connect(as_admin(south)) as connection:
        begin_again(connection)
        connection.execute(back.format("true"))
        connection.execute(joined)
        for lost in ("change > 1", "false"):
            begin_again(connection)
            connection.execute(back.format(lost))
            with raises("55000"):
                connection.execute(joined)
        begin_again(connection)
        with raises("55000"):
            connection.execute(other)
        connection.rollback()


def test_a_server_that_joins_has_the_schema_of_today() -> None:
    with LocalCluster.temporary([Zone("a")]) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        a = cluster.sps[0]
        allow_ddl(a)
        ddl(a, "CREATE VIEW first AS SELECT * FROM item", "CREATE VIEW second AS SELECT * FROM first")
        execute(a, "INSERT INTO item VALUES (1, 'one')")
        ddl(a, "CREATE OR REPLACE VIEW second AS SELECT * FROM first WHERE id > 0")
        ddl(a, "CREATE TYPE mood AS ENUM ('sad')")
        ddl(a, "ALTER TYPE mood ADD VALUE 'glad'")
        ddl(a, "CREATE VIEW moods AS SELECT 'glad'::mood AS mood")
        growth.join(cluster, Zone("b"))
        b = cluster.sp("b")
        allow_ddl(b)
        wait_for_row(b, "SELECT 1 FROM item WHERE id = 1")
        assert execute(b, "SELECT pg_get_viewdef('second'::regclass)") == execute(
            a, "SELECT pg_get_viewdef('second'::regclass)"
        )
        assert changes(a) == changes(b) == 5
        ddl(b, "DROP VIEW second")
        wait_for_row(a, "SELECT 1 WHERE to_regclass('second') IS NULL")
        settle(cluster)


def test_what_stands_in_the_way_of_a_server_that_joins() -> None:
    """A schema that was made by hand. A row that is older than a CHECK does not: it comes as it is."""
    with LocalCluster.temporary([Zone("a")]) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        a = cluster.sps[0]
        allow_ddl(a)
        execute(as_admin(a), "CREATE SCHEMA aside; GRANT ALL ON SCHEMA aside TO PUBLIC")
        execute(a, "INSERT INTO item VALUES (1, 'one')")
        with connect(a) as connection:
            connection.execute("CREATE SCHEMA made")
            connection.execute("SET search_path = aside, made, public")
            connection.execute("CREATE VIEW in_path AS SELECT * FROM item")
            connection.execute("ALTER TABLE item ADD CONSTRAINT longer CHECK (name <> 'one') NOT VALID")
        b = cluster.add_zone(Zone("b"), True)
        with pytest.raises(PspError, match=r"schemas in the search_path of schema changes .*: aside$"):
            prepare_join(b.admin_dsn, cluster.primary_dsn, "b", "b")
        execute(as_admin(b), "CREATE SCHEMA aside; GRANT ALL ON SCHEMA aside TO PUBLIC")
        prepare_join(b.admin_dsn, cluster.primary_dsn, "b", "b")
        cluster.mark_adopted("b")
        wait_for_row(as_admin(b), "SELECT 1 FROM psp.identity WHERE NOT joining")
        assert execute(b, "SELECT name FROM aside.in_path") == [("one",)]
        execute(a, "UPDATE item SET name = 'two'")
        settle(cluster)
