"""Who reaches what of psp (docs/security.md): ordinary roles, tables' owners, who may CREATE, the daemon."""

from __future__ import annotations

import psycopg
import pytest
from psp.cluster.pgserver import SP_ROLE, PgServer
from psp.schema.release import release
from psycopg import errors

from tests.sql.databases import APPLICATION, Pair, new_pair
from tests.sql.refusals import not_allowed, refused

CREATOR, STRANGER = "creator", "stranger"
SCHEMA = f"""
CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE UNIQUE INDEX t_v ON t (f(v));
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
    "SELECT psp.create_apply_functions()",
    "SELECT psp.give_to_owner('psp.end_batch'::regproc, 't'::regclass, false)",
    "ALTER FUNCTION psp.apply_clear_{id}() SECURITY INVOKER",
    "ALTER FUNCTION psp.apply_clear_{id}() RESET ALL",
    "ALTER FUNCTION psp.guard_{guard}(int) SECURITY INVOKER",
    "ALTER FUNCTION psp.look_{id} RENAME TO other",
    "ALTER FUNCTION psp.look_{id} SET SCHEMA public",
    "ALTER ROUTINE psp.apply_clear_{id}() SET SCHEMA public",
    f"REVOKE ALL ON FUNCTION psp.apply_clear_{{id}}() FROM {SP_ROLE}",
    "CREATE OR REPLACE FUNCTION psp.apply_clear_{id}() RETURNS void LANGUAGE sql AS ''",
    "DROP FUNCTION psp.apply_clear_{id}()",
    "SET session_replication_role = replica",
    f"SET ROLE {SP_ROLE}",
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
            "WHERE p.pronamespace = 'psp'::regnamespace AND p.proname ~ '^(apply|guard|look)_.*[0-9]$'"
        ).fetchall()
    assert len(rows) == 3 * 5 + 1
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


def test_release_drops_the_role_of_the_daemon_with_the_last_database(server: PgServer) -> None:
    pairs = [new_pair(server), new_pair(server)]
    for pair in pairs:
        pair.run("CREATE TABLE t (id int PRIMARY KEY)")
        pair.adopt()

    def users(pair: Pair) -> list[tuple[int]]:
        with pair.connect() as connection:
            return connection.execute(
                "SELECT 1 FROM pg_database d, aclexplode(d.datacl) a WHERE d.datname = current_database() "
                "AND a.grantee = to_regrole(%s)::oid", (SP_ROLE,)
            ).fetchall()  # fmt: skip

    assert users(pairs[0]) == [(1,)]
    release(pairs[0].dsn, None, drop_keys=False, force=True, lock_wait_s=5, say=print)
    assert users(pairs[0]) == []
    assert users(pairs[1]) == [(1,)]
