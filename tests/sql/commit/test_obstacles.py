"""What one semi-primary has alone or does not allow stops no schema change that arrives. No test commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, become_worker
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
CREATE ROLE visitor;
GRANT CREATE, USAGE ON SCHEMA public TO {APPLICATION} WITH GRANT OPTION;
GRANT CREATE, USAGE ON SCHEMA public TO visitor;
CREATE SCHEMA s AUTHORIZATION visitor;
GRANT USAGE, CREATE ON SCHEMA s TO {APPLICATION};
SET ROLE visitor;
CREATE FUNCTION f(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
CREATE FUNCTION secret() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
CREATE TYPE colour AS ENUM ('red');
CREATE DOMAIN s.small AS int;
CREATE TABLE theirs (id int PRIMARY KEY);
GRANT REFERENCES ON theirs TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY, v int, w int);
INSERT INTO item VALUES (1, 1, 1);
GRANT SELECT ON item TO visitor;
CREATE FUNCTION g(bigint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 64';
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SCHEMA)
    pair.run(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}, visitor")
    return pair


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def locally(connection: psycopg.Connection[Any], *statements: str, role: str = "visitor") -> None:
    """As a role that may not change the schema of the cluster. Then the session is the apply worker's."""
    connection.execute(f"SET LOCAL ROLE {role}".encode())
    connection.execute("SET LOCAL search_path = public")
    connection.execute("SET LOCAL psp.schema_changes = local")
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("SET LOCAL psp.schema_changes = ''")
    connection.execute("RESET ROLE")
    become_worker(connection)


def ddl(connection: psycopg.Connection[Any], statement: str) -> None:
    """It runs here first."""
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")


def warnings(connection: psycopg.Connection[Any]) -> str:
    return str(one(connection, "SELECT string_agg(problem, '; ') FROM psp.set_aside_problems"))


# ---- rights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revoke", "statement", "told"),
    [
        (
            "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC",
            "ALTER TABLE item ADD CHECK (f(v))",
            "GRANT EXECUTE ON ROUTINE public.f(integer) TO",
        ),
        (
            "REVOKE USAGE ON TYPE colour FROM PUBLIC",
            "ALTER TABLE item ADD c colour",
            "GRANT USAGE ON TYPE public.colour TO",
        ),
    ],
)
def test_a_right_that_is_missing_here_is_given(
    connection: psycopg.Connection[Any], revoke: str, statement: str, told: str
) -> None:
    locally(connection, revoke)
    arrive(connection, statement)
    assert told in warnings(connection)


@pytest.mark.parametrize(
    ("revoke", "statement"),
    [
        (f"REVOKE CREATE ON SCHEMA s FROM {APPLICATION}", "CREATE TABLE s.made (id int PRIMARY KEY)"),
        (f"REVOKE USAGE ON SCHEMA s FROM {APPLICATION}", "CREATE VIEW made AS SELECT 1::s.small AS a"),
        (
            f"REVOKE REFERENCES ON theirs FROM {APPLICATION}",
            "ALTER TABLE item ADD FOREIGN KEY (id) REFERENCES theirs NOT VALID",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC;"
            "CREATE FUNCTION f(text) RETURNS bool LANGUAGE sql RETURN true;"
            "REVOKE EXECUTE ON FUNCTION f(text) FROM PUBLIC",
            "ALTER TABLE item ADD CHECK (f(v))",
        ),
    ],
)
def test_no_right_is_given_that_may_serve_for_more(
    connection: psycopg.Connection[Any], revoke: str, statement: str
) -> None:
    """Or of which it is not sure that the statement needs it."""
    locally(connection, revoke)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        arrive(connection, statement)


def test_nobody_gets_what_acts_as_another_role(connection: psycopg.Connection[Any]) -> None:
    locally(connection, "REVOKE EXECUTE ON FUNCTION secret() FROM PUBLIC")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        arrive(connection, "ALTER TABLE item ADD x int DEFAULT secret()")


def test_an_error_of_a_function_gives_no_right(connection: psycopg.Connection[Any]) -> None:
    locally(
        connection,
        "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC",
        "CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS "
        "$$BEGIN RAISE 'permission denied for function f' USING ERRCODE = '42501'; END$$",
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        arrive(connection, "ALTER TABLE item ADD x int DEFAULT raises()")


# ---- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["visitor", APPLICATION])
@pytest.mark.parametrize(
    ("made", "statement", "kind"),
    [
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE TABLE x (id int PRIMARY KEY)", "view"),
        ("CREATE UNLOGGED TABLE x (a int)", "CREATE TABLE x (id int PRIMARY KEY)", "table"),
        ("CREATE UNLOGGED TABLE x (a int)", "CREATE TYPE x AS ENUM ('a')", "table"),
        ("CREATE TYPE x AS ENUM ('a')", "CREATE TABLE x (id int PRIMARY KEY)", "type"),
        ("CREATE DOMAIN x AS int", "CREATE TYPE x AS (a int)", "type"),
        ("CREATE TYPE x AS (a int)", "ALTER TABLE item RENAME TO x", "type"),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT 1 AS a",
            "CREATE VIEW x AS SELECT 2 AS b",
            "materialized view",
        ),
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE INDEX x ON item (v)", "view"),
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE SEQUENCE x", "view"),
        ("CREATE VIEW x AS SELECT 1 AS a", "ALTER TABLE item ADD CONSTRAINT x UNIQUE (v)", "view"),
        (
            "CREATE FUNCTION x(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE FUNCTION x(int) RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
            "routine",
        ),
        (
            "CREATE OR REPLACE FUNCTION x(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION x(int) RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
            "routine",
        ),
    ],
)
def test_a_local_object_makes_way(
    connection: psycopg.Connection[Any], role: str, made: str, statement: str, kind: str
) -> None:
    locally(connection, made, role=role)
    arrive(connection, statement)
    told = warnings(connection)
    assert told.startswith(f"{kind} ")
    assert "which is at this semi-primary only, is local_" in told


@pytest.mark.parametrize("role", ["visitor", APPLICATION])
@pytest.mark.parametrize(
    ("made", "statement", "kind"),
    [
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE TABLE IF NOT EXISTS x (id int PRIMARY KEY)", "view"),
        ("CREATE UNLOGGED TABLE x (a int)", "CREATE TABLE IF NOT EXISTS x (id int PRIMARY KEY)", "table"),
        ("CREATE UNLOGGED TABLE x (a int)", "CREATE SEQUENCE IF NOT EXISTS public.x", "table"),
        (
            "CREATE VIEW x AS SELECT 1 AS a",
            "CREATE MATERIALIZED VIEW IF NOT EXISTS x AS SELECT 2 AS b",
            "view",
        ),
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE INDEX IF NOT EXISTS x ON item (v)", "view"),
        ("CREATE VIEW x AS SELECT 1 AS a", "CREATE OR REPLACE VIEW x AS SELECT 2 AS a", "view"),
        (
            "CREATE FUNCTION x(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION x(int) RETURNS int LANGUAGE sql AS 'SELECT 2'",
            "routine",
        ),
    ],
)
def test_a_local_object_is_not_taken_for_that_of_a_statement(
    connection: psycopg.Connection[Any], role: str, made: str, statement: str, kind: str
) -> None:
    """PostgreSQL would leave it as it is, or give it the statement's content."""
    locally(connection, made, role=role)
    arrive(connection, statement)
    told = warnings(connection)
    assert told.startswith(f"{kind} ")
    assert "which is at this semi-primary only, is local_" in told
    local = "SELECT count(*) FROM psp.named_local_objects WHERE name = 'x'"
    assert one(connection, local) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE IF NOT EXISTS x (id int PRIMARY KEY)",
        'CREATE UNLOGGED TABLE IF NOT EXISTS public."x" (id int PRIMARY KEY)',
        "CREATE SEQUENCE IF NOT EXISTS /* so */ x",
        "CREATE INDEX IF NOT EXISTS x ON item (v)",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS x AS SELECT 2 AS b",
        "CREATE TABLE y (id int PRIMARY KEY); CREATE TABLE IF NOT EXISTS x (id int PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS {database}.public.x (id int PRIMARY KEY)",
        'CREATE TABLE IF NOT EXISTS U&"\\0078" (id int PRIMARY KEY)',
    ],
)
def test_a_superusers_relation_in_the_place_of_a_new_one_is_told(
    app: Pair, connection: psycopg.Connection[Any], statement: str
) -> None:
    locally(connection, "CREATE VIEW x AS SELECT 1 AS a", role="psp")
    with pytest.raises(psycopg.errors.DuplicateTable) as failed:
        arrive(connection, statement.format(database=app.name))
    assert "at this semi-primary only" in str(failed.value)
    assert "RENAME" in str(failed.value.diag.message_hint)


def test_what_a_statement_leaves_is_the_same_everywhere(app: Pair) -> None:
    """A comment in a comment is not understood where texts are read."""
    statement = (
        "CREATE TABLE xx (id int PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS /* so /* it */ is */ x (id int PRIMARY KEY)"
    )
    with app.rolled_back() as connection:
        ddl(connection, statement)
        left = one(connection, "SELECT settings -> 'left' FROM psp.schema_history")
    assert {name for name, _ in left["tables"].values()} == {"public.x", "public.xx"}
    other = left | {"tables": {number: [name, "other"] for number, (name, _) in left["tables"].items()}}
    with app.rolled_back() as connection:
        become_worker(connection)
        for wrong, told in (
            (other, "public.x has other columns"),
            (left | {"last_number": 0}, "last number"),
        ):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as failed:
                arrive(connection, statement, left=wrong)
            assert told in str(failed.value.diag.message_detail)
        arrive(connection, statement, left=left)
    with app.rolled_back() as connection:
        locally(connection, "CREATE VIEW x AS SELECT 1 AS id", role="psp")
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match="leaves other tables"
        ) as failed:
            arrive(connection, statement, left=left)
    assert "is public.x there, and public.xx here" in str(failed.value.diag.message_detail)


def test_a_local_relation_in_another_schema_is_in_nobodys_way(connection: psycopg.Connection[Any]) -> None:
    locally(connection, "CREATE VIEW s.x AS SELECT 1 AS a", role="psp")
    arrive(connection, "CREATE TABLE IF NOT EXISTS x (id int PRIMARY KEY)")
    assert one(connection, "SELECT to_regclass('public.x') IS NOT NULL")


def test_a_local_relation_that_a_statement_reads_is_there(connection: psycopg.Connection[Any]) -> None:
    """Each server has it by itself."""
    locally(connection, "CREATE VIEW source AS SELECT 1 AS a")
    connection.execute(f"GRANT SELECT ON source TO {APPLICATION}".encode())
    arrive(connection, "CREATE OR REPLACE VIEW made AS SELECT a FROM source")
    assert one(connection, "SELECT a FROM made") == 1
    assert one(connection, "SELECT count(*) FROM psp.named_local_objects WHERE name = 'source'") == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_a_superusers_relation_with_a_chosen_name_keeps_it(
    connection: psycopg.Connection[Any], arrives: bool
) -> None:
    locally(connection, "CREATE VIEW made_id_seq AS SELECT 1 AS a", role="psp")
    statement = "CREATE TABLE made (id serial PRIMARY KEY)"
    with pytest.raises(psycopg.errors.DuplicateTable) as failed:
        if arrives:
            arrive(connection, statement)
        else:
            connection.execute("SET LOCAL session_replication_role = origin")
            connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
            connection.execute(statement.encode())
    assert "made_id_seq" in str(failed.value)


@pytest.mark.parametrize(
    ("role", "made", "statement"),
    [
        ("psp", "CREATE VIEW x AS SELECT 1 AS a", "CREATE TABLE x (id int PRIMARY KEY)"),
        ("visitor", "CREATE SCHEMA x", "CREATE SCHEMA x"),
        ("visitor", "CREATE COLLATION x (locale = 'C')", "CREATE COLLATION x (locale = 'POSIX')"),
    ],
)
def test_what_others_may_rely_on_keeps_its_name(
    connection: psycopg.Connection[Any], role: str, made: str, statement: str
) -> None:
    """A superuser's jobs would find somebody else's object."""
    locally(connection, made, role=role)
    with pytest.raises(psycopg.Error) as failed:
        arrive(connection, statement)
    assert "already exists" in str(failed.value)


def test_a_name_counts_only_as_a_whole(connection: psycopg.Connection[Any]) -> None:
    locally(
        connection,
        "CREATE VIEW sales AS SELECT 1 AS a",
        "CREATE VIEW relation AS SELECT 1 AS a",
        "CREATE VIEW s.sales_2024 AS SELECT 1 AS a",
        "CREATE VIEW sales_2024 AS SELECT 1 AS a",
    )
    arrive(connection, "CREATE TABLE sales_2024 (id int PRIMARY KEY)")
    views = (
        "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c "
        "WHERE relname ~ '^(sales|relation)$' AND relkind = 'v'"
    )
    assert one(connection, views) == "relation sales"
    assert one(connection, "SELECT to_regclass('s.sales_2024') IS NOT NULL")


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("name", ["made_id_seq", "made_pkey", "made_v_key"])
def test_a_local_relation_decides_about_no_chosen_name(
    connection: psycopg.Connection[Any], name: str, arrives: bool
) -> None:
    statement = "CREATE TABLE made (id serial PRIMARY KEY, v int UNIQUE)"
    locally(connection, f"CREATE VIEW {name} AS SELECT 1 AS a", "CREATE VIEW made_x_idx AS SELECT 1 AS a")
    if arrives:
        arrive(connection, statement)
    else:
        connection.execute("SET LOCAL session_replication_role = origin")
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute(statement.encode())
        connection.execute("RESET ROLE")
    names = (
        "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class "
        "WHERE relname ~ '^made_' AND relkind <> 'v'"
    )
    assert one(connection, names) == "made_id_seq made_pkey made_v_key"
    assert f"a schema change needed its name {name}" in warnings(connection)
    assert one(connection, "SELECT to_regclass('made_x_idx')::text") == "made_x_idx"


def test_a_statement_that_arrives_names_what_it_has_made(connection: psycopg.Connection[Any]) -> None:
    """Not the local relation of that name."""
    locally(connection, "CREATE VIEW made_id_seq AS SELECT 1 AS a")
    arrive(
        connection,
        "CREATE TABLE made (id serial PRIMARY KEY); GRANT SELECT ON made_id_seq TO visitor",
    )
    granted = "SELECT has_sequence_privilege('visitor', 'made_id_seq', 'SELECT')"
    assert one(connection, granted)


def test_objects_of_others_keep_their_names(connection: psycopg.Connection[Any]) -> None:
    """Also where the text of the error has their names."""
    locally(connection, "CREATE VIEW x AS SELECT 1 AS a")
    arrive(connection, "CREATE TABLE s.x (id int PRIMARY KEY)")
    arrive(connection, "CREATE TABLE x (id int PRIMARY KEY)")
    assert one(connection, "SELECT count(*) FROM pg_class WHERE relname = 'x' AND relkind = 'r'") == 2


def test_a_local_overload_does_not_change_what_a_statement_means(connection: psycopg.Connection[Any]) -> None:
    locally(connection, "CREATE FUNCTION g(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 32'")
    arrive(connection, "CREATE VIEW made AS SELECT g(1) AS a")
    assert one(connection, "SELECT a FROM made") == 64
    assert one(connection, "SELECT g(1)") == 32


def test_a_function_that_a_superuser_has_made_everywhere_is_used(connection: psycopg.Connection[Any]) -> None:
    locally(connection, "CREATE FUNCTION h(int) RETURNS int LANGUAGE sql AS 'SELECT 32'", role="psp")
    arrive(connection, "CREATE VIEW made AS SELECT h(1) AS a")
    assert one(connection, "SELECT a FROM made") == 32


def test_a_function_that_is_replaced_here_is_not_a_local_one(connection: psycopg.Connection[Any]) -> None:
    locally(
        connection,
        "CREATE OR REPLACE FUNCTION g(bigint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",
        role=APPLICATION,
    )
    assert one(connection, "SELECT count(*) FROM psp.local_objects") == 0


def test_a_local_object_that_is_dropped_is_forgotten(connection: psycopg.Connection[Any]) -> None:
    made = ("CREATE VIEW x AS SELECT 1 AS a", "CREATE FUNCTION h() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    locally(connection, *made, "CREATE SCHEMA d", "DROP FUNCTION h()")
    assert one(connection, "SELECT count(*) FROM psp.local_objects") == 2
    connection.execute("SET LOCAL session_replication_role = origin")
    connection.execute("SET LOCAL psp.schema_changes = local")
    connection.execute("DROP VIEW x; DROP SCHEMA d")
    assert one(connection, "SELECT count(*) FROM psp.local_objects") == 0


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE TABLE "--made" (id int PRIMARY KEY)',
        'CREATE TABLE "made/*" (id int PRIMARY KEY, v text DEFAULT $$--$$)',
        "CREATE TABLE made (id int PRIMARY KEY, v text DEFAULT '--') -- so",
    ],
)
def test_a_statement_with_what_looks_like_a_comment_runs_as_it_is(
    connection: psycopg.Connection[Any], statement: str
) -> None:
    become_worker(connection)
    arrive(connection, statement)
    assert one(connection, "SELECT count(*) FROM pg_class WHERE relname ~ 'made' AND relkind = 'r'") == 1


def test_an_extension_is_there_already(connection: psycopg.Connection[Any]) -> None:
    locally(connection, "CREATE EXTENSION hstore")
    arrive(connection, "CREATE EXTENSION hstore")


# ---- what depends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW x AS SELECT v FROM item",
        "CREATE FUNCTION x() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT v FROM item; END",
        "CREATE POLICY x ON item AS RESTRICTIVE USING (v > 0)",
    ],
)
def test_nothing_is_dropped(connection: psycopg.Connection[Any], made: str) -> None:
    """A policy that goes shows rows, and of a view more than its query is lost."""
    locally(connection, made, role=APPLICATION)
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        arrive(connection, "ALTER TABLE item DROP COLUMN v")


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE item DROP COLUMN v", "ALTER TABLE item ALTER v TYPE bigint"]
)
def test_local_publications_lose_the_table(connection: psycopg.Connection[Any], statement: str) -> None:
    locally(connection, "CREATE PUBLICATION x FOR TABLE item WHERE (v > 0)", role=APPLICATION)
    arrive(connection, statement)
    assert "x" in warnings(connection)
