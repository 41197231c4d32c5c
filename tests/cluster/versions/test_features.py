"""What SQL has since PostgreSQL 16, 17 and 18: it works at semi-primaries of 18, or is refused in words."""

from collections.abc import Iterator
from functools import partial
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.output import PspError

from tests.cluster.schema_changes.statements import allow_ddl, settle_unchanged
from tests.cluster.support import SERIALIZATION_FAILURE, as_admin, connect, execute, raises, retry, settle

SCHEMA = """
CREATE TABLE item (
    id int PRIMARY KEY, v int DEFAULT 9,
    w int GENERATED ALWAYS AS (v + 1) VIRTUAL, x int GENERATED ALWAYS AS (v * 2) STORED
);
CREATE VIEW shown AS SELECT id, v FROM item;
CREATE TABLE tenancy (
    id int PRIMARY KEY, room int NOT NULL, during int4range NOT NULL, UNIQUE (room, during WITHOUT OVERLAPS)
);
CREATE TABLE visit (
    id int PRIMARY KEY, room int, during int4range,
    FOREIGN KEY (room, PERIOD during) REFERENCES tenancy (room, PERIOD during)
);
CREATE TABLE unchecked (
    id int PRIMARY KEY, v int CHECK (v > 0) NOT ENFORCED,
    item int CONSTRAINT of_item REFERENCES item NOT ENFORCED
);
CREATE TABLE part (
    id int GENERATED ALWAYS AS IDENTITY, place int, during int4range, PRIMARY KEY (id, place),
    EXCLUDE USING gist (place WITH =, during WITH &&)
) PARTITION BY RANGE (place);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_2 PARTITION OF part DEFAULT;
"""


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    zones = [Zone("north", postgres=18), Zone("south", postgres=18)]
    with LocalCluster.temporary(zones, Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        for sp in cluster.sps:
            execute(as_admin(sp), "CREATE EXTENSION btree_gist")
        execute(cluster.sps[0], SCHEMA)
        growth.adopt(cluster)
        for sp in cluster.sps:
            allow_ddl(sp)
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """The servers hold the same rows after the test, and have the same schema."""
    yield shared_pair
    settle_unchanged(shared_pair)


@pytest.fixture
def north(pair: LocalCluster) -> SpNode:
    return pair.sp("north")


@pytest.fixture
def south(pair: LocalCluster) -> SpNode:
    return pair.sp("south")


def run(pair: LocalCluster, sp: SpNode, *statements: LiteralString) -> None:
    """One after the other; afterwards everything has arrived everywhere."""
    for statement in statements:
        retry(partial(execute, sp, statement))
    settle(pair)


def one_of_two_loses(one: SpNode, first: LiteralString, other: SpNode, second: LiteralString) -> None:
    """Two statements in transactions at the same time: the one that commits first wins."""
    with connect(one) as winner, connect(other) as loser:
        winner.execute(first)
        loser.execute(second)
        winner.commit()
        with raises(SERIALIZATION_FAILURE):
            loser.commit()


def both_commit(one: SpNode, first: LiteralString, other: SpNode, second: LiteralString) -> None:
    with connect(one) as a, connect(other) as b:
        a.execute(first)
        b.execute(second)
        a.commit()
        b.commit()


def test_returning_old_and_new(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    run(pair, north, "INSERT INTO item VALUES (1, 10), (2, 20)")
    update: LiteralString = "UPDATE item SET v = v + 1 WHERE id = 1 RETURNING old.v, new.v, old.w, new.x"
    assert execute(south, update) == [(10, 11, 11, 22)]
    upsert: LiteralString = (
        "INSERT INTO item VALUES (2, 0), (3, 30) ON CONFLICT (id) DO UPDATE SET v = 21 RETURNING old.v, new.v"
    )
    assert execute(south, upsert) == [(20, 21), (None, 30)]
    assert execute(south, "DELETE FROM item WHERE id = 3 RETURNING old.v, new.v") == [(30, None)]
    settle(pair)
    expected = [(1, 11, 12, 22), (2, 21, 22, 42)]
    assert execute(north, "SELECT id, v, w, x FROM item WHERE id < 4 ORDER BY id") == expected


def test_merge(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    """Into a table and a view, with RETURNING, and rows that the source lacks."""
    run(pair, north, "INSERT INTO item VALUES (11, 1), (12, 2)")
    merge: LiteralString = (
        "MERGE INTO item i USING (VALUES (11, 5), (13, 6)) s(id, v) ON i.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v) "
        "WHEN NOT MATCHED BY SOURCE AND i.id = 12 THEN DELETE "
        "RETURNING merge_action(), old.v, new.v"
    )
    assert sorted(execute(south, merge)) == [("DELETE", 2, None), ("INSERT", None, 6), ("UPDATE", 1, 5)]
    into_view: LiteralString = (
        "MERGE INTO shown i USING (VALUES (13), (14)) s(id) ON i.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 7 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 8)"
    )
    run(pair, south, into_view)
    found = execute(north, "SELECT id, v FROM item WHERE id BETWEEN 11 AND 14 ORDER BY id")
    assert found == [(11, 5), (13, 7), (14, 8)]


def test_copy_leaves_wrong_lines_out(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    copy: LiteralString = "COPY item (id, v) FROM STDIN WITH (ON_ERROR ignore, REJECT_LIMIT 2, DEFAULT '-')"
    with connect(north) as connection:
        with connection.cursor().copy(copy) as rows:
            rows.write("21\t1\n22\tx\n23\t-\n")
        connection.commit()
    settle(pair)
    assert execute(south, "SELECT id, v, w FROM item WHERE id BETWEEN 21 AND 29 ORDER BY id") == [
        (21, 1, 2),
        (23, 9, 10),
    ]


def test_periods_that_overlap_do_not_both_commit(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    one_of_two_loses(
        north,
        "INSERT INTO tenancy VALUES (1, 1, '[1,5)')",
        south,
        "INSERT INTO tenancy VALUES (2, 1, '[4,9)')",
    )
    settle(pair)
    with raises("23P01"):
        execute(south, "INSERT INTO tenancy VALUES (2, 1, '[4,9)')")
    # Of another room they are nobody's business.
    both_commit(
        north,
        "INSERT INTO tenancy VALUES (3, 3, '[1,5)')",
        south,
        "INSERT INTO tenancy VALUES (4, 4, '[4,9)')",
    )


def test_a_period_that_rows_refer_to_stays(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    """Several rows together may be what a row refers to."""
    run(pair, north, "INSERT INTO tenancy VALUES (11, 11, '[1,5)'), (12, 11, '[5,9)'), (13, 12, '[1,9)')")
    child: LiteralString = "INSERT INTO visit VALUES (1, 11, '[3,7)')"
    one_of_two_loses(north, "DELETE FROM tenancy WHERE id = 12", south, child)
    run(pair, south, "INSERT INTO tenancy VALUES (12, 11, '[5,9)')")
    one_of_two_loses(south, child, north, "DELETE FROM tenancy WHERE id = 11")
    settle(pair)
    with raises("23503"):
        execute(north, "DELETE FROM tenancy WHERE id = 11")
    run(pair, north, "DELETE FROM visit")
    # The key is the same, its period shorter.
    one_of_two_loses(north, "UPDATE tenancy SET during = '[6,9)' WHERE id = 12", south, child)
    run(pair, south, "UPDATE tenancy SET during = '[5,9)' WHERE id = 12")
    both_commit(north, child, south, "DELETE FROM tenancy WHERE id = 13")


def test_what_is_not_enforced_is_not_certified(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    run(pair, north, "INSERT INTO item VALUES (31, 1)", "INSERT INTO unchecked VALUES (1, -1, 999)")
    both_commit(north, "INSERT INTO unchecked VALUES (2, 1, 31)", south, "DELETE FROM item WHERE id = 31")
    run(pair, south, "DELETE FROM unchecked", "ALTER TABLE unchecked ALTER CONSTRAINT of_item ENFORCED")
    run(pair, north, "INSERT INTO item VALUES (32, 1)")
    with raises("23503"):
        execute(north, "INSERT INTO unchecked VALUES (3, 1, 31)")
    one_of_two_loses(
        north, "INSERT INTO unchecked VALUES (4, 1, 32)", south, "DELETE FROM item WHERE id = 32"
    )


def test_partitions(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    """With an identity column and an exclusion constraint of the whole table."""
    insert: LiteralString = "INSERT INTO part (place, during) VALUES (1, '[1,5)'), (20, '[1,5)')"
    one_of_two_loses(north, insert, south, "INSERT INTO part (place, during) VALUES (20, '[4,9)')")
    run(pair, south, "UPDATE part SET place = 21 WHERE place = 1")
    assert execute(north, "SELECT place FROM part ORDER BY place") == [(20,), (21,)]


def test_schema_changes(pair: LocalCluster, north: SpNode, south: SpNode) -> None:
    run(
        pair,
        north,
        "CREATE TABLE made (id uuid DEFAULT uuidv7() PRIMARY KEY, v int CONSTRAINT has_v NOT NULL, n int)",
        "INSERT INTO made (v) VALUES (1), (2)",
        "ALTER TABLE made ADD COLUMN twice int GENERATED ALWAYS AS (v * 2) VIRTUAL",
        "ALTER TABLE made ADD COLUMN kept int GENERATED ALWAYS AS (v * 3) STORED UNIQUE",
        "ALTER TABLE made ALTER COLUMN kept SET EXPRESSION AS (v * 4)",
        "ALTER TABLE made ADD CONSTRAINT has_n NOT NULL n NOT VALID",
    )
    with raises("23502"):
        execute(south, "INSERT INTO made (v) VALUES (3)")
    run(
        pair,
        south,
        "UPDATE made SET n = v",
        "ALTER TABLE made VALIDATE CONSTRAINT has_n",
        "ALTER TABLE made RENAME CONSTRAINT has_v TO v_is_there",
        "ALTER TABLE made ADD CONSTRAINT small CHECK (v < 2) NOT ENFORCED",
        "INSERT INTO made (v, n) VALUES (3, 3)",
    )
    rows = [(1, 2, 4, 1), (2, 4, 8, 2), (3, 6, 12, 3)]
    for sp in (north, south):
        assert execute(sp, "SELECT v, twice, kept, n FROM made ORDER BY v") == rows


def test_an_older_server_cannot_join(pair: LocalCluster) -> None:
    """It does not know what this schema has, and says so."""
    with pytest.raises(
        PspError, match="the cluster's schema cannot be restored here: syntax error"
    ) as refused:
        growth.join(pair, Zone("old", postgres=17))
    assert "it is that of PostgreSQL 18, this server is 17" in (refused.value.hint or "")
    assert [sp.name for sp in pair.sps] == ["north", "south"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE period (id int, during int4range, PRIMARY KEY (id, during WITHOUT OVERLAPS))",
        "CREATE TABLE period (id int, during int4range);"
        "ALTER TABLE period ADD PRIMARY KEY (id, during WITHOUT OVERLAPS)",
    ],
    ids=["create", "alter"],
)
def test_a_primary_key_without_overlaps_is_refused(north: SpNode, statement: LiteralString) -> None:
    with connect(north) as connection, pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        for part in statement.split(";"):
            connection.execute(part)
        connection.commit()
    diagnosis = refused.value.diag
    assert diagnosis.message_primary == "psp: the primary key of table public.period has WITHOUT OVERLAPS"
    assert "periods overlap without being equal" in (diagnosis.message_detail or "")
