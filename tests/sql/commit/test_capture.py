"""What the capture triggers write.

It is looked at in the open transaction, which is rolled back, so no daemon is needed.
"""

from __future__ import annotations

import psycopg
import pytest
from psp.paths import module_dir, server_version
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair, one
from tests.sql.refusals import refused
from tests.sql.write_sets import Entry, Written, entries, written

SCHEMA = """
CREATE TABLE t (id int PRIMARY KEY, v int, s text);
CREATE TABLE n (k numeric PRIMARY KEY, v int);
CREATE TABLE p (id int, d int, v text, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
CREATE TABLE awkward (x int, s int, r text, n int, psp_old int, psp_new text, i int, q int, psp_scope int,
                      payload text, tg_op text, "new" int, "Ä ""b" int, PRIMARY KEY (x, i));
CREATE UNIQUE INDEX awkward_s ON awkward (s, psp_old);
CREATE TABLE g (id int PRIMARY KEY, a text, b int, c text, d json);
CREATE UNIQUE INDEX g_partial ON g (b) WHERE a IS NOT NULL;
CREATE UNIQUE INDEX g_expression ON g (lower(a), (b % 10));
CREATE UNIQUE INDEX g_nulls ON g (c) NULLS NOT DISTINCT;
CREATE TYPE label AS ENUM ('a', 'b'); CREATE DOMAIN labelled AS label;
CREATE TABLE l (k labelled PRIMARY KEY, v int UNIQUE); INSERT INTO l VALUES ('a', 1);
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE nested (id int PRIMARY KEY, v int);
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN UPDATE nested SET v = 100 WHERE id = NEW.id AND v < 100; RETURN NULL; END';
CREATE TRIGGER again AFTER INSERT ON nested FOR EACH ROW EXECUTE FUNCTION again();
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
INSERT INTO n VALUES (1.50, 1); INSERT INTO p VALUES (1, 1, 'one');
INSERT INTO parent VALUES (1, 1); INSERT INTO child VALUES (1, 1), (2, 1);
INSERT INTO g VALUES (1, 'A', 11, 'c', '{}');
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA)


def captured(app: Pair, *statements: str) -> list[Written]:
    """What the statements capture in one transaction."""
    with app.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())
        found = written(connection)
        connection.rollback()
    return found


def ops(rows: list[Written]) -> list[tuple[str, str]]:
    return [(row.name, row.op) for row in rows]


def int4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def the_entry(rows: list[Written], number: int = 0) -> Entry:
    (entry,) = entries(rows[number])
    return entry


def test_insert_update_delete(app: Pair) -> None:
    rows = captured(
        app, "INSERT INTO t VALUES (9, 9, NULL)", "UPDATE t SET v = 5 WHERE id = 1", "DELETE FROM t"
    )
    assert [row.op for row in rows] == ["i", "i", "d", "d", "d", "d"]
    assert the_entry(rows, 0).key == [int4(9)]
    assert the_entry(rows, 0).image == [int4(9), int4(9), None]
    assert the_entry(rows, 1).image == [int4(1), int4(5), b"a"]
    assert {entries(row)[0].key[0] for row in rows[2:]} == {int4(key) for key in (1, 2, 3, 9)}


def test_statements_without_rows_capture_nothing(app: Pair) -> None:
    assert captured(app, "DELETE FROM t WHERE false", "UPDATE t SET v = 0 WHERE false") == []


def test_many_rows(app: Pair) -> None:
    rows = captured(app, "INSERT INTO t SELECT i, i, repeat('x', i) FROM generate_series(10, 209) i")
    images = [entry.image for row in rows for entry in entries(row)]
    assert images == [[int4(i), int4(i), b"x" * i] for i in range(10, 210)]


def test_key_change_is_a_delete_and_an_insert(app: Pair) -> None:
    rows = captured(app, "UPDATE t SET id = 7 WHERE id = 1")
    assert [row.op for row in rows] == ["d", "i"]
    assert [the_entry(rows, 0).key, the_entry(rows, 1).key] == [[int4(1)], [int4(7)]]


def test_keys_that_shift_onto_each_other(app: Pair) -> None:
    """Old and new keys are captured: what both have is looked up at COMMIT."""
    rows = captured(app, "DELETE FROM t WHERE id = 1", "UPDATE t SET id = id - 1")
    found = sorted((entry.key[0] or b"", row.op) for row in rows for entry in entries(row))
    expected = [(int4(1), "d"), (int4(1), "i"), (int4(2), "d"), (int4(2), "i"), (int4(3), "d")]
    assert found == expected


def test_a_key_set_to_itself_is_no_key_change(app: Pair) -> None:
    assert [row.op for row in captured(app, "UPDATE t SET id = id, v = 3 WHERE id = 1")] == ["i"]


def test_equal_numerics_have_equal_keys(app: Pair) -> None:
    rows = captured(app, "UPDATE n SET k = 1.5000", "DELETE FROM n WHERE k = 1.5")
    assert [row.op for row in rows] == ["u", "d"]
    assert the_entry(rows, 0).key == the_entry(rows, 1).key
    (_, scale) = (the_entry(rows, 0).key[0], the_entry(rows, 0).image)
    assert scale is not None and scale[0] != the_entry(rows, 0).key[0]  # the image keeps the display scale


def test_on_conflict(app: Pair) -> None:
    rows = captured(
        app,
        "INSERT INTO t VALUES (1, 10, 'x'), (8, 8, 'y') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "INSERT INTO t VALUES (2, 0, '') ON CONFLICT DO NOTHING",
    )
    assert {tuple(entry.image or []) for row in rows for entry in entries(row)} == {
        (int4(1), int4(10), b"a"),
        (int4(8), int4(8), b"y"),
    }


def test_merge(app: Pair) -> None:
    rows = captured(
        app,
        "MERGE INTO t USING (VALUES (1, 'u'), (2, 'd'), (9, 'i')) AS m (id, what) ON t.id = m.id "
        "WHEN MATCHED AND what = 'u' THEN UPDATE SET v = -1 WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT VALUES (m.id, 0, what)",
    )
    found = {(row.op, entry.key[0]) for row in rows for entry in entries(row)}
    assert found == {("i", int4(1)), ("d", int4(2)), ("i", int4(9))}


def test_writable_cte(app: Pair) -> None:
    rows = captured(
        app, "WITH gone AS (DELETE FROM t WHERE id < 3 RETURNING *) INSERT INTO n SELECT id, v FROM gone"
    )
    assert sorted(ops(rows)) == [("n", "u"), ("n", "u"), ("t", "d"), ("t", "d")]


def test_copy(app: Pair) -> None:
    with app.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write("11\t1\tone\n12\t2\t\\N\n")
        rows = written(connection)
        connection.rollback()
    assert [entry.image for row in rows for entry in entries(row)] == [
        [int4(11), int4(1), b"one"],
        [int4(12), int4(2), None],
    ]


def test_rollback_to_savepoint_leaves_no_rows(app: Pair) -> None:
    rows = captured(
        app,
        "SAVEPOINT a",
        "INSERT INTO t VALUES (10, 10, 'gone')",
        "ROLLBACK TO a",
        "INSERT INTO t VALUES (11, 11, 'stays')",
        "DO $$ BEGIN BEGIN DELETE FROM t; RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END; END $$",
    )
    assert [entry.key for row in rows for entry in entries(row)] == [[int4(11)]]


def test_a_transaction_rolled_back_to_before_its_first_write_can_go_on(app: Pair) -> None:
    """With SQL the intent goes with the savepoint, and the next write makes a new one."""
    with app.connect() as connection:
        connection.execute("SAVEPOINT a; INSERT INTO t VALUES (10, 10, ''); ROLLBACK TO a")
        own = "SELECT count(*) FROM psp.commit_intent WHERE xid = pg_current_xact_id()"
        assert connection.execute(own.encode()).fetchone() == (0,)
        connection.execute("INSERT INTO t VALUES (10, 10, '')")
        by_sql = one(connection, "SELECT NOT psp.uses_module()")
        assert one(connection, own) == (1 if by_sql else 0)
        assert len(written(connection)) == 1
        connection.rollback()


def test_the_server_module_captures_where_it_was_built(app: Pair) -> None:
    assert app.uses_module == (module_dir(server_version()) is not None)


def test_move_between_partitions(app: Pair) -> None:
    rows = captured(app, "UPDATE p SET d = 15")
    assert [(row.op, entry.key) for row in rows for entry in entries(row)] == [
        ("d", [int4(1), int4(1)]),
        ("i", [int4(1), int4(15)]),
    ]


@pytest.mark.parametrize("target", ["p", "p1"])
def test_update_inside_a_partition(app: Pair, target: str) -> None:
    rows = captured(app, f"UPDATE {target} SET v = 'two'", f"UPDATE {target} SET d = 2")
    assert [(row.name, row.op) for row in rows] == [("p", "i"), ("p", "d"), ("p", "i")]
    assert the_entry(rows, 2).image == [int4(1), int4(2), b"two"]


def test_insert_into_partitions(app: Pair) -> None:
    rows = captured(app, "INSERT INTO p VALUES (5, 5, ''), (6, 15, '')", "INSERT INTO p2 VALUES (7, 15, '')")
    keys = [entry.key for row in rows for entry in entries(row)]
    assert sorted(keys, key=str) == sorted(
        [[int4(i), int4(d)] for i, d in ((5, 5), (6, 15), (7, 15))], key=str
    )


def test_awkward_column_names(app: Pair) -> None:
    rows = captured(
        app,
        "INSERT INTO awkward VALUES (1, 2, 'r', 4, 5, 'new', 7, 8, 9, 'p', 'op', 12, 13)",
        "UPDATE awkward SET n = 44",
        "UPDATE awkward SET s = 22",
        "UPDATE awkward SET i = 77",
        "DELETE FROM awkward",
    )
    assert [row.op for row in rows] == ["i", "g", "i", "i", "g", "d", "i", "g", "d"]
    assert the_entry(rows, 0).image == [
        *(int4(1), int4(2), b"r", int4(4), int4(5), b"new", int4(7), int4(8), int4(9), b"p", b"op"),
        *(int4(12), int4(13)),
    ]
    assert the_entry(rows, 6).key == [int4(1), int4(77)]
    assert the_entry(rows, 8).key == [int4(1), int4(77)]


# ---- guards -----------------------------------------------------------------------------------------------


def guards(app: Pair, *statements: str) -> list[tuple[str, list[bytes | None]]]:
    """By name: the order in which one statement's guards are captured means nothing."""
    found = [
        (row.name, entry.key) for row in captured(app, *statements) if row.op == "g" for entry in entries(row)
    ]
    return sorted(found, key=lambda guard: guard[0])


def test_guards_of_an_insert(app: Pair) -> None:
    assert guards(app, "INSERT INTO g VALUES (2, 'Xy', 23, 'z', '{}')") == [
        ("g_expression", [b"xy", int4(3)]),
        ("g_nulls", [b"z"]),
        ("g_partial", [int4(23)]),
    ]


def test_nulls_take_no_guard_unless_they_are_not_distinct(app: Pair) -> None:
    assert guards(app, "INSERT INTO g VALUES (2, NULL, NULL, NULL, NULL)") == [("g_nulls", [None])]


def test_partial_index_guards_only_its_rows(app: Pair) -> None:
    assert [name for name, _ in guards(app, "INSERT INTO g VALUES (2, NULL, 5, 'z', NULL)")] == ["g_nulls"]
    assert guards(app, "UPDATE g SET a = NULL") == []
    names = [name for name, _ in guards(app, "UPDATE g SET a = NULL", "UPDATE g SET a = 'n'")]
    assert names == ["g_expression", "g_partial"]


def test_updates_that_change_no_indexed_value_take_no_guard(app: Pair) -> None:
    assert guards(app, "UPDATE g SET d = '[1]', b = b") == []


def test_an_update_takes_the_guard_of_the_new_value_only(app: Pair) -> None:
    assert guards(app, "UPDATE g SET c = 'new'") == [("g_nulls", [b"new"])]


def test_a_key_change_takes_the_guards_again(app: Pair) -> None:
    assert [name for name, _ in guards(app, "UPDATE g SET id = 5")] == [
        "g_expression",
        "g_nulls",
        "g_partial",
    ]


def test_a_guard_beside_a_key_of_a_domain_over_an_enum(app: Pair) -> None:
    assert [row.op for row in captured(app, "UPDATE l SET v = 1")] == ["u"]
    assert sorted(row.op for row in captured(app, "UPDATE l SET v = 2")) == ["g", "u"]


def test_a_delete_takes_no_guard(app: Pair) -> None:
    assert guards(app, "DELETE FROM g") == []


# ---- statements inside statements -------------------------------------------------------------------------


def test_a_row_that_is_written_twice_is_captured_twice(app: Pair) -> None:
    """The daemon has such keys looked up at COMMIT (tests/cluster/commit/test_capture_corners.py)."""
    rows = captured(app, "INSERT INTO nested VALUES (1, 1)")
    assert [the_entry([row]).image for row in rows] == [[int4(1), int4(100)], [int4(1), int4(1)]]


def test_cascades(app: Pair) -> None:
    rows = captured(app, "DELETE FROM parent")
    children = {
        entry.key[0] for row in rows if (row.name, row.op) == ("child", "d") for entry in entries(row)
    }
    assert children == {int4(1), int4(2)}
    rows = captured(app, "UPDATE parent SET id = 3")
    images = [entry.image for row in rows if (row.name, row.op) == ("child", "i") for entry in entries(row)]
    assert images == [[int4(1), int4(3)], [int4(2), int4(3)]]


# ---- encodings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["LATIN1", "UTF8", "EUC_JP"])
def test_client_encoding(app: Pair, encoding: str) -> None:
    with app.connect() as connection:
        connection.execute(f"SET client_encoding = '{encoding}'".encode())
        text = "日本" if encoding == "EUC_JP" else "größe"
        connection.execute("INSERT INTO t VALUES (9, 9, %s)", (text,))
        assert connection.execute("SHOW client_encoding").fetchone() == (encoding,)
        rows = written(connection)
        connection.rollback()
    assert the_entry(rows).image == [int4(9), int4(9), text.encode()]


def test_client_encoding_sql_ascii(app: Pair) -> None:
    """Such a session sends bytes as they are; what it gets back has not changed either."""
    with app.connect() as connection:
        connection.execute("SET client_encoding = 'SQL_ASCII'")
        connection.execute("INSERT INTO t VALUES (9, 9, E'gr\\303\\266\\303\\237e')")
        assert connection.execute("SELECT s FROM t WHERE id = 9").fetchone() == ("größe".encode(),)
        rows = written(connection)
        connection.rollback()
    assert the_entry(rows).image == [int4(9), int4(9), "größe".encode()]


def test_client_encoding_survives_an_error(app: Pair) -> None:
    """An error inside the capture rolls the setting back with everything else."""
    with app.connect() as connection:
        connection.execute("SET client_encoding = 'LATIN1'")
        connection.commit()
        with refused():
            connection.execute(b"BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (9, 9, '')")
        connection.rollback()
        assert connection.execute("SHOW client_encoding").fetchone() == ("LATIN1",)


@pytest.mark.parametrize(
    ("detail", "hint"), [("", ""), ("why", ""), ("", "what to do"), ("why", "what to do")]
)
def test_errors_of_commit_have_no_empty_lines(pair: Pair, detail: str, hint: str) -> None:
    """An empty DETAIL or HINT would be shown as a line that says nothing."""
    pair.adopt()
    with pair.connect() as connection, pytest.raises(psycopg.errors.OutOfMemory) as told:
        connection.execute(
            "SELECT psp.raise_commit_error(gen_random_uuid(), '53200', 'too much', %s, %s)", (detail, hint)
        )
    assert told.value.diag.message_primary == "too much"
    assert told.value.diag.message_detail == (detail or None)
    assert told.value.diag.message_hint == (hint or None)
