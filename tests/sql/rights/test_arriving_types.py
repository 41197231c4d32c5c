"""Psp's functions run under the search_path of a statement that arrives, with PostgreSQL's types."""

from __future__ import annotations

from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, become_worker
from tests.sql.databases import APPLICATION, changing_pair, one

SCHEMA = f"""
CREATE SCHEMA evil;
CREATE FUNCTION evil.climb() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN
    IF (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user) THEN
        ALTER ROLE {APPLICATION} SUPERUSER;
    END IF;
    RETURN true;
END$$;
CREATE TABLE item (id int PRIMARY KEY);
ALTER TABLE item OWNER TO {APPLICATION};
GRANT ALL ON SCHEMA evil, public TO {APPLICATION};
"""


def test_types_of_the_statements_search_path(server: PgServer) -> None:
    pair = changing_pair(server, SCHEMA)
    with pair.rolled_back() as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        for kind in ("text", "oid", "name", "jsonb", "bool", "int4"):
            domain = f"CREATE DOMAIN evil.{kind} AS pg_catalog.{kind} CHECK (evil.climb())"
            connection.execute(domain.encode())
        connection.execute("CREATE TYPE evil.record AS (kind evil.text, name evil.text)")
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX here ON public.item (id)")
        connection.execute("RESET ROLE")
        become_worker(connection)
        for statement in (
            "CREATE TABLE public.made AS SELECT 1 AS id",
            "CREATE MATERIALIZED VIEW public.m AS SELECT 1 AS id",
            "CREATE MATERIALIZED VIEW public.fails AS SELECT 1/pg_catalog.length('') AS id",
            "CREATE INDEX ON public.m (id)",
        ):
            arrive(
                connection,
                statement,
                search_path="evil, pg_catalog, public",
                schemas=["evil", "pg_catalog", "public"],
                custom={"app.tenant": "7"},
            )
            climbed = one(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = %s", APPLICATION)
            assert climbed is False
