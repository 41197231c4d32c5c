"""psp.ddl changes types and functions that captured tables rely on, so these tables. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.commit.test_follow_changes import captured_in, changes, ddl, table_ids
from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
CREATE SCHEMA other AUTHORIZATION {APPLICATION};
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {APPLICATION}', current_database()); END $$;
SET ROLE {APPLICATION};
CREATE EXTENSION hstore; CREATE COLLATION own (LOCALE = 'C');
CREATE FUNCTION positive(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
CREATE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION same(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = $2';
CREATE OPERATOR ==== (FUNCTION = same, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION choose() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 7';
CREATE FUNCTION called(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 + 1;
CREATE FUNCTION calls(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN called($1);
CREATE FUNCTION distance(int, int) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT $1 - $2';
CREATE TEXT SEARCH DICTIONARY stems (TEMPLATE = snowball, language = 'english');
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION words ALTER MAPPING FOR asciiword WITH stems;
CREATE TYPE mood AS ENUM ('sad', 'calm');
CREATE TYPE grade AS ENUM ('a', 'b');
CREATE DOMAIN small AS int CHECK (positive(VALUE)); CREATE DOMAIN smaller AS small;
CREATE DOMAIN felt AS grade;
CREATE DOMAIN seven AS bigint DEFAULT 7; CREATE DOMAIN drawn AS float8 DEFAULT random();
CREATE DOMAIN drawn_and_checked AS float8 DEFAULT random() CHECK (VALUE < 2);
CREATE TYPE pair AS (a int, b mood); CREATE TYPE typed AS (id int, v int);
CREATE TYPE span AS RANGE (subtype = int, subtype_diff = distance);
CREATE TABLE by_mood (id int PRIMARY KEY, m mood UNIQUE, v int DEFAULT choose());
CREATE FUNCTION label(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE UNIQUE INDEX by_label ON by_mood (label(m));
CREATE TABLE by_array (id int PRIMARY KEY, m mood[]);
CREATE TABLE by_felt (f felt PRIMARY KEY, v int);
CREATE TABLE by_list (id int, g grade, PRIMARY KEY (id, g)) PARTITION BY LIST (g);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN ('a');
CREATE TABLE by_small (id int PRIMARY KEY, s smaller);
CREATE TABLE by_span (id int PRIMARY KEY, s span);
CREATE TABLE by_pair (id int PRIMARY KEY, p pair);
CREATE TABLE by_row (id int PRIMARY KEY, r by_pair);
CREATE VIEW seen AS SELECT 1 AS one;
CREATE TABLE by_view (id int PRIMARY KEY, r seen);
CREATE TYPE other.level AS ENUM ('low'); CREATE TABLE by_schema (id int PRIMARY KEY, l other.level);
CREATE TABLE by_extension (id int PRIMARY KEY, h hstore);
CREATE TABLE by_collation (id int PRIMARY KEY, c text COLLATE own UNIQUE, v text);
CREATE TABLE by_whole (id int PRIMARY KEY, v int);
CREATE FUNCTION whole(by_whole) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.v';
ALTER TABLE by_whole ADD CHECK (whole(by_whole) > 0);
CREATE TABLE by_whole_too (id int PRIMARY KEY, CHECK (whole(ROW(id, id)::by_whole) > 0));
CREATE TABLE by_type OF typed (PRIMARY KEY (id));
CREATE TABLE by_check (id int PRIMARY KEY, v int CHECK (positive(v)));
CREATE TABLE by_index (id int PRIMARY KEY, s text, v int);
CREATE UNIQUE INDEX by_low ON by_index (low(s)); CREATE INDEX by_operator ON by_index (id) WHERE v ==== 1;
CREATE TABLE by_generated (id int PRIMARY KEY, s text, g int GENERATED ALWAYS AS (double(id)) STORED,
                           w tsvector GENERATED ALWAYS AS (to_tsvector('words', s)) STORED);
CREATE TABLE by_key (id int, g int GENERATED ALWAYS AS (double(id)) STORED PRIMARY KEY);
CREATE TABLE by_call (id int PRIMARY KEY, v int CHECK (calls(v) > 0));
CREATE DOMAIN minor AS int;
CREATE TABLE by_part (id int PRIMARY KEY, v int, s minor) PARTITION BY RANGE (id);
CREATE TABLE by_part_1 PARTITION OF by_part (CHECK (double(v) > 0)) FOR VALUES FROM (0) TO (10);
INSERT INTO by_mood VALUES (1, 'sad'), (2, 'calm'); INSERT INTO by_array VALUES (1, '{{sad}}');
INSERT INTO by_felt VALUES ('a', 1); INSERT INTO by_list VALUES (1, 'a');
INSERT INTO by_small VALUES (1, 1); INSERT INTO by_span VALUES (1, '[1,2]');
INSERT INTO by_pair VALUES (1, '(1,sad)'); INSERT INTO by_row VALUES (1, '(1,"(1,sad)")');
INSERT INTO by_view VALUES (1, '(1)'); INSERT INTO by_check VALUES (1, 1);
INSERT INTO by_index VALUES (1, 'a', 1); INSERT INTO by_generated VALUES (1, 'a');
INSERT INTO by_call VALUES (1, 1); INSERT INTO by_part VALUES (1, 1);
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def names(connection: psycopg.Connection[Any], numbers: set[int]) -> set[str]:
    return {name for name, number in table_ids(connection).items() if number in numbers}


def sent(connection: psycopg.Connection[Any]) -> set[str]:
    """The tables whose rows go with the change."""
    rows = connection.execute("SELECT table_id FROM psp.write_set WHERE op = 'i' AND table_id > 0")
    return names(connection, {row[0] for row in rows})


MOODY = "by_array by_mood by_pair by_row"

CHANGES = [
    ("ALTER DOMAIN small ADD CHECK (VALUE < 100)", "by_small", ""),
    ("ALTER DOMAIN small ADD CONSTRAINT c CHECK (VALUE < 100) NOT VALID", "by_small", ""),
    ("ALTER DOMAIN small RENAME CONSTRAINT small_check TO c", "by_small", ""),
    ("ALTER DOMAIN small DROP CONSTRAINT small_check", "by_small", ""),
    ("ALTER DOMAIN smaller SET NOT NULL", "by_small", ""),
    ("ALTER DOMAIN small SET DEFAULT 5", "by_small", ""),
    ("ALTER DOMAIN smaller RENAME TO x", "by_small", ""),
    ("ALTER DOMAIN smaller SET SCHEMA other", "by_small", ""),
    (f"ALTER DOMAIN small OWNER TO {APPLICATION}", "by_small", ""),
    ("DROP DOMAIN small CASCADE", "by_small", ""),
    ("ALTER TYPE mood ADD VALUE 'glad'", "", ""),
    ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", MOODY, MOODY),
    ("ALTER TYPE mood RENAME TO x", "by_array by_mood", ""),
    ("ALTER TYPE mood SET SCHEMA other", "by_array by_mood", ""),
    ("ALTER TYPE grade RENAME TO x", "by_list", ""),
    ("DROP TYPE mood CASCADE", MOODY, "by_pair by_row"),
    ("ALTER TYPE pair ADD ATTRIBUTE c text", "by_pair by_row", "by_pair by_row"),
    ("ALTER TYPE pair DROP ATTRIBUTE a", "by_pair by_row", "by_pair by_row"),
    ("ALTER TYPE pair RENAME ATTRIBUTE a TO x", "by_pair by_row", ""),
    ("ALTER TYPE pair SET SCHEMA other", "by_pair by_row", ""),
    ("ALTER TABLE by_pair ADD COLUMN x int", "by_pair by_row", "by_row"),
    ("ALTER TABLE by_pair DROP COLUMN p", "by_pair by_row", "by_row"),
    ("ALTER TABLE by_pair RENAME TO x", "x by_row", ""),
    ("DROP TABLE by_pair CASCADE", "by_row", ""),
    ("CREATE OR REPLACE VIEW seen AS SELECT 1 AS one, 2 AS two", "by_view", "by_view"),
    ("ALTER TYPE typed ADD ATTRIBUTE w int CASCADE", "by_type", ""),
    ("ALTER TYPE typed RENAME ATTRIBUTE id TO x CASCADE", "by_type", ""),
    ("DROP TYPE typed CASCADE", "", ""),
    ("ALTER TYPE typed ALTER ATTRIBUTE id TYPE bigint CASCADE", "by_type", ""),
    ("ALTER SCHEMA other RENAME TO x", "by_schema", ""),
    ("DROP SCHEMA other CASCADE", "by_schema", ""),
    ("DROP EXTENSION hstore CASCADE", "by_extension", ""),
    ("ALTER INDEX by_low DEPENDS ON EXTENSION hstore; DROP EXTENSION hstore CASCADE",
     "by_index by_extension", ""),
    ("CREATE OR REPLACE FUNCTION whole(by_whole) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2'",
     "by_whole by_whole_too", ""),
    ("ALTER TABLE by_whole ADD COLUMN x int", "by_whole by_whole_too", ""),
    ('DROP COLLATION "own" CASCADE', "by_collation", ""),
    ('ALTER COLLATION "own" RENAME TO x', "by_collation", ""),
    ("ALTER TEXT SEARCH DICTIONARY stems (language = 'german')", "by_generated", ""),
    ("ALTER TYPE span RENAME TO x", "by_span", ""),
    ("CREATE OR REPLACE FUNCTION distance(int, int) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 1.0'",
     "by_span", ""),
    ("CREATE OR REPLACE FUNCTION positive(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 9'",
     "by_check by_small", ""),
    ("ALTER FUNCTION positive(int) RENAME TO x", "by_check by_small", ""),
    ("ALTER FUNCTION positive(int) SET SCHEMA other", "by_check by_small", ""),
    ("ALTER FUNCTION positive(int) DEPENDS ON EXTENSION plpgsql", "by_check by_small", ""),
    ("DROP FUNCTION positive(int) CASCADE", "by_check by_small", ""),
    ("CREATE OR REPLACE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'",
     "by_index", ""),
    ("DROP FUNCTION low(text) CASCADE", "by_index", ""),
    ("CREATE OR REPLACE FUNCTION same(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'",
     "by_index", ""),
    ("ALTER OPERATOR ==== (int, int) SET (RESTRICT = NONE)", "by_index", ""),
    ("CREATE OR REPLACE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 3'",
     "by_generated by_key by_part", ""),
    ("CREATE OR REPLACE FUNCTION called(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 + 2",
     "by_call", ""),
    ("CREATE OR REPLACE FUNCTION choose() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 8'", "", ""),
    ("DROP FUNCTION choose() CASCADE", "by_mood", ""),
    ("DROP TEXT SEARCH CONFIGURATION words CASCADE", "by_generated", ""),
    ("ALTER TABLE by_index ADD COLUMN x drawn", "by_index", "by_index"),
    ("ALTER TABLE by_index ADD COLUMN x drawn_and_checked", "by_index", "by_index"),
    ("ALTER TABLE by_index ADD COLUMN x seven", "by_index", ""),
    ("ALTER TABLE by_index ADD COLUMN x mood DEFAULT 'sad'", "by_index", ""),
    ("ALTER TEXT SEARCH CONFIGURATION words DROP MAPPING FOR email", "by_generated", ""),
    ("CREATE STATISTICS s ON id, v FROM by_check", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "changed", "with_rows"), CHANGES, ids=[c[0][:50] for c in CHANGES])
def test_the_tables_that_rely_on_it_have_changed(
    connection: psycopg.Connection[Any], statement: str, changed: str, with_rows: str
) -> None:
    ddl(connection, statement)
    assert names(connection, set(changes(connection))) == set(changed.split())
    assert sent(connection) == set(with_rows.split())
    for table in changed.split():
        assert captured_in(connection, f"INSERT INTO {table} SELECT FROM {table} WHERE false") == []


@pytest.mark.parametrize(
    ("statement", "number_of_tables"),
    [
        (
            "CREATE OR REPLACE FUNCTION positive(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true'",
            2,
        ),
        ("CREATE OR REPLACE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'", 1),
    ],
)
def test_nobody_is_waited_for_where_postgresql_does_not(
    app: Pair, connection: psycopg.Connection[Any], statement: str, number_of_tables: int
) -> None:
    with app.connect() as writer:
        writer.execute("LOCK by_check, by_small, by_index IN ROW EXCLUSIVE MODE")
        connection.execute("SET LOCAL lock_timeout = '2s'")
        ddl(connection, statement)
    assert len(changes(connection)) == number_of_tables


def test_readers_of_a_domain_are_not_waited_for(app: Pair, connection: psycopg.Connection[Any]) -> None:
    with app.connect() as reader:
        reader.execute("SELECT * FROM by_small")
        connection.execute("SET LOCAL lock_timeout = '2s'")
        ddl(connection, "ALTER DOMAIN small ADD CHECK (VALUE < 100)")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("DROP TABLE by_mood, by_array; ALTER TABLE by_pair DROP p CASCADE; DROP TYPE pair; "
         "DROP FUNCTION label; DROP TYPE mood", "by_pair by_row"),
                ("ALTER TABLE by_row DROP r; DROP TABLE by_pair", "by_row"),
        ("ALTER TABLE by_small DROP s; DROP DOMAIN smaller, small", "by_small"),
        ("DROP TABLE by_felt, by_list; DROP DOMAIN felt; DROP TYPE grade", ""),
        ("ALTER TABLE by_part DROP s; DROP DOMAIN minor", "by_part"),
        ("DROP TABLE by_extension; DROP EXTENSION hstore", ""),
        ("DROP TABLE by_schema; DROP TABLE IF EXISTS mood", "by_array by_mood"),
    ],
)  # fmt: skip
def test_types_of_psp_are_not_in_the_way_of_one_text(
    connection: psycopg.Connection[Any], text: str, changed: str
) -> None:
    ddl(connection, text)
    assert names(connection, set(changes(connection))) == set(changed.split())
    assert sent(connection) <= {"by_row"}


@pytest.mark.parametrize(
    ("statement", "held"),
    [
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", MOODY),
        ("ALTER TYPE mood ADD VALUE 'glad'", ""),
        ("ALTER DOMAIN small DROP NOT NULL", "by_small"),
        ("CREATE OR REPLACE FUNCTION called(int) RETURNS int RETURN 1", "by_call"),
        ("CREATE OR REPLACE FUNCTION choose() RETURNS int RETURN 1", ""),
    ],
)
def test_their_writers_at_other_servers_wait(
    connection: psycopg.Connection[Any], statement: str, held: str
) -> None:
    tables = one(connection, "SELECT psp.tables_to_hold(%s, %s)", statement, APPLICATION)
    assert names(connection, set(tables)) == set(held.split())


def test_a_dropped_type_takes_its_columns_along(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["by_mood"]
    ddl(connection, "DROP TYPE mood CASCADE")
    assert captured_in(connection, "UPDATE by_mood SET v = 3 WHERE id = 1") == [(number, "i")]
    assert one(connection, "SELECT guards FROM psp.tables WHERE table_id = %s", number) == []
    assert one(connection, "SELECT to_regtype(%s)", f"psp.apply_values_{number}") is None


@pytest.mark.parametrize("dropped", ["felt", "grade"])
def test_a_dropped_type_that_takes_a_key_along_does_not_commit(
    connection: psycopg.Connection[Any], dropped: str
) -> None:
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute("SELECT psp.ddl(%s)", [f"DROP TYPE {dropped} CASCADE"])
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="no primary key"):
        connection.commit()


def test_new_labels_are_known_at_the_next_statement(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "ALTER TYPE mood ADD VALUE 'glad' BEFORE 'calm'",
        "ALTER TYPE mood RENAME VALUE 'glad' TO 'x'",
    )
    assert sent(connection) == set(MOODY.split())


def test_keys_that_have_a_label(app: Pair) -> None:
    """The old keys are deleted before the statement. That needs the daemon, which there is none here."""
    with app.connect() as connection:
        statement = "ALTER TYPE grade RENAME VALUE 'a' TO 'x'"
        connection.execute("SELECT psp.capture_old_keys(%s, %s)", [statement, APPLICATION])
        captured = connection.execute("SELECT table_id, op::text FROM psp.write_set").fetchall()
        ids = table_ids(connection)
        assert sorted(captured) == sorted([(ids["by_felt"], "d"), (ids["by_list"], "d")])
        connection.rollback()


REFUSED = [
    (
        "CREATE OR REPLACE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 3'",
        "would get other keys",
    ),
    ("DROP TYPE psp.apply_values_1", "psp"),
]


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_refused(connection: psycopg.Connection[Any], statement: str, message: str) -> None:
    connection.execute("INSERT INTO by_key VALUES (1)")
    with pytest.raises(psycopg.Error, match=message):
        ddl(connection, statement)
