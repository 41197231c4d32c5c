"""What foreign keys capture: keys referred to ('s'), keys that end ('k'), what could be seen before ('w').

It is looked at in the open transaction, which is rolled back, so no daemon is needed.
"""

from __future__ import annotations

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair, needs_icu, one, without_case
from tests.sql.write_sets import Written, written

COARSE = bytes.fromhex("00000001000000110000000400000000")
# Type of the parent's key, type of the child's column, the parent's value, the child's equal one.
SAME_BYTES = [
    ("int", "int", "7", "7"),
    ("int2", "int8", "7", "7"),
    ("int2", "int4", "-32768", "-32768"),
    ("int4", "int2", "7", "7"),
    ("int4", "int8", "-2147483648", "-2147483648"),
    ("int8", "int2", "7", "7"),
    ("int8", "int4", "7", "7"),
    ("numeric", "int4", "7.00", "7"),
    ("numeric", "int8", "700", "700"),
    ("numeric(10,2)", "numeric", "7.1", "7.1000"),
    ("float8", "float8", "-0", "0"),
    ("float8", "float4", "'NaN'", "'NaN'"),
    ("float4", "float4", "-0", "0"),
    ("text", "text", "'é'", "'é'"),
    ("text", "varchar(9)", "'a '", "'a '"),
    ("text", "char(9)", "'a'", "'a'"),
    ("varchar(9)", "text", "'a'", "'a'"),
    ("varchar(9)", "varchar", "'a'", "'a'"),
    ("varchar(9)", "char(4)", "'a'", "'a'"),
    ("char(9)", "char(4)", "'é'", "'é'"),
    ("char(4)", "char(9)", "'a'", "'a'"),
    ("char(9)", "text", "'a'", "'a  '"),
    ("char(9)", "bpchar", "'a'", "'a'"),
    ("bpchar", "bpchar", "'a '", "'a'"),
    ("bpchar", "varchar", "'a'", "'a  '"),
    ("bpchar", "char(4)", "'a'", "'a'"),
    ("unpadded", "text", "'a'", "'a  '"),
    ("unpadded", "unpadded", "'a '", "'a'"),
    ("bpchar", "unpadded", "'a'", "'a '"),
    ("char(4)", "unpadded", "'a'", "'a'"),
    ("unpadded", "char(4)", "'a '", "'a'"),
    ("mood", "mood", "'sad'", "'sad'"),
    ("positive", "int8", "7", "7"),
    ("int8", "positive", "7", "7"),
    ("code", "char(9)", "'a'", "'a'"),
    ("char(9)", "code", "'a'", "'a'"),
    ("short", "varchar", "'a'", "'a'"),
    ("text", "short", "'a'", "'a'"),
    ("money_like", "numeric", "7.10", "7.1"),
    ("uuid", "uuid", "'00000000-0000-0000-0000-000000000007'", "'00000000-0000-0000-0000-000000000007'"),
    ("date", "date", "'2026-01-01'", "'2026-01-01'"),
    ("timestamptz(0)", "timestamptz", "'2026-01-01'", "'2026-01-01'"),
    ("bytea", "bytea", r"'\x00ff'", r"'\x00ff'"),
    ("bool", "bool", "true", "true"),
    ("name", "name", "'n'", "'n'"),
]
# Equal values of these have unequal bytes: only the guard of a UNIQUE constraint can have them.
SAME_HASH = [
    ("nocase", "nocase", "'A'", "'a'"),
    ("nocase", "text", "'A'", "'a'"),
    ("interval", "interval", "'1 day'", "'24 hours'"),
    ("int[]", "int[]", "'{1,2}'", "'{1,2}'"),
    ("jsonb", "jsonb", "'[1.0]'", "'[1.0]'"),
    ("pair", "pair", "ROW(1, 2)", "ROW(1, 2)"),
    ("mood[]", "mood[]", "'{sad}'", "'{sad}'"),
]
COARSE_PAIRS = [
    ("float8", "int4", "7", "7"),
    ("float4", "float8", "7", "7"),
    ("timestamp", "date", "'2026-01-01'", "'2026-01-01'"),
    ("name", "text", "'n'", "'n'"),
]
TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE DOMAIN code AS char(4);
CREATE DOMAIN short AS varchar(4);
CREATE DOMAIN money_like AS numeric(9,2); CREATE DOMAIN unpadded AS bpchar;
CREATE DOMAIN nocase AS text COLLATE nocase_of;
"""
TABLES = """
CREATE TABLE parent (id int PRIMARY KEY, v int, code text UNIQUE, nothing int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, v int);
CREATE TABLE by_code (id int PRIMARY KEY, code text REFERENCES parent (code) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE composite (b int, a int, v int, PRIMARY KEY (a, b));
CREATE TABLE simple (id int PRIMARY KEY, y int, x bigint, FOREIGN KEY (y, x) REFERENCES composite (b, a));
CREATE TABLE complete (id int PRIMARY KEY, x int, y int, FOREIGN KEY (x, y) REFERENCES composite MATCH FULL);
CREATE TABLE tree (id int PRIMARY KEY,
                   up int REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE generated (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED REFERENCES parent);
CREATE TABLE doubles (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED UNIQUE);
CREATE TABLE of_doubles (id int PRIMARY KEY, twice int REFERENCES doubles (twice));
CREATE TABLE parts (d int, id int, v int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE parts_1 (v int, id int NOT NULL, d int NOT NULL);
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE TABLE lines (id int, d int, part int, PRIMARY KEY (id, d), FOREIGN KEY (part, d) REFERENCES parts
                    ON DELETE CASCADE ON UPDATE CASCADE) PARTITION BY RANGE (d);
CREATE TABLE lines_1 PARTITION OF lines FOR VALUES FROM (0) TO (10);
CREATE TABLE lines_2 PARTITION OF lines FOR VALUES FROM (10) TO (20);
CREATE TABLE of_a_part (id int PRIMARY KEY, d int, part int,
                        FOREIGN KEY (d, part) REFERENCES parts_1 (d, id));
CREATE TABLE nullable (id int PRIMARY KEY, a int, b int, UNIQUE NULLS NOT DISTINCT (a, b));
CREATE TABLE of_nullable (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a, b) REFERENCES nullable (a, b));
CREATE TABLE late (id int PRIMARY KEY, parent int);
ALTER TABLE late ADD CONSTRAINT unproven FOREIGN KEY (parent) REFERENCES parent NOT VALID;
CREATE TABLE "awkward R" (r int, x int, i int, "psp_k" int, "Ä ""b" int, PRIMARY KEY (r, "Ä ""b"));
CREATE TABLE "of awkward" (id int PRIMARY KEY, "r" int, "Ä ""c" int,
                           FOREIGN KEY (r, "Ä ""c") REFERENCES "awkward R");
CREATE TABLE moved (id int PRIMARY KEY, parent int REFERENCES parent);
CREATE FUNCTION to_two() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.parent := 2; RETURN NEW; END';
CREATE TRIGGER to_two BEFORE UPDATE ON moved FOR EACH ROW EXECUTE FUNCTION to_two();
INSERT INTO parent VALUES (1, 1, 'one'), (2, 2, 'two'), (4, 4, NULL);
INSERT INTO composite VALUES (2, 1, 0); INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2);
INSERT INTO parts VALUES (1, 1, 1), (2, 1, 1), (12, 1, 1); INSERT INTO lines VALUES (1, 1, 1);
INSERT INTO doubles VALUES (1), (2); INSERT INTO nullable VALUES (1, NULL, NULL), (2, 1, 1);
INSERT INTO moved VALUES (1, 4);
"""
ACTIONS = [(on, action) for on in ("DELETE", "UPDATE") for action in ("CASCADE", "SET NULL", "SET DEFAULT")]


def typed(pairs: list[tuple[str, str, str, str]], kind: str, key: str) -> str:
    return "".join(
        f"CREATE TABLE {kind}_p{n} (id int, k {parent} NOT NULL, {key});\n"
        f"CREATE TABLE {kind}_c{n} (id int PRIMARY KEY, k {child} REFERENCES {kind}_p{n} (k));\n"
        f"INSERT INTO {kind}_p{n} VALUES (1, {value});\n"
        for n, (parent, child, value, _) in enumerate(pairs)
    )


def with_actions() -> str:
    return "".join(
        f"CREATE TABLE acted_{n} (id int PRIMARY KEY,"
        f" parent int DEFAULT 2 REFERENCES parent ON {on} {action});\n"
        f"CREATE TABLE acted_in_{n} (id int PRIMARY KEY,"
        f" parent int DEFAULT 2 REFERENCES parent ON {on} {action})"
        f" PARTITION BY RANGE (id);\nCREATE TABLE acted_in_{n}_1 PARTITION OF acted_in_{n} DEFAULT;\n"
        for n, (on, action) in enumerate(ACTIONS)
    )


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(
        server, without_case(server, "nocase_of"), TYPES, TABLES, with_actions(),
        typed(SAME_BYTES, "same", "PRIMARY KEY (k)"),
        typed(SAME_BYTES, "unique", "PRIMARY KEY (id), UNIQUE (k)"),
        typed(SAME_HASH, "hash", "PRIMARY KEY (id), UNIQUE (k)"),
        typed(COARSE_PAIRS, "coarse", "PRIMARY KEY (id), UNIQUE (k)"),
    )  # fmt: skip


def captured(app: Pair, *statements: str) -> list[Written]:
    """What the last of the statements captures."""
    with app.connect() as connection:
        for statement in statements[:-1]:
            connection.execute(statement.encode())
        before = one(connection, "SELECT count(*) FROM psp.captured")
        connection.execute("UPDATE psp.commit_intent SET ended = false WHERE NOT filler")
        connection.execute(statements[-1].encode())
        found = written(connection)[before:]
        connection.rollback()
    return found


def int4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def record(*values: bytes, type_oid: int = 23) -> bytes:
    return int4(len(values)) + b"".join(int4(type_oid) + int4(len(value)) + value for value in values)


def key(*values: int) -> bytes:
    """A payload with one key of integers."""
    return record(record(*map(int4, values)), type_oid=17)


def of(rows: list[Written], op: str) -> list[tuple[str, bytes]]:
    return [(row.name, row.payload) for row in rows if row.op == op]


def payload(rows: list[Written], op: str) -> bytes:
    (found,) = (row.payload for row in rows if row.op == op)
    return found


def label(case: tuple[str, str, str, str]) -> str:
    return f"{case[0]}-{case[1]}"


@pytest.mark.parametrize("case", SAME_BYTES, ids=label)
def test_a_row_refers_to_the_bytes_of_the_primary_key(app: Pair, case: tuple[str, str, str, str]) -> None:
    n = SAME_BYTES.index(case)
    share = of(captured(app, f"INSERT INTO same_c{n} VALUES (1, {case[3]})"), "s")
    gone = captured(app, f"DELETE FROM same_p{n}")
    assert share == of(gone, "k") == of(gone, "d")


UNIQUE_CASES = [
    pytest.param(case, marks=needs_icu if "nocase" in case else (), id=label(case))
    for case in (*SAME_BYTES, *SAME_HASH)
]


@pytest.mark.parametrize("case", UNIQUE_CASES)
def test_a_row_refers_to_the_bytes_of_the_guard(app: Pair, case: tuple[str, str, str, str]) -> None:
    kind, cases = ("hash", SAME_HASH) if case in SAME_HASH else ("unique", SAME_BYTES)
    n = cases.index(case)
    share = of(captured(app, f"INSERT INTO {kind}_c{n} VALUES (1, {case[3]})"), "s")
    gone = of(captured(app, f"DELETE FROM {kind}_p{n}"), "k")
    taken = of(
        captured(app, f"DELETE FROM {kind}_p{n}", f"INSERT INTO {kind}_p{n} VALUES (1, {case[2]})"), "g"
    )
    assert share == gone == taken


@pytest.mark.parametrize("case", COARSE_PAIRS, ids=label)
def test_types_that_have_no_equal_bytes_share_one_key(app: Pair, case: tuple[str, str, str, str]) -> None:
    n = COARSE_PAIRS.index(case)
    assert payload(captured(app, f"INSERT INTO coarse_c{n} VALUES (1, {case[3]})"), "s") == COARSE
    assert captured(app, f"INSERT INTO coarse_c{n} VALUES (1, NULL)")[1:] == []
    gone = [bytes_ for _, bytes_ in of(captured(app, f"DELETE FROM coarse_p{n}"), "k")]
    assert len(gone) == 2 and COARSE in gone


def test_a_value_that_the_parents_type_cannot_hold_is_no_key(app: Pair) -> None:
    n = SAME_BYTES.index(("int4", "int8", "-2147483648", "-2147483648"))
    with app.connect() as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):  # not out of range
        connection.execute(f"INSERT INTO same_c{n} VALUES (1, 3000000000)".encode())


CAPTURED = [
    # statement, keys referred to, keys that end
    ("INSERT INTO child VALUES (1, 1, 0), (2, 1, 0), (3, NULL, 0)", [("parent", key(1))] * 2, []),
    ("INSERT INTO simple VALUES (1, 2, 1), (2, NULL, 1), (3, 2, NULL)", [("composite", key(1, 2))], []),
    ("INSERT INTO complete VALUES (1, 1, 2), (2, NULL, NULL)", [("composite", key(1, 2))], []),
    ("INSERT INTO generated (id) VALUES (2)", [("parent", key(4))], []),
    ("INSERT INTO of_doubles VALUES (1, 4)", [("doubles_twice_key", key(4))], []),
    ("INSERT INTO lines VALUES (2, 1, 1), (3, 12, 1)", [("parts", key(1, 1)), ("parts", key(1, 12))], []),
    ("INSERT INTO of_a_part VALUES (1, 1, 1)", [("parts", key(1, 1))], []),
    ("INSERT INTO of_nullable VALUES (1, 1, 1), (2, 1, NULL)", [("nullable_a_b_key", key(1, 1))], []),
    ("INSERT INTO late VALUES (1, 2)", [("parent", key(2))], []),
    ("INSERT INTO moved VALUES (2, 4) ON CONFLICT (id) DO UPDATE SET id = 3", [("parent", key(4))], []),
    ("UPDATE moved SET id = 5", [("parent", key(2))], []),
    ("UPDATE parent SET v = 3, id = id, code = code", [], []),
    ("UPDATE parent SET nothing = 1", [], []),
    ("UPDATE composite SET b = 3", [], [("composite", key(1, 2))]),
    ("UPDATE composite SET v = 3", [], []),
    ("UPDATE doubles SET id = 3 WHERE id = 2", [], [("doubles_twice_key", key(4))]),
    ("DELETE FROM nullable", [], [("nullable_a_b_key", key(1, 1))]),
    ("DELETE FROM parts WHERE id = 1 AND d = 2", [], [("parts", key(1, 2))]),
    ("DELETE FROM parts WHERE id = 1 AND d = 1", [], [("parts", key(1, 1))]),
    ("UPDATE parts SET d = 13 WHERE d = 12", [], [("parts", key(1, 12))]),
    ("UPDATE parts SET d = 3 WHERE d = 12", [], [("parts", key(1, 12))]),
    ("UPDATE parts SET d = 4 WHERE d = 1", [("parts", key(1, 4))], [("parts", key(1, 1))]),
    ("DELETE FROM tree WHERE id = 1", [], [("tree", key(n)) for n in (1, 2, 3)]),
    ("UPDATE tree SET id = 9 WHERE id = 2", [("tree", key(9))], [("tree", key(2))]),
    ("UPDATE tree SET up = 1 WHERE id = 3", [("tree", key(1))], []),
    ("UPDATE tree SET up = NULL", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "shared", "ended"), CAPTURED, ids=[c[0] for c in CAPTURED])
def test_what_is_captured(
    app: Pair, statement: str, shared: list[tuple[str, bytes]], ended: list[tuple[str, bytes]]
) -> None:
    rows = captured(app, statement)
    assert sorted(of(rows, "s")) == sorted(shared)
    assert sorted(of(rows, "k")) == sorted(ended)
    assert len(of(rows, "w")) == (1 if ended else 0)


def test_a_deferred_key_of_a_unique_constraint(app: Pair) -> None:
    rows = captured(app, "INSERT INTO by_code VALUES (1, 'two')")
    gone = captured(app, "DELETE FROM parent WHERE id = 2")
    assert sorted(of(gone, "k")) == [("parent", key(2)), *of(rows, "s")]
    assert of(rows, "s")[0][0] == "parent_code_key"


@pytest.mark.parametrize(("on", "action"), ACTIONS)
@pytest.mark.parametrize("table", ["acted", "acted_in"])
def test_actions(app: Pair, table: str, on: str, action: str) -> None:
    n = ACTIONS.index((on, action))
    statement = "DELETE FROM parent" if on == "DELETE" else "UPDATE parent SET id = 7"
    rows = captured(app, f"INSERT INTO {table}_{n} VALUES (1, 1)", f"{statement} WHERE id = 1")
    shared = {"CASCADE": [] if on == "DELETE" else [("parent", key(7))], "SET NULL": []}
    assert of(rows, "s") == shared.get(action, [("parent", key(2))])
    assert ("parent", key(1)) in of(rows, "k")
    assert (f"{table}_{n}", "d" if (on, action) == ("DELETE", "CASCADE") else "i") in [
        (row.name, row.op) for row in rows
    ]


def test_a_foreign_key_that_is_set_again(app: Pair) -> None:
    """Only where a column of the foreign key has changed."""
    first = "INSERT INTO child VALUES (1, 1, 0)"
    assert of(captured(app, first, "UPDATE child SET v = 1"), "s") == []
    assert of(captured(app, first, "UPDATE child SET parent = 1, v = 1"), "s") == []
    assert of(captured(app, first, "UPDATE child SET parent = 2"), "s") == [("parent", key(2))]


def test_names_that_psp_uses_itself(app: Pair) -> None:
    insert = ['INSERT INTO "awkward R" VALUES (1, 0, 0, 0, 2)', 'INSERT INTO "of awkward" VALUES (1, 1, 2)']
    assert of(captured(app, *insert), "s") == [("awkward R", key(1, 2))]
    gone = captured(app, *insert, 'DELETE FROM "of awkward"', 'DELETE FROM "awkward R"')
    assert of(gone, "k") == [("awkward R", key(1, 2))]


def test_settings_of_the_session_do_not_matter(app: Pair) -> None:
    settings = "SET LOCAL standard_conforming_strings = off; SET LOCAL client_encoding = 'LATIN1'"
    n = SAME_BYTES.index(("text", "char(9)", "'a'", "'a'"))
    assert of(captured(app, settings, f"INSERT INTO same_c{n} VALUES (1, 'a')"), "s") == of(
        captured(app, f"DELETE FROM same_p{n}"), "k"
    )


def seen(row: Written) -> str:
    return row.payload.decode()


def test_what_could_be_seen_is_told_once(app: Pair) -> None:
    """Also after a savepoint that took it back; by the snapshot of that moment, not of COMMIT."""
    with app.connect() as connection, app.connect(autocommit=True) as other:
        connection.execute("INSERT INTO child VALUES (9, 4, 0)")
        connection.execute("SAVEPOINT s")
        connection.execute("DELETE FROM composite")
        connection.execute("ROLLBACK TO s")
        before = one(connection, "SELECT watermark FROM psp.watermark")
        other.execute("INSERT INTO psp.watermarks VALUES (%s)", [before + 5])
        other.execute("INSERT INTO psp.applied VALUES (%s, gen_random_uuid()), (%s, gen_random_uuid())",
                      [before + 9, before + 7])  # fmt: skip
        connection.execute("DELETE FROM parent WHERE id = 2")
        other.execute("INSERT INTO psp.watermarks VALUES (%s)", [before + 6])
        connection.execute("DELETE FROM doubles WHERE id = 2")
        rows = written(connection)
        connection.rollback()
        other.execute("DELETE FROM psp.applied")
        other.execute("DELETE FROM psp.watermarks WHERE watermark > %s", [before])
    assert [seen(row) for row in rows if row.op == "w"] == [f"{before + 5} {before + 7},{before + 9}"]


def test_repeatable_read_tells_its_own_snapshot(app: Pair) -> None:
    with app.connect() as connection, app.connect(autocommit=True) as other:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = one(connection, "SELECT watermark FROM psp.watermark")
        other.execute("INSERT INTO psp.watermarks VALUES (%s)", [before + 5])
        connection.execute("DELETE FROM composite")
        rows = written(connection)
        connection.rollback()
        other.execute("DELETE FROM psp.watermarks WHERE watermark > %s", [before])
    assert [seen(row) for row in rows if row.op == "w"] == [f"{before} -"]


def test_it_is_called_before_postgresql_looks(app: Pair) -> None:
    """Triggers of one event run in the order of their names."""
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT ON (tgrelid) tgname FROM pg_trigger"
            " WHERE tgtype::int & 8 > 0 AND tgtype::int & 2 = 0"
            " AND tgtype::int & 1 > 0"
            " AND tgrelid IN ('parent'::regclass, 'parts_1'::regclass, 'tree'::regclass)"
            ' ORDER BY tgrelid, tgname COLLATE "C"'
        ).fetchall()
    assert rows == [("PSP_ended",)] * 3


def test_only_parents_and_children_have_the_triggers(app: Pair) -> None:
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger"
            " WHERE tgname IN ('PSP_ended', 'psp_capture_share')"
            " AND tgrelid IN ('parent'::regclass, 'child'::regclass, 'tree'::regclass) ORDER BY 1, 2"
        ).fetchall()
    # Which keys a changed row shares the module's trigger for rows tells.
    shares = [] if app.uses_module else [("child", "psp_capture_share"), ("tree", "psp_capture_share")]
    assert rows == sorted([("parent", "PSP_ended"), ("tree", "PSP_ended"), *shares])


def test_what_is_noted_for_the_daemon(app: Pair) -> None:
    query = """SELECT k ->> 'constraint', p.table_name
                 FROM psp.tables t, jsonb_array_elements(t.foreign_keys) k
               JOIN psp.tables p ON p.table_id = (k ->> 'refers_to')::int WHERE t.table_name = 'simple'"""
    with app.connect() as connection:
        assert connection.execute(query).fetchall() == [("simple_y_x_fkey", "composite")]
