"""Which role reaches what of psp (docs/security.md): ordinary roles, owners, CREATE, the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cluster.configs import PRIMARY_ROLE, SP_ROLE
from psp.schema.release import release
from psp.servers.pgserver import PgServer
from psycopg import errors

from tests.sql.databases import APPLICATION, Pair, adopted_pair, new_pair, one, without_case
from tests.sql.refusals import not_allowed, refused
from tests.sql.write_sets import written

CREATOR, STRANGER = "creator", "stranger"
OWNER_ROLE = "psp_functions"  # sql/semi_primary/install/function_owner.sql
SCHEMA = f"""
CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE UNIQUE INDEX t_v ON t (f(v));
CREATE TABLE numbered (id serial PRIMARY KEY, v int);
CREATE SCHEMA own; CREATE TABLE own.u (id int PRIMARY KEY);
CREATE SCHEMA shared; CREATE TABLE shared.u (id int PRIMARY KEY);
GRANT CREATE, USAGE ON SCHEMA shared TO {CREATOR};
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    """A database whose tables belong to an ordinary role, with a role that may create something in it."""
    pair = new_pair(server)
    with pair.connect(autocommit=True) as connection:
        for role in (CREATOR, STRANGER):
            connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}".encode())
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {APPLICATION}, {CREATOR}".encode())
    with pair.connect_as_application() as connection:
        connection.execute(SCHEMA.encode())
    pair.adopt()
    return pair


ATTACKS = [
    "SELECT psp.apply_clear_{id}()",
    "SELECT psp.guard_{guard}(1)",
    "SELECT psp.look_{id}(NULL, NULL)",
    "SELECT psp.end_batch(0, 0, false, false)",
    "SELECT psp.begin_job()",
    "SELECT psp.end_job(1, 1, 'done', NULL)",
    "SELECT psp.retry_job(1)",
    "SELECT psp.create_apply_functions('{{1}}', '{{public}}')",
    "SELECT psp.give_to_owner(ARRAY['psp.end_batch'::regproc], 't'::regclass)",
    "ALTER FUNCTION psp.apply_clear_{id}() SECURITY INVOKER",
    "ALTER FUNCTION psp.apply_clear_{id}() RESET ALL",
    "ALTER FUNCTION psp.guard_{guard}(int) SECURITY INVOKER",
    "ALTER FUNCTION psp.look_{id} RENAME TO other",
    "ALTER FUNCTION psp.look_{id} SET SCHEMA public",
    "ALTER ROUTINE psp.apply_clear_{id}() SET SCHEMA public",
    f"REVOKE ALL ON FUNCTION psp.apply_clear_{{id}}() FROM {SP_ROLE}",
    f"REVOKE ALL ON FUNCTION psp.look_{{id}} FROM {OWNER_ROLE}",
    f"REVOKE ALL ON FUNCTION psp.guard_{{guard}}(int) FROM {OWNER_ROLE}",
    "CREATE OR REPLACE FUNCTION psp.apply_clear_{id}() RETURNS void LANGUAGE sql AS ''",
    "DROP FUNCTION psp.apply_clear_{id}()",
    "SET session_replication_role = replica",
    f"SET ROLE {SP_ROLE}",
    f"SET ROLE {OWNER_ROLE}",
]


@pytest.mark.parametrize("role", [APPLICATION, CREATOR, STRANGER])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_role_of_the_application_reaches_what_writes_rows(app: Pair, role: str, attack: str) -> None:
    with app.connect() as connection:
        row = connection.execute(
            "SELECT table_id, guards -> 0 ->> 'guard_id' FROM psp.tables WHERE table_name = 't'"
        ).fetchone()
    assert row is not None
    statement = attack.format(id=row[0], guard=row[1])
    with psycopg.connect(app.dsn, user=role) as connection:
        with not_allowed():
            connection.execute(statement.encode())
        connection.rollback()


def test_a_row_that_a_policy_hides_is_not_taken_for_a_deleted_one(pair: Pair) -> None:
    """The owner could see all rows at adoption, and then no more. No event trigger sees ALTER ROLE."""
    pair.run(
        f"CREATE TABLE hidden (id int PRIMARY KEY); ALTER TABLE hidden OWNER TO {APPLICATION};"
        "ALTER TABLE hidden FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY;"
        f"CREATE POLICY low ON hidden USING (id < 100); ALTER ROLE {APPLICATION} BYPASSRLS"
    )
    try:
        pair.adopt()
        pair.run(f"ALTER ROLE {APPLICATION} NOBYPASSRLS")
        with pair.connect() as connection, pytest.raises(errors.InsufficientPrivilege, match="policy"):
            connection.execute("SELECT psp.look_1(ARRAY['x'::bytea], ARRAY[['200']])")
    finally:
        pair.run(f"ALTER ROLE {APPLICATION} NOBYPASSRLS")


LATE_TRIGGER = """
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE FOR EACH ROW EXECUTE FUNCTION late();
"""


@pytest.mark.parametrize("kind", ["UNLOGGED", "TEMPORARY"])
def test_deferred_triggers_of_the_replica_role_are_refused(app: Pair, kind: str) -> None:
    with app.connect_as_application() as connection:
        connection.execute(f"CREATE {kind} TABLE late (x int)".encode())
        connection.execute(LATE_TRIGGER)
        with refused("late"):
            connection.execute("ALTER TABLE late ENABLE ALWAYS TRIGGER late")
        connection.rollback()


def test_functions_that_meet_code_of_owners_belong_to_them(app: Pair) -> None:
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT p.proname, p.prosecdef, p.proowner::regrole::text, p.proacl IS NOT NULL FROM pg_proc p "
            "WHERE p.pronamespace = 'psp'::regnamespace AND p.proname ~ '^(apply|guard|look)_.*[0-9]$' "
            "AND p.proname !~ '_(0|214748364[56])$'"  # of psp's own tables
        ).fetchall()
    assert len(rows) == 4 * 6 + 2  # one has a guard, and so makes way
    assert {row[1:] for row in rows} == {(True, APPLICATION, True)}


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("own.u", f"{APPLICATION}, public, own, pg_temp"),
        ("shared.u", f"{APPLICATION}, public, pg_temp"),  # somebody else could create functions there
    ],
)
def test_search_path_of_a_table(app: Pair, table: str, path: str) -> None:
    with app.connect() as connection:
        found = connection.execute(
            "SELECT psp.search_path_of(relowner, relnamespace) FROM pg_class WHERE oid = %s::regclass",
            (table,),
        ).fetchone()
    assert found == (path,)


EVIL_PATHS = [
    ('"a""b", "$user", x', f'"a""b", {APPLICATION}, x, own, pg_temp'),
    ("pg_temp, pg_catalog, MiXed", "pg_catalog, mixed, own, pg_temp"),
    ("''", "own, pg_temp"),
    ("a;b, c'd, $psp$", '"a;b", "c\'d", "$psp$", own, pg_temp'),
]


@pytest.mark.parametrize(("setting", "path"), EVIL_PATHS)
def test_a_search_path_is_a_list_of_names_whatever_its_owner_sets(app: Pair, setting: str, path: str) -> None:
    with app.connect() as connection:
        connection.execute(
            "SELECT set_config('search_path', %s, true)", (setting if setting != "''" else "",)
        )
        connection.execute(f"ALTER ROLE {APPLICATION} SET search_path FROM CURRENT".encode())
        connection.execute("SET LOCAL search_path = public")
        found = connection.execute(
            "SELECT psp.search_path_of(relowner, relnamespace) FROM pg_class WHERE oid = 'own.u'::regclass"
        ).fetchone()
        connection.rollback()
    assert found == (path,)


def test_the_role_of_the_daemon(app: Pair) -> None:
    """No superuser, no right on the application's tables, none on dblink's functions."""
    with psycopg.connect(app.dsn, user=SP_ROLE, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        assert connection.execute("SELECT psp.advance_sequences()").fetchone() == (0,)
        for forbidden in (
            "SELECT * FROM t",
            "DELETE FROM own.u",
            "SELECT psp.dblink_connect('x')",
            "CREATE ROLE x",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())


def test_the_daemon_cannot_end_a_superusers_session(app: Pair) -> None:
    with app.connect() as superuser, psycopg.connect(app.dsn, user=SP_ROLE) as connection:
        pid = superuser.info.backend_pid
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with app.connect_as_application() as other, psycopg.connect(app.dsn, user=SP_ROLE) as connection:
        pid = other.info.backend_pid
        assert connection.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)


def test_the_role_of_the_primarys_daemon(app: Pair) -> None:
    """It reads and writes the tables of psp, and changes none of them."""
    with psycopg.connect(app.primary_dsn, user=PRIMARY_ROLE, autocommit=True) as connection:
        connection.execute("DELETE FROM psp.data WHERE table_id = 0")
        for forbidden in (
            "DROP TABLE psp.data",
            "CREATE TABLE psp.more (id int)",
            "CREATE ROLE x",
            "SET session_replication_role = replica",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())


SUPERUSERS_FUNCTIONS = {
    "on_ddl_start", "on_ddl", "on_drop", "on_rewrite",  # event triggers
    "on_statement_start", "on_statement_drop", "on_statement_end", "statement_has_ended",  # of plain DDL
    "guard_warnings", "refresh_guards",  # what they have not seen
    "align_sequences", "move_sequence", "sequence_stands_at",  # ALTER SEQUENCE is for the owners of sequences
    "take_origin",  # of the rows that the daemon applies, for logical decoding
    "refuse_changed_tables",  # where there is no guard
    "this_database",  # pg_control_system, data_directory
    "begin_job", "end_job",  # GRANT and REVOKE the role of a job
    "run_statement",  # a trigger; it makes a function for the role of a schema change
    "tables_to_hold",  # asks the guard's functions
    "wait_for_arriving_change",  # locks a table
    "set_triggers_aside",  # of the table whose function calls it
    "set_aside",  # alters and drops what refuses rows of others
    "capture_old_keys", "capture_tables", "note_partitions_to_drop", "on_truncate",  # functions for owners
    "truncation_waits",  # of TRUNCATE
    "capture_referrers",  # makes a function for the owner of a table
    "is_in_foreign_transaction",  # postgres_fdw may be in a schema that psp's roles cannot use
    "on_whole_copy",  # a trigger; gives back the right to connect to the database
}  # fmt: skip


def test_functions_that_run_as_a_superuser(app: Pair) -> None:
    """docs/security.md lists them. None evaluates an expression of a user's."""
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT p.proname FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner "
            "WHERE p.pronamespace = 'psp'::regnamespace AND p.prosecdef AND r.rolsuper "
            "AND p.proname <> 'dblink_connect_u'"  # the extension's, for nobody but superusers
        ).fetchall()
        others = connection.execute(
            "SELECT DISTINCT p.proowner::regrole::text FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner "
            "WHERE p.pronamespace = 'psp'::regnamespace AND NOT r.rolsuper"
        ).fetchall()
    assert {name for (name,) in rows} == SUPERUSERS_FUNCTIONS
    assert {owner for (owner,) in others} == {APPLICATION, OWNER_ROLE}


def test_the_role_of_the_functions(app: Pair) -> None:
    """It cannot log in, is a member of nothing, and reaches no table of the application."""
    with app.connect() as connection:
        row = connection.execute(
            "SELECT rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, "
            "EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid OR roleid = r.oid) "
            "FROM pg_roles r WHERE rolname = %s",
            (OWNER_ROLE,),
        ).fetchone()
        assert row == (False,) * 7
        tables = connection.execute(
            "SELECT n.nspname || '.' || c.relname "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'v', 'S') AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
            "AND (c.relkind <> 'S' AND has_table_privilege(%(role)s, c.oid, 'SELECT,INSERT,UPDATE,DELETE') "
            "OR c.relkind = 'S' AND has_sequence_privilege(%(role)s, c.oid, 'USAGE, SELECT, UPDATE')) "
            "ORDER BY 1",
            {"role": OWNER_ROLE},
        ).fetchall()
    used = "applied apply_session captured captured_relations commit_intent committing conflicts "
    used += "dropped_notifications epochs "
    used += "identity index_facts jobs_of_indexes key_facts new_request "
    used += "notification_numbers notifications own_commands "
    used += "plain_types request_age requests restarted_sequences schema_history "
    used += "statements_of_older_copy status tables "
    used += "tables_without_key truncations "
    used += "watermark write_set"
    assert [name for (name,) in tables] == [f"psp.{name}" for name in used.split()]


CLIMB = f"""
CREATE FUNCTION public.climb() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('test.armed', true) = 'on' THEN
        RAISE NOTICE 'inside as %', current_user;
        ALTER ROLE {STRANGER} SUPERUSER;
    END IF;
    RETURN true;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN true;
END $$;
"""


def is_superuser(connection: psycopg.Connection[Any], role: str) -> bool:
    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    assert row is not None
    return bool(row[0])


@pytest.fixture
def inside(app: Pair) -> Iterator[tuple[psycopg.Connection[Any], list[str]]]:
    """A superuser's session that is rolled back, and which roles `climb` has run as in it."""
    roles: list[str] = []
    with app.rolled_back() as connection:
        connection.execute("DROP EVENT TRIGGER psp_on_ddl_start")
        connection.execute("DROP EVENT TRIGGER psp_on_ddl")
        connection.execute("DROP EVENT TRIGGER psp_on_drop")
        connection.execute("SET psp.schema_changes = local")
        connection.execute(CLIMB.encode())
        connection.add_notice_handler(lambda notice: roles.append(str(notice.message_primary)))
        yield connection, roles


def test_code_inside_capture_is_no_superuser(
    inside: tuple[psycopg.Connection[Any], list[str]],
) -> None:
    """As if a role had found a way to run something there: a trigger on what capture writes."""
    connection, roles = inside
    connection.execute(
        "CREATE FUNCTION public.seen() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM public.climb(); RETURN NEW; END'"
    )
    for table in ("write_set", "commit_intent"):
        connection.execute(
            f"CREATE TRIGGER seen BEFORE INSERT ON psp.{table} "
            "FOR EACH ROW EXECUTE FUNCTION public.seen()".encode()
        )
    by_module = one(connection, "SELECT psp.uses_module()")
    connection.execute(f"SET LOCAL test.armed = on; SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute("INSERT INTO t VALUES (1, 1); UPDATE t SET v = 2; DELETE FROM t")
    assert set(roles) == {f"inside as {OWNER_ROLE}"}
    # A row each, two guards, and what tells that the transaction has written. The module leaves SQL the two
    # guards, since they have expressions.
    assert len(roles) == (3 if by_module else 6)
    assert not is_superuser(connection, STRANGER)


def test_sequences_are_moved_without_running_an_owners_code(
    inside: tuple[psycopg.Connection[Any], list[str]],
) -> None:
    """PostgreSQL's planner calls an immutable function of constants in an index's predicate."""
    connection, roles = inside
    connection.execute(
        "CREATE FUNCTION public.is_wanted(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN RETURN public.climb(); END'"
    )
    connection.execute("CREATE INDEX ON numbered (v) WHERE public.is_wanted(1)")
    connection.execute("SET LOCAL session_replication_role = replica")
    connection.execute(
        "INSERT INTO psp.apply_session VALUES (true, pg_backend_pid(), pg_postmaster_start_time())"
    )
    connection.execute("INSERT INTO numbered VALUES (1000, 1)")
    connection.execute(f"SET LOCAL test.armed = on; SET LOCAL ROLE {SP_ROLE}".encode())
    assert connection.execute("SELECT psp.advance_sequences()").fetchone() == (1,)
    assert set(roles) == {f"inside as {APPLICATION}"}
    assert not is_superuser(connection, STRANGER)


def test_hash_functions_and_collations_of_keys_need_no_right_of_the_public(pair: Pair) -> None:
    """They may be in schemas that only some roles can use."""
    pair.run(
        "CREATE SCHEMA hidden; CREATE EXTENSION citext SCHEMA hidden;"
        f"{without_case(pair.server, 'hidden.folded')}"
        "CREATE DOMAIN hidden.word AS hidden.citext;"
        "CREATE TABLE w (id int PRIMARY KEY, a hidden.citext UNIQUE, b text COLLATE hidden.folded UNIQUE,"
        "                c hidden.word UNIQUE);"
        f"ALTER TABLE w OWNER TO {APPLICATION}; GRANT USAGE ON SCHEMA hidden TO {APPLICATION}"
    )
    pair.adopt()
    with pair.application() as connection:
        connection.execute("INSERT INTO w VALUES (1, 'A', 'B', 'C')")
        assert [row.op for row in written(connection)] == ["i", "g", "g", "g"]


def test_release_drops_psps_roles_with_the_last_database(server: PgServer) -> None:
    pairs = [adopted_pair(server, "CREATE TABLE t (id int PRIMARY KEY)") for _ in range(2)]

    def users(pair: Pair) -> list[tuple[str]]:
        with pair.connect() as connection:
            return connection.execute(
                "SELECT DISTINCT r.rolname FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid "
                "JOIN pg_database b ON b.datname = current_database() "
                "WHERE b.oid IN (d.dbid, d.objid) AND r.rolname IN (%s, %s) ORDER BY 1",
                (SP_ROLE, OWNER_ROLE),
            ).fetchall()

    both = [(OWNER_ROLE,), (SP_ROLE,)]
    assert users(pairs[0]) == both
    release(pairs[0].dsn, None, drop_keys=False, force=True, lock_wait_s=5, say=print)
    assert users(pairs[0]) == []
    assert users(pairs[1]) == both
