"""psp.tables_in_doubt: every captured table that a statement makes another one, and of hundreds few."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair, one

TABLES = 40

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE place AS (street text, number integer);
CREATE DOMAIN money_of AS numeric(10, 2) CHECK (value >= 0);
CREATE DOMAIN mood_of AS mood;
CREATE COLLATION plain FROM "C";
CREATE FUNCTION initial() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 7';
CREATE FUNCTION is_fine(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE SCHEMA apart;
CREATE TYPE apart.kind AS ENUM ('one', 'other');
CREATE OPERATOR apart.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = pg_catalog.int4eq);
CREATE OPERATOR CLASS other_ops FOR TYPE integer USING btree
    AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
       FUNCTION 1 pg_catalog.btint4cmp(integer, integer);
CREATE SEQUENCE numbers;
CREATE TABLE whole (id integer PRIMARY KEY, v integer);
CREATE TABLE parted (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
CREATE TABLE parent (id integer PRIMARY KEY, code text COLLATE plain UNIQUE,
                     v integer DEFAULT initial() CONSTRAINT fine CHECK (is_fine(v)));
CREATE TABLE child (id integer PRIMARY KEY, code text CONSTRAINT of_parent REFERENCES parent (code),
                    at_id integer REFERENCES parent);
CREATE TABLE felt (id integer PRIMARY KEY, m mood, all_of mood[], d mood_of, p place, r money_of,
                   n integer DEFAULT nextval('numbers'));
CREATE TABLE holder (id integer PRIMARY KEY, w whole, ws whole[]);
CREATE TYPE at_place AS (m mood);
CREATE TABLE at_all (id integer PRIMARY KEY, p at_place);
CREATE TABLE kinds (id integer PRIMARY KEY, k apart.kind);
CREATE TABLE compared (id integer PRIMARY KEY, v integer);
CREATE UNIQUE INDEX compared_v ON compared (v other_ops);
CREATE TABLE apart.far (id integer PRIMARY KEY, v integer);
CREATE INDEX of_v ON parent (v);
CREATE UNIQUE INDEX of_id_v ON parent (id, v);
CREATE TRIGGER noted BEFORE INSERT ON parent FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER one BEFORE INSERT ON compared FOR EACH ROW WHEN (NEW.v OPERATOR(apart.===) 1)
    EXECUTE FUNCTION note();
CREATE RULE nothing AS ON DELETE TO child WHERE false DO INSTEAD NOTHING;
""" + "".join(
    f"CREATE TABLE many_{n} (id integer PRIMARY KEY, v integer UNIQUE, w integer REFERENCES whole);"
    for n in range(TABLES)
)

STATEMENTS = [
    "ALTER TABLE parent ADD COLUMN x integer",
    "ALTER TABLE parent DROP COLUMN v",
    "ALTER TABLE parent RENAME COLUMN code TO codes",
    "ALTER TABLE parent RENAME TO parents",
    "ALTER TABLE many_1 ALTER COLUMN v TYPE bigint",
    "ALTER TABLE parent ALTER COLUMN v DROP DEFAULT",
    "ALTER TABLE parent ALTER COLUMN v SET NOT NULL",
    "ALTER TABLE parent DROP CONSTRAINT fine",
    "ALTER TABLE parent RENAME CONSTRAINT fine TO good",
    "ALTER TABLE parent DISABLE TRIGGER noted",
    "ALTER TABLE parent OWNER TO application",
    "ALTER TABLE parent SET SCHEMA apart",
    "ALTER TABLE child DROP CONSTRAINT of_parent",
    "ALTER TABLE child ADD CONSTRAINT other FOREIGN KEY (id) REFERENCES parent",
    "ALTER TABLE child RENAME CONSTRAINT of_parent TO of_a_parent",
    "ALTER TABLE child DISABLE RULE nothing",
    "DROP RULE nothing ON child",
    "ALTER RULE nothing ON child RENAME TO something",
    "DROP TRIGGER noted ON parent",
    "ALTER TRIGGER noted ON parent RENAME TO written",
    "CREATE TRIGGER too AFTER UPDATE ON child FOR EACH ROW EXECUTE FUNCTION note()",
    "DROP INDEX of_id_v",
    "ALTER INDEX of_id_v RENAME TO other",
    "CREATE UNIQUE INDEX ON child (code)",
    "DROP TABLE child",
    "DROP TABLE parent CASCADE",
    "DROP TABLE child; CREATE TABLE child (id integer PRIMARY KEY)",
    "ALTER TABLE parent RENAME TO a; ALTER TABLE child RENAME TO parent; ALTER TABLE a RENAME TO child",
    "CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (20) TO (30)",
    "ALTER TABLE parted DETACH PARTITION parted_1",
    "ALTER TABLE parted_1 RENAME TO first",
    "ALTER TABLE parted RENAME COLUMN v TO w",
    "DROP TABLE parted",
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
    "ALTER TYPE mood ADD VALUE 'mad'",
    "ALTER TYPE mood RENAME TO moods",
    "ALTER TYPE mood SET SCHEMA apart",
    "ALTER TYPE place ADD ATTRIBUTE town text",
    "ALTER TYPE place RENAME TO places",
    "ALTER DOMAIN money_of RENAME TO money",
    "ALTER TABLE whole ADD COLUMN x text",
    "ALTER TABLE whole DROP COLUMN v",
    "ALTER TABLE whole RENAME TO all_of_it",
    "ALTER COLLATION plain RENAME TO simple",
    "ALTER FUNCTION initial() RENAME TO first",
    "ALTER FUNCTION is_fine(integer) RENAME TO is_good",
    "ALTER FUNCTION is_fine(integer) SET SCHEMA apart",
    "ALTER FUNCTION note() RENAME TO noting",
    "ALTER SEQUENCE numbers RENAME TO figures",
    "ALTER SCHEMA apart RENAME TO away",
    "ALTER OPERATOR apart.=== (integer, integer) SET SCHEMA public",
    "ALTER OPERATOR CLASS other_ops USING btree RENAME TO more_ops",
    "ALTER TABLE felt ALTER COLUMN n SET DEFAULT 3",
    "ALTER TABLE many_1 DROP CONSTRAINT many_1_v_key, ADD CONSTRAINT many_1_v_key UNIQUE (v, w)",
    "DROP INDEX of_id_v; CREATE UNIQUE INDEX of_id_v ON parent (v, id)",
    "ALTER TABLE parted DETACH PARTITION parted_2; "
    "ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (40) TO (50)",
]


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(
        server,
        SCHEMA,
    )


CHANGED = """
WITH now AS (
    SELECT s.*, r.table_id FROM psp.captured_relations r
      JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN psp.guarded_state(ARRAY(SELECT relation FROM psp.captured_relations)) s
           ON (s.schema_name, s.relation_name) = (n.nspname, c.relname)
), noted AS (
    SELECT o.*, g.table_id
      FROM psp.guarded_objects o JOIN psp.guarded_relations g USING (schema_name, relation_name))
SELECT DISTINCT coalesce(now.table_id, noted.table_id)
  FROM now FULL JOIN noted USING (table_id, schema_name, relation_name, kind, name)
 WHERE now.definition IS DISTINCT FROM noted.definition
"""


def begin(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET search_path = public")
    connection.execute("SELECT psp.begin_own_commands('a schema change')")


def in_doubt(connection: psycopg.Connection[Any]) -> set[int]:
    return set(one(connection, "SELECT psp.tables_in_doubt()"))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_has_changed_is_in_doubt(app: Pair, statement: str) -> None:
    with app.rolled_back() as connection:
        assert in_doubt(connection) == set()
        begin(connection)
        with connection.transaction():  # a subtransaction has a number of its own
            connection.execute(statement.encode())
        changed = {row[0] for row in connection.execute(CHANGED).fetchall()}
        assert changed
        assert changed <= in_doubt(connection)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("ALTER TABLE many_7 ADD COLUMN x integer", {"many_7", "whole"}),
        ("ALTER TABLE many_7 DROP CONSTRAINT many_7_w_fkey", {"many_7", "whole"}),
        ("CREATE TABLE another (id integer PRIMARY KEY)", set()),
        ("CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1'", set()),
        ("CREATE VIEW seen AS SELECT * FROM many_7", set()),
    ],
)
def test_few_are(app: Pair, statement: str, names: set[str]) -> None:
    with app.rolled_back() as connection:
        begin(connection)
        connection.execute(statement.encode())
        found = connection.execute(
            "SELECT table_name FROM psp.tables WHERE table_id = ANY (psp.tables_in_doubt())"
        ).fetchall()
        assert {row[0] for row in found} == names


def test_an_owner_that_no_event_trigger_has_told(app: Pair) -> None:
    with app.rolled_back() as connection:
        connection.execute(
            "UPDATE psp.guarded_objects SET definition = 1 WHERE (relation_name, kind) = ('child', 'owner')"
        )
        assert in_doubt(connection) == {
            one(connection, "SELECT table_id FROM psp.tables WHERE table_name = 'child'")
        }
