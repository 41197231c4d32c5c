"""Reads and advisory locks that COMMIT certifies: their bytes, who may ask for them, what is refused."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psp.sql_files import constant

from tests.sql.databases import APPLICATION, Pair, adopted_pair
from tests.sql.write_sets import fields

STRANGER = "unrelated"
SCHEMA = f"""
CREATE ROLE {STRANGER} LOGIN;
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TYPE size AS ENUM ('small', 'large');
CREATE DOMAIN code AS varchar(5) CHECK (length(VALUE) < 4);
CREATE DOMAIN sized AS size;
CREATE TABLE doctor (id int PRIMARY KEY, on_call boolean);
CREATE TABLE several (a int, b text, c numeric(9, 3), PRIMARY KEY (a, b, c));
CREATE TABLE codes (c code PRIMARY KEY);
CREATE TABLE sizes (s size PRIMARY KEY);
CREATE TABLE domains (s sized PRIMARY KEY);
CREATE TABLE padded (p char(4) PRIMARY KEY);
CREATE TABLE floats (f float8 PRIMARY KEY);
CREATE TABLE days (d date PRIMARY KEY);
CREATE TABLE instants (t timestamptz PRIMARY KEY);
CREATE TABLE ids (u uuid PRIMARY KEY);
CREATE TABLE bytes (b bytea PRIMARY KEY);
CREATE TABLE parted (id int PRIMARY KEY, doctor int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 (doctor int CONSTRAINT of_part REFERENCES doctor, id int NOT NULL);
ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE aside (id int PRIMARY KEY);
CREATE VIEW seen AS SELECT * FROM doctor;
CREATE TABLE child (id int PRIMARY KEY, doctor int CONSTRAINT of_doctor REFERENCES doctor,
                    a bigint, b text, c numeric(9, 3), s size CONSTRAINT of_size REFERENCES sizes,
                    f real CONSTRAINT of_float REFERENCES floats,
                    CONSTRAINT of_several FOREIGN KEY (c, a, b) REFERENCES several (c, a, b));
CREATE CAST (text AS size) WITH INOUT AS IMPLICIT;
"""
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.application() as connection:
        connection.execute(SNAPSHOT.encode())
        yield connection


def captured(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    connection.execute("RESET SESSION AUTHORIZATION; SET LOCAL client_encoding = 'UTF8'")
    query = b"SELECT table_id, op::text, payload FROM psp.captured ORDER BY cmin::text::int"
    return connection.execute(query).fetchall()


def number(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute("SELECT table_id FROM psp.tables WHERE table_name = %s", [table]).fetchone()
    assert row is not None
    return int(row[0])


KEYS = [
    ("doctor", "7", "7"),
    ("doctor", "7", "'7'"),
    ("doctor", "7", "7::bigint"),
    ("several", "1, 'it''s \\', 1.5", "'1', 'it''s \\', '1.50'"),
    ("codes", "'abc'", "'abc'"),
    ("codes", "'abc'", "'abc'::code"),
    ("sizes", "'large'", "'large'"),
    ("sizes", "'large'", "'large'::size"),
    ("domains", "'large'", "'large'::sized"),
    ("padded", "'ab'", "'ab'"),
    ("padded", "'ab'", "'ab  '::char(4)"),
    ("floats", "0.1", "0.1::float8"),
    ("floats", "0", "'-0'"),
    ("floats", "1e300", "1e300::float8"),
    ("days", "'2030-12-01'", "'1.12.2030'"),
    ("days", "'2030-12-01'", "'1.12.2030'::date"),
    ("instants", "'2030-12-01 10:00+01'", "'1.12.2030 11:00+02'"),
    ("instants", "'2030-12-01 10:00+01'", "'2030-12-01 10:00+01'::timestamptz"),
    ("ids", "'11111111-1111-1111-1111-111111111111'", "'11111111-1111-1111-1111-111111111111'::uuid"),
    ("bytes", "'\\x00ff'", "'\\x00ff'::bytea"),
    ("parted", "3", "3"),
]


@pytest.mark.parametrize(("table", "row", "key"), KEYS, ids=[f"{k[0]}-{k[2]}" for k in KEYS])
def test_the_key_has_the_bytes_that_the_row_has(
    connection: psycopg.Connection[Any], table: str, row: str, key: str
) -> None:
    """Under settings of a session that writes values otherwise."""
    connection.execute(
        "SET LOCAL datestyle = 'German, DMY'; SET LOCAL extra_float_digits = -10; "
        "SET LOCAL bytea_output = escape; SET LOCAL timezone = 'Europe/Lisbon'; "
        "SET LOCAL client_encoding = 'LATIN1'"
    )
    connection.execute(f"SELECT psp.certify_read('{table}', {key})".encode())
    connection.execute(f"INSERT INTO {table} VALUES ({row})".encode())
    connection.execute(f"DELETE FROM {table}".encode())
    read, deleted = [row for row in captured(connection) if row[1] in "rd"]
    assert read == (number(connection, table), "r", deleted[2])
    assert deleted[1] == "d"


def test_text_in_another_encoding(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL client_encoding = 'LATIN1'")
    connection.execute("SELECT psp.certify_read('codes', %s)", ["né"])
    ((_, _, payload),) = captured(connection)
    ((key,), rest) = fields(bytes(payload))
    assert key is not None and fields(key)[0] == ["né".encode()] and rest == b""


def test_a_table_and_a_partition(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT psp.certify_read_table('doctor'), psp.certify_read('parted_1', 3)")
    rows = captured(connection)
    assert rows[0] == (number(connection, "doctor"), "t", b"")
    assert rows[1][:2] == (number(connection, "parted"), "r")


REFERRERS = [
    ("of_doctor", "7", "doctor", "7"),
    ("of_doctor", "7", "doctor", "'7'"),
    ("of_several", "1, 'x', 1.5", "a, b, c", "'1.50', '1', 'x'"),
    ("of_size", "'large'", "s", "'large'"),
    ("of_size", "'large'", "s", "'large'::size"),
    ("of_float", "0.5", "f", "0.5::float8"),
]


@pytest.mark.parametrize(
    ("constraint", "row", "columns", "key"), REFERRERS, ids=[f"{r[0]}-{r[3]}" for r in REFERRERS]
)
def test_rows_that_refer_to_a_key(
    connection: psycopg.Connection[Any], constraint: str, row: str, columns: str, key: str
) -> None:
    """The key is the one that the row shares, and the row is there by its own key."""
    parent = {"doctor": "doctor", "a, b, c": "several", "s": "sizes", "f": "floats"}[columns]
    connection.execute(f"INSERT INTO {parent} VALUES ({row})".encode())
    connection.execute(f"INSERT INTO child (id, {columns}) VALUES (3, {row})".encode())
    connection.execute("INSERT INTO child (id) VALUES (4)")
    connection.execute(f"SELECT psp.certify_read_referrers('child', '{constraint}', {key})".encode())
    connection.execute("DELETE FROM child WHERE id = 3")
    rows = captured(connection)
    (shared,) = [r for r in rows if r[1] == "s"]
    assert [r for r in rows if r[1] == "f"] == [(shared[0], "f", shared[2])]
    (deleted,) = [r for r in rows if r[1] == "d"]
    assert [r for r in rows if r[1] == "r"] == [(deleted[0], "r", deleted[2])]


@pytest.mark.parametrize("table", ["parted", "parted_1"])
def test_a_foreign_key_that_a_partition_has_alone(connection: psycopg.Connection[Any], table: str) -> None:
    connection.execute("INSERT INTO doctor VALUES (5); INSERT INTO parted VALUES (3, 5)")
    connection.execute(f"SELECT psp.certify_read_referrers('{table}', 'of_part', 5)".encode())
    rows = captured(connection)
    assert [r[1] for r in rows[-2:]] == ["f", "r"]
    assert rows[-2][::2] == next(r for r in rows if r[1] == "s")[::2]


def test_a_role_that_may_change_the_schema(app: Pair) -> None:
    """The function that reads the rows is made for a moment, which is no change of the schema."""
    with app.connect() as connection:
        connection.execute(
            f"{SNAPSHOT}; GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}; "
            f"SET ROLE {APPLICATION}".encode()
        )
        connection.execute("SELECT psp.certify_read_referrers('child', 'of_doctor', 5)")
        assert [op for _, op, _ in captured(connection)] == ["f"]
        connection.rollback()


def test_a_key_that_no_row_refers_to(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT psp.certify_read_referrers('child', 'of_doctor', 99)")
    assert [(table, op) for table, op, _ in captured(connection)] == [(number(connection, "doctor"), "f")]


def test_rows_that_a_policy_hides_count(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO doctor VALUES (5, true); INSERT INTO child (id, doctor) VALUES (6, 5)")
    connection.execute(
        "RESET SESSION AUTHORIZATION; ALTER TABLE child ENABLE ROW LEVEL SECURITY; "
        f"GRANT SELECT ON child TO {STRANGER}; SET ROLE {STRANGER}".encode()
    )
    assert connection.execute("SELECT count(*) FROM child").fetchone() == (0,)
    connection.execute("SELECT psp.certify_read_referrers('child', 'of_doctor', 5)")
    connection.execute("RESET ROLE")
    assert [op for _, op, _ in captured(connection)].count("r") == 1


def test_many_rows_in_one_statement(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT psp.certify_read('doctor', n) FROM generate_series(1, 100) n")
    assert len(captured(connection)) == 100


REFUSED = [
    ("columns", "22023", "psp.certify_read('several', '1', 'a')", "has 3 columns, not 2"),
    ("null", "22004", "psp.certify_read('doctor', NULL::int)", "null"),
    ("null-text", "22004", "psp.certify_read('several', '1', NULL, '1')", "null"),
    ("no-array", "22023", "psp.certify_read('doctor', VARIADIC NULL::text[])", "has 1 columns, not 0"),
    ("text", "22P02", "psp.certify_read('doctor', 'seven')", "seven"),
    ("code", "22P02", "psp.certify_read('doctor', '1''::int); SELECT 1/0; --')", "invalid input"),
    ("label", "22P02", "psp.certify_read('sizes', 'huge')", "huge"),
    ("unlogged", "0A000", "psp.certify_read('aside', 1)", "not captured"),
    ("view", "0A000", "psp.certify_read('seen', 1)", "not captured"),
    ("catalog", "0A000", "psp.certify_read_table('pg_class')", "not captured"),
    ("no-constraint", "42704", "psp.certify_read_referrers('child', 'child_pkey', 1)", "no foreign key"),
    ("constraint-columns", "22023", "psp.certify_read_referrers('child', 'of_doctor', 1, 2)", "not 2"),
    ("constraint-null", "22004", "psp.certify_read_referrers('child', 'of_doctor', NULL::int)", "null"),
    ("constraint-code", "22P02", "psp.certify_read_referrers('child', 'of_doctor', ')x')", "invalid input"),
    ("lock", "22004", "psp.advisory_xact_lock(NULL)", "null"),
]


@pytest.mark.parametrize(("sqlstate", "call", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(connection: psycopg.Connection[Any], sqlstate: str, call: str, words: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"SELECT {call}".encode())
    assert caught.value.sqlstate == sqlstate and words in str(caught.value)


CALLS = ["certify_read('doctor', 1)", "certify_read('doctor', '1')", "certify_read_table('doctor')",
         "certify_read_referrers('child', 'of_doctor', 1)",
         "certify_read_referrers('child', 'of_doctor', '1')"]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_the_snapshot_of_the_transaction_is_certified(app: Pair, call: str) -> None:
    with app.application() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(f"SELECT psp.{call}".encode())
    assert caught.value.sqlstate == "25000"
    assert "REPEATABLE READ" in (caught.value.diag.message_hint or "")


@pytest.mark.parametrize("call", [*CALLS, "advisory_xact_lock(1)"])
def test_transactions_that_are_not_certified(app: Pair, call: str) -> None:
    for isolation, sqlstate in (("REPEATABLE READ, READ ONLY", "25006"), ("SERIALIZABLE", "0A000")):
        with app.application() as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}; SELECT psp.{call}".encode())
        assert caught.value.sqlstate == sqlstate and "psp: " in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_who_may_not_read_the_table(app: Pair, call: str) -> None:
    with app.connect() as connection:
        connection.execute(f"{SNAPSHOT}; SET SESSION AUTHORIZATION {STRANGER}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(f"SELECT psp.{call}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(
                "INSERT INTO psp.new_read (role, what, relation) VALUES ('application', 'table', 'doctor')"
            )
        connection.rollback()


def test_a_role_that_was_set_counts(app: Pair) -> None:
    with app.connect() as connection:
        connection.execute(f"{SNAPSHOT}; SET ROLE {STRANGER}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT psp.certify_read_table('doctor')")
        connection.rollback()


def test_nothing_is_certified_in_the_replica_role(app: Pair) -> None:
    """A trigger that calls it may run for rows that are applied."""
    with app.connect() as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SELECT psp.certify_read('doctor', 1), psp.advisory_xact_lock(1)")
        assert captured(connection) == []
        connection.rollback()


def test_an_advisory_lock_is_a_guard_and_a_lock(app: Pair) -> None:
    with app.application() as connection, app.connect() as other:
        connection.execute("SELECT psp.advisory_xact_lock(-42)")
        other.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
            other.execute("SELECT psp.advisory_xact_lock(-42)")
        other.execute("SELECT psp.advisory_xact_lock(42), pg_advisory_xact_lock(-42)")
        ((table_id, op, payload),) = captured(connection)
        assert (table_id, op) == (constant("ADVISORY_LOCKS_ID"), "g")
        ((key,), rest) = fields(bytes(payload))
        assert key == (1).to_bytes(4, "big") + (20).to_bytes(4, "big") + (8).to_bytes(4, "big") + (
            -42
        ).to_bytes(8, "big", signed=True)
        assert rest == b""
        other.rollback()


def test_anybody_may_take_an_advisory_lock(app: Pair) -> None:
    with app.connect() as connection:
        connection.execute(f"SET SESSION AUTHORIZATION {STRANGER}; SELECT psp.advisory_xact_lock(1)".encode())
        connection.rollback()
