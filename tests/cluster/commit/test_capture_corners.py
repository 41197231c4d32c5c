"""What a statement does is what arrives: rows that one transaction touches more than once, in all ways."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, adopted_pair, connect, execute

SCHEMA = """
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, email text UNIQUE, n int DEFAULT 0);
CREATE TABLE moving (id int, part int, v text, email text, PRIMARY KEY (id, part), UNIQUE (email, part))
    PARTITION BY RANGE (part);
CREATE TABLE moving_low PARTITION OF moving FOR VALUES FROM (0) TO (10);
CREATE TABLE moving_high PARTITION OF moving FOR VALUES FROM (10) TO (20);
CREATE TABLE swap (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text);
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child (id int PRIMARY KEY, a int REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE,
                    b int REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE, v text);
CREATE TABLE log (id int PRIMARY KEY, n int);
CREATE TABLE typed (i int8, n numeric(20, 5), s text, c char(5), u uuid, d date, ts timestamp, tz timestamptz,
                    b bytea, f float8, r real, o boolean, m name, h smallint, v int DEFAULT 0,
                    PRIMARY KEY (i, n, s, c, u, d, ts, tz, b, f, r, o, m, h));
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok", {fine}');
CREATE DOMAIN code AS varchar(10);
CREATE TABLE enumerated (m mood, c code, l macaddr, v int DEFAULT 0, PRIMARY KEY (m, c, l));
CREATE TABLE counted (id int PRIMARY KEY, n int);
CREATE FUNCTION bump(which int) RETURNS int LANGUAGE sql AS
    'UPDATE counted SET n = n + 100 WHERE id = which RETURNING n';
CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (NEW.id, 1) ON CONFLICT (id) DO UPDATE SET n = log.n + 1;
    IF NEW.n < 3 THEN UPDATE u SET n = NEW.n + 1 WHERE id = NEW.id; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER log_it AFTER INSERT OR UPDATE ON u FOR EACH ROW EXECUTE FUNCTION log_it();
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n < 5 THEN UPDATE chain SET n = n + 1 WHERE id = NEW.id; END IF;
    RETURN NULL;
END $$;
CREATE TABLE chain (id int PRIMARY KEY, n int);
CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON chain DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION later();
"""
TABLES = (*("t", "u", "moving", "swap", "parent", "child", "log", "typed", "enumerated", "counted", "chain"),)


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        yield cluster


@pytest.fixture
def cluster(pair: LocalCluster) -> Iterator[LocalCluster]:
    """All tables are empty, and equal everywhere afterwards."""
    with connect(pair.sps[0]) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}".encode())
    yield pair


def contents(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, list[str]]:
    return {
        table: [
            str(row[0]) for row in connection.execute(f"SELECT t::text FROM {table} t ORDER BY 1".encode())
        ]
        for table in TABLES
    }


def arrives(cluster: LocalCluster, before: list[str], statements: list[str]) -> dict[str, list[str]]:
    """Runs `before` in a transaction and `statements` in another one; the tables, the same at both SPs."""
    north, south = cluster.sps
    for transaction in (before, statements):
        with connect(north) as connection:
            for statement in transaction:
                connection.execute(statement.encode())
    with connect(north) as connection:
        expected = contents(connection)

    def is_there() -> bool:
        with connect(south) as connection:
            return contents(connection) == expected

    wait_until("the rows at the other SP", is_there, WAIT_S)
    assert verify.verify(cluster, WAIT_S).consistent
    return expected


ONE_ROW = ["INSERT INTO t VALUES (1, 'old')"]


@pytest.mark.parametrize(
    "statement",
    [
        "WITH d AS (DELETE FROM t WHERE id=1 RETURNING 1)"
        " INSERT INTO t SELECT 1,'new' WHERE EXISTS (SELECT FROM d)",
        "WITH d AS (DELETE FROM t WHERE id=1 RETURNING 1) INSERT INTO t SELECT 1,'new' FROM d LIMIT 1",
        "WITH d AS (DELETE FROM t WHERE id=1 RETURNING id) INSERT INTO t SELECT id,'new' FROM d",
    ],
)
def test_deleted_and_inserted_by_one_statement(cluster: LocalCluster, statement: str) -> None:
    assert arrives(cluster, ONE_ROW, [statement])["t"] == ["(1,new)"]


def test_a_key_that_another_row_takes_over(cluster: LocalCluster) -> None:
    moves = (
        "WITH d AS (DELETE FROM t WHERE id=1 RETURNING 1)"
        " UPDATE t SET id=1 WHERE id=2 AND EXISTS (SELECT FROM d)"
    )
    before = [*ONE_ROW, "INSERT INTO t VALUES (2, 'two')"]
    assert arrives(cluster, before, [moves])["t"] == ["(1,two)"]


def test_inserted_and_deleted_by_one_statement(cluster: LocalCluster) -> None:
    statement = (
        "WITH i AS (INSERT INTO t VALUES (2,'i') RETURNING id) DELETE FROM t USING i WHERE t.id IN (i.id, 1)"
    )
    assert arrives(cluster, ONE_ROW, [statement])["t"] == ["(2,i)"]


def test_updated_deleted_inserted(cluster: LocalCluster) -> None:
    statements = [
        "UPDATE t SET v = 'a'", "DELETE FROM t", "INSERT INTO t VALUES (1, 'b')", "UPDATE t SET v = v || 'c'",
        "INSERT INTO t VALUES (2, 'gone')", "DELETE FROM t WHERE id = 2",
    ]  # fmt: skip
    assert arrives(cluster, ONE_ROW, statements)["t"] == ["(1,bc)"]


def test_savepoints(cluster: LocalCluster) -> None:
    statements = [
        "UPDATE t SET v = 'a'",
        "SAVEPOINT s",
        "DELETE FROM t",
        "ROLLBACK TO s",
        "UPDATE t SET v = v || 'b'",
    ]
    assert arrives(cluster, ONE_ROW, statements)["t"] == ["(1,ab)"]


def test_keys_shift(cluster: LocalCluster) -> None:
    before = ["INSERT INTO swap SELECT n, 'r' || n FROM generate_series(1, 5) n"]
    expected = arrives(cluster, before, ["UPDATE swap SET id = id + 1", "UPDATE swap SET id = 7 - id"])
    assert expected["swap"] == ["(1,r5)", "(2,r4)", "(3,r3)", "(4,r2)", "(5,r1)"]


@pytest.mark.parametrize("target", ["moving", "moving_low"])
def test_update_moves_a_row_to_another_partition(cluster: LocalCluster, target: str) -> None:
    before = ["INSERT INTO moving VALUES (1, 1, 'x', 'e'), (2, 2, 'y', 'f')"]
    if target == "moving":
        statements = [
            "UPDATE moving SET part = part + 10, v = v || '!'",
            "UPDATE moving SET part = 3 WHERE id = 2",
        ]
        rows = ["(1,11,x!,e)", "(2,3,y!,f)"]
    else:
        statements = ["UPDATE moving_low SET part = part + 1, v = v || '!'"]
        rows = ["(1,2,x!,e)", "(2,3,y!,f)"]
    assert arrives(cluster, before, statements)["moving"] == rows


def test_merge_moves_rows_between_partitions(cluster: LocalCluster) -> None:
    before = ["INSERT INTO moving VALUES (1, 1, 'x', 'e'), (2, 12, 'y', 'f'), (3, 3, 'z', 'g')"]
    merge = (
        "MERGE INTO moving m USING (VALUES (1, 11), (2, 2), (3, 0), (4, 14)) AS s (id, part) ON m.id = s.id"
        " WHEN MATCHED AND s.part = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET part = s.part, v = 'moved'"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.part, 'new', 'h')"
    )
    only_update = (
        "MERGE INTO moving m USING (VALUES (4, 5)) AS s (id, part) ON m.id = s.id"
        " WHEN MATCHED THEN UPDATE SET part = s.part"
    )
    expected = arrives(cluster, before, [merge])["moving"]
    assert expected == ["(1,11,moved,e)", "(2,2,moved,f)", "(4,14,new,h)"]
    expected = arrives(cluster, [], [only_update])["moving"]
    assert expected == ["(1,11,moved,e)", "(2,2,moved,f)", "(4,5,new,h)"]


def test_a_function_in_an_expression_updates_the_same_table(cluster: LocalCluster) -> None:
    before = ["INSERT INTO counted VALUES (1, 1), (2, 2), (3, 3)"]
    statements = [
        "UPDATE counted SET n = n + bump(2) WHERE id = 1", "INSERT INTO counted SELECT 4, bump(3)",
        "UPDATE counted SET n = n WHERE bump(4) > 0 AND id = 1",
    ]  # fmt: skip
    assert arrives(cluster, before, statements)["counted"] == ["(1,103)", "(2,102)", "(3,103)", "(4,203)"]


def test_triggers_that_write_the_same_row_again(cluster: LocalCluster) -> None:
    expected = arrives(
        cluster,
        ["INSERT INTO u VALUES (1, 'a'), (2, 'b')"],
        [
            "UPDATE u SET email = 'c', n = 0 WHERE id = 1",
            "DELETE FROM u WHERE id = 2",
            "INSERT INTO u VALUES (2, 'a')",
        ],
    )
    assert expected["u"] == ["(1,c,3)", "(2,a,3)"]


def test_cascades_that_touch_a_row_twice(cluster: LocalCluster) -> None:
    before = [
        "INSERT INTO parent VALUES (1, 'p'), (2, 'q')",
        "INSERT INTO child VALUES (1, 1, 1, 'c'), (2, 1, 2, 'd'), (3, 2, 2, 'e')",
    ]
    expected = arrives(
        cluster, before, ["UPDATE parent SET id = 3 WHERE id = 1", "DELETE FROM parent WHERE id = 3"]
    )
    assert expected["child"] == ["(1,,,c)", "(2,,2,d)", "(3,2,2,e)"]


def test_chains_of_deferred_triggers(cluster: LocalCluster) -> None:
    expected = arrives(cluster, [], ["INSERT INTO chain VALUES (1, 0), (2, 3)"])
    assert expected["chain"] == ["(1,5)", "(2,5)"]


KEYS = (
    r"(-5, 1.50000, E'quo''te \\ ü', 'ab', '00000000-0000-0000-0000-00000000000a', '2020-02-29',"
    r" '1999-12-31 23:59:59.5', '2024-06-01 12:00+05', '\x00ff', 1.1, 2.5, true, 'na me', 7)",
    r"(9223372036854775807, -12345678901234.56789, '', '', 'ffffffff-ffff-ffff-ffff-ffffffffffff',"
    r" '0044-03-15 BC', '4000-01-01 00:00:00.000001 BC', '-infinity', '', 'NaN', '-Infinity', false, '', -7)",
    r"(0, 0, ' t ', 'x    ', '00000000-0000-0000-0000-000000000000', 'infinity',"
    r" '294000-01-01', 'infinity', '\x', '-0', 3e38, false, 'n', 0)",
    r"""(1, 'NaN', E'{a,"b"}\n', 'é', '00000000-0000-0000-0000-00000000000b', '5000000-01-01',"""
    r" 'infinity', '1900-01-01 BC', 'a', 1e-300, 1e-40, true, 'n', 1)",
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("datestyle", ["ISO, DMY", "SQL, DMY"])
def test_rows_are_found_by_keys_of_all_types(cluster: LocalCluster, key: str, datestyle: str) -> None:
    expected = arrives(
        cluster,
        [f"INSERT INTO typed VALUES {key}"],
        [f"SET LOCAL datestyle = '{datestyle}'; SET LOCAL timezone = 'Asia/Tokyo'", "UPDATE typed SET v = 1",
         "UPDATE typed SET v = v + 1"],
    )  # fmt: skip
    assert len(expected["typed"]) == 1 and expected["typed"][0].endswith(",2)")


def test_rows_are_found_by_keys_of_other_types(cluster: LocalCluster) -> None:
    """A domain's base type is known to the daemon; an enum and a macaddr are found by their bytes."""
    rows = (
        """('it''s "ok", {fine}', 'c', '08:00:2b:01:02:03')""",
        "('sad', '', '08:00:2b:01:02:04')",
    )
    expected = arrives(
        cluster,
        [f"INSERT INTO enumerated VALUES {', '.join(rows)}"],
        [
            "UPDATE enumerated SET v = 1",
            "UPDATE enumerated SET v = v + 1 WHERE m = 'sad'",
            "UPDATE enumerated SET c = 'd'",
        ],
    )
    found = sorted(row[-22:] for row in expected["enumerated"])
    assert found == ["d,08:00:2b:01:02:03,1)", "d,08:00:2b:01:02:04,2)"]


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1"])
def test_rows_that_are_looked_up_keep_their_letters(cluster: LocalCluster, encoding: str) -> None:
    statements = [
        f"SET LOCAL client_encoding = '{encoding}'",
        "UPDATE t SET v = v || 'x'",
        "UPDATE t SET v = v || 'y'",
    ]
    assert arrives(cluster, ["INSERT INTO t VALUES (1, 'größe')"], statements)["t"] == ["(1,größexy)"]


def test_many_rows_twice(cluster: LocalCluster) -> None:
    before = ["INSERT INTO t SELECT n, 'a' FROM generate_series(1, 3000) n"]
    statements = [
        "UPDATE t SET v = 'b'",
        "UPDATE t SET v = 'c' WHERE id % 2 = 0",
        "DELETE FROM t WHERE id % 3 = 0",
    ]
    assert len(arrives(cluster, before, statements)["t"]) == 2000


def test_a_unique_value_that_changes_hands_and_comes_back(cluster: LocalCluster) -> None:
    before = ["INSERT INTO u VALUES (1, 'a', 5), (2, 'b', 5)"]
    statements = [
        "UPDATE u SET email = NULL WHERE id = 1", "UPDATE u SET email = 'a' WHERE id = 2",
        "UPDATE u SET email = 'b' WHERE id = 1", "DELETE FROM u WHERE id = 2",
        "INSERT INTO u VALUES (3, 'a', 5)",
    ]  # fmt: skip
    assert arrives(cluster, before, statements)["u"] == ["(1,b,5)", "(3,a,5)"]
    assert execute(cluster.sps[1], "UPDATE u SET email = 'c' WHERE email = 'a' RETURNING id") == [(3,)]
