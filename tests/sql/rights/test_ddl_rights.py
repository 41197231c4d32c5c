"""Roles that change the schema, or do not, get no rights of others by it."""

from __future__ import annotations

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psycopg.types.json import Jsonb

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.rights.test_security import is_superuser

SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, v text);
INSERT INTO item VALUES (1, 'one');
ALTER TABLE item OWNER TO {APPLICATION};
"""
CLIMB = f"""
CREATE FUNCTION public.climb() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN
    IF (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user) THEN
        ALTER ROLE {APPLICATION} SUPERUSER;
    END IF;
    RETURN true;
END$$;
GRANT ALL ON SCHEMA public TO {APPLICATION};
"""
ARROW = f"""
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO {APPLICATION};
CREATE FUNCTION evil.arrow(jsonb, text) RETURNS jsonb LANGUAGE plpgsql AS
    $$BEGIN PERFORM public.climb(); RETURN NULL; END$$;
CREATE OPERATOR evil.-> (leftarg = jsonb, rightarg = text, function = evil.arrow);
"""
STRANGER = "psp_stranger"


def changing(server: PgServer, *more: str) -> Pair:
    return changing_pair(server, SCHEMA, CLIMB, *more)


def test_operators_of_the_statements_search_path(server: PgServer) -> None:
    pair = changing(server, ARROW)
    with pair.connect() as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.execute("SET search_path = evil, pg_catalog, public")
        connection.execute("SELECT psp.ddl('CREATE VIEW public.x AS SELECT 1 AS a')")
        assert not is_superuser(connection, APPLICATION)
        # And where it arrives.
        connection.execute("RESET ROLE")
        connection.execute("SET search_path = public")
        connection.execute(
            "INSERT INTO psp.apply_session VALUES (true, pg_backend_pid(), pg_postmaster_start_time())"
        )
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET ROLE psp_functions")
        arrived = Jsonb({"change": 1000, "statement": "CREATE VIEW public.y AS SELECT 1 AS a"})
        connection.execute(
            "INSERT INTO psp.schema_history SELECT (jsonb_populate_record(h, %s)).* "
            "FROM psp.schema_history h ORDER BY change DESC LIMIT 1",
            [arrived],
        )
        assert one(connection, "SELECT to_regclass('public.y')") is not None
        assert not is_superuser(connection, APPLICATION)
        connection.rollback()


@pytest.mark.parametrize("column", ["d[] DEFAULT '{a}'", "pair_of_d DEFAULT '(a)'"])
def test_checks_in_the_default_of_a_new_column(server: PgServer, column: str) -> None:
    pair = changing(server)
    with pair.connect_as_application() as connection:
        connection.execute("CREATE DOMAIN d AS text CHECK (public.climb())")
        connection.execute("CREATE TYPE pair_of_d AS (f d)")
        connection.execute(f"ALTER TABLE item ADD COLUMN x {column}".encode())
        assert not is_superuser(connection, APPLICATION)
        connection.rollback()


def test_a_statement_that_is_forged_in_a_function_of_another_role(server: PgServer) -> None:
    """The function runs DDL of its own: what it noted could be told to be something else."""
    pair = changing(server)
    pair.run(
        "CREATE FUNCTION public.works() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS "
        "$$BEGIN CREATE TEMP TABLE work (a int); DROP TABLE work; RETURN 1; END$$; "
        f"ALTER FUNCTION public.works() OWNER TO {APPLICATION}; "
        f"DROP ROLE IF EXISTS {STRANGER}; CREATE ROLE {STRANGER}; "
    )
    job = "DROP INDEX CONCURRENTLY public.some"
    forged = (
        f"SELECT set_config('psp.running_ddl', format('(%s,1,0,\"DROP INDEX\",t,t,t,f,0,t,,\"{job}\",,)', "
        "extract(epoch FROM statement_timestamp())), false), public.works()"
    )
    with pair.connect(autocommit=True) as connection:
        connection.execute(f"SET SESSION AUTHORIZATION {STRANGER}".encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="runs as another role"):
            connection.execute(forged.encode())
        connection.execute("RESET SESSION AUTHORIZATION")
        assert one(connection, "SELECT count(*) FROM psp.schema_history") == 0
    pair.run(f"DROP ROLE {STRANGER}")


def test_an_index_in_a_schema_of_its_owner(server: PgServer) -> None:
    pair = changing(
        server,
        f"CREATE SCHEMA own AUTHORIZATION {APPLICATION}; CREATE TABLE own.t (id int PRIMARY KEY, v int); "
        f"ALTER TABLE own.t OWNER TO {APPLICATION}; CREATE INDEX ix ON own.t (v)",
    )
    with pair.connect_as_application() as connection:
        connection.execute("SELECT psp.ddl('DROP INDEX own.ix')")
        assert one(connection, "SELECT to_regclass('own.ix')") is None
        connection.rollback()
