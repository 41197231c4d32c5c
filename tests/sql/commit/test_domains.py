"""A domain changes where rows of materialized views are in its way, as they were not where it ran first."""

from __future__ import annotations

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, arriving
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
CREATE ROLE other_owner;
GRANT ALL ON SCHEMA public TO other_owner;
SET ROLE {APPLICATION};
CREATE DOMAIN positive AS int;
CREATE DOMAIN small AS positive;
CREATE TABLE item (id int PRIMARY KEY, v int);
INSERT INTO item VALUES (1, 5);
CREATE MATERIALIZED VIEW seen AS SELECT id, v::positive AS v FROM item;
CREATE UNIQUE INDEX ON seen (v);
CREATE MATERIALIZED VIEW unchanged AS SELECT v FROM item;
RESET ROLE;
SET ROLE other_owner;
CREATE MATERIALIZED VIEW of_other AS SELECT NULL::small AS v;
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.mark.parametrize(
    ("statement", "emptied"),
    [
        ("ALTER DOMAIN positive ADD CHECK (VALUE > 7)", ["of_other", "seen"]),
        ("ALTER DOMAIN positive SET NOT NULL", ["of_other", "seen"]),
        ("ALTER DOMAIN small SET NOT NULL", ["of_other"]),
        (
            "CREATE TABLE t (id int PRIMARY KEY); ALTER DOMAIN public.small SET NOT NULL; SELECT 1",
            ["of_other"],
        ),
        ("ALTER DOMAIN positive ADD CHECK (VALUE < 7)", []),
    ],
)
def test_views_are_emptied(app: Pair, statement: str, emptied: list[str]) -> None:
    with arriving(app) as connection:
        arrive(connection, statement, search_path="public")
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'm' AND NOT relispopulated ORDER BY 1"
        )
        assert [name for (name,) in rows] == emptied
        problems = connection.execute("SELECT psp.guard_problems()").fetchall()
        assert len(problems) == len(emptied)


def test_rows_of_tables_stop_it(app: Pair) -> None:
    """They are the same everywhere, so this is an error of psp's."""
    with arriving(app) as connection:
        connection.execute("SET LOCAL session_replication_role = origin")
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, v small)")
        connection.execute("INSERT INTO kept VALUES (1, 5)")
        connection.execute("SET LOCAL ROLE NONE")
        connection.execute("SET LOCAL session_replication_role = replica")
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            arrive(connection, "ALTER DOMAIN positive ADD CHECK (VALUE > 7)", search_path="public")
        assert (
            one(connection, "SELECT count(*) FROM pg_class WHERE relkind = 'm' AND NOT relispopulated") == 0
        )
