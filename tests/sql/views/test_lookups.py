"""Views mode: rows are looked up in T_temp one by one, also if PostgreSQL's last count says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sql.databases import Pair
from tests.sql.views.converted import Transaction, begin, begun, convert_pair, one

ROWS = 300
NARROW = ""
WIDE = "".join(f", c{number} text" for number in range(60))  # few rows to a page: costs lie close together
# What a session's functions are planned for: transactions of a few rows, each of which is written twice.
SMALL = """
UPDATE t SET v = 0 WHERE id = 1; UPDATE t SET v = 1, u = u WHERE id = 1; DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 1, 1); DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 1, 1)
"""
# Each row that they write is read some times in all: by the statement, the triggers, the constraints.
LARGE = [
    "UPDATE t SET v = v + 1",
    "UPDATE t SET u = -u",
    "DELETE FROM t WHERE id > 1",
    f"INSERT INTO t SELECT i, i, i FROM generate_series(2, {ROWS}) i",
    "SELECT count(*) FROM t a JOIN t b ON b.id = a.id + 1",
]
READS_MAX = 10 * ROWS


def vacuum(pair: Pair, what: str) -> None:
    with pair.connect(autocommit=True) as connection:
        connection.execute(what.encode())


def never_looked_at(pair: Pair) -> None: ...


def vacuumed_while_empty(pair: Pair) -> None:
    vacuum(pair, "VACUUM t_temp")
    one(pair, "SELECT psp.collect_garbage('0')")


def analyzed_with_one_transaction_in_it(pair: Pair) -> None:
    with begun(pair) as transaction:
        transaction.run("DELETE FROM t")
    vacuum(pair, "VACUUM ANALYZE t_temp")
    one(pair, "SELECT psp.collect_garbage('9000000000000000000')")
    vacuum(pair, "VACUUM t_temp")
    one(pair, "SELECT psp.collect_garbage('9000000000000000000')")


def emptied_by_a_crash(pair: Pair) -> None:
    vacuum(pair, "VACUUM t_temp")
    with pair.connect() as connection:
        connection.execute("DELETE FROM psp.temp_alive")
        connection.execute("SELECT psp.make_pending()")


def rows_read(transaction: Transaction) -> Any:
    """Of T_temp, in this transaction so far."""
    ((read,),) = transaction.run(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 't_temp'"
    )
    return read


def convert_table(pair: Pair, more_columns: str = NARROW) -> None:
    pair.run(
        f"CREATE TABLE t (id int PRIMARY KEY, v int, u int UNIQUE{more_columns});"
        f"INSERT INTO t SELECT i, i, i FROM generate_series(1, {ROWS}) i"
    )
    convert_pair(pair)


@pytest.mark.parametrize(
    "columns, state",
    [
        (NARROW, never_looked_at),
        (WIDE, vacuumed_while_empty),
        (NARROW, analyzed_with_one_transaction_in_it),
        (WIDE, analyzed_with_one_transaction_in_it),
        (NARROW, emptied_by_a_crash),
    ],
)
def test_rows_are_looked_up_by_key(pair: Pair, columns: str, state: Callable[[Pair], None]) -> None:
    """Else what a transaction costs grows with the square of its rows."""
    convert_table(pair, columns)
    vacuum(pair, "VACUUM ANALYZE t_persistent")
    state(pair)
    with pair.connect() as connection:
        for _ in range(10):  # PostgreSQL plans the first times for the values, then for any
            transaction = Transaction(connection, begin(connection))
            transaction.run(SMALL)
            connection.rollback()
        transaction = Transaction(connection, begin(connection))
        for statement in LARGE:
            before = rows_read(transaction)
            transaction.run(statement)
            assert rows_read(transaction) - before <= READS_MAX, statement
        connection.rollback()


def test_statistics_of_a_table_that_is_being_vacuumed_wait(pair: Pair) -> None:
    convert_table(pair)
    vacuum(pair, "VACUUM t_temp")
    with pair.connect() as connection:
        connection.execute("LOCK TABLE t_temp IN SHARE UPDATE EXCLUSIVE MODE")  # as VACUUM does
        one(pair, "SELECT psp.collect_garbage('0')")
        connection.rollback()
    assert counted(pair) >= 0
    one(pair, "SELECT psp.collect_garbage('0')")
    assert counted(pair) == -1


def counted(pair: Pair) -> Any:
    return one(pair, "SELECT reltuples FROM pg_class WHERE relname = 't_temp'")
