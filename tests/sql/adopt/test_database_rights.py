"""Rights on the database that schema changes may need: who joins gets those of the adopted one."""

from __future__ import annotations

from psp.schema.join import prepare_join
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, new_pair, one

CREATOR = 'a "creator" $psp$'
QUOTED = CREATOR.replace('"', '""')


def test_its_owner_and_who_may_make_schemas(server: PgServer) -> None:
    """Since PostgreSQL 15 only the database's owner may make tables in the schema public."""
    pair = new_pair(server)
    pair.run(
        f'CREATE ROLE "{QUOTED}"; GRANT CREATE ON DATABASE {pair.name} TO "{QUOTED}";'
        f"ALTER DATABASE {pair.name} OWNER TO {APPLICATION}; CREATE TABLE t (id int PRIMARY KEY)"
    )
    pair.adopt()
    pair.run(f'REVOKE CREATE ON DATABASE {pair.name} FROM "{QUOTED}"; DROP ROLE "{QUOTED}"')
    joining = Pair(f"{pair.name}_two", server)
    server.create_database(joining.name)
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    with joining.connect() as connection:
        owner = one(connection, "SELECT datdba::regrole FROM pg_database WHERE datname = current_database()")
        assert owner == APPLICATION
        may_create = "SELECT has_database_privilege(%s, current_database(), 'CREATE')"
        assert one(connection, may_create, CREATOR)
        assert not one(connection, "SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", CREATOR)


def test_a_superuser_is_no_owner_elsewhere(server: PgServer) -> None:
    pair = new_pair(server)
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    pair.adopt()
    joining = Pair(f"{pair.name}_two", server)
    server.create_database(joining.name)
    joining.run(f"ALTER DATABASE {joining.name} OWNER TO {APPLICATION}")
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    with joining.connect() as connection:
        owner = one(connection, "SELECT datdba::regrole FROM pg_database WHERE datname = current_database()")
    assert owner == APPLICATION
