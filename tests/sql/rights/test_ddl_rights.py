"""Roles that change the schema, or do not, get no rights of others by it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psp.paths import module_dir, server_version
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.sql.databases import APPLICATION, Pair, adopted_pair, changing_pair, one, unguarded
from tests.sql.refusals import not_allowed
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
        "SELECT set_config('psp.running_ddl', "
        f'format(\'(%s,1,0,"DROP INDEX",t,t,t,f,0,t,,"{job}",t,,,,)\', '
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


# ---- triggers with psp's functions -----------------------------------------------------------------------

PARTED = f"""
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
ALTER TABLE parted OWNER TO {APPLICATION};
ALTER TABLE parted_1 OWNER TO {APPLICATION};
CREATE UNLOGGED TABLE fresh (id int PRIMARY KEY);
ALTER TABLE fresh OWNER TO {APPLICATION};
CREATE TABLE treasure (id int PRIMARY KEY);
INSERT INTO treasure VALUES (1);
"""
EVENTS = {"row": "INSERT", "insert": "DELETE", "delete": "INSERT"}
"""With the capture of rows as deletes, and of deletes as rows."""
HAS_MODULE = module_dir(server_version()) is not None
CAPTURES = [("sql", "insert"), ("sql", "delete"), *([("module", "row")] if HAS_MODULE else [])]


def capture_call(connection: psycopg.Connection[Any], suffix: str) -> str:
    """What the trigger calls: with the module, as if the row deleted that of `treasure` with its id."""
    numbers = dict(connection.execute("SELECT table_name, table_id FROM psp.tables").fetchall())
    own, other = numbers["parted"], numbers["treasure"]
    words = f"'{own}', '1', 'id', 'binary', '1', 'id', 'base', 'd', '{other}', '0', '1', 'id', 'base'"
    return f"psp.capture_{own}_{suffix}({words if suffix == 'row' else ''})"


@pytest.mark.parametrize(("capture", "suffix"), CAPTURES)
@pytest.mark.parametrize("name", ["evil", "psp_evil", "psp_capture"])
def test_an_owners_trigger_with_a_function_of_capture(
    server: PgServer, capture: CaptureChoice, suffix: str, name: str
) -> None:
    """For the text that changes a partitioned table its owner may call the functions."""
    pair = adopted_pair(server, PARTED, capture=capture)
    pair.run(f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}")
    with pair.connect() as connection:
        call = capture_call(connection, suffix)
    text = (
        "ALTER TABLE parted ADD CHECK (id >= 0); "
        f"CREATE OR REPLACE TRIGGER {name} AFTER {EVENTS[suffix]} ON {{}} FOR EACH ROW "
        f"EXECUTE FUNCTION {call}; "
        "INSERT INTO parted VALUES (1, 1); DELETE FROM parted"
    )
    for table in ("parted", "fresh") if name == "psp_capture" else ("parted", "parted_1", "fresh"):
        with pair.connect_as_application() as connection:
            with not_allowed():
                connection.execute("SELECT psp.ddl(%s)", [text.format(table)])
            connection.rollback()


@pytest.mark.parametrize("capture", ["sql", "module"] if HAS_MODULE else ["sql"])
def test_an_owner_gives_no_trigger_of_psp_another_name(server: PgServer, capture: CaptureChoice) -> None:
    pair = adopted_pair(server, PARTED, capture=capture)
    pair.run(f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}")
    trigger = "psp_capture" if capture == "module" else "psp_capture_insert"
    with pair.connect_as_application() as connection:
        text = f"ALTER TRIGGER {trigger} ON parted RENAME TO mine; DROP TRIGGER mine ON parted"
        with pytest.raises(errors.FeatureNotSupported):
            connection.execute("SELECT psp.ddl(%s)", [text])
        connection.rollback()


@pytest.mark.parametrize(("capture", "suffix"), CAPTURES)
def test_a_function_of_capture_that_another_trigger_calls(
    server: PgServer, capture: CaptureChoice, suffix: str
) -> None:
    """It may have been made before psp refused it."""
    pair = adopted_pair(server, PARTED, capture=capture)
    with pair.connect() as connection:
        connection.execute("INSERT INTO parted VALUES (2, 2)")
        call = capture_call(connection, suffix)
        with unguarded(connection):
            event = EVENTS[suffix]
            connection.execute(
                f"CREATE TRIGGER evil AFTER {event} ON parted_1 FOR EACH ROW EXECUTE FUNCTION {call}".encode()
            )
        with pytest.raises(errors.InsufficientPrivilege, match="is not psp's own"):
            connection.execute("INSERT INTO parted VALUES (1, 1); DELETE FROM parted")
        connection.rollback()
