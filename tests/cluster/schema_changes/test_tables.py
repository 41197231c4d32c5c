"""psp.ddl changes captured tables while clients go on writing: every SP follows, and no row is lost."""

from __future__ import annotations

from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster import growth, status, verify
from psp.cluster.local import LocalCluster, Zone
from psp.paths import server_version
from psp.primary import members

from tests.cluster.schema_changes.statements import (
    allow_ddl,
    changes,
    ddl,
    wait_for_relation,
)
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    connect,
    execute,
    forge,
    paused,
    raises,
    retry,
    settle,
    wait_for_row,
    wait_streaming,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE item (id serial PRIMARY KEY, v int, s text);
CREATE TABLE other (id int PRIMARY KEY, v int);
CREATE TABLE event (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
INSERT INTO parent VALUES (1, 'one');
"""


def drained(cluster: LocalCluster) -> None:
    wait_streaming(cluster)
    verify.wait_drained(cluster)


def rows(cluster: LocalCluster, query: LiteralString) -> list[Any]:
    """What both SPs say, once nothing is on its way. Without ORDER BY they may say it in different orders."""
    drained(cluster)
    north, south = (execute(sp, query) for sp in cluster.sps)
    assert sorted(north, key=repr) == sorted(south, key=repr)
    return north


def test_a_table_comes_is_written_everywhere_and_goes(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE TABLE fresh (id serial PRIMARY KEY, name text UNIQUE, parent int REFERENCES parent)")
    wait_for_relation(south, "fresh")
    for sp in pair.sps:
        execute(sp, "INSERT INTO fresh (name, parent) VALUES (%s, 1)", [sp.name])
    assert len(rows(pair, "SELECT * FROM fresh ORDER BY id")) == 2
    with raises("23505"):
        execute(south, "INSERT INTO fresh (name) VALUES ('north')")
    ddl(south, "DROP TABLE fresh")
    ddl(south, "CREATE TABLE fresh (id int PRIMARY KEY)")
    drained(pair)
    execute(north, "INSERT INTO fresh VALUES (7)")
    assert rows(pair, "SELECT * FROM fresh") == [(7,)]
    ddl(north, "DROP TABLE fresh")


def test_columns_of_a_table_with_rows(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(north, "INSERT INTO item (id, v, s) VALUES (101, 1, 'a'), (102, 2, 'b')")
    drained(pair)
    ddl(
        north,
        "ALTER TABLE item ADD COLUMN w int NOT NULL DEFAULT 7, DROP COLUMN s",
        "ALTER TABLE item RENAME v TO u",
    )
    wait_for_row(south, "SELECT 1 FROM pg_attribute WHERE attrelid = 'item'::regclass AND attname = 'w'")
    execute(south, "UPDATE item SET w = 8 WHERE id = 102")
    assert rows(pair, "SELECT id, u, w FROM item WHERE id > 100 ORDER BY id") == [(101, 1, 7), (102, 2, 8)]
    ddl(south, "ALTER TABLE item ADD COLUMN s text", "ALTER TABLE item RENAME u TO v")
    drained(pair)


def test_verify_sees_a_difference_in_a_row_of_an_older_definition(pair: LocalCluster) -> None:
    north = pair.sps[0]
    execute(north, "INSERT INTO item (id, v) VALUES (151, 151)")
    ddl(north, "ALTER TABLE item ADD COLUMN late int DEFAULT 3")
    settle(pair)
    with psycopg.connect(north.admin_dsn) as admin:
        forge(admin, "UPDATE item SET late = 4 WHERE id = 151")
        assert verify.verify(pair).differing() == ["public.item"]
        forge(admin, "UPDATE item SET late = 3 WHERE id = 151")
    ddl(north, "ALTER TABLE item DROP COLUMN late")


def test_status_tells_the_version_of_the_catalog(pair: LocalCluster) -> None:
    ddl(pair.sps[0], "COMMENT ON TABLE item IS 'counted'")
    drained(pair)
    told = status.gather(pair)
    versions = {told["primary"]["catalog_version"], *(sp["catalog_version"] for sp in told["sps"])}
    assert versions == {changes(pair.sps[0]) + 1}
    assert f"catalog version {versions.pop()}" in str(members.show(members.gather(pair.primary_dsn)).title)


def test_two_tables_exchange_their_names(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(
        north, "CREATE TABLE old (id int PRIMARY KEY, v int)", "CREATE TABLE new (id int PRIMARY KEY, t text)"
    )
    execute(north, "INSERT INTO old VALUES (1, 1)")
    execute(north, "INSERT INTO new VALUES (2, 'two')")
    drained(pair)
    ddl(
        north,
        "ALTER TABLE old RENAME TO gone; ALTER TABLE new RENAME TO old; ALTER TABLE gone RENAME TO new",
    )
    wait_for_row(south, "SELECT 1 FROM pg_attribute WHERE attrelid = 'old'::regclass AND attname = 't'")
    execute(south, "INSERT INTO old VALUES (3, 'three')")
    assert rows(pair, "SELECT * FROM old ORDER BY id") == [(2, "two"), (3, "three")]
    assert rows(pair, "SELECT * FROM new") == [(1, 1)]


def test_a_writer_under_the_older_definition_tries_again(pair: LocalCluster) -> None:
    """Its rows are not of the new form. A writer of another table is not disturbed."""
    north, south = pair.sps
    with connect(south) as writer, connect(south) as bystander:
        with paused(pair, "south"):  # south hears nothing of the change
            writer.execute("INSERT INTO parent VALUES (201, 'late')")
            bystander.execute("INSERT INTO other VALUES (201, 1)")
            ddl(north, "ALTER TABLE parent ADD COLUMN note text DEFAULT 'none'")
        bystander.commit()
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            writer.commit()
    retry(lambda: execute(south, "INSERT INTO parent VALUES (201, 'late')"), (SERIALIZATION_FAILURE, "08006"))
    assert rows(pair, "SELECT note FROM parent WHERE id = 201") == [("none",)]


# Asks a daemon that is stopped.
gives_up = pytest.mark.skipif(
    server_version() > 15,
    reason="dblink of PostgreSQL 16 and later waits for a stopped daemon (docs/errors.md)",
)


@gives_up
def test_a_constraint_holds_for_rows_that_had_not_arrived(pair: LocalCluster) -> None:
    """The change loses: it was checked without the row of the other server."""
    north, south = pair.sps
    with connect(north) as migration:
        with paused(pair, "north"):
            execute(south, "INSERT INTO other VALUES (301, -1)")
            migration.execute("SELECT psp.ddl('ALTER TABLE other ADD CONSTRAINT positive CHECK (v > 0)')")
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            migration.commit()
    drained(pair)
    with raises("23514"):
        ddl(north, "ALTER TABLE other ADD CONSTRAINT positive CHECK (v > 0)")
    execute(south, "DELETE FROM other WHERE id = 301")
    retry(lambda: ddl(north, "ALTER TABLE other ADD CONSTRAINT positive CHECK (v > 0)"))
    drained(pair)
    with raises("23514"):
        execute(south, "INSERT INTO other VALUES (302, -1)")


def test_a_constraint_is_validated_beside_writers(pair: LocalCluster) -> None:
    """Rows that have not arrived, and rows of who writes meanwhile, were written under the constraint."""
    north, south = pair.sps
    execute(north, "ALTER TABLE other ADD CONSTRAINT small CHECK (v < 1000) NOT VALID")
    wait_for_row(south, "SELECT 1 FROM pg_constraint WHERE conname = 'small'")
    with connect(south) as writer, connect(north) as beside, connect(north) as validating:
        writer.execute("INSERT INTO other VALUES (801, 1)")
        beside.execute("INSERT INTO other VALUES (802, 1)")
        with paused(pair, "north"):
            execute(south, "INSERT INTO other VALUES (803, 1)")
            validating.execute("ALTER TABLE other VALIDATE CONSTRAINT small")
        validating.commit()
        beside.commit()
        wait_for_row(south, "SELECT 1 FROM pg_constraint WHERE conname = 'small' AND convalidated")
        writer.commit()
    assert rows(pair, "SELECT count(*) FROM other WHERE id IN (801, 802, 803)") == [(3,)]
    execute(south, "DELETE FROM other WHERE id IN (801, 802, 803)")
    execute(south, "ALTER TABLE other DROP CONSTRAINT small")
    drained(pair)


def test_rows_and_statements_in_one_transaction(pair: LocalCluster) -> None:
    """As migration tools do it: add a column, fill it, add a constraint, note the version."""
    north, south = pair.sps
    execute(south, "INSERT INTO other VALUES (501, 10), (502, 20)")
    drained(pair)
    with connect(north) as migration:
        migration.execute("INSERT INTO other VALUES (503, 30)")
        migration.execute("UPDATE other SET v = v + 1 WHERE id = 503")
        migration.execute("SELECT psp.ddl('ALTER TABLE other ADD COLUMN twice int')")
        migration.execute("UPDATE other SET twice = 2 * v")
        migration.execute("UPDATE other SET v = 5 WHERE id = 502")
        migration.execute("SELECT psp.ddl('ALTER TABLE other ALTER twice SET NOT NULL')")
        migration.execute("SELECT psp.ddl('CREATE TABLE version (number int PRIMARY KEY, name text UNIQUE)')")
        migration.execute("INSERT INTO version VALUES (1, 'first')")
        migration.execute("DELETE FROM other WHERE id = 501")
        migration.execute("SELECT psp.ddl('ALTER TABLE version ADD COLUMN note text')")
        migration.execute("UPDATE version SET note = 'done'")
    assert rows(pair, "SELECT id, v, twice FROM other WHERE id > 500 AND id < 600 ORDER BY id") == [
        (502, 5, 40), (503, 31, 62)
    ]  # fmt: skip
    assert rows(pair, "SELECT * FROM version") == [(1, "first", "done")]
    with connect(south) as migration:
        migration.execute("UPDATE version SET number = 2")
        migration.execute("SELECT psp.ddl('ALTER TABLE other DROP COLUMN twice')")
        migration.rollback()
        migration.execute("UPDATE version SET number = 3")
        migration.execute("SELECT psp.ddl('ALTER TABLE other DROP COLUMN twice')")
        migration.execute("SELECT psp.ddl('DROP TABLE version')")
    drained(pair)
    assert not execute(north, "SELECT 1 FROM pg_class WHERE relname = 'version'")


def test_rows_of_a_table_that_is_written_again(pair: LocalCluster) -> None:
    """All servers have the values of the one where the statement ran."""
    north, south = pair.sps
    ddl(
        south,
        "CREATE TABLE made AS SELECT n AS id, random() AS v FROM generate_series(1, 20) n;"
        "ALTER TABLE made ADD PRIMARY KEY (id)",
    )
    made = rows(pair, "SELECT * FROM made ORDER BY id")
    assert len(made) == 20
    ddl(
        north,
        "ALTER TABLE made ADD at timestamptz DEFAULT clock_timestamp(), ADD u uuid DEFAULT gen_random_uuid()",
    )
    rows(pair, "SELECT * FROM made ORDER BY id")
    execute(south, "UPDATE made SET v = 1 WHERE id = 7")
    ddl(south, "ALTER TABLE made ALTER id TYPE bigint, ALTER v TYPE numeric")
    drained(pair)
    execute(north, "INSERT INTO made (id) VALUES (5000000000)")
    ddl(north, "ALTER TABLE made DROP CONSTRAINT made_pkey, ADD PRIMARY KEY (u)")
    assert len(rows(pair, "SELECT * FROM made ORDER BY id")) == 21
    ddl(north, "DROP TABLE made")
    drained(pair)


def test_a_cast_of_a_key_to_which_rows_refer(pair: LocalCluster) -> None:
    """As Django makes a key bigint. The rows stay at the other servers, where the children are."""
    north, south = pair.sps
    execute(north, "CREATE TABLE shop (id int PRIMARY KEY)")
    execute(north, "CREATE TABLE sale (id int PRIMARY KEY, shop int REFERENCES shop)")
    drained(pair)
    execute(south, "INSERT INTO shop SELECT generate_series(1, 20)")
    execute(south, "INSERT INTO sale SELECT n, n FROM generate_series(1, 10) n")
    drained(pair)
    with connect(north) as migration:
        migration.execute('ALTER TABLE "shop" ALTER COLUMN "id" TYPE bigint USING "id"::bigint')
        migration.execute('ALTER TABLE "sale" ALTER COLUMN "shop" TYPE bigint USING "shop"::bigint')
    drained(pair)
    execute(south, "INSERT INTO shop VALUES (5000000000)")
    execute(south, "INSERT INTO sale VALUES (11, 5000000000)")
    execute(south, "DELETE FROM shop WHERE id = 20")
    assert len(rows(pair, "SELECT * FROM shop")) == 20
    assert len(rows(pair, "SELECT * FROM sale")) == 11
    ddl(north, "DROP TABLE sale, shop")
    drained(pair)


def test_a_local_writer_comes_before_a_change_of_the_key(pair: LocalCluster) -> None:
    """The statement waits for its lock: the keys that it replaces are those that are there then."""
    north = pair.sps[0]
    execute(north, "CREATE TABLE kid (id int PRIMARY KEY, x int)")
    execute(north, "INSERT INTO kid VALUES (1, 1), (2, 2)")
    for change in (
        "ALTER TABLE kid ALTER id TYPE bigint",
        "SELECT psp.ddl('ALTER TABLE kid DROP CONSTRAINT kid_pkey, ADD PRIMARY KEY (id, x)')",
    ):
        with connect(north) as writer, connect(north) as changer:
            writer.execute("INSERT INTO kid SELECT max(id) + 1, 1 FROM kid")
            with running(partial(changer.execute, change.encode())):
                wait_for_row(north, "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'kid'::regclass")
                writer.commit()
            changer.commit()
        settle(pair)
    execute(north, "DROP TABLE kid")


def test_a_new_unique_index_is_certified(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE UNIQUE INDEX item_v ON item (v)")
    drained(pair)
    with connect(north) as first, connect(south) as second:
        first.execute("INSERT INTO item (v) VALUES (4711)")
        second.execute("INSERT INTO item (v) VALUES (4711)")
        first.commit()
        with raises(SERIALIZATION_FAILURE):
            second.commit()
    ddl(south, "DROP INDEX item_v")
    drained(pair)


def test_types_of_columns_change(pair: LocalCluster) -> None:
    """Rows whose text has become another one are sent again, and so are rows whose keys have."""
    north, south = pair.sps
    ddl(
        north,
        "CREATE TYPE mood AS ENUM ('sad', 'calm')",
        "CREATE TYPE pair AS (a int, m mood)",
        "CREATE TABLE felt (m mood PRIMARY KEY, p pair, many mood[])",
        "CREATE UNIQUE INDEX felt_p ON felt (p)",
    )
    drained(pair)
    execute(south, "INSERT INTO felt VALUES ('sad', '(1,sad)', '{sad}'), ('calm', '(2,calm)', '{calm}')")
    drained(pair)
    execute(north, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    drained(pair)
    execute(south, "UPDATE felt SET p = '(3,blue)' WHERE m = 'blue'")
    drained(pair)
    execute(south, "ALTER TYPE pair ADD ATTRIBUTE c text")
    drained(pair)
    execute(north, "UPDATE felt SET p.c = 'x' WHERE m = 'calm'")
    execute(north, "ALTER TYPE mood RENAME TO temper")
    assert rows(pair, "SELECT felt::text FROM felt ORDER BY m") == [
        ('(blue,"(3,blue,)",{blue})',),
        ('(calm,"(2,calm,x)",{calm})',),
    ]
    execute(south, "DELETE FROM felt WHERE m = 'blue'")
    assert rows(pair, "SELECT m::text FROM felt") == [("calm",)]
    execute(south, "DROP TYPE pair CASCADE")
    drained(pair)
    execute(north, "INSERT INTO felt VALUES ('blue', '{calm}')")
    assert rows(pair, "SELECT felt::text FROM felt ORDER BY m") == [("(blue,{calm})",), ("(calm,{calm})",)]
    with connect(north) as migration:  # PostgreSQL cannot drop a value
        migration.execute("ALTER TABLE felt ALTER many SET DEFAULT '{calm}'")
        migration.execute("ALTER TYPE temper RENAME TO older")
        migration.execute("CREATE TYPE temper AS ENUM ('calm', 'blue')")
        migration.execute("ALTER TABLE felt ALTER many DROP DEFAULT")
        migration.execute(
            "ALTER TABLE felt ALTER m TYPE temper USING m::text::temper, "
            "ALTER many TYPE temper[] USING many::text[]::temper[]"
        )
        migration.execute("ALTER TABLE felt ALTER many SET DEFAULT '{blue}'")
        migration.execute("DROP TYPE older")
    drained(pair)
    execute(south, "DELETE FROM felt WHERE m = 'blue'")
    execute(south, "INSERT INTO felt VALUES ('blue')")
    assert rows(pair, "SELECT felt::text FROM felt ORDER BY m") == [("(calm,{calm})",), ("(blue,{blue})",)]
    ddl(north, "DROP TABLE felt; DROP TYPE temper")
    drained(pair)


def test_types_of_keys_change_among_rows(pair: LocalCluster) -> None:
    """Before and after a statement the rows of one transaction are of different forms."""
    north, south = pair.sps
    ddl(
        north,
        "CREATE TYPE grade AS ENUM ('a', 'b')",
        "CREATE DOMAIN mark AS grade",
        "CREATE TYPE typed AS (id int, g mark)",
        "CREATE TABLE marked OF typed (PRIMARY KEY (id, g)) PARTITION BY LIST (g)",
        "CREATE TABLE marked_a PARTITION OF marked FOR VALUES IN ('a')",
        "CREATE TABLE marked_b PARTITION OF marked FOR VALUES IN ('b')",
    )
    drained(pair)
    execute(south, "INSERT INTO marked VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    drained(pair)
    with connect(south) as migration:
        migration.execute("INSERT INTO marked VALUES (4, 'a')")
        migration.execute("UPDATE marked SET g = 'a' WHERE id = 2")
        migration.execute("ALTER TYPE grade RENAME VALUE 'a' TO 'x'")
        migration.execute("UPDATE marked SET g = 'b' WHERE id = 1")
        migration.execute("ALTER TYPE typed ALTER ATTRIBUTE id TYPE bigint CASCADE")
        migration.execute("DELETE FROM marked WHERE id = 3")
        migration.execute("ALTER TYPE typed ADD ATTRIBUTE v int CASCADE")
        migration.execute("INSERT INTO marked VALUES (5000000000, 'x', 5)")
    assert rows(pair, "SELECT marked::text FROM marked ORDER BY id") == [
        ("(1,b,)",), ("(2,x,)",), ("(4,x,)",), ("(5000000000,x,5)",)
    ]  # fmt: skip
    execute(north, "UPDATE marked SET v = 1 WHERE id < 3")
    execute(north, "DELETE FROM marked WHERE id = 4")
    assert rows(pair, "SELECT marked::text FROM marked ORDER BY id") == [
        ("(1,b,1)",), ("(2,x,1)",), ("(5000000000,x,5)",)
    ]  # fmt: skip
    execute(south, "DROP TYPE typed CASCADE")
    ddl(south, "DROP DOMAIN mark", "DROP TYPE grade")
    drained(pair)


@gives_up
def test_a_domain_holds_for_rows_that_had_not_arrived(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE DOMAIN small AS int", "CREATE TABLE measured (id int PRIMARY KEY, v small)")
    drained(pair)
    with connect(north) as migration:
        with paused(pair, "north"):
            execute(south, "INSERT INTO measured VALUES (1, -1)")
            migration.execute("ALTER DOMAIN small ADD CHECK (VALUE > 0)")
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            migration.commit()
    drained(pair)
    with raises("23514"):
        execute(north, "ALTER DOMAIN small ADD CHECK (VALUE > 0)")
    execute(south, "DELETE FROM measured")
    retry(lambda: execute(north, "ALTER DOMAIN small ADD CHECK (VALUE > 0)"))
    drained(pair)
    with raises("23514"):
        execute(south, "INSERT INTO measured VALUES (2, -1)")
    ddl(south, "DROP TABLE measured", "DROP DOMAIN small")
    drained(pair)


def test_a_writer_under_the_older_function_tries_again(pair: LocalCluster) -> None:
    """A CHECK calls it: what the older one has let pass the new one may refuse."""
    north, south = pair.sps
    ddl(
        north,
        "CREATE FUNCTION fits(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0'",
        "CREATE TABLE fitting (id int PRIMARY KEY, v int CHECK (fits(v)))",
    )
    drained(pair)
    with connect(south) as writer:
        with paused(pair, "south"):
            writer.execute("INSERT INTO fitting VALUES (1, 5)")
            execute(
                north,
                "CREATE OR REPLACE FUNCTION fits(int) RETURNS boolean LANGUAGE sql IMMUTABLE "
                "AS 'SELECT $1 > 9'",
            )
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            writer.commit()
    drained(pair)
    with raises("23514"):
        execute(south, "INSERT INTO fitting VALUES (1, 5)")
    execute(south, "INSERT INTO fitting VALUES (1, 10)")
    execute(north, "DROP FUNCTION fits CASCADE")
    drained(pair)
    execute(south, "INSERT INTO fitting VALUES (2, -1)")
    assert rows(pair, "SELECT * FROM fitting ORDER BY id") == [(1, 10), (2, -1)]
    ddl(north, "DROP TABLE fitting")
    drained(pair)


def test_partitions_come_and_go(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')")
    wait_for_relation(south, "event_2")
    execute(south, "INSERT INTO event VALUES (1, '2026-02-03')")
    execute(south, "UPDATE event SET day = '2026-01-05'")
    assert rows(pair, "SELECT * FROM event_1")
    ddl(
        south,
        "CREATE TABLE event_3 (LIKE event); "
        "ALTER TABLE event ATTACH PARTITION event_3 FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')",
    )
    wait_for_relation(north, "event_3")
    execute(north, "INSERT INTO event VALUES (3, '2026-03-03')")
    drained(pair)
    with connect(south) as connection:
        connection.execute("INSERT INTO event VALUES (4, '2026-03-04')")
        connection.execute("ALTER TABLE event DETACH PARTITION event_3")
        connection.execute("INSERT INTO event_3 VALUES (5, '2027-03-04')")
    assert rows(pair, "SELECT id FROM event_3 ORDER BY id") == [(3,), (4,), (5,)]
    assert rows(pair, "SELECT id FROM event WHERE day >= '2026-03-01'") == []
    execute(north, "UPDATE event_3 SET id = 6 WHERE id = 3")
    execute(south, "DELETE FROM event_3 WHERE id = 4")
    assert rows(pair, "SELECT id FROM event_3 ORDER BY id") == [(5,), (6,)]
    ddl(north, "DROP TABLE event_3")
    drained(pair)


def test_a_key_that_comes_later(pair: LocalCluster) -> None:
    """As pg_dump and Rails write it. What is made with other values at each server is the same in the end."""
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("CREATE TABLE dump AS SELECT n AS id, random() AS v FROM generate_series(1, 5) n")
        connection.execute("INSERT INTO dump VALUES (6, 6)")
        connection.execute("CREATE TEMP TABLE aside (id int)")
        connection.execute("ALTER TABLE aside ADD COLUMN v int")
        connection.execute("ALTER TABLE dump ADD PRIMARY KEY (v)")
        connection.execute("UPDATE dump SET id = 7 WHERE id = 6")
    assert [number for (number,) in rows(pair, "SELECT id FROM dump ORDER BY 1")] == [1, 2, 3, 4, 5, 7]
    rows(pair, "SELECT * FROM dump ORDER BY id")
    with connect(south) as connection:
        connection.execute("UPDATE dump SET id = 8 WHERE id = 7")
        connection.execute("ALTER TABLE dump DROP CONSTRAINT dump_pkey")
        with raises("0A000"), connection.transaction():  # the other server has no rows of it now
            connection.execute("ALTER TABLE dump ADD UNIQUE (id)")
            connection.execute("CREATE TABLE refers (id int PRIMARY KEY REFERENCES dump (id))")
        connection.execute("DELETE FROM dump WHERE id = 1")
        connection.execute("ALTER TABLE dump ADD PRIMARY KEY (id)")
    assert [number for (number,) in rows(pair, "SELECT id FROM dump ORDER BY 1")] == [2, 3, 4, 5, 8]
    execute(north, "UPDATE dump SET v = 0 WHERE id = 8")
    with raises("0A000"):
        execute(north, "CREATE TABLE keyless (id int)")
    ddl(south, "DROP TABLE dump")
    drained(pair)


def test_a_key_is_added_to_tables_that_have_none(pair: LocalCluster) -> None:
    """Where the session wants it: join tables of Rails, CREATE TABLE AS. One that comes later counts."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.add_keys = on")
        connection.execute("CREATE TABLE users_tags (user_id bigint NOT NULL, tag_id bigint NOT NULL)")
        connection.execute("CREATE TABLE made AS SELECT n FROM generate_series(1, 3) n")
        with connection.transaction():
            connection.execute("CREATE TABLE late (id int); INSERT INTO late VALUES (1)")
            connection.execute("CREATE TABLE later AS TABLE late")
            connection.execute("INSERT INTO users_tags VALUES (1, 2), (1, 2)")
            connection.execute("ALTER TABLE late ADD PRIMARY KEY (id)")
    drained(pair)
    execute(south, "INSERT INTO users_tags VALUES (3, 4)")
    execute(south, "UPDATE made SET n = 4 WHERE n = 3")
    assert len(rows(pair, "SELECT psp_key, user_id FROM users_tags ORDER BY 1")) == 3
    assert [n for (n,) in rows(pair, "SELECT n FROM made ORDER BY 1")] == [1, 2, 4]
    assert rows(pair, "SELECT * FROM late") == [(1,)]
    assert len(rows(pair, "SELECT psp_key FROM later")) == 1
    # A key of their own takes the place of it.
    execute(
        south,
        "UPDATE users_tags SET tag_id = 5 WHERE psp_key = "
        "(SELECT min(psp_key::text)::uuid FROM users_tags WHERE user_id = 1)",
    )
    execute(south, "ALTER TABLE users_tags ADD CONSTRAINT own_key PRIMARY KEY (user_id, tag_id)")
    ddl(south, "ALTER TABLE made ADD COLUMN id serial PRIMARY KEY")
    drained(pair)
    assert rows(pair, "SELECT * FROM users_tags ORDER BY 1, 2") == [(1, 2), (1, 5), (3, 4)]
    assert [n for n, _ in rows(pair, "SELECT * FROM made ORDER BY 1")] == [1, 2, 4]
    execute(north, "DELETE FROM users_tags WHERE user_id = 1")
    drained(pair)
    assert rows(pair, "SELECT * FROM users_tags") == [(3, 4)]
    ddl(north, "DROP TABLE users_tags, made, late, later")
    drained(pair)


def test_truncate_among_rows_and_statements(pair: LocalCluster) -> None:
    """
    Rows before it are gone everywhere, those after it stay; each server draws numbers of its own.

    The numbers that rows bring are below the sequence's: it would move past others within seconds.
    """
    north, south = pair.sps
    ddl(
        north,
        "CREATE TABLE run (id serial PRIMARY KEY, name text UNIQUE)",
        "CREATE TABLE step (id int PRIMARY KEY, run int REFERENCES run)",
    )
    drained(pair)
    for sp in pair.sps:
        execute(sp, "INSERT INTO run (name) SELECT %s || n FROM generate_series(1, 20) n", [sp.name])
    drained(pair)
    execute(south, "INSERT INTO step SELECT id, id FROM run")
    drained(pair)
    with connect(north) as connection:
        connection.execute("INSERT INTO run VALUES (-7001, 'before')")
        connection.execute("UPDATE run SET name = 'twice' WHERE id = -7001")
        connection.execute("INSERT INTO step VALUES (-7001, -7001)")
        connection.execute("TRUNCATE run RESTART IDENTITY CASCADE")
        connection.execute("INSERT INTO run VALUES (-7001, 'again'), (-7002, 'after')")
        connection.execute("ALTER TABLE run ADD COLUMN note text DEFAULT 'none'")
        connection.execute("INSERT INTO step VALUES (1, -7001)")
    assert rows(pair, "SELECT * FROM run ORDER BY id") == [(-7002, "after", "none"), (-7001, "again", "none")]
    assert rows(pair, "SELECT * FROM step") == [(1, -7001)]
    for sp in pair.sps:
        execute(sp, "INSERT INTO run (name) VALUES (%s), ('second of ' || %s)", [sp.name, sp.name])
    drawn = [number for (number,) in rows(pair, "SELECT id FROM run WHERE id > 0 ORDER BY id")]
    assert len(drawn) == 4 and max(drawn) < 3 * 64
    ddl(south, "TRUNCATE step, run", "DROP TABLE step, run")
    drained(pair)


def test_truncate_and_writers_at_another_server(pair: LocalCluster) -> None:
    """Who has not seen the other one loses, in both directions. Another table is not disturbed."""
    north, south = pair.sps
    execute(south, "INSERT INTO other (id, v) VALUES (601, 1)")
    drained(pair)
    with connect(south) as writer, connect(south) as bystander:
        with paused(pair, "south"):
            writer.execute("INSERT INTO other (id, v) VALUES (602, 2)")
            bystander.execute("INSERT INTO parent VALUES (602, 'bystander')")
            execute(north, "TRUNCATE other")
        bystander.commit()
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            writer.commit()
    assert rows(pair, "SELECT * FROM other") == []
    execute(south, "INSERT INTO other (id, v) VALUES (601, 3)")
    drained(pair)
    with connect(north) as emptying:
        with paused(pair, "north"):
            execute(south, "INSERT INTO other (id, v) VALUES (603, 1)")
            emptying.execute("TRUNCATE other")
        with raises(SERIALIZATION_FAILURE, "57P01", "08006"):
            emptying.commit()
    assert len(rows(pair, "SELECT * FROM other")) == 2
    retry(lambda: execute(north, "TRUNCATE other"))
    assert rows(pair, "SELECT * FROM other") == []


def test_truncate_of_a_partition(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE TABLE event_4 PARTITION OF event FOR VALUES FROM ('2026-04-01') TO ('2026-05-01')")
    drained(pair)
    execute(south, "INSERT INTO event SELECT n, '2026-04-02' FROM generate_series(1, 5) n")
    execute(south, "INSERT INTO event VALUES (77, '2026-01-02')")
    drained(pair)
    with connect(north) as connection:
        connection.execute("INSERT INTO event VALUES (6, '2026-04-02'), (78, '2026-01-02')")
        connection.execute("TRUNCATE event_4")
        connection.execute("INSERT INTO event VALUES (2, '2026-04-02')")
    assert rows(pair, "SELECT id FROM event WHERE id IN (77, 78) ORDER BY 1") == [(77,), (78,)]
    assert rows(pair, "SELECT id FROM event_4") == [(2,)]
    drained(pair)
    ddl(north, "TRUNCATE event_4", "DROP TABLE event_4")
    assert len(rows(pair, "SELECT id FROM event WHERE id IN (77, 78)")) == 2


def test_truncate_restarts_sequences_twice(pair: LocalCluster) -> None:
    north = pair.sps[0]
    ddl(north, "CREATE TABLE counted (id serial PRIMARY KEY, v int)")
    with connect(north) as connection:
        connection.execute("TRUNCATE counted RESTART IDENTITY")
        connection.execute("INSERT INTO counted (v) VALUES (1)")
        connection.execute("TRUNCATE counted RESTART IDENTITY")
    drained(pair)
    for sp in pair.sps:
        execute(sp, "INSERT INTO counted (v) VALUES (2)")
    assert rows(pair, "SELECT id FROM counted ORDER BY id") == [(1,), (2,)]
    ddl(north, "DROP TABLE counted")
    drained(pair)


def test_truncate_and_a_table_without_a_key_that_refers_to_it(pair: LocalCluster) -> None:
    north = pair.sps[0]
    ddl(north, "CREATE TABLE referred (id int PRIMARY KEY)")
    execute(north, "INSERT INTO referred VALUES (1)")
    with connect(north) as connection:
        connection.execute("CREATE TABLE keyless (id int REFERENCES referred)")
        connection.execute("TRUNCATE referred, keyless")
        connection.execute("INSERT INTO referred VALUES (2)")
        connection.execute("INSERT INTO keyless VALUES (2)")
        connection.execute("ALTER TABLE keyless ADD PRIMARY KEY (id)")
    assert rows(pair, "SELECT id FROM keyless JOIN referred USING (id)") == [(2,)]
    ddl(north, "DROP TABLE referred, keyless")
    drained(pair)


def test_rows_of_a_partition_do_not_stay_at_the_primary(pair: LocalCluster) -> None:
    """A DROP takes them along. A text that detaches and empties it would empty the whole there."""
    north, south = pair.sps
    ddl(north, "CREATE TABLE event_5 PARTITION OF event FOR VALUES FROM ('2026-05-01') TO ('2026-06-01')")
    drained(pair)
    execute(south, "INSERT INTO event VALUES (51, '2026-05-02'), (52, '2026-01-02')")
    drained(pair)
    for end in ("DROP", "TRUNCATE"):
        with raises("0A000"):
            ddl(north, f"ALTER TABLE event DETACH PARTITION event_5; {end} TABLE event_5")
    assert len(rows(pair, "SELECT id FROM event WHERE id IN (51, 52)")) == 2
    execute(north, "DROP TABLE event_5")
    assert rows(pair, "SELECT id FROM event WHERE id IN (51, 52)") == [(52,)]


def test_a_server_that_was_away_follows_in_order(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with paused(pair, "south"):
        for at in range(3):
            ddl(north, f"ALTER TABLE other ADD COLUMN c{at} int DEFAULT {at}")
            execute(north, "INSERT INTO other (id, v) VALUES (%s, 1)", [400 + at])
        ddl(north, "ALTER TABLE other DROP COLUMN c1")
    assert rows(pair, "SELECT id, c0, c2 FROM other WHERE id >= 400 AND id < 500 ORDER BY id") == [
        (400, 0, 2), (401, 0, 2), (402, 0, 2)
    ]  # fmt: skip


def test_a_change_waits_for_nobody_for_ever(pair: LocalCluster) -> None:
    """An idle transaction at another server that holds a lock of the table is ended, as for rows."""
    north, south = pair.sps
    with connect(south) as idle:
        idle.execute("SELECT count(*) FROM item")
        ddl(north, "ALTER TABLE item ADD COLUMN waits int")
        drained(pair)
        with pytest.raises(psycopg.Error):
            idle.execute("SELECT 1")
    ddl(north, "ALTER TABLE item DROP COLUMN waits")


def test_clients_write_while_the_schema_changes(pair: LocalCluster) -> None:
    """Every acknowledged row is there, with the columns of the end."""
    north, south = pair.sps
    may_pass = (SERIALIZATION_FAILURE, "57P01", "08006")
    done = 0

    def write() -> None:
        nonlocal done
        for at in range(200):
            retry(partial(execute, south, "INSERT INTO other (id, v) VALUES (%s, 1)", [1000 + at]), may_pass)
            done += 1

    with running(write):
        for at in range(4):
            retry(partial(ddl, north, f"ALTER TABLE other ADD COLUMN d{at} int DEFAULT {at}"), may_pass)
    assert done == 200
    assert rows(pair, "SELECT count(*), sum(d0 + d1 + d2 + d3) FROM other WHERE id >= 1000") == [(200, 1200)]


def test_a_server_that_joins_reads_rows_of_every_definition() -> None:
    with LocalCluster.temporary([Zone("a")]) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
            connection.execute("INSERT INTO item (v, s) SELECT n, 'as adopted' FROM generate_series(1, 50) n")
        growth.adopt(cluster)
        a = cluster.sps[0]
        allow_ddl(a)
        execute(a, "INSERT INTO item (v, s) VALUES (51, 'first definition')")
        ddl(a, "ALTER TABLE item ADD COLUMN w numeric DEFAULT 1.50")
        execute(a, "INSERT INTO item (v, s) VALUES (52, 'second definition')")
        ddl(a, "ALTER TABLE item DROP COLUMN s, ADD COLUMN tags text[] DEFAULT '{a,b}'", "DROP TABLE other")
        execute(a, "INSERT INTO item (v) VALUES (53)")
        ddl(a, "CREATE TABLE fresh (id int PRIMARY KEY, mood text UNIQUE)")
        execute(a, "INSERT INTO fresh VALUES (1, 'good')")
        with connect(a) as connection:  # at a server that joins each statement is a transaction
            connection.execute("CREATE TABLE keyed AS SELECT n FROM generate_series(1, 3) n")
            connection.execute("ALTER TABLE keyed ADD PRIMARY KEY (n)")
        with connect(a) as connection:
            connection.execute("ALTER TABLE keyed DROP CONSTRAINT keyed_pkey")
            connection.execute("ALTER TABLE keyed ADD PRIMARY KEY (n)")
        ddl(
            a,
            "ALTER TABLE parent ALTER id TYPE bigint",
            "ALTER TABLE parent ADD at timestamptz DEFAULT now()",
        )
        ddl(a, "ALTER TABLE item RENAME TO thing")
        ddl(
            a,
            "CREATE TYPE mood AS ENUM ('sad', 'calm')",
            "CREATE TYPE pair AS (a int, m mood)",
            "CREATE TABLE felt (m mood PRIMARY KEY, p pair)",
        )
        execute(a, "INSERT INTO felt VALUES ('sad', '(1,sad)'), ('calm', '(2,calm)')")
        ddl(a, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
        execute(a, "INSERT INTO felt VALUES ('blue', NULL) ON CONFLICT (m) DO UPDATE SET p = '(3,blue)'")
        ddl(a, "ALTER TYPE pair ADD ATTRIBUTE c text")
        ddl(a, "CREATE TABLE emptied (id int PRIMARY KEY, v int)")
        execute(a, "INSERT INTO emptied SELECT n, 1 FROM generate_series(1, 20) n")
        execute(a, "TRUNCATE emptied")
        execute(a, "INSERT INTO emptied VALUES (7, 2)")
        cluster.stop("primary", "daemon")
        cluster.start("primary", "daemon")
        growth.join(cluster, Zone("b"))
        b = cluster.sp("b")
        query: LiteralString = "SELECT * FROM thing ORDER BY id"
        parents: LiteralString = "SELECT * FROM parent"
        wait_for_row(b, "SELECT 1 FROM fresh WHERE id = 1")
        settle(cluster)
        assert execute(a, query) == execute(b, query)
        assert len(execute(b, query)) == 53
        assert execute(a, parents) == execute(b, parents)
        assert execute(b, "SELECT felt::text FROM felt ORDER BY m") == [
            ('(blue,"(3,blue,)")',), ('(calm,"(2,calm,)")',)
        ]  # fmt: skip
        assert execute(b, "SELECT * FROM emptied") == [(7, 2)]
        execute(b, "UPDATE thing SET tags = '{c}' WHERE v = 7")
        execute(b, "INSERT INTO thing (v) VALUES (54)")
        settle(cluster)
        assert execute(a, query) == execute(b, query)
