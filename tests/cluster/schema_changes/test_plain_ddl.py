"""Ordinary DDL by ordinary drivers: the same statement runs at every SP."""

import subprocess
from functools import partial
from typing import LiteralString

import psycopg
import pytest
import sqlalchemy
from psp.cluster.local import LocalCluster, SpNode
from psp.paths import postgres_program

from tests.cluster.schema_changes.statements import (
    changes,
    check_a_second_change_waits,
    exists,
    wait_for_relation,
)
from tests.cluster.support import (
    CONNECTION_FAILURE,
    SERIALIZATION_FAILURE,
    as_admin,
    connect,
    execute,
    paused,
    raises,
    retry,
    wait_for_row,
)

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL);
CREATE UNLOGGED TABLE aside (id int);
CREATE SCHEMA "Öffentlich";
"""


def texts(sp: SpNode, since: int) -> list[str]:
    """The statements of the changes after this one."""
    query: LiteralString = (
        "SELECT statement FROM psp.schema_history WHERE change > %s ORDER BY change, statement_n"
    )
    return [statement for (statement,) in execute(as_admin(sp), query, [since])]


def wait_for_change(sp: SpNode, number: int) -> None:
    """Waits until a change has arrived."""
    wait_for_row(as_admin(sp), "SELECT 1 FROM psp.schema_history WHERE change >= %s", [number])


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_a_table_from_its_beginning_to_its_end(pair: LocalCluster, prepare: bool) -> None:
    north, south = pair.sps
    statements: list[LiteralString] = [
        "CREATE TABLE fresh (id serial PRIMARY KEY, name text UNIQUE)",
        "INSERT INTO fresh (name) VALUES ('one')",
        "ALTER TABLE fresh ADD COLUMN price numeric NOT NULL DEFAULT 0",
        "UPDATE fresh SET price = 7",
        "CREATE INDEX ON fresh (price)",
        "ALTER TABLE fresh RENAME COLUMN name TO label",
        "COMMENT ON TABLE fresh IS 'it; is -- new'",
    ]
    with connect(north, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement, prepare=prepare)
    wait_for_change(south, changes(north))
    assert execute(south, "SELECT id > 0, label, price FROM fresh") == [(True, "one", 7)]
    assert execute(south, "SELECT obj_description('fresh'::regclass)") == [("it; is -- new",)]
    with connect(south, autocommit=True) as connection:
        connection.execute("DROP TABLE fresh", prepare=prepare)
    wait_for_row(north, "SELECT 1 WHERE to_regclass('fresh') IS NULL")


def test_an_unlogged_table_is_told_and_may_become_one_of_all(pair: LocalCluster) -> None:
    """A library that elects its leader in one elects one for each server."""
    north, south = pair.sps
    told: list[str] = []
    with connect(north, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute("CREATE UNLOGGED TABLE leader (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO leader VALUES (1, 'north')")
        connection.execute("ALTER TABLE leader SET LOGGED")
    assert [text for text in told if "rows of its own in public.leader" in text] == told
    assert told
    wait_for_row(south, "SELECT 1 FROM leader WHERE name = 'north'")
    with raises("23505", SERIALIZATION_FAILURE):
        execute(south, "INSERT INTO leader VALUES (1, 'south')")


def test_several_in_a_transaction_are_one_change(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north) as connection:
        connection.execute("CREATE TABLE pets (id int PRIMARY KEY)")
        connection.execute("ALTER TABLE pets ADD COLUMN name text")
        connection.execute("CREATE VIEW names AS SELECT name FROM pets")
        assert not exists(south, "pets")
    assert changes(north) == before + 1
    wait_for_relation(south, "names")


def test_messages_with_several_statements(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north, autocommit=True) as connection:
        connection.execute(
            """
            -- makes; all this
            CREATE TABLE ä (id int PRIMARY KEY); /* ; */ CREATE TEMP TABLE own (id int);
            CREATE FUNCTION says() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RETURN 'ß;'; END; $f$;
            SELECT says(); SELECT 'x;' AS y;
            COMMENT ON TABLE ä IS '€'; DROP TABLE own;
            CREATE VIEW two AS SELECT 2 -- two
            """
        )
        connection.execute("CREATE VIEW three AS SELECT 3; CREATE VIEW four AS SELECT 4;")
        connection.execute(
            "BEGIN; CREATE VIEW five AS SELECT 5; COMMIT; BEGIN; CREATE VIEW six AS SELECT 6; COMMIT"
        )
    assert texts(north, before) == [
        "CREATE TABLE ä (id int PRIMARY KEY)",
        "CREATE FUNCTION says() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RETURN 'ß;'; END; $f$",
        "COMMENT ON TABLE ä IS '€'",
        "CREATE VIEW two AS SELECT 2",
        "CREATE VIEW three AS SELECT 3",
        "CREATE VIEW four AS SELECT 4",
        "CREATE VIEW five AS SELECT 5",
        "CREATE VIEW six AS SELECT 6",
    ]
    assert changes(north) == before + 4
    wait_for_relation(south, "six")
    assert execute(south, "SELECT says(), obj_description('ä'::regclass)") == [("ß;", "€")]


def test_a_block_with_rows_and_statements(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north) as connection:
        connection.execute("INSERT INTO item VALUES (100, 'before')")
        connection.execute(
            """
            CREATE VIEW of_items AS SELECT name FROM item;
            DO $$ BEGIN
                IF NOT EXISTS (SELECT FROM pg_tables WHERE tablename = 'box') THEN
                    CREATE TABLE box (id int PRIMARY KEY, item int REFERENCES item);
                END IF;
                INSERT INTO box SELECT id, id FROM item WHERE id = 100;
                ALTER TABLE box ADD COLUMN label text DEFAULT 'a;b';
                UPDATE box SET label = 'c' WHERE id = 100;
                EXECUTE 'CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN 7; END; $f$';
            END $$;
            DROP VIEW of_items
            """
        )
    assert texts(north, before) == [
        "CREATE VIEW of_items AS SELECT name FROM item",
        "CREATE TABLE box (id int PRIMARY KEY, item int REFERENCES item)",
        "ALTER TABLE box ADD COLUMN label text DEFAULT 'a;b'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN 7; END; $f$",
        "DROP VIEW of_items",
    ]
    assert changes(north) == before + 1
    wait_for_change(south, changes(north))
    assert execute(south, "SELECT item, label FROM box") == [(100, "c")]


def test_a_function_that_reads_rows(pair: LocalCluster) -> None:
    """Its statements are those of the server where it runs: one that joins runs them before it has rows."""
    north, south = pair.sps
    before = changes(north)
    with connect(north) as connection:
        connection.execute(
            """
            CREATE TABLE tenant (name text PRIMARY KEY);
            CREATE TABLE entry (tenant text, n int, PRIMARY KEY (tenant, n)) PARTITION BY LIST (tenant);
            CREATE FUNCTION makes_partitions() RETURNS int LANGUAGE plpgsql AS $$
            DECLARE
                missing text;
                made    int := 0;
            BEGIN
                FOR missing IN SELECT name FROM tenant WHERE to_regclass('entry_' || name) IS NULL LOOP
                    EXECUTE format('CREATE TABLE entry_%s PARTITION OF entry FOR VALUES IN (%L)',
                                   missing, missing || ';');
                    INSERT INTO entry VALUES (missing || ';', 1);
                    made := made + 1;
                END LOOP;
                RETURN made;
            END $$;
            """
        )
    execute(south, "SELECT 1")
    before = changes(north)
    with connect(north) as connection:
        connection.execute("INSERT INTO tenant VALUES ('a'), ('b')")
        connection.execute("SELECT makes_partitions(); CREATE VIEW of_a AS TABLE entry_a")
        connection.execute("INSERT INTO tenant VALUES ('c')")
        connection.execute("SELECT psp.ddl('SELECT makes_partitions()')")
        connection.execute("INSERT INTO tenant VALUES ('d')")
        connection.execute("SELECT psp.ddl('DO $$BEGIN PERFORM makes_partitions(); END$$')")
    assert texts(north, before) == [
        "CREATE TABLE entry_a PARTITION OF entry FOR VALUES IN ('a;')",
        "CREATE TABLE entry_b PARTITION OF entry FOR VALUES IN ('b;')",
        "CREATE VIEW of_a AS TABLE entry_a",
        "CREATE TABLE entry_c PARTITION OF entry FOR VALUES IN ('c;')",
        "CREATE TABLE entry_d PARTITION OF entry FOR VALUES IN ('d;')",
    ]
    wait_for_change(south, changes(north))
    assert execute(south, "SELECT tenant FROM entry ORDER BY 1") == [("a;",), ("b;",), ("c;",), ("d;",)]
    execute(south, "DROP VIEW of_a; DROP TABLE entry, tenant; DROP FUNCTION makes_partitions()")


REFUSED_MESSAGES: list[LiteralString] = [
    "DO $$ BEGIN EXECUTE 'CREATE VIEW refused AS SELECT 1; CREATE VIEW refused_too AS SELECT 2'; END $$",
    "CREATE VIEW refused AS SELECT 1; SELECT nothing.here",
    "CREATE VIEW refused AS SELECT 1; ROLLBACK; CREATE VIEW refused AS SELECT nothing.here",
]


@pytest.mark.parametrize("message", REFUSED_MESSAGES)
def test_messages_that_change_nothing(pair: LocalCluster, message: LiteralString) -> None:
    north = pair.sps[0]
    before = changes(north)
    with connect(north, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(message)
    assert caught.value.sqlstate in ("0A000", "42P01")
    assert (changes(north), exists(north, "refused")) == (before, False)


def test_a_failure_half_way_leaves_nothing(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north) as connection, raises("42P07"):
        connection.execute("CREATE TABLE half (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE item (id int PRIMARY KEY)")
    with connect(north) as connection:
        connection.execute("CREATE VIEW undone AS SELECT 1")
        connection.rollback()
    execute(north, "CREATE VIEW half AS SELECT 1")
    wait_for_relation(south, "half")
    assert texts(south, before) == ["CREATE VIEW half AS SELECT 1"]


def test_select_into(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north) as connection:
        connection.execute("INSERT INTO item VALUES (70, 'x')")
        connection.execute("SELECT name INTO TEMP names FROM item")
        connection.execute(
            "/* ä */ WITH one AS (SELECT id, random() AS v FROM item WHERE id = 70)\n"
            'SELECT /* into "ö" */ * INTO /* a */ TABLE "Öffentlich".made -- b\nFROM one;'
        )
        connection.execute('ALTER TABLE "Öffentlich".made ADD PRIMARY KEY (id)')
        connection.execute("SELECT 1 AS id INTO /* unlogged */ keyed; ALTER TABLE keyed ADD PRIMARY KEY (id)")
        connection.execute("(SELECT 'into unlogged' AS name INTO LOCAL TEMP other)")
        connection.execute("SELECT 'into temp' AS name INTO UNLOGGED aside_too")
    wait_for_change(south, before + 1)
    assert texts(south, before) == [
        'CREATE TABLE "Öffentlich".made AS WITH one AS (SELECT id, random() AS v FROM item WHERE id = 70)\n'
        'SELECT /* into "ö" */ *  -- b\nFROM one',
        'ALTER TABLE "Öffentlich".made ADD PRIMARY KEY (id)',
        "CREATE TABLE keyed AS SELECT 1 AS id ",
        "ALTER TABLE keyed ADD PRIMARY KEY (id)",
        "CREATE UNLOGGED TABLE aside_too AS SELECT 'into temp' AS name ",
    ]
    query: LiteralString = 'SELECT m.id, m.v, k.id FROM "Öffentlich".made m, keyed k'
    assert execute(north, query) == execute(south, query)
    with raises("0A000"), connect(north) as connection:
        connection.execute("SELECT %s::int AS id INTO UNLOGGED another", [1])
    execute(south, 'DROP TABLE "Öffentlich".made, keyed, aside_too; DELETE FROM item WHERE id = 70')


def test_names_of_temporary_objects_are_found(pair: LocalCluster) -> None:
    """In the letters of any language, and where a quotation mark is written twice."""
    north, _ = pair.sps
    for name in ('"Über"', '"a""b"'):
        with connect(north) as connection:
            connection.execute(f"CREATE TEMP TABLE {name} AS SELECT 1 AS id".encode())
            with raises("0A000"):
                connection.execute(f"CREATE UNLOGGED TABLE made AS SELECT * FROM {name}".encode())


def test_a_key_whose_name_is_quoted_gets_another_type(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute('CREATE TABLE "ÄÖ""" ("Ü""x" int PRIMARY KEY)')
        connection.execute('INSERT INTO "ÄÖ""" VALUES (1)')
        connection.execute('ALTER TABLE "ÄÖ""" ALTER "Ü""x" TYPE bigint')
        connection.execute('ALTER TABLE "ÄÖ""" RENAME TO plain')
    wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'plain'")
    assert execute(south, "TABLE plain") == [(1,)]
    execute(south, "DROP TABLE plain")


def test_abbreviations_of_time_zones_mean_the_same(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("SET timezone_abbreviations = 'India'")
        connection.execute("ALTER TABLE item ADD COLUMN at timestamptz DEFAULT '2020-01-01 10:00 IST'")
    query: LiteralString = (
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'item'::regclass"
    )
    wait_for_row(south, query)
    assert execute(south, query) == execute(north, query)
    execute(north, "ALTER TABLE item DROP COLUMN at")


def test_a_pipeline(pair: LocalCluster) -> None:
    north, south = pair.sps
    before = changes(north)
    with connect(north, autocommit=True) as connection, connection.pipeline():
        connection.execute("CREATE TABLE piped (id int PRIMARY KEY)")
        connection.execute("CREATE TEMP TABLE own (id int)")
        connection.execute("ALTER TABLE piped ADD COLUMN v int")
    assert texts(north, before) == [
        "CREATE TABLE piped (id int PRIMARY KEY)",
        "ALTER TABLE piped ADD COLUMN v int",
    ]
    wait_for_change(south, changes(north))
    assert execute(south, "SELECT id, v FROM piped") == []


def test_a_second_change_at_one_sp_waits(pair: LocalCluster) -> None:
    north, south = pair.sps
    check_a_second_change_waits(
        north,
        "CREATE VIEW first AS SELECT 1",
        "CREATE VIEW second AS SELECT 2",
    )
    wait_for_relation(south, "second")


def test_of_two_concurrent_changes_one_commits(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        first.execute("CREATE TABLE of_north (id int PRIMARY KEY)")
        second.execute("CREATE TABLE of_south (id int PRIMARY KEY)")
        first.commit()
        with raises(SERIALIZATION_FAILURE):
            second.commit()
    wait_for_relation(south, "of_north")
    retry(lambda: execute(south, "CREATE TABLE of_south (id int PRIMARY KEY)"))
    wait_for_relation(north, "of_south")


def test_sqlalchemy_makes_and_drops_its_tables(pair: LocalCluster) -> None:
    north, south = pair.sps
    metadata = sqlalchemy.MetaData()
    author = sqlalchemy.Table(
        "author",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("name", sqlalchemy.String(50), unique=True, nullable=False),
        sqlalchemy.Column("mood", sqlalchemy.Enum("sad", "glad", name="mood")),
    )
    sqlalchemy.Table(
        "book",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("author_id", sqlalchemy.ForeignKey("author.id"), index=True),
    )
    engines = [
        sqlalchemy.create_engine("postgresql+psycopg://", creator=partial(connect, sp)) for sp in pair.sps
    ]
    metadata.create_all(engines[0])
    wait_for_change(south, changes(north))
    with engines[1].begin() as connection:
        connection.execute(sqlalchemy.insert(author).values(name="one", mood="glad"))
    wait_for_row(north, "SELECT 1 FROM author WHERE mood = 'glad'")
    metadata.drop_all(engines[1])
    wait_for_change(north, changes(south))
    assert not exists(north, "author")
    for engine in engines:
        engine.dispose()


def test_psql_runs_a_file(pair: LocalCluster) -> None:
    north, south = pair.sps
    script = """
    \\set ON_ERROR_STOP on
    CREATE TABLE from_file (id int PRIMARY KEY);
    INSERT INTO from_file VALUES (1);
    BEGIN;
    ALTER TABLE from_file ADD COLUMN v int DEFAULT 3;
    CREATE VIEW of_file AS SELECT v FROM from_file;
    COMMIT;
    """
    subprocess.run(
        [str(postgres_program("psql")), "-X", north.dsn, "-f", "-"], input=script, text=True, check=True
    )
    wait_for_relation(south, "of_file")
    assert execute(south, "SELECT v FROM of_file") == [(3,)]


def test_a_migration_tools_transaction(pair: LocalCluster) -> None:
    """Statements, rows, and the tool's own table of versions, in one transaction."""
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("CREATE TABLE migration (version text PRIMARY KEY)")
        connection.execute("INSERT INTO migration VALUES ('1')")
        connection.execute("ALTER TABLE item ADD COLUMN length int")
        connection.execute("INSERT INTO item (id, name) VALUES (7001, 'seven')")
        connection.execute("UPDATE item SET length = length(name)")
        connection.execute("ALTER TABLE item ALTER length SET NOT NULL")
        connection.execute("UPDATE migration SET version = '2'")
    wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'migration'")
    query: LiteralString = "SELECT length, version FROM item, migration WHERE id = 7001"
    assert execute(north, query) == execute(south, query) == [(5, "2")]
    with connect(south) as connection:
        connection.execute("DELETE FROM item WHERE id = 7001")
        connection.execute("ALTER TABLE item DROP COLUMN length; DROP TABLE migration")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('migration') IS NULL")


def test_an_index_that_was_made_here_only_is_dropped_here_only(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX CONCURRENTLY only_north ON item (name)")
    with raises("0A000"):
        execute(north, "DROP INDEX only_north")
    with raises("0A000"):
        execute(north, "ALTER INDEX only_north RENAME TO other_name")
    execute(north, "CREATE VIEW after_index AS SELECT 1 AS one")
    wait_for_relation(south, "after_index")
    execute(north, "DROP INDEX CONCURRENTLY only_north")
    assert not exists(north, "only_north")


def test_without_a_daemon(pair: LocalCluster) -> None:
    north = pair.sps[0]
    pair.kill("north", "daemon")
    for message in ("CREATE VIEW unheard AS SELECT 1", "CREATE VIEW unheard AS SELECT 1; SELECT 1"):
        with raises(CONNECTION_FAILURE):
            execute(north, message)
    assert not exists(north, "unheard")
    execute(north, "CREATE TEMP TABLE own (id int); DROP TABLE own; CREATE TEMP TABLE own (id int)")
    pair.resume()
    retry(lambda: execute(north, "CREATE VIEW heard AS SELECT 1; SELECT 1"), (CONNECTION_FAILURE,))


def test_a_local_index_stays_local(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX local_index ON item (name)")
        connection.execute("RESET psp.schema_changes")
        connection.execute("CREATE INDEX index_of_both ON item (name)")
        connection.execute("CREATE INDEX CONCURRENTLY local_too ON item (name)")
        connection.execute("DROP INDEX CONCURRENTLY local_too")
    wait_for_relation(south, "index_of_both")
    assert exists(north, "local_index")
    assert not exists(south, "local_index")
    execute(north, "SET psp.schema_changes = local; DROP INDEX local_index")


def test_a_server_that_was_away(pair: LocalCluster) -> None:
    north, south = pair.sps
    with paused(pair, "south"):
        execute(north, "CREATE TABLE meanwhile (id int PRIMARY KEY)")
        execute(north, "INSERT INTO meanwhile VALUES (1)")
        execute(north, "ALTER TABLE meanwhile ADD COLUMN v int DEFAULT 2")
        execute(north, "INSERT INTO meanwhile VALUES (2, 3)")
    wait_for_change(south, changes(north))
    wait_for_row(south, "SELECT 1 FROM meanwhile WHERE id = 2")
    assert execute(south, "SELECT * FROM meanwhile ORDER BY id") == [(1, 2), (2, 3)]
