"""Code of a table's owner that psp meets on its way: it runs as the owner, in a context that it cannot leave.

Each of the owner's functions tries to become superuser in each place where it runs. It leaves behind what
might run later as another role: a cursor, settings, statements under the names of others.
"""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import verify
from psp.cluster.configs import PRIMARY_ROLE, SP_ROLE
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, adopted_pair, connect, execute

# psp.cluster.configs: the application's role, which owns the tables, and the superuser of the servers.
OWNER, SUPERUSER = "app", "psp"

ATTACK = f"""
CREATE UNLOGGED TABLE ran_as (place text, who name, session name);
CREATE FUNCTION be_superuser() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO public.ran_as VALUES ('be_superuser', current_user, session_user);
    BEGIN
        EXECUTE 'ALTER ROLE {OWNER} SUPERUSER';
        RETURN 'done';
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN 'refused';
    END;
END $$;
CREATE FUNCTION evil_equals(int8, int8) RETURNS bool LANGUAGE sql
    AS 'SELECT public.be_superuser() IS NOT NULL';
CREATE SCHEMA evil;
CREATE OPERATOR evil.= (FUNCTION = evil_equals, LEFTARG = int8, RIGHTARG = int8);
CREATE OPERATOR evil.> (FUNCTION = evil_equals, LEFTARG = int8, RIGHTARG = int8);
CREATE OPERATOR evil.<= (FUNCTION = evil_equals, LEFTARG = int8, RIGHTARG = int8);
CREATE OR REPLACE FUNCTION attack(place text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    attempt text;
BEGIN
    INSERT INTO public.ran_as VALUES (place, current_user, session_user);
    PERFORM public.be_superuser();
    CONTINUE_IN_CAPTURE
    FOREACH attempt IN ARRAY ARRAY[
        'RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SET ROLE {SUPERUSER}',
        'SET SESSION AUTHORIZATION {SUPERUSER}',
        'ALTER TABLE public.checked DISABLE TRIGGER ALL', 'SET session_replication_role = origin',
        'ALTER FUNCTION psp.apply_upsert_1 SECURITY INVOKER', 'ALTER FUNCTION psp.apply_upsert_1 RESET ALL',
        'DECLARE late_cursor CURSOR WITH HOLD FOR SELECT public.be_superuser()',
        'DEALLOCATE ALL', 'PREPARE advance (int8) AS SELECT public.be_superuser()',
        'SET search_path = evil, pg_catalog', 'SET client_encoding = LATIN1', 'SET synchronous_commit = off',
        'SET default_transaction_read_only = on', 'SET DateStyle = German',
        'CREATE TEMP TABLE IF NOT EXISTS pg_class (x int)'
    ] LOOP
        BEGIN
            EXECUTE attempt;
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
END $$;
""".replace(
    "CONTINUE_IN_CAPTURE", "IF current_setting('session_replication_role') = 'origin' THEN RETURN; END IF;"
)


def function_of(name: str, argument: str, result: str, value: str) -> str:
    """A function that a table's definition calls."""
    return (
        f"CREATE FUNCTION {name}({argument}) RETURNS {result} LANGUAGE plpgsql IMMUTABLE AS "
        f"$$ BEGIN PERFORM public.attack('{name}'); RETURN {value}; END $$;"
    )


FUNCTIONS = [
    ("in_check", "x int", "bool", "true"),
    ("in_generated", "x int", "int", "x + 1"),
    ("in_domain", "x text", "bool", "true"),
    ("in_index", "x int", "int", "x"),
    ("in_operator", "x int, y int", "int", "x + y"),
    ("in_unique", "x int", "int", "x"),
    ("in_predicate", "x int", "bool", "x > 0"),
]

TABLES = """
CREATE DOMAIN careful AS text CHECK (in_domain(VALUE));
CREATE OPERATOR ### (FUNCTION = in_operator, LEFTARG = int, RIGHTARG = int);
CREATE TABLE checked (
    id int PRIMARY KEY, v int CHECK (in_check(v)), d careful,
    g int GENERATED ALWAYS AS (in_generated(v)) STORED
);
CREATE INDEX ON checked (in_index(v));
CREATE INDEX ON checked ((v ### 1));
CREATE TABLE guarded (id int PRIMARY KEY, v int, d text COLLATE "C");
CREATE UNIQUE INDEX ON guarded (in_unique(v), lower(d)) WHERE in_predicate(v);
CREATE TYPE mood AS ENUM ('sad', 'gay');
CREATE TYPE pair AS (x int, y mood);
CREATE FUNCTION mood_text(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM public.attack('mood_text'); RETURN 'no mood'; END $$;
CREATE FUNCTION text_mood(text) RETURNS mood LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM public.attack('text_mood'); RETURN 'sad'; END $$;
CREATE FUNCTION pair_text(pair) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM public.attack('pair_text'); RETURN '(7,sad)'; END $$;
CREATE CAST (mood AS text) WITH FUNCTION mood_text(mood);
CREATE CAST (text AS mood) WITH FUNCTION text_mood(text);
CREATE CAST (pair AS text) WITH FUNCTION pair_text(pair);
CREATE DOMAIN good_mood AS mood;
CREATE TABLE moods (m mood PRIMARY KEY, n good_mood UNIQUE, ms mood[], p pair);
INSERT INTO guarded VALUES (100, 100, 'a');
INSERT INTO moods VALUES ('sad', NULL, NULL, NULL);
CREATE TABLE other (id int PRIMARY KEY, v text, at timestamptz);

-- Functions that call others by bare names: the owner's schema, and that of a database's search_path.
CREATE SCHEMA own; CREATE SCHEMA "of ""database";
CREATE FUNCTION own.doubled(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * x';
CREATE FUNCTION own.twice(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN doubled(x); END';
CREATE FUNCTION "of ""database".tripled(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 3 * x';
CREATE FUNCTION own.thrice(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN tripled(x); END';
CREATE TABLE own.bare (
    id int PRIMARY KEY, v int CHECK (own.twice(v) > 0), g int GENERATED ALWAYS AS (own.thrice(v)) STORED
);
CREATE INDEX ON own.bare (own.twice(v)) WHERE own.thrice(v) > 0;
"""


@pytest.fixture(scope="module")
def attacked() -> Iterator[LocalCluster]:
    """Two SPs. Their tables' owner has replaced the function that all functions of the tables call."""
    harmless = "CREATE FUNCTION attack(place text) RETURNS void LANGUAGE sql AS ''"
    path = 'ALTER DATABASE app SET search_path = public, "of ""database"'
    scripts = [harmless, path, *(function_of(*function) for function in FUNCTIONS), TABLES]
    with adopted_pair(scripts) as cluster:
        for sp in cluster.sps:
            with connect(sp, autocommit=True) as connection:
                connection.execute(ATTACK.encode())
        yield cluster


def test_code_of_an_owner_runs_as_the_owner_where_it_is_applied(attacked: LocalCluster) -> None:
    north, south = attacked.sps
    for number in range(1, 4):  # several transactions: what one leaves behind, the next ones meet
        execute(north, "INSERT INTO checked (id, v, d) VALUES (%s, 1, 'ü')", (number,))
        execute(north, "INSERT INTO other VALUES (%s, 'ü', '2026-02-03 04:05:06+00')", (number,))
    execute(north, "UPDATE checked SET v = 2 WHERE id = 1")
    execute(north, "DELETE FROM checked WHERE id = 2")
    verify.wait_drained(attacked, WAIT_S)
    with psycopg.connect(south.admin_dsn) as connection:
        rows = connection.execute("SELECT DISTINCT place, who::text FROM ran_as ORDER BY 1").fetchall()
        places = {name for name, *_ in FUNCTIONS[:5]}
        if paths.module_dir(paths.server_version()) is not None:
            places -= {"in_check", "in_domain"}  # the module does not judge others' rows again
        assert {place for place, _ in rows} >= places
        assert {who for _, who in rows} == {OWNER}, rows
        role = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (OWNER,))
        assert role.fetchone() == (False,)
        found = connection.execute("SELECT id, v, g, d::text FROM checked ORDER BY id").fetchall()
        assert found == [(1, 2, 3, "ü"), (3, 1, 2, "ü")]
        found = connection.execute("SELECT v, extract(day FROM at AT TIME ZONE 'UTC') FROM other").fetchall()
        assert found == [("ü", 3)] * 3


def test_keys_of_unique_indexes_are_computed_as_the_owner(attacked: LocalCluster) -> None:
    """By capture, for each role that writes; at adoption; where the row is applied."""
    north, south = attacked.sps
    with psycopg.connect(north.admin_dsn) as connection:
        assert connection.execute("DELETE FROM ran_as").rowcount >= 0
    with psycopg.connect(north.admin_dsn) as connection:  # a superuser writes: PostgreSQL's own calls are his
        connection.execute("SET ROLE app")
        connection.execute("INSERT INTO guarded VALUES (1, 1, 'A'), (2, NULL, 'x'), (3, -1, 'y')")
        connection.execute("UPDATE guarded SET v = 5 WHERE id = 1")
    with psycopg.connect(north.admin_dsn) as connection:
        rows = connection.execute("SELECT DISTINCT place, who::text FROM ran_as").fetchall()
        assert {who for _, who in rows} == {OWNER}, rows
        assert {place for place, _ in rows} >= {"in_unique", "in_predicate"}
    verify.wait_drained(attacked, WAIT_S)
    with connect(south) as connection, pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO guarded VALUES (4, 5, 'a')")


def test_casts_of_users_are_not_used(attacked: LocalCluster) -> None:
    north, south = attacked.sps
    with psycopg.connect(north.admin_dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM ran_as")
        connection.execute("INSERT INTO moods VALUES ('gay', 'gay', '{gay,NULL,sad}', '(1,gay)')")
        connection.execute("UPDATE moods SET n = 'sad' WHERE m = 'sad'")
        assert connection.execute("SELECT place, who FROM ran_as").fetchall() == []
    verify.wait_drained(attacked, WAIT_S)
    query: LiteralString = """
        SELECT m = 'gay', n::mood = 'gay', ms = '{gay,NULL,sad}', (p).x, (p).y = 'gay' FROM moods ORDER BY m
    """
    expected = [(False, False, None, None, None), (True, True, True, 1, True)]
    for sp in (north, south):
        assert execute(sp, query) == expected
    assert verify.verify(attacked, WAIT_S).consistent
    with psycopg.connect(south.admin_dsn) as connection:
        rows = connection.execute(
            "SELECT DISTINCT place FROM ran_as WHERE place IN ('mood_text', 'text_mood')"
        )
        assert rows.fetchall() == []


def test_bare_names_mean_what_they_mean_to_the_owner(attacked: LocalCluster) -> None:
    north, south = attacked.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("""SET search_path = own, "of ""database" """)
        connection.execute("INSERT INTO bare (id, v) VALUES (1, 1)")
        connection.execute("UPDATE bare SET v = 7")
    verify.wait_drained(attacked, WAIT_S)
    assert execute(south, "SELECT v, g FROM own.bare") == [(7, 21)]


def test_nothing_lasts_in_the_session_of_the_apply_worker(attacked: LocalCluster) -> None:
    """It is still in the replica role, and its commits reach the disk: the primary is told so."""
    north, south = attacked.sps
    execute(north, "INSERT INTO checked (id, v, d) VALUES (10, 1, 'x')")
    verify.wait_drained(attacked, WAIT_S)
    numbers = execute(south, "SELECT watermark FROM psp.snapshot()")

    def acknowledged() -> bool:
        with psycopg.connect(attacked.primary_dsn) as connection:
            row = connection.execute("SELECT min(acked_t) FROM psp.semi_primaries").fetchone()
            return row is not None and row[0] >= numbers[0][0]

    wait_until("the primary to be told", acknowledged, WAIT_S)
    with psycopg.connect(south.admin_dsn) as connection:
        rows = connection.execute("SELECT xid FROM psp.write_set").fetchall()
        assert rows == []


def test_the_daemons_are_no_superusers(attacked: LocalCluster) -> None:
    for dsn, role in ((attacked.primary_dsn, PRIMARY_ROLE), (attacked.sps[0].admin_dsn, SP_ROLE)):
        with psycopg.connect(dsn) as connection:
            rows = connection.execute(
                "SELECT DISTINCT a.usename::text, r.rolsuper FROM pg_stat_activity a "
                "JOIN pg_roles r ON r.rolname = a.usename WHERE a.application_name ~ '^psp[ -]'"
            ).fetchall()
        assert rows == [(role, False)]
