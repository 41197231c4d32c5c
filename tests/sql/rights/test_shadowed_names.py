"""Names in psp's functions stand for PostgreSQL's own, also where others come first in a search_path.

Operators, functions and types of pg_catalog are there a second time, in a schema that stands first. These
copies do the same, and tell it if they run as anybody but the application's role (shadows.sql): who can make
one could act as that role.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, arriving
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

PATH = "shadow, pg_catalog, public"

SHADOWS = Path(__file__).with_name("shadows.sql").read_text()
SCHEMA = f"""
CREATE ROLE low;
GRANT ALL ON SCHEMA public TO {APPLICATION}, low;
SET ROLE {APPLICATION};
CREATE FUNCTION f(x text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT x';
CREATE FUNCTION makes_view() RETURNS int LANGUAGE plpgsql AS
    'BEGIN CREATE VIEW by_function AS SELECT 1 AS a; RETURN 1; END';
CREATE TYPE mood AS ENUM ('a', 'b');
CREATE DOMAIN positive AS int;
CREATE TABLE item (id int PRIMARY KEY, v text, m mood);
CREATE UNIQUE INDEX item_f ON item (f(v));
CREATE TABLE child (id bigserial PRIMARY KEY, item int REFERENCES item, w numeric);
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (9);
CREATE TABLE big (id int PRIMARY KEY, a text, n int NOT NULL);
INSERT INTO item VALUES (1, 'one');
INSERT INTO big VALUES (1, 'x', 1);
CREATE INDEX item_v ON item (v);
CREATE MATERIALIZED VIEW seen AS SELECT 1::positive AS a;
RESET ROLE;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SHADOWS, SCHEMA)
    pair.run(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}")
    return pair


def listen(connection: psycopg.Connection[Any]) -> list[str]:
    """What the copies will have told."""
    told: list[str] = []
    connection.add_notice_handler(
        lambda notice: (
            told.append(f"{notice.message_primary} in {notice.context}")
            if str(notice.message_primary).startswith("shadow of ")
            else None
        )
    )
    return told


def test_the_copies_tell(app: Pair) -> None:
    with app.rolled_back() as connection:
        told = listen(connection)
        connection.execute(f"SET search_path = {PATH}".encode())
        connection.execute("SELECT 1 = 2, lower('X'), ARRAY['a'] || ARRAY['b'], '1'::text")
        assert [line.split(" runs as ")[0] for line in told] == [
            "shadow of pg_catalog.int4 = pg_catalog.int4", "shadow of lower",
            "shadow of pg_catalog.text[] || pg_catalog.text[]", "shadow of text",
        ]  # fmt: skip


STATEMENTS = [
    "INSERT INTO item VALUES (2, 'two', 'a'); UPDATE item SET id = 3 WHERE id = 2;"
    "INSERT INTO child (item) VALUES (3); DELETE FROM child",
    "CREATE VIEW x AS SELECT 1 AS a",
    "ALTER TABLE item ADD COLUMN y int DEFAULT 7",
    "ALTER TABLE item ADD COLUMN y timestamp DEFAULT pg_catalog.now()",
    "ALTER TABLE item ALTER COLUMN v TYPE varchar(80)",
    "ALTER TABLE big ALTER COLUMN id TYPE bigint",
    "ALTER TABLE big DROP CONSTRAINT big_pkey, ADD PRIMARY KEY (n)",
    "ALTER TABLE part ADD CHECK (id > 0)",
    "ALTER TABLE parted DETACH PARTITION part",
    "ALTER TABLE child DROP CONSTRAINT child_item_fkey",
    "ALTER TYPE mood RENAME VALUE 'a' TO 'c'",
    "CREATE TABLE made AS SELECT 1 AS id",
    "CREATE TABLE without_key (a int)",
    "CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (10) TO (19)",
    "CREATE INDEX ON item (v)",
    "CREATE UNIQUE INDEX ON big (pg_catalog.lower(a))",
    "DROP INDEX item_v",
    "CREATE TRIGGER t BEFORE UPDATE ON big EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE SEQUENCE s",
    "CREATE MATERIALIZED VIEW another AS SELECT 1 AS a",
    "REFRESH MATERIALIZED VIEW seen",
    "DO $$BEGIN CREATE VIEW in_block AS SELECT 1 AS a; END$$",
    "SELECT makes_view()",
    "TRUNCATE child",
    "TRUNCATE part",
    "DROP TABLE child",
    "GRANT SELECT ON big TO low",
    "SELECT psp.ddl('CREATE VIEW z AS SELECT 1 AS a; CREATE INDEX zz ON item (v)')",
    "SELECT psp.ddl('DROP INDEX item_v')",
    "SELECT psp.ddl('TRUNCATE child')",
    "SELECT psp.ddl('SELECT makes_view()')",
    "SELECT psp.ddl('ALTER TABLE item ALTER COLUMN id TYPE bigint')",
    "SELECT psp.job('VACUUM item')",
    "SET LOCAL psp.schema_changes = local; CREATE UNLOGGED TABLE here (a int)",
    "SELECT psp.role_of_statement(), psp.snapshot()",
]  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS)
def test_where_a_statement_is_made(app: Pair, statement: str) -> None:
    with app.rolled_back() as connection:
        told = listen(connection)
        connection.execute(f"SET SESSION AUTHORIZATION {APPLICATION}".encode())
        connection.execute(f"SET search_path = {PATH}".encode())
        connection.execute("SET psp.add_keys = on")
        with suppress(psycopg.errors.ConnectionFailure):  # no daemon is there
            connection.execute(statement.encode())
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert told == []


ARRIVING = [
    "CREATE VIEW x AS SELECT 1 AS a",
    "ALTER TABLE item ADD COLUMN y int DEFAULT 7",
    "ALTER TABLE item ADD UNIQUE (v)",
    "ALTER DOMAIN positive ADD CHECK (VALUE > 1)",
    "CREATE INDEX arrived ON item (v)",
    "DROP INDEX IF EXISTS public.item_v",
    "CREATE TABLE made AS SELECT 1 AS id",
    "CREATE MATERIALIZED VIEW another AS SELECT 1 / (a - 1) AS a FROM (VALUES (1)) q(a)",
    "CREATE UNIQUE INDEX ON seen (a)",
    "REFRESH MATERIALIZED VIEW seen",
    "TRUNCATE child",
    "DROP TABLE child",
]  # fmt: skip


@pytest.mark.parametrize("statement", ARRIVING)
def test_where_a_statement_arrives(app: Pair, statement: str) -> None:
    with arriving(app) as connection:
        told = listen(connection)
        arrive(
            connection,
            statement,
            search_path=PATH,
            schemas=["shadow", "pg_catalog", "public"],
            custom={"app.x": "1"},
            dropped=["public.item_v"],
        )
        assert one(connection, "SELECT count(*) FROM psp.schema_history") == 1
        assert told == []
