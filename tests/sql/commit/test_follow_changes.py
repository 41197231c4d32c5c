"""psp.ddl changes captured tables: what follows in the transaction of the statement. Nothing is committed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE t (id serial PRIMARY KEY, v int, s text, parent int REFERENCES parent);
CREATE UNIQUE INDEX t_s ON t (lower(s));
CREATE INDEX t_parent ON t (parent);
CREATE TABLE empty (id int PRIMARY KEY, v int);
CREATE UNLOGGED TABLE aside (id serial PRIMARY KEY);
CREATE TYPE mood AS ENUM ('sad');
CREATE TABLE felt (id int PRIMARY KEY, mood mood, twice int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO felt VALUES (1, 'sad');
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
ALTER TABLE t ADD CONSTRAINT positive CHECK (v > 0) NOT VALID;
CREATE FUNCTION same(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
INSERT INTO parent VALUES (1, 'one');
INSERT INTO t VALUES (1, 1, 'a', 1);
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def ddl(connection: psycopg.Connection[Any], *statements: str) -> None:
    """As the application's role; afterwards the guard has nothing to say.

    No daemon is here that could be asked about the rows before a statement, so they are forgotten.
    """
    connection.execute("DELETE FROM psp.write_set WHERE table_id > 0 AND op <> 'c'")
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    for statement in statements:
        connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []


def table_ids(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """By the name that is in the catalog of captured tables."""
    rows = connection.execute("SELECT table_name, table_id FROM psp.tables WHERE schema_name <> 'psp'")
    return dict(rows.fetchall())


def changes(connection: psycopg.Connection[Any]) -> dict[int, str]:
    """What the primary is told: table -> hexadecimal digits. The form comes after them."""
    query = (
        b"SELECT table_id, encode(CASE WHEN length(payload) < 5 THEN payload"
        b" ELSE substr(payload, 1, 5 + 4 * get_byte(payload, 4)) END, 'hex')"
        b" FROM psp.write_set WHERE op = 'c' ORDER BY cmin::text::int"
    )
    return dict(connection.execute(query).fetchall())


def captured_in(connection: psycopg.Connection[Any], statement: str) -> list[tuple[int, str]]:
    """The tables and kinds of what the statement captures."""
    connection.execute("DELETE FROM psp.write_set")
    connection.execute(statement.encode())
    return connection.execute("SELECT table_id, op::text FROM psp.write_set ORDER BY 1, 2").fetchall()


def older(connection: psycopg.Connection[Any], table_id: int) -> list[Any]:
    query = b"SELECT until_version, fields FROM psp.older_images WHERE table_id = %s ORDER BY 1"
    return connection.execute(query, [table_id]).fetchall()


def test_the_form_of_a_table(connection: psycopg.Connection[Any]) -> None:
    """What the primary judges keys and images by."""
    ddl(connection, "CREATE TYPE temper AS ENUM ('sad')")
    ddl(connection, "CREATE DOMAIN small AS int NOT NULL")
    ddl(connection, "CREATE DOMAIN name_of AS varchar(9)")
    ddl(
        connection,
        "CREATE TABLE formed (n numeric(10,2), g int GENERATED ALWAYS AS (1) STORED, s varchar(10) NOT NULL,"
        " f float8, m temper, a int[], d small, o name_of, t timestamp(3), PRIMARY KEY (s, n, m, f, o, g))",
    )
    form = bytes(one(connection, "SELECT psp.form_of(table_id) FROM psp.tables WHERE table_name = 'formed'"))
    text, modifier = 25, (10 << 16 | 2) + 4
    columns = [(1700, modifier, 1), (1043, 14, 1), (701, -1, 1), (text, -1, 1), (text, -1, 0), (text, -1, 0),
               (text, -1, 1), (1114, 3, 0)]  # fmt: skip
    key = [(1043, 1, 0), (1700, 0, 1), (text, 3, 3), (701, 2, 2), (1043, 6, 4), (23, -1, 4)]
    expected = struct.pack(">h", len(columns)) + b"".join(struct.pack(">iib", *column) for column in columns)
    expected += struct.pack(">h", len(key)) + b"".join(struct.pack(">iib", *part) for part in key)
    assert form == expected
    payload = one(connection, "SELECT payload FROM psp.write_set WHERE op = 'c'")
    assert bytes(payload) == bytes(5) + form


def test_a_form_follows_what_may_be_null(connection: psycopg.Connection[Any]) -> None:
    announced = "SELECT count(*) FROM psp.write_set WHERE op = 'c'"
    table_id, forms = table_ids(connection)["empty"], set()
    for number, command in enumerate(
        ("SET NOT NULL", "DROP NOT NULL", "TYPE varchar(7)", "TYPE varchar(8)", "TYPE text"), 1
    ):
        ddl(connection, f"ALTER TABLE empty ALTER v {command}")
        assert one(connection, announced) == number
        last = "SELECT payload FROM psp.write_set WHERE op = 'c' ORDER BY cmin::text::int DESC LIMIT 1"
        form = bytes(one(connection, f"SELECT psp.form_of({table_id})"))
        assert bytes(one(connection, last)).endswith(form)
        forms.add(form)
    assert len(forms) == 5


def test_a_new_table_is_captured(connection: psycopg.Connection[Any]) -> None:
    before = table_ids(connection)
    last = one(connection, "SELECT last_number FROM psp.identity")
    ddl(connection, "CREATE TABLE fresh (id serial PRIMARY KEY, name text UNIQUE, v int)")
    number = table_ids(connection)["fresh"]
    assert number == last + 1
    assert {**before, "fresh": number} == table_ids(connection)
    assert changes(connection) == {number: f"00{1:08x}{number + 1:08x}"}
    assert captured_in(connection, "INSERT INTO fresh (name) VALUES ('a')") == [
        (number, "i"),
        (number + 1, "g"),
    ]
    assert one(connection, "SELECT id FROM fresh") == 1  # of the first semi-primary
    assert one(connection, "SELECT stride FROM psp.sequences WHERE sequence_name = 'fresh_id_seq'") == 64
    assert one(connection, "SELECT catalog_version FROM psp.identity") == 2


def test_columns_come_go_and_get_other_names(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["t"]
    ddl(
        connection,
        "ALTER TABLE t ADD COLUMN tags text[] DEFAULT '{a}', ADD COLUMN w bigint DEFAULT 7, DROP COLUMN s",
        "ALTER TABLE t RENAME v TO renamed",
        "ALTER TABLE t ADD COLUMN last date",
    )
    assert older(connection, number) == [
        (1, [{"place": 0}, {"place": 1}, {"place": 3}, {"value": b"{a}".hex()}, {"value": "0000000000000007"},
             {"value": None}])
    ]  # fmt: skip
    assert changes(connection) == {number: f"00{0:08x}"}
    assert captured_in(connection, "UPDATE t SET renamed = 2") == [(number, "i")]


def test_changes_one_after_the_other_keep_all_older_images(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["t"]
    ddl(connection, "ALTER TABLE t ADD COLUMN a int DEFAULT 5")
    # As if the first change had been a transaction of its own.
    connection.execute("SET LOCAL ROLE psp_functions")
    connection.execute("UPDATE psp.schema_history SET statement_n = 9")
    connection.execute("RESET ROLE")
    connection.execute("DELETE FROM psp.write_set")
    ddl(connection, "ALTER TABLE t DROP COLUMN v, ADD COLUMN b text DEFAULT 'x'")
    assert older(connection, number) == [
        (1, [{"place": 0}, {"place": 2}, {"place": 3}, {"value": "00000005"}, {"value": b"x".hex()}]),
        (2, [{"place": 0}, {"place": 2}, {"place": 3}, {"place": 4}, {"value": b"x".hex()}]),
    ]


@pytest.mark.parametrize("number", [5001, 5002])
def test_setval_stands_in_no_changes_way(connection: psycopg.Connection[Any], number: int) -> None:
    ddl(connection, "CREATE SEQUENCE fresh")
    connection.execute("SELECT setval('fresh', %s)", [number])
    ddl(connection, "ALTER TABLE t ADD COLUMN more int", "ALTER SEQUENCE t_id_seq RENAME TO other")


def test_two_tables_exchange_their_names(connection: psycopg.Connection[Any]) -> None:
    before = table_ids(connection)
    ddl(
        connection,
        "ALTER TABLE t RENAME TO x; ALTER TABLE parent RENAME TO t; ALTER TABLE x RENAME TO parent",
    )
    after = table_ids(connection)
    assert (after["t"], after["parent"]) == (before["parent"], before["t"])
    assert captured_in(connection, "UPDATE t SET name = 'two'")[0] == (before["parent"], "i")
    assert captured_in(connection, "UPDATE parent SET v = 9") == [(before["t"], "i")]


def test_a_dropped_table_leaves_nothing(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["t"]
    ddl(connection, "ALTER TABLE t ADD COLUMN a int", "DROP TABLE t")
    assert "t" not in table_ids(connection)
    assert changes(connection)[number] == "01"
    assert older(connection, number) == []
    left = connection.execute(f"SELECT proname FROM pg_proc WHERE proname ~ '_{number}(_|$)'".encode())
    assert left.fetchall() == []
    assert one(connection, "SELECT count(*) FROM psp.sequences WHERE sequence_name = 't_id_seq'") == 0
    ddl(connection, "CREATE TABLE t (id int PRIMARY KEY)")
    assert table_ids(connection)["t"] > number


def test_constraints_and_indexes(connection: psycopg.Connection[Any]) -> None:
    number, parent = (table_ids(connection)[name] for name in ("t", "parent"))
    ddl(
        connection,
        "ALTER TABLE t ADD UNIQUE (v), ALTER v SET NOT NULL, ADD CHECK (v > 0)",
        "DROP INDEX t_s",
        "ALTER TABLE t DROP CONSTRAINT t_parent_fkey",
    )
    assert set(changes(connection)) == {number, parent}
    assert [op for _, op in captured_in(connection, "INSERT INTO t (id, v) VALUES (3, 3)")] == ["i", "g"]


def test_exclusion_constraints(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["t"]
    ddl(connection, "ALTER TABLE t ADD CONSTRAINT once EXCLUDE USING btree (v WITH =) DEFERRABLE")
    assert set(changes(connection)) == {number}
    assert [op for _, op in captured_in(connection, "INSERT INTO t (id, v) VALUES (3, 3)")] == ["i", "g"]
    enabled = "SELECT tgenabled FROM pg_trigger WHERE tgfoid = 'unique_key_recheck'::regproc"
    assert one(connection, enabled) == "A"
    ddl(connection, "ALTER TABLE t DROP CONSTRAINT once")
    assert [op for _, op in captured_in(connection, "INSERT INTO t (id, v) VALUES (4, 4)")] == ["i"]
    ddl(connection, "CREATE TABLE fresh (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&))")
    captured = [op for _, op in captured_in(connection, "INSERT INTO fresh VALUES (1, '[1,2)')")]
    assert captured == ["i", "g"]


def test_triggers_policies_owners_and_sequences(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t DISABLE TRIGGER f",
        "CREATE RULE nothing AS ON UPDATE TO empty DO ALSO NOTHING",
        "ALTER SEQUENCE t_id_seq RENAME TO numbers",
        "ALTER SEQUENCE numbers AS bigint",
        "CREATE SEQUENCE apart START 100 INCREMENT 5",
    )
    assert one(connection, "SELECT nextval('apart')") == 100
    assert one(connection, "SELECT nextval('apart')") == 100 + 5 * 64


def test_partitions(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["parted"]
    ddl(connection, "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)")
    assert changes(connection) == {number: f"00{0:08x}"}
    assert captured_in(connection, "INSERT INTO parted VALUES (11)") == [(number, "i")]
    ddl(connection, "ALTER TABLE parted DETACH PARTITION parted_1")
    assert captured_in(connection, "INSERT INTO parted_1 VALUES (1)") == [
        (table_ids(connection)["parted_1"], "i")
    ]
    ddl(connection, "DROP TABLE parted_1", "TRUNCATE parted_2", "DROP TABLE parted_2")


def test_the_key_of_a_table_without_rows(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["empty"]
    ddl(connection, "ALTER TABLE empty ALTER id TYPE uuid USING NULL, ALTER v TYPE text")
    ddl(connection, "ALTER TABLE empty DROP CONSTRAINT empty_pkey, ADD PRIMARY KEY (v)")
    captured = captured_in(connection, "INSERT INTO empty VALUES (gen_random_uuid(), 'a')")
    assert captured == [(number, "i")]


def test_several_schemas_and_odd_names(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {APPLICATION}".encode())
    ddl(
        connection,
        """CREATE SCHEMA "odd one"
             CREATE TABLE "its ""t"" {key}" ("o'id" int PRIMARY KEY, "%s \\" text UNIQUE)""",
        """ALTER SCHEMA "odd one" RENAME TO other""",
        """ALTER TABLE other."its ""t"" {key}" SET SCHEMA public""",
    )
    assert 'its "t" {key}' in table_ids(connection)


REFUSED = [
    ("inherits", "CREATE TABLE bad (PRIMARY KEY (id)) INHERITS (t)", "inherits"),
    ("unlogged", "ALTER TABLE parted_1 SET UNLOGGED", "permanent"),
    (
        "unlogged-keyless",
        "ALTER TABLE empty DROP CONSTRAINT empty_pkey; ALTER TABLE empty SET UNLOGGED",
        "permanent",
    ),
    ("unlogged-child", "CREATE UNLOGGED TABLE bad (id int REFERENCES t)", "leave their references behind"),
    (
        "unlogged-child-of-a-new-one",
        "CREATE TABLE new (id int PRIMARY KEY); CREATE UNLOGGED TABLE bad (id int REFERENCES new)",
        "leave their references behind",
    ),
    (
        "unlogged-child-later",
        "CREATE UNLOGGED TABLE bad (id int); ALTER TABLE bad ADD FOREIGN KEY (id) REFERENCES t",
        "leave their references behind",
    ),
    (
        "unlogged-child-of-one-that-was",
        "CREATE UNLOGGED TABLE new (id int PRIMARY KEY); CREATE UNLOGGED TABLE bad (id int REFERENCES new);"
        " ALTER TABLE new SET LOGGED",
        "foreign key of an unlogged table",
    ),
    ("force", "ALTER TABLE t FORCE ROW LEVEL SECURITY", "FORCE ROW LEVEL SECURITY"),
    ("cycle", "ALTER SEQUENCE t_id_seq CYCLE", "draw other numbers"),
    ("increment", "ALTER SEQUENCE t_id_seq INCREMENT 1", "draw other numbers"),
    ("restart", "ALTER SEQUENCE t_id_seq RESTART WITH 7", "draw other numbers"),
    (
        "restart-in-pieces",
        "ALTER TABLE t ADD COLUMN more int;"
        " DO $$ BEGIN EXECUTE 'ALTER SEQUENCE t_id_seq RE' || 'START WITH 7'; END $$",
        "in a function that another statement calls",
    ),
    ("psp-trigger", "DROP TRIGGER psp_capture_insert ON t", "psp_capture_insert"),
    ("disable", "ALTER TABLE t DISABLE TRIGGER psp_capture_insert", "switch off"),
    ("disable-user", "ALTER TABLE t DISABLE TRIGGER USER", "switch off"),
    (
        "detached-keyless",
        "ALTER TABLE parted DETACH PARTITION parted_1; ALTER TABLE parted_1 DROP CONSTRAINT parted_1_pkey",
        "is a partition no more",
    ),
    ("reg", "CREATE TABLE bad (id int PRIMARY KEY, c regclass)", "OIDs"),
]

ALL_ROWS = [
    ("volatile", "ALTER TABLE t ADD COLUMN x float DEFAULT random()"),
    ("stable", "ALTER TABLE t ADD COLUMN x timestamptz DEFAULT now()"),
    (
        "stable-hidden",
        "ALTER TABLE t ADD COLUMN x timestamptz DEFAULT now(), ALTER x SET DEFAULT '2020-01-01'",
    ),
    ("serial", "ALTER TABLE t ADD COLUMN x serial"),
    ("identity", "ALTER TABLE t ADD COLUMN x int GENERATED ALWAYS AS IDENTITY"),
    ("rewrite", "ALTER TABLE t ALTER v TYPE bigint"),
    ("using", "ALTER TABLE t ALTER v TYPE int USING v + 1"),
    ("domain", "CREATE DOMAIN d AS int; ALTER TABLE t ALTER v TYPE d"),
    ("no-expression", "ALTER TABLE felt ALTER twice DROP EXPRESSION"),
]


@pytest.mark.parametrize("statement", [r[1] for r in ALL_ROWS], ids=[r[0] for r in ALL_ROWS])
def test_rows_that_the_statement_has_changed_are_sent_again(
    connection: psycopg.Connection[Any], statement: str
) -> None:
    number = table_ids(connection)["felt" if "felt" in statement else "t"]
    ddl(connection, statement)
    captured = connection.execute(
        "SELECT table_id, op::text FROM psp.write_set WHERE op <> 'c' ORDER BY cmin::text::int"
    )
    assert captured.fetchall() == [(0, "i"), (number, "i")]


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t ALTER id TYPE bigint", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)"],
)
def test_rows_get_other_keys(app: Pair, statement: str) -> None:
    """The old keys are deleted before the statement. That needs the daemon, which there is none here."""
    with app.connect() as connection:
        connection.execute("SELECT psp.capture_old_keys(%s, %s)", [statement, APPLICATION])
        captured = connection.execute("SELECT table_id, op::text FROM psp.write_set").fetchall()
        assert captured == [(table_ids(connection)["t"], "d")]
        connection.rollback()


USING = [
    ("id::bigint", True),
    ('"id"::bigint', True),
    ("id :: text::bigint ;", True),
    ("CAST(id AS pg_catalog.int8)", True),
    ("id::numeric(10, 0), ALTER v TYPE text USING v::character varying(20)", True),
    ("id::timestamp(3) with time zone", True),
    ('id::"odd ""type"[]', True),
    ("id + random()::int", False),
    ("id::bigint + random()::bigint", False),
    ("id::bigint, ALTER v TYPE int USING random()::int", False),
    ("replace(id::text, 'using id::bigint, ', random()::text)::bigint", False),
    ("id::timestamptz - now()", False),
    ("nextval('parent_id_seq')", False),
    ("fresh(id)::bigint", False),
    ("CAST(random() AS int)", False),
    ("/* using id::bigint, */ random()::int", False),
]


@pytest.mark.parametrize(("expression", "same"), USING, ids=[u[0] for u in USING])
def test_another_key_of_a_table_to_which_rows_refer(app: Pair, expression: str, same: bool) -> None:
    """Other servers run the statement on their rows, so it must make the same of them there."""
    with app.connect() as connection:
        statement = f"ALTER TABLE parent ALTER id TYPE bigint USING {expression}"
        with nullcontext() if same else refused("other than a cast"):
            connection.execute("SELECT psp.capture_old_keys(%s, %s)", [statement, APPLICATION])
            captured = connection.execute("SELECT table_id, op::text FROM psp.write_set").fetchall()
            assert captured == [(table_ids(connection)["parent"], "e")]
        connection.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE parent ADD u uuid, ALTER name TYPE varchar(9) USING left(name, 9)",
        "ALTER TABLE parent ADD width int, ALTER name TYPE varchar",
    ],
)
def test_a_word_in_which_the_keys_name_is_does_not_name_the_key(app: Pair, statement: str) -> None:
    with app.connect() as connection:
        connection.execute("SELECT psp.capture_old_keys(%s, %s)", [statement, APPLICATION])
        assert connection.execute("SELECT FROM psp.write_set").fetchall() == []
        connection.rollback()


def test_rows_that_are_written_again_with_the_same_columns(connection: psycopg.Connection[Any]) -> None:
    """A trigger of the table's own: then psp has none that names the key and is in the way of ALTER TABLE."""
    number = table_ids(connection)["t"]
    ddl(
        connection,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    )
    ddl(connection, "ALTER TABLE t ALTER v TYPE int USING v + 1")
    query = b"SELECT count(*) FROM psp.write_set WHERE table_id = %s AND op = 'i'"
    assert connection.execute(query, [number]).fetchone() == (1,)


BESIDE_READERS = [
    ("foreign-key", "CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t)"),
    ("not-valid", "ALTER TABLE empty ADD FOREIGN KEY (v) REFERENCES t NOT VALID"),
    ("unique-index", "CREATE UNIQUE INDEX t_v ON t (v)"),
    ("unique-index-of-a-function", "CREATE UNIQUE INDEX t_f ON t (same(v))"),
    ("trigger", "CREATE TRIGGER f BEFORE UPDATE ON t FOR EACH ROW"
                " EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
    ("validate", "ALTER TABLE t VALIDATE CONSTRAINT positive"),
]  # fmt: skip


@pytest.mark.parametrize("statement", [r[1] for r in BESIDE_READERS], ids=[r[0] for r in BESIDE_READERS])
def test_readers_are_not_waited_for_where_postgresql_does_not(
    app: Pair, connection: psycopg.Connection[Any], statement: str
) -> None:
    """A reader that is going to write would wait for the change, and the change for the reader."""
    number = table_ids(connection)["t"]
    with app.connect() as reader:
        reader.execute("SELECT * FROM t")
        connection.execute("SET LOCAL lock_timeout = '2s'")
        ddl(connection, statement)
    assert (number in changes(connection)) == ("VALIDATE" not in statement)
    guards = 2 * ["g"] if "UNIQUE" in statement else ["g"]
    new = captured_in(connection, "INSERT INTO t (id, v, s) VALUES (3, 3, 'c')")
    assert sorted(op for _, op in new) == [*guards, "i"]
    moved = captured_in(connection, "UPDATE t SET id = 4, v = 4 WHERE id = 3")
    ended = ["k", "w"] if "REFERENCES" in statement else []
    assert sorted(op for _, op in moved) == ["d", *guards, "i", *ended]


def test_rows_of_a_new_table_are_sent(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "CREATE TABLE made AS SELECT n AS id FROM generate_series(1, 3) n;"
        "ALTER TABLE made ADD PRIMARY KEY (id)",
    )
    number = table_ids(connection)["made"]
    assert one(connection, "SELECT count(*) FROM psp.write_set WHERE table_id = %s AND op = 'i'", number) == 3
    ddl(connection, "CREATE TABLE late (id int PRIMARY KEY); ALTER TABLE parent ADD COLUMN x int")
    assert one(connection, "SELECT count(*) FROM psp.tables_to_capture") == 0


def test_an_enum_of_a_column_gets_values(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "ALTER TYPE mood ADD VALUE 'glad'",
        "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'calm' BEFORE 'glad'",
    )


def test_an_owners_code_runs_as_the_owner(connection: psycopg.Connection[Any]) -> None:
    """To read the table is enough: the planner calls what stands in the predicates of its indexes."""
    ddl(
        connection,
        "CREATE FUNCTION who() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS "
        "$$ BEGIN ASSERT current_user = 'application', current_user; RETURN true; END $$",
        "CREATE INDEX by_who ON t (v) WHERE who()",
    )
    ddl(connection, "ALTER TABLE t ADD COLUMN x float DEFAULT random()")
    ddl(connection, "ALTER TABLE t ALTER v TYPE numeric")
    with connection.transaction():
        connection.execute("SELECT psp.capture_old_keys('ALTER TABLE t ALTER id TYPE bigint', 'application')")
    assert one(connection, "SELECT count(*) FROM psp.write_set WHERE op = 'd'") == 1


def test_a_partition_with_rows(connection: psycopg.Connection[Any]) -> None:
    number = table_ids(connection)["parted"]
    ddl(
        connection,
        "CREATE TABLE parted_2 (LIKE parted); INSERT INTO parted_2 VALUES (12, 1); "
        "ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20)",
    )
    assert one(connection, "SELECT count(*) FROM psp.write_set WHERE table_id = %s AND op = 'i'", number) == 1
    assert one(connection, "SELECT count(*) FROM ONLY parted_2") == 1
    connection.execute("DELETE FROM psp.write_set")
    ddl(connection, "ALTER TABLE parted DETACH PARTITION parted_2; ALTER TABLE parted_2 RENAME TO apart")
    captured = connection.execute(
        "SELECT table_id, op::text FROM psp.write_set WHERE table_id > 0 AND op <> 'c'"
    )
    assert sorted(captured.fetchall()) == [(number, "e"), (table_ids(connection)["apart"], "i")]
    key = one(connection, "SELECT encode(payload, 'hex') FROM psp.write_set WHERE op = 'e'")
    assert key.endswith("0000000c")


KEYS = [
    ("later", ["CREATE TABLE k (id int)", "ALTER TABLE k ADD PRIMARY KEY (id)"], "k", 0),
    ("rows", ["CREATE TABLE k AS SELECT 1 AS id", "ALTER TABLE k ADD PRIMARY KEY (id)"], "k", 1),
    ("dropped", ["ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD PRIMARY KEY (id, v)"], "t", 1),
    ("column", ["ALTER TABLE t DROP id", "ALTER TABLE t ADD id int PRIMARY KEY DEFAULT 5"], "t", 1),
    (
        "partitions",
        [
            "CREATE TABLE k (id int NOT NULL) PARTITION BY RANGE (id)",
            "CREATE TABLE k_1 PARTITION OF k FOR VALUES FROM (0) TO (10)",
            "CREATE TABLE k_2 (id int NOT NULL)",
            "ALTER TABLE ONLY k ATTACH PARTITION k_2 FOR VALUES FROM (10) TO (20)",
            "ALTER TABLE ONLY k ADD CONSTRAINT k_pkey PRIMARY KEY (id)",
            "ALTER TABLE ONLY k_1 ADD CONSTRAINT k_1_pkey PRIMARY KEY (id)",
            "ALTER TABLE ONLY k_2 ADD CONSTRAINT k_2_pkey PRIMARY KEY (id)",
            "ALTER INDEX k_pkey ATTACH PARTITION k_1_pkey",
            "ALTER INDEX k_pkey ATTACH PARTITION k_2_pkey",
        ],
        "k",
        0,
    ),
    ("partition", ["CREATE TABLE p (id int NOT NULL, v int)",
                   "ALTER TABLE parted ATTACH PARTITION p FOR VALUES FROM (30) TO (40)"], "parted", 0),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "name", "rows"), [k[1:] for k in KEYS], ids=[k[0] for k in KEYS])
def test_a_key_may_come_later(
    connection: psycopg.Connection[Any], statements: list[str], name: str, rows: int
) -> None:
    """The table is captured from then on, with all its rows."""
    before = table_ids(connection)
    for statement in statements[:-1]:
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")
    connection.execute("DELETE FROM psp.write_set WHERE op <> 'c'")
    ddl(connection, statements[-1])
    connection.execute("SET CONSTRAINTS psp.psp_check_key_has_come IMMEDIATE")
    assert one(connection, "SELECT count(*) FROM psp.tables_without_key") == 0
    number = table_ids(connection)[name]
    assert number == before.get(name) or number > max(before.values())
    captured = connection.execute(
        "SELECT op::text FROM psp.write_set WHERE table_id = %s AND op <> 'c'", [number]
    )
    assert captured.fetchall() == [("i",)] * rows
    if name == "t":
        assert changes(connection)[before["t"]] == "01"
    assert changes(connection)[number][:2] == "00"


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE bad (id int)", "CREATE TABLE bad AS SELECT 1", "ALTER TABLE t DROP CONSTRAINT t_pkey"],
)
def test_without_a_key_nothing_commits(app: Pair, statement: str) -> None:
    with app.connect() as connection:
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute("SELECT psp.ddl(%s)", [statement])
        with refused("no primary key"):
            connection.commit()
        connection.rollback()
        connection.execute("SAVEPOINT s")
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute("SELECT psp.ddl(%s)", [statement])
        connection.execute("ROLLBACK TO s")
        connection.commit()


@pytest.mark.parametrize(("statement", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(connection: psycopg.Connection[Any], statement: str, message: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=message):
        ddl(connection, statement)


@pytest.mark.parametrize(
    ("statement", "held"),
    [
        ("ALTER TABLE t ADD w int", "t"),
        ("-- first\nalter table only public.t add w int", "t"),
        ("SELECT 1; DROP TABLE t", "t parent"),
        ("ALTER TABLE t DROP CONSTRAINT t_parent_fkey", "t parent"),
        ("DROP INDEX t_s", "t parent"),
        ("ALTER TABLE t VALIDATE CONSTRAINT positive", ""),
        ("ALTER TABLE t VALIDATE CONSTRAINT positive, ADD w int", "t"),
        ("CREATE UNIQUE INDEX ON empty (v)", "empty"),
        ("ALTER /* route=migrate */ TABLE empty ADD w int", "empty"),
        ("CREATE -- by hand\n UNIQUE /* of */ INDEX ON empty (v)", "empty"),
        ("SELECT 1; /* one */ DROP /* two */ TABLE t", "t parent"),
        ("ALTER /* shop */ TABLE t /* all */ VALIDATE CONSTRAINT positive", ""),
        ("CREATE INDEX ON t (v) /* alter table empty */", "t empty"),
        ("SELECT '/*'; ALTER TABLE empty RENAME v TO \"*/\"", "empty"),
        ("CREATE TABLE child (id int PRIMARY KEY REFERENCES parent)", "parent"),
        ("CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY)", ""),
        ("CREATE TABLE copy (LIKE t)", ""),
        ("CREATE TABLE copy AS SELECT * FROM t", ""),
        ("CREATE INDEX ON t (v)", "t"),  # for its lock
        ("CREATE INDEX CONCURRENTLY t_v ON t (v)", ""),
        ("CREATE INDEX type ON t (v)", "t"),
        ("DROP INDEX t_parent", "t"),
        ("DROP INDEX CONCURRENTLY t_parent", ""),
        ("CREATE POLICY mine ON t USING (v > 0)", "t"),
        ("DROP POLICY mine ON t", "t parent"),
        ("COMMENT ON TABLE t IS 'drop table t'", ""),
        ("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'alter table t add w int'", ""),
    ],
)
def test_whose_writers_at_other_servers_wait(
    connection: psycopg.Connection[Any], statement: str, held: str
) -> None:
    numbers = one(connection, "SELECT psp.tables_to_hold(%s, %s)", statement, APPLICATION)
    ids = table_ids(connection)
    assert set(numbers) == {ids[name] for name in held.split()}


def test_sequences_of_unlogged_tables_are_local(connection: psycopg.Connection[Any]) -> None:
    ddl(connection, "CREATE UNLOGGED TABLE also (id int GENERATED ALWAYS AS IDENTITY, s serial)")
    ddl(connection, "ALTER TABLE empty ADD w int")


def test_who_may_not_change_a_table_does_not_hold_it(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE ROLE weak")
    assert one(connection, "SELECT psp.tables_to_hold('ALTER TABLE t ADD w int', 'weak')") == []
