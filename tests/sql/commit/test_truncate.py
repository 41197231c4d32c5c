"""TRUNCATE is a schema change: what it captures, and the text that goes with the stream. Nothing commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE child (id serial PRIMARY KEY, parent int REFERENCES parent);
CREATE TABLE "Odd; one" (id int PRIMARY KEY);
CREATE TABLE parted (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE parted_2_1 PARTITION OF parted_2 FOR VALUES FROM (10) TO (15);
CREATE UNLOGGED TABLE aside (id int);
INSERT INTO parent VALUES (1, 'one');
INSERT INTO child VALUES (5, 1);
INSERT INTO "Odd; one" VALUES (1);
INSERT INTO parted VALUES (1, 1), (2, 2), (11, 11);
CREATE TABLE old_numbers (id int PRIMARY KEY DEFAULT 1);
CREATE SEQUENCE numbers START 7 OWNED BY old_numbers.id;
CREATE FUNCTION empties_child() RETURNS void LANGUAGE plpgsql AS $$ BEGIN TRUNCATE child; END $$;
CREATE FUNCTION truncates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN TRUNCATE child; RETURN NULL; END $$;
CREATE FUNCTION writes_one() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE format('INSERT INTO %I VALUES (99)', TG_ARGV[0]); RETURN NULL; END $$;
RESET ROLE;
CREATE ROLE cleaner;
GRANT TRUNCATE ON ALL TABLES IN SCHEMA public TO cleaner;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """As the role that may change the schema. (No rollback undoes setval.)"""
    with app.rolled_back() as connection:
        connection.execute("SELECT setval('child_id_seq', 64001)")
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.commit()
        yield connection


def recorded(connection: psycopg.Connection[Any]) -> list[str]:
    """The texts that go with the stream. The guard has nothing to say then, and nothing is left half-way."""
    connection.execute("RESET ROLE")
    connection.execute("RESET SESSION AUTHORIZATION")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    assert connection.execute("SELECT FROM psp.own_commands").fetchall() == []
    assert connection.execute("SELECT FROM psp.truncations").fetchall() == []
    rows = connection.execute("SELECT statement FROM psp.schema_history ORDER BY change, statement_n")
    return [statement for (statement,) in rows]


def captured(connection: psycopg.Connection[Any]) -> list[tuple[str, str, str]]:
    """Table, kind and, of what became of a table, the first byte; in the order of capture."""
    connection.execute("RESET ROLE")
    rows = connection.execute(
        "SELECT coalesce(t.table_name, 'dropped'), w.op::text,"
        "       CASE WHEN w.op = 'c' THEN encode(substr(w.payload, 1, 1), 'hex') ELSE '' END"
        "  FROM psp.write_set w LEFT JOIN psp.tables t USING (table_id)"
        " ORDER BY w.cmin::text::int, 1"
    )
    return [(str(table), str(op), str(what)) for table, op, what in rows]


TEXTS = [
    ("TRUNCATE child", "TRUNCATE public.child", ["child"]),
    ("TRUNCATE TABLE ONLY child CONTINUE IDENTITY", "TRUNCATE public.child", ["child"]),
    ("TRUNCATE parent, child", "TRUNCATE public.child, public.parent", ["child", "parent"]),
    ("TRUNCATE parent CASCADE", "TRUNCATE public.child, public.parent", ["child", "parent"]),
    ("TRUNCATE parent CASCADE; SELECT 1", "TRUNCATE public.child, public.parent", ["child", "parent"]),
    ("TRUNCATE child RESTART IDENTITY", "TRUNCATE public.child RESTART IDENTITY", ["child"]),
    ('TRUNCATE "Odd; one", aside', 'TRUNCATE public."Odd; one"', ["Odd; one"]),
    ("TRUNCATE parted", "TRUNCATE public.parted", ["parted"]),
    ("TRUNCATE parted, parted_1", "TRUNCATE public.parted", ["parted"]),
    ("SELECT empties_child()", "TRUNCATE public.child", ["child"]),
    ("DO 'BEGIN TRUNCATE child;END'", "TRUNCATE public.child", ["child"]),
]  # fmt: skip


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize(("statement", "text", "tables"), TEXTS, ids=[entry[0] for entry in TEXTS])
def test_it_goes_with_the_stream(
    connection: psycopg.Connection[Any], statement: str, text: str, tables: list[str], prepare: bool
) -> None:
    for part in statement.split("; ") if prepare and '"' not in statement else [statement]:
        connection.execute(part.encode(), prepare=prepare)
    assert recorded(connection) == [text]
    assert sorted(captured(connection)) == sorted(
        [("schema_history", "i", ""), *((name, "c", "02") for name in tables)]
    )
    for name in tables:
        assert one(connection, f'SELECT count(*) FROM "{name}"') == 0
    assert one(connection, "SELECT catalog_version FROM psp.identity") == 2


@pytest.mark.parametrize(("statement", "text", "tables"), TEXTS, ids=[entry[0] for entry in TEXTS])
def test_a_text_of_psp_ddl(
    connection: psycopg.Connection[Any], statement: str, text: str, tables: list[str]
) -> None:
    connection.execute("SELECT psp.ddl(%s)", [statement])
    is_query = statement.startswith(("SELECT", "DO"))
    assert recorded(connection) == [text if is_query else statement]
    assert sorted(captured(connection)) == sorted(
        [("schema_history", "i", ""), *((name, "c", "02") for name in tables)]
    )


def test_of_a_partition_the_rows_are_deleted(connection: psycopg.Connection[Any]) -> None:
    connection.execute("TRUNCATE parted_1")
    connection.execute("TRUNCATE parted_2")
    assert recorded(connection) == ["TRUNCATE public.parted_1", "TRUNCATE public.parted_2"]
    kinds = [(table, op) for table, op, _ in captured(connection) if op != "c"]
    assert kinds == [
        ("parted", "e"),
        ("parted", "e"),
        ("schema_history", "i"),
        ("parted", "e"),
        ("schema_history", "i"),
    ]
    assert ("parted", "c", "00") in captured(connection)
    assert ("parted", "c", "02") not in captured(connection)
    keys = connection.execute("SELECT encode(payload, 'hex') FROM psp.write_set WHERE op = 'e'").fetchall()
    assert sorted(key[-8:] for (key,) in keys) == ["00000001", "00000002", "0000000b"]


def test_a_partition_in_a_text_of_psp_ddl(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT psp.ddl('TRUNCATE parted_1; ALTER TABLE parent ADD COLUMN w int')")
    assert sorted(captured(connection)) == [
        ("parent", "c", "00"), ("parted", "c", "00"), ("parted", "e", ""), ("parted", "e", ""),
        ("schema_history", "i", ""),
    ]  # fmt: skip
    assert one(connection, "SELECT count(*) FROM parted") == 1


def test_emptied_and_changed_or_dropped_in_one_text(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "SELECT psp.ddl('TRUNCATE child; DROP TABLE child; TRUNCATE parent; ALTER TABLE parent ADD w int')"
    )
    assert {(op, what) for _, op, what in captured(connection) if op == "c"} == {
        ("c", "00"), ("c", "01"), ("c", "02")
    }  # fmt: skip
    assert len(recorded(connection)) == 1


@pytest.mark.parametrize("sp_id", [1, 2, 64])
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE child, old_numbers RESTART IDENTITY",
        "SELECT psp.ddl('TRUNCATE child, old_numbers RESTART IDENTITY')",
    ],
)
def test_restarted_sequences_draw_numbers_of_their_own(
    connection: psycopg.Connection[Any], statement: str, sp_id: int
) -> None:
    """The smallest ones from the start on that no other semi-primary draws."""
    connection.execute("RESET ROLE")
    connection.execute("UPDATE psp.identity SET sp_id = %s", [sp_id])
    connection.execute("SELECT setval('child_id_seq', 1000 * 64 + %s)", [sp_id])
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute(statement.encode())
    drawn = [one(connection, "SELECT nextval('child_id_seq')") for _ in range(2)]
    assert 1 <= drawn[0] <= 64 and drawn[1] == drawn[0] + 64
    assert (drawn[0] - sp_id) % 64 == 0
    assert 7 <= one(connection, "SELECT nextval('numbers')") <= 70


def test_continued_sequences_go_on(connection: psycopg.Connection[Any]) -> None:
    drawn = one(connection, "SELECT nextval('child_id_seq')")
    connection.execute("TRUNCATE child CONTINUE IDENTITY")
    assert one(connection, "SELECT nextval('child_id_seq')") == drawn + 64


def test_undone_with_its_savepoint(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SAVEPOINT s")
    connection.execute("TRUNCATE child RESTART IDENTITY")
    connection.execute("ROLLBACK TO s")
    connection.execute('TRUNCATE "Odd; one"')
    assert recorded(connection) == ['TRUNCATE public."Odd; one"']
    assert one(connection, "SELECT count(*) FROM child") == 1


def test_with_other_statements(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE VIEW v AS SELECT 1")
    connection.execute("TRUNCATE child")
    connection.execute("INSERT INTO child (parent) VALUES (1)")
    assert ("child", "i") in [row[:2] for row in captured(connection)[-2:]]  # and the key to which it refers
    assert recorded(connection) == ["CREATE VIEW v AS SELECT 1", "TRUNCATE public.child"]


def test_nothing_of_psp_is_emptied_by_a_table_that_stays(connection: psycopg.Connection[Any]) -> None:
    connection.execute("TRUNCATE aside RESTART IDENTITY")
    assert recorded(connection) == []
    assert captured(connection) == []


TRIGGERS = [
    ("CREATE TRIGGER a BEFORE TRUNCATE ON parent EXECUTE FUNCTION writes_one('Odd; one')", ["i", "0"]),
    ("CREATE TRIGGER a AFTER TRUNCATE ON parent EXECUTE FUNCTION writes_one('Odd; one')", ["i", "0"]),
    ("CREATE TRIGGER z AFTER TRUNCATE ON child EXECUTE FUNCTION writes_one('child')", ["0", "i"]),
]  # fmt: skip


@pytest.mark.parametrize(("trigger", "order"), TRIGGERS, ids=["before", "after", "into-the-table"])
def test_rows_of_triggers_stand_where_they_were_written(app: Pair, trigger: str, order: list[str]) -> None:
    """No daemon is here that could be asked about rows before the statement: with such rows it fails."""
    with app.connect() as connection:
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        connection.execute("SELECT psp.ddl(%s)", [trigger])
        connection.execute("RESET ROLE")
        connection.execute("DELETE FROM psp.write_set")
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        if order == ["i", "0"]:
            with pytest.raises(psycopg.errors.ConnectionFailure):
                connection.execute("TRUNCATE parent CASCADE")
        else:
            connection.execute("TRUNCATE parent CASCADE")
            kinds = [(table, op) for table, op, _ in captured(connection) if op != "c"]
            assert kinds == [("schema_history", "i"), ("child", "i")]
        connection.rollback()


REFUSED = [
    ("SET LOCAL ROLE cleaner; TRUNCATE child", "TRUNCATE of public.child is not supported"),
    ("RESET ROLE; TRUNCATE child", "TRUNCATE of public.child is not supported"),
    ("SET LOCAL psp.schema_changes = local; TRUNCATE child", "TRUNCATE of public.child is not supported"),
    ("RESET ROLE; SET LOCAL session_replication_role = replica; TRUNCATE child", "TRUNCATE of public.child"),
    ("RESET ROLE; TRUNCATE psp.schema_history", "TRUNCATE of psp.schema_history is not supported"),
    (
        "CREATE TRIGGER t AFTER UPDATE ON parent EXECUTE FUNCTION truncates(); UPDATE parent SET id = 1",
        "TRUNCATE of public.child is not supported",
    ),
    (
        "CREATE TRIGGER a AFTER TRUNCATE ON child EXECUTE FUNCTION writes_one('child'); TRUNCATE child",
        "has rows that a trigger has written",
    ),
    ("SELECT psp.ddl('TRUNCATE child; INSERT INTO child VALUES (1)')", "has rows|cannot write rows"),
    ("INSERT INTO psp.new_statement (settings) VALUES (psp.statement_settings())", "needs a text"),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "message"), REFUSED, ids=[entry[0] for entry in REFUSED])
def test_refused(app: Pair, connection: psycopg.Connection[Any], statements: str, message: str) -> None:
    parts = statements.split("; ") if "psp.ddl" not in statements else [statements]
    for statement in parts[:-1]:
        connection.execute(statement.encode())
    with refused(message):
        connection.execute(parts[-1].encode())


def test_other_roles_are_told_what_to_do(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL ROLE cleaner")
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        connection.execute("TRUNCATE child")
    assert "DELETE" in str(caught.value.diag.message_hint)
    assert "psp.ddl" in str(caught.value.diag.message_hint)


def test_the_same_at_the_other_servers(connection: psycopg.Connection[Any]) -> None:
    """As the apply worker runs it: nothing is captured, nothing is told, and sequences are this server's."""
    connection.execute("RESET ROLE")
    connection.execute("SELECT setval('child_id_seq', 64001)")
    connection.execute(
        "INSERT INTO psp.apply_session VALUES (true, pg_backend_pid(), pg_postmaster_start_time())"
        " ON CONFLICT (only_row) DO UPDATE SET pid = EXCLUDED.pid, server_start = EXCLUDED.server_start"
    )
    connection.execute("SET LOCAL session_replication_role = replica")
    connection.execute("SET LOCAL ROLE psp_functions")
    connection.execute(
        "INSERT INTO psp.schema_history VALUES (1, 1, now(), 'south', %s, psp.statement_settings(),"
        " 'TRUNCATE public.parent, public.child RESTART IDENTITY')",
        [APPLICATION],
    )
    assert recorded(connection) == ["TRUNCATE public.parent, public.child RESTART IDENTITY"]
    assert captured(connection) == []
    assert one(connection, "SELECT count(*) FROM parent") == 0
    assert 1 <= one(connection, "SELECT nextval('child_id_seq')") <= 64
    assert one(connection, "SELECT catalog_version FROM psp.identity") == 2
