"""Nobody reads from a semi-primary before its copy is whole. Then the rights are those of before."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psp.schema.join import prepare_join
from psp.schema.release import release

from tests.sql.databases import APPLICATION, Pair, new_pair, one

WATCHER = "watcher_of_joins"
GUEST = 'a "guest" of joins'
QUOTED_GUEST = '"a ""guest"" of joins"'
WHOLE = "SET session_replication_role = replica; UPDATE psp.identity SET joining = false"
RIGHTS = """
    SELECT a.grantee::int8, a.is_grantable
      FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
     WHERE d.datname = current_database() AND a.privilege_type = 'CONNECT'
       AND a.grantee NOT IN (SELECT oid FROM pg_roles WHERE rolname = 'psp_semi_primary')
     ORDER BY 1
"""


def rights(pair: Pair) -> list[Any]:
    with pair.connect() as connection:
        return connection.execute(RIGHTS).fetchall()


def may_connect(pair: Pair, role: str) -> bool:
    try:
        psycopg.connect(pair.dsn, user=role).close()
    except psycopg.OperationalError as error:
        assert "permission denied for database" in str(error)
        return False
    return True


@pytest.fixture
def joining(pair: Pair) -> Pair:
    """A database that can join `pair`, owned by the application."""
    pair.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    pair.adopt()
    two = new_pair(pair.server)
    two.run(
        f"DO $$ BEGIN CREATE ROLE {WATCHER} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$;"
        f"GRANT pg_monitor TO {WATCHER};"
        f"ALTER DATABASE {two.name} OWNER TO {APPLICATION}"
    )
    return two


def test_clients_stay_out_until_the_copy_is_whole(pair: Pair, joining: Pair) -> None:
    before = rights(joining)
    assert may_connect(joining, APPLICATION)
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    assert not may_connect(joining, APPLICATION)
    assert may_connect(joining, WATCHER)
    assert may_connect(joining, "psp_semi_primary")
    with psycopg.connect(joining.dsn, user=WATCHER) as connection:
        assert one(connection, "SELECT name FROM psp.status") == "two"
    with psycopg.connect(joining.dsn, user="psp_semi_primary") as connection:
        connection.execute(WHOLE)
    assert may_connect(joining, APPLICATION)
    assert rights(joining) == before


def test_rights_of_before_come_back(pair: Pair, joining: Pair) -> None:
    """Of a role that may grant the right; not of a role that is dropped meanwhile."""
    joining.run(
        f"CREATE ROLE {QUOTED_GUEST} LOGIN; CREATE ROLE gone_meanwhile;"
        f"REVOKE CONNECT ON DATABASE {joining.name} FROM PUBLIC;"
        f"GRANT CONNECT ON DATABASE {joining.name} TO {QUOTED_GUEST} WITH GRANT OPTION"
    )
    before = rights(joining)
    joining.run(f"GRANT CONNECT ON DATABASE {joining.name} TO gone_meanwhile")
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    joining.run("DROP ROLE gone_meanwhile")
    assert not may_connect(joining, GUEST)
    joining.run(WHOLE)
    assert rights(joining) == before
    joining.run(
        f"REVOKE CONNECT ON DATABASE {joining.name} FROM {QUOTED_GUEST} CASCADE; DROP ROLE {QUOTED_GUEST}"
    )


def test_sessions_that_were_there_end(pair: Pair, joining: Pair) -> None:
    with joining.connect_as_application(autocommit=True) as client:
        with psycopg.connect(joining.dsn, user=WATCHER, autocommit=True) as watcher:
            prepare_join(joining.dsn, pair.primary_dsn, "two")
            assert one(watcher, "SELECT 1") == 1
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT count(*) FROM t")


def test_release_lets_them_in(pair: Pair, joining: Pair) -> None:
    before = rights(joining)
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    release(
        joining.dsn, pair.primary_dsn, drop_keys=False, force=True, lock_wait_s=5, say=lambda _: None
    )  # fmt: skip
    assert rights(joining) == before


def test_who_owns_the_database_by_then_gets_the_right_of_the_owner(pair: Pair, joining: Pair) -> None:
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    joining.run(f"CREATE ROLE next_owner; ALTER DATABASE {joining.name} OWNER TO next_owner")
    joining.run(WHOLE)
    with joining.connect() as connection:
        granted = connection.execute(
            "SELECT grantee::regrole::text FROM psp.connect_acl WHERE grantee <> 0 "
            "AND grantee <> 'psp_semi_primary'::regrole"
        ).fetchall()
        assert granted == [("next_owner",)]
        assert one(connection, "SELECT count(*) FROM psp.connect_rights") == 0
    joining.run(f"ALTER DATABASE {joining.name} OWNER TO {APPLICATION}; DROP ROLE next_owner")


def test_a_right_that_was_kept_is_told(pair: Pair, joining: Pair) -> None:
    prepare_join(joining.dsn, pair.primary_dsn, "two")
    with joining.connect() as connection:
        assert "clients" not in str(one(connection, "SELECT psp.guard_warnings()"))
    joining.run(f"{WHOLE}; INSERT INTO psp.connect_rights VALUES (0, true, false)")
    with joining.connect() as connection:
        assert "clients" not in str(one(connection, "SELECT psp.guard_warnings()")), "they can connect"
        database = one(connection, "SELECT current_database()")
    joining.run(f'REVOKE CONNECT ON DATABASE "{database}" FROM PUBLIC')
    with joining.connect() as connection:
        told = one(connection, "SELECT psp.guard_warnings()")
        assert "clients cannot connect" in told
