"""Texts that mean something else at another moment or in another session. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY, v text, at timestamptz);
CREATE TABLE parted (at timestamptz, n int, PRIMARY KEY (at, n)) PARTITION BY RANGE (at, n);
CREATE TABLE listed (id int, n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE texts (v text PRIMARY KEY) PARTITION BY LIST (v);
CREATE TABLE loose (id int, n int, PRIMARY KEY (id, n));
CREATE FUNCTION called() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION lower(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
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
    "ALTER TABLE item ADD since timestamptz DEFAULT $$now$$",
    "ALTER TABLE item ADD since timestamptz DEFAULT $a_b$ now $a_b$",
    "ALTER TABLE item ADD since timestamptz DEFAULT E'now'",
    "CREATE TABLE made (id int PRIMARY KEY, at timestamptz[] DEFAULT '{2026-01-01,tomorrow 10:00}')",
    "CREATE TABLE made (id int PRIMARY KEY, during daterange DEFAULT '[2026-01-01,today)')",
    "CREATE TABLE made (id int PRIMARY KEY, at timestamp(0) DEFAULT 'now')",
    "ALTER TABLE item -- don't\nADD since timestamptz DEFAULT 'now' /* can't */",
]
BOUNDS = [
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM ('now', 1) TO ('infinity', 1)",
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM (date 'today' + 7, 1) TO ('infinity', 1)",
    "CREATE TABLE made PARTITION OF parted"
    " FOR VALUES FROM ('now'::timestamptz + interval '1 month', 1) TO ('infinity', 1)",
    "CREATE TABLE made PARTITION OF texts FOR VALUES IN (left('today'::date::text, 7))",
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
    "ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM SESSION_USER",
    "REVOKE SELECT ON item FROM SESSION_USER",
    "GRANT SELECT ON item TO GROUP SESSION_USER",
    f'GRANT SELECT ON item TO "{APPLICATION}", SESSION_USER',
    "CREATE POLICY made ON item TO PUBLIC , Session_User USING (true)",
    "GRANT SELECT -- don't\nON item TO SESSION_USER /* can't */",
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


@pytest.mark.parametrize("statement", MOMENTS[:5])
def test_a_moment_in_another_time_zone(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute("SET timezone = 'Asia/Tokyo'")
    with refused("server"):
        connection.execute(statement.encode())


@pytest.mark.parametrize("statement", [MOMENTS[0], BOUNDS[0], SESSIONS[0], CURRENT[0]])
def test_a_text_of_psp_ddl(connection: psycopg.Connection[Any], statement: str) -> None:
    with refused("server"):
        connection.execute("SELECT psp.ddl(%s)", [statement])


SAME = [
    "CREATE TABLE made PARTITION OF listed FOR VALUES IN ('1'::numeric(4, 0)::int, length('ab'))",
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
    "CREATE TABLE made (id int PRIMARY KEY, opens time DEFAULT '09:00', note text DEFAULT 'open today')",
    "CREATE TABLE made (id int PRIMARY KEY, opens time DEFAULT '00:00', note text DEFAULT 'today')",
    "CREATE TABLE made (id int PRIMARY KEY, during daterange DEFAULT '[,)', note text DEFAULT 'now')",
    "CREATE TABLE made PARTITION OF parted FOR VALUES FROM ('2026-01-01'::timestamp(0), 1)"
    " TO (to_date('2026-02-01', 'YYYY-MM-DD'), 1)",
    "CREATE TABLE made PARTITION OF texts FOR VALUES IN (lower('A'), 'see you today')",
    "CREATE VIEW made AS SELECT session_user AS who, count(*) FROM item GROUP BY session_user",
    "CREATE VIEW made AS SELECT id FROM item ORDER BY id, session_user",
    "CREATE VIEW made AS SELECT 'it''s /* now */ SET work_mem FROM CURRENT' AS v",
    "COMMENT ON TABLE item IS $$GRANT SELECT ON item TO SESSION_USER$$",
    "COMMENT ON TABLE item IS 'FOR VALUES IN (random())'",
    "COMMENT ON TABLE item IS $x$a $$ now $$ $ x$ now$x$",
]


@pytest.mark.parametrize("statement", SAME)
def test_a_text_that_means_the_same(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())
    connection.execute("RESET ROLE")
    rows = connection.execute("SELECT statement FROM psp.schema_history").fetchall()
    assert [text for (text,) in rows] == [statement]


def test_partitions_of_today_are_values(connection: psycopg.Connection[Any]) -> None:
    """Their bounds are constants of these days, which ALTER and GRANT write again."""
    connection.execute(
        "DO $$ BEGIN EXECUTE format('CREATE TABLE made PARTITION OF parted FOR VALUES "
        "FROM (%L, 1) TO (%L, 1)', current_date, current_date + 1); END $$"
    )
    for statement in (
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC",
        "ALTER TABLE parted ADD COLUMN prio text DEFAULT 'now'",
        "ALTER TABLE parted ADD COLUMN day text DEFAULT 'today'",
        "COMMENT ON TABLE parted IS 'today'",
        "COMMENT ON COLUMN made.prio IS 'seen until now'",
    ):
        connection.execute(statement.encode())


def test_rows_of_other_transactions_are_not_new(app: Pair, connection: psycopg.Connection[Any]) -> None:
    connection.execute("RESET ROLE")
    connection.execute("CREATE TEMP TABLE own (id int)")
    connection.execute("SAVEPOINT a")
    connection.execute("INSERT INTO own VALUES (1)")
    connection.execute("RELEASE SAVEPOINT a")
    app.run("UPDATE psp.identity SET mode = mode")
    assert one(connection, "SELECT psp.is_new(xmin) FROM own")
    assert not one(connection, "SELECT psp.is_new(xmin) FROM psp.identity")


def test_a_long_text(connection: psycopg.Connection[Any]) -> None:
    """Each literal is asked about, and nothing in it is taken for more."""
    rows = ", ".join(f"'it''s {n} $a$ now -- /*'" for n in range(2000))
    connection.execute(f"CREATE VIEW made AS SELECT ARRAY[{rows}] AS v /* 'now */".encode())


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
