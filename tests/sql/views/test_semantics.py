"""Views mode against a plain twin: the same statements in one transaction, the same rows and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until

from tests.sql.databases import Pair, new_pair
from tests.sql.views.converted import WAIT_S, begin, convert_pair, decide, write

TABLE = """
CREATE TABLE t (k1 int, k2 text, v int NOT NULL CHECK (v >= 0), w text DEFAULT 'def''ault', u int UNIQUE,
                doubled int GENERATED ALWAYS AS (v * 2) STORED CHECK (doubled < 400), PRIMARY KEY (k1, k2))
"""
ROWS = "(1, 'a', 10, 'w', 1), (1, 'b', 20, NULL, NULL), (2, 'a', 30, 'x', 3), (3, 'c', 0, 'y', 4)"
TOMBSTONES = "(4, 'a', 40, 'gone', 5), (2, 'b', 50, 'gone', 1)"
COLUMNS = "k1, k2, v, w, u"

# Few keys, so that statements meet the same rows again and again.
KEYS1, KEYS2 = st.integers(1, 4), st.sampled_from("ab")
VALUES = st.sampled_from([0, 5, 7, 10, 20, 60, 5, 7, 10, -1, None])
UNIQUE = st.integers(1, 7) | st.none()


def literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


ROW = st.tuples(KEYS1, KEYS2, VALUES, st.sampled_from(["p", "q", None]), UNIQUE).map(
    lambda row: f"({', '.join(map(literal, row))})"
)
KEY = st.builds(lambda a, b: f"k1 = {a} AND k2 = '{b}'", KEYS1, KEYS2)
SOME = (
    KEY
    | st.builds("k1 = {}".format, KEYS1)
    | st.builds("v > {}".format, st.integers(0, 60))
    | st.builds("u IS NOT NULL AND k2 = '{}'".format, KEYS2)
    | st.just("true")
)
# One row where the order in which rows are looked at would decide what is met first.
STATEMENTS = st.one_of(
    st.lists(ROW, min_size=1, max_size=3).map(
        lambda rows: f"INSERT INTO t ({COLUMNS}) VALUES {', '.join(rows)}"
    ),
    st.builds("INSERT INTO t (k1, k2, v) VALUES ({}, '{}', {})".format, KEYS1, KEYS2, st.integers(0, 9)),
    st.builds(
        "INSERT INTO t (k1, k2, v) SELECT k1 + {}, k2, v FROM t WHERE {}".format, st.integers(1, 3), SOME
    ),
    st.builds(
        "UPDATE t SET v = v + {}, w = coalesce(w, '') || '+' WHERE {}".format,
        st.sampled_from([1, 2, 3, -15]),
        SOME,
    ),
    st.builds("UPDATE t SET u = {} WHERE {}".format, UNIQUE.map(literal), KEY),
    st.builds("UPDATE t SET k1 = {}, v = v + 1 WHERE {}".format, KEYS1, KEY),
    st.builds(
        "UPDATE t SET v = s.n FROM (VALUES (1, 7), (2, 8)) s (k, n) WHERE s.k = t.k1 AND {}".format, SOME
    ),
    st.builds("DELETE FROM t WHERE {}".format, SOME),
    st.builds("DELETE FROM t WHERE {}".format, KEY),
)


@pytest.fixture(scope="module")
def twins(server: PgServer) -> tuple[Pair, Pair]:
    plain, views = new_pair(server), new_pair(server)
    for pair in (plain, views):
        pair.run(TABLE)
    convert_pair(views)
    return plain, views


@pytest.fixture(scope="module")
def connections(
    twins: tuple[Pair, Pair],
) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    with twins[0].rolled_back() as plain, twins[1].rolled_back() as views:
        yield plain, views


def reset(twins: tuple[Pair, Pair]) -> None:
    plain, views = twins
    plain.run(f"TRUNCATE t; INSERT INTO t ({COLUMNS}) VALUES {ROWS}")
    views.run(
        "TRUNCATE t_persistent, t_temp, psp.applied;"
        f"INSERT INTO t_persistent ({COLUMNS}, global_t) SELECT *, 5 FROM (VALUES {ROWS}) r;"
        f"INSERT INTO t_persistent ({COLUMNS}, deleted, global_t) "
        f"SELECT *, true, 6 FROM (VALUES {TOMBSTONES}) r"
    )


def outcome(
    connection: psycopg.Connection[Any], statement: str, values: Sequence[Any] | None = None
) -> tuple[str | None, int, list[Any]]:
    """The SQLSTATE of an error, or the count in the command tag and the rows that the statement returns."""
    try:
        with connection.transaction():
            cursor = connection.execute(statement.encode(), values)
            return None, cursor.rowcount, sorted(cursor.fetchall(), key=repr) if cursor.description else []
    except psycopg.Error as error:
        return error.sqlstate, 0, []


def rows_of(connection: psycopg.Connection[Any], name: str = "t") -> list[Any]:
    return sorted(connection.execute(f"SELECT * FROM {name}".encode()).fetchall(), key=repr)


def same(
    statement: str, expected: tuple[str | None, int, list[Any]], found: tuple[str | None, int, list[Any]]
) -> None:
    assert expected == found, statement


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STATEMENTS, min_size=5, max_size=15))
def test_same_rows_and_errors(
    twins: tuple[Pair, Pair],
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]],
    statements: list[str],
) -> None:
    plain, views = connections
    plain.rollback()
    views.rollback()
    reset(twins)
    before = rows_of(plain)
    tx_id = begin(views)
    for statement in statements:
        returning = f"{statement} RETURNING t.*"
        same(statement, outcome(plain, returning), outcome(views, returning))
        assert rows_of(views) == rows_of(plain), statement
        assert rows_of(views, "public_fulljoin.t") == rows_of(plain), statement
        assert rows_of(views, "public_nryotw.t") == before, statement
    after = rows_of(plain)
    plain.commit()
    views.commit()
    assert rows_of(views) == before
    decide(twins[1], tx_id, 7)
    for name in ("t", "public_fulljoin.t", "public_nryotw.t"):
        assert rows_of(views, name) == after


CODES = {
    "INSERT INTO t (k1, k2, v) VALUES (1, 'a', 1)": ("23505", "t_pkey"),
    "INSERT INTO t (k1, k2, v) VALUES (9, 'a', 1), (9, 'a', 1)": ("23505", "t_pkey"),
    "INSERT INTO t (k1, k2, v, u) VALUES (9, 'a', 1, 3)": ("23505", "t_u_key"),
    "UPDATE t SET k2 = 'b' WHERE k1 = 1 AND k2 = 'a'": ("23505", "t_pkey"),
    "UPDATE t SET u = 4 WHERE k1 = 1 AND k2 = 'a'": ("23505", "t_u_key"),
    "INSERT INTO t (k1, k2, v) VALUES (9, 'a', -1)": ("23514", "t_v_check"),
    "INSERT INTO t (k1, k2) VALUES (9, 'a')": ("23502", None),
    "INSERT INTO t (k2, v) VALUES ('a', 1)": ("23502", None),
    "UPDATE t SET v = NULL": ("23502", None),
}


@pytest.mark.parametrize("statement", CODES)
def test_constraints_are_checked_at_once(
    twins: tuple[Pair, Pair],
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]],
    statement: str,
) -> None:
    _, views = connections
    views.rollback()
    reset(twins)
    begin(views)
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        views.execute(statement.encode())
    assert (caught.value.sqlstate, caught.value.diag.constraint_name) == CODES[statement]


SOURCE = "(VALUES (1, 'b'::text, 7), (2, 'x', 8)) s (a, b, c)"
AS_ON_A_TABLE = {
    f"UPDATE t SET v = 9 FROM {SOURCE} WHERE a = k1 AND k2 = 'a' RETURNING a, b, c, t.v": None,
    f"DELETE FROM t USING {SOURCE} WHERE a = k1 RETURNING c, b, t.*": None,
    "UPDATE t SET v = %s, w = %s WHERE k1 = %s": [77, "bound", 1],
    "UPDATE t SET v = v + %s WHERE k1 = %s RETURNING v, doubled": [5, 1],
    "DELETE FROM t WHERE k1 = %s RETURNING *": [1],
    "INSERT INTO t (k1, k2, v) VALUES (%s, %s, 1), (%s, 'z', 2) RETURNING w, doubled, k1": [8, "y", 8],
    "WITH x AS (UPDATE t SET v = v + 1 WHERE k1 = 1 RETURNING v) SELECT sum(v) FROM x": None,
    "INSERT INTO t (k1, k2, v, doubled) VALUES (9, 'a', 1, 2)": None,
    "UPDATE t SET doubled = 5": None,
    "UPDATE t SET doubled = DEFAULT, v = 6 RETURNING doubled": None,
    "INSERT INTO t SELECT k1 + 50, k2, v, w, NULL FROM t": None,
}


@pytest.mark.parametrize("statement", AS_ON_A_TABLE)
def test_counts_and_rows_that_statements_return(
    twins: tuple[Pair, Pair],
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]],
    statement: str,
) -> None:
    for connection in connections:
        connection.rollback()
    reset(twins)
    begin(connections[1])
    plain, views = (outcome(connection, statement, AS_ON_A_TABLE[statement]) for connection in connections)
    connections[0].rollback()
    assert views == plain


def test_copy_into_a_table(
    twins: tuple[Pair, Pair], connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
) -> None:
    _, views = connections
    views.rollback()
    reset(twins)
    begin(views)
    with views.cursor().copy("COPY t (k1, k2, v) FROM STDIN") as copy:
        copy.write_row((20, "copied", 1))
        copy.write_row((4, "a", 2))  # there is a tombstone of it
    assert views.execute("SELECT k1, v, w FROM t WHERE k1 IN (4, 20) ORDER BY k1").fetchall() == [
        (4, 2, "def'ault"),
        (20, 1, "def'ault"),
    ]


@pytest.mark.parametrize("statement", ["UPDATE t SET v = v + 1 WHERE k1 = 1", "DELETE FROM t WHERE k1 = 1"])
def test_read_committed_does_not_write_over_what_it_has_not_read(
    twins: tuple[Pair, Pair],
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]],
    statement: str,
) -> None:
    """What comes between a statement's snapshot and its write is a conflict: nobody else would find it."""
    for connection in connections:
        connection.rollback()
    reset(twins)
    with (
        twins[1].connect(autocommit=True) as holder,
        twins[1].connect() as writer,
        ThreadPoolExecutor(1) as threads,
    ):
        holder.execute("SELECT pg_advisory_lock(5)")
        writer.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        begin(writer)
        pid = writer.info.backend_pid
        written = threads.submit(
            writer.execute, f"{statement} AND pg_advisory_xact_lock_shared(5) IS NOT NULL".encode()
        )
        wait_until("the writer to wait", lambda: _waits(holder, pid), WAIT_S)
        write(twins[1], 8, "UPDATE t SET v = 99 WHERE k1 = 1")
        holder.execute("SELECT pg_advisory_unlock(5)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            written.result(WAIT_S)


def _waits(connection: psycopg.Connection[Any], pid: int) -> bool:
    row = connection.execute("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
    return row == ("Lock",)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t (k1, k2, v) VALUES (1, 'a', 1)",
        "INSERT INTO t (k1, k2, v) VALUES (9, 'a', -1)",
        "INSERT INTO t (k1, k2) VALUES (9, 'a')",
        "INSERT INTO t (k2, v) VALUES ('a', -1)",  # of two that are broken PostgreSQL's first
        "INSERT INTO t (k1, k2, v) VALUES (1, 'a', -1)",
        "INSERT INTO t (k1, k2, v) VALUES (9, 'a', 270)",
        "UPDATE t SET k2 = NULL, v = -1 WHERE k1 = 3",
        "UPDATE t SET v = 270 WHERE k1 = 3",
        "UPDATE t SET k1 = 9, v = -1 WHERE k1 = 3",
    ],
)
def test_message_of_a_broken_constraint(
    twins: tuple[Pair, Pair],
    connections: tuple[psycopg.Connection[Any], psycopg.Connection[Any]],
    statement: str,
) -> None:
    plain, views = connections
    plain.rollback()
    views.rollback()
    reset(twins)
    begin(views)
    told = []
    for connection in connections:
        with pytest.raises(psycopg.errors.IntegrityError) as caught:
            connection.execute(statement.encode())
        diag = caught.value.diag
        assert "temp" not in (diag.message_primary or "")
        told.append((diag.sqlstate, diag.message_primary, diag.schema_name, diag.table_name, diag.column_name,
                     diag.constraint_name, told_of_the_row(diag.message_detail)))  # fmt: skip
    plain.rollback()
    assert told[0] == told[1]


def told_of_the_row(detail: str | None) -> str | None:
    """The columns that a role may read are not known here."""
    return None if detail is None or detail.startswith("Failing row contains") else detail
