"""Texts that mean something else at another moment or in another session. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY, v text, at timestamptz);
CREATE TABLE parted (at timestamptz, n int, PRIMARY KEY (at, n)) PARTITION BY RANGE (at, n);
CREATE TABLE listed (id int, n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE loose (id int, n int, PRIMARY KEY (id, n));
CREATE FUNCTION called() RETURNS int LANGUAGE sql AS 'SELECT 1';
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """As the role that may change the schema."""
    with app.rolled_back() as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.commit()
        yield connection


MOMENTS = [
    "ALTER TABLE item ADD since timestamptz DEFAULT 'now'",
    "ALTER TABLE item ALTER v SET DEFAULT 'see ' || date ' Today '",
    "ALTER TABLE item ADD CHECK (at < timestamp 'tomorrow')",
    "CREATE TABLE made (id int PRIMARY KEY, at time DEFAULT 'now')",
    "CREATE TABLE made (id int PRIMARY KEY, during tstzrange DEFAULT '[now,infinity)')",
    "CREATE VIEW made AS SELECT 'now'::timestamptz AS at",
    "CREATE VIEW made AS SELECT id FROM item WHERE at > '\nYESTERDAY 10:00'",
    "CREATE POLICY made ON item USING (at > 'now')",
    "CREATE RULE made AS ON DELETE TO item WHERE OLD.at > 'now' DO INSTEAD NOTHING",
    "CREATE DOMAIN made AS date DEFAULT 'today'",
    "CREATE FUNCTION made(at date DEFAULT 'today') RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE INDEX made ON item (id) WHERE at > 'now'",
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM ('now', 1) TO ('infinity', 1)",
]
BOUNDS = [
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM (clock_timestamp(), 1) TO ('infinity', 1)",
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM (current_date, 1) /* now */ TO ('infinity', 1)",
    "CREATE TABLE made PARTITION OF listed FOR VALUES IN (1, (random() * 1000)::int)",
    "CREATE TABLE made PARTITION OF listed FOR VALUES IN (pg_backend_pid()) PARTITION BY LIST (id)",
    "ALTER TABLE listed ATTACH PARTITION loose FOR VALUES IN (pg_catalog.pg_backend_pid ())",
    "ALTER TABLE listed ATTACH PARTITION loose FOR VALUES IN (Called())",
]
SESSIONS = [
    "GRANT SELECT ON item TO SESSION_USER",
    "GRANT SELECT ON item TO PUBLIC, session_user",
    "CREATE POLICY made ON item TO SESSION_USER",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO /* me */ SESSION_USER",
]
CURRENT = [
    "CREATE FUNCTION made() RETURNS int LANGUAGE sql SET work_mem FROM CURRENT AS 'SELECT 1'",
    "ALTER FUNCTION called() SET search_path FROM  CURRENT",
]


@pytest.mark.parametrize("statement", MOMENTS + BOUNDS + SESSIONS + CURRENT)
def test_a_text_that_means_something_else_elsewhere(
    connection: psycopg.Connection[Any], statement: str
) -> None:
    with refused("server"):
        connection.execute(statement.encode())


@pytest.mark.parametrize("statement", [MOMENTS[0], BOUNDS[0], SESSIONS[0], CURRENT[0]])
def test_a_text_of_psp_ddl(connection: psycopg.Connection[Any], statement: str) -> None:
    with refused("server"):
        connection.execute("SELECT psp.ddl(%s)", [statement])


SAME = [
    "ALTER TABLE item ADD since timestamptz DEFAULT now()",
    "ALTER TABLE item ALTER v SET DEFAULT 'now'",
    "ALTER TABLE item ALTER v SET DEFAULT current_date || 'it''s today'",
    "COMMENT ON TABLE item IS 'now'",
    "CREATE VIEW made AS SELECT 'see you tomorrow' AS v, '2000-01-01'::date AS day",
    "CREATE VIEW made AS SELECT session_user AS who, 'today' AS v, 'epoch'::timestamptz AS at",
    "CREATE VIEW made AS SELECT 'now'::text::timestamptz AS at",
    "CREATE TYPE made AS ENUM ('now', 'later')",
    "CREATE FUNCTION made() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'now'::timestamptz $$",
    "CREATE TABLE made (at timestamptz DEFAULT now(), n int DEFAULT random(), PRIMARY KEY (at, n))"
    " PARTITION BY RANGE (at)",
    "CREATE TABLE made PARTITION OF parted (n DEFAULT random())"
    " FOR VALUES FROM ('2026-01-01', 1) TO ('2026-02-01'::timestamptz, abs(-1))",
    "CREATE TABLE made PARTITION OF listed FOR VALUES IN (1, 2) PARTITION BY LIST (id)",
    "CREATE TABLE made PARTITION OF listed DEFAULT",
    "CREATE FUNCTION made() RETURNS int LANGUAGE sql SET datestyle FROM CURRENT AS 'SELECT 1'",
    "GRANT SELECT ON item TO CURRENT_USER",
]


@pytest.mark.parametrize("statement", SAME)
def test_a_text_that_means_the_same(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())
    connection.execute("RESET ROLE")
    rows = connection.execute("SELECT statement FROM psp.schema_history").fetchall()
    assert [text for (text,) in rows] == [statement]


def test_code_and_dates_of_these_days_are_values(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        """
        SELECT psp.ddl($psp$ CREATE FUNCTION made() RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            CREATE TABLE made PARTITION OF listed FOR VALUES IN (random());
            GRANT SELECT ON item TO SESSION_USER;
        END $$ $psp$)
        """
    )
    connection.execute(
        "DO $$ BEGIN EXECUTE format('CREATE TABLE made PARTITION OF parted FOR VALUES "
        "FROM (%L, 1) TO (%L, 1)', current_date, current_date + 1); END $$"
    )
