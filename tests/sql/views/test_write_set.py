"""psp.write_set in views mode: the rows and guards that are sent for certification."""

from __future__ import annotations

import struct

from tests.sql.databases import Pair
from tests.sql.views.converted import (
    begun,
    ended,
    number,
    write,
    write_set,
)


def test_rows_carry_the_version_that_they_replace(app: Pair) -> None:
    write(app, 5, "INSERT INTO t VALUES (2, 'x'), (3, 'y')")
    write(app, 6, "DELETE FROM t WHERE id = 3")
    tx_id = ended(
        app,
        "UPDATE t SET v = 'x' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (3, 'again'), (4, 'new'), (7, 'never')",
        "DELETE FROM t WHERE id = 7",  # nobody else has to know
        "UPDATE t SET v = 'y' WHERE id = 1",
    )
    assert write_set(app, tx_id) == [
        (1, number(1), 0, False, True),
        (1, number(2), 5, True, False),
        (1, number(3), 6, False, True),
        (1, number(4), 0, False, True),
    ]


def test_the_first_version_counts(app: Pair) -> None:
    """A row that changes under a READ COMMITTED transaction after it wrote it must not pass certification."""
    with begun(app) as transaction:
        transaction.run("DELETE FROM t WHERE id = 1")
        app.run("UPDATE t_persistent SET global_t = 9 WHERE id = 1")
        transaction.run("INSERT INTO t VALUES (1, 'again')")
    assert write_set(app, transaction.tx_id) == [(1, number(1), 0, False, True)]


def test_a_changed_key_is_two_rows(app: Pair) -> None:
    write(app, 5, "INSERT INTO t VALUES (2, 'x')")
    tx_id = ended(app, "UPDATE t SET id = 9 WHERE id = 2")
    assert write_set(app, tx_id) == [(1, number(2), 5, True, False), (1, number(9), 0, False, True)]


def test_guards_of_unique_values_that_are_taken(app: Pair) -> None:
    tx_id = ended(app, "UPDATE t SET v = 'same email'", "INSERT INTO t VALUES (2, 'x', 'e2'), (3, 'y', NULL)")
    guards = [row for row in write_set(app, tx_id) if row[0] == 2]
    key = struct.pack("!iIi", 1, 25, 2) + b"e2"
    assert guards == [(2, key, None, False, False)]


def test_unique_values_change_hands(app: Pair) -> None:
    write(app, 2, "INSERT INTO t VALUES (2, 'x', 'e2')")
    write(
        app, 3,
        "UPDATE t SET email = NULL WHERE id = 1",
        "UPDATE t SET email = 'e1' WHERE id = 2",
        "UPDATE t SET email = 'e2' WHERE id = 1",
    )  # fmt: skip
    with app.connect() as connection:
        found = connection.execute("SELECT id, email FROM t_persistent ORDER BY id").fetchall()
    assert found == [(1, "e2"), (2, "e1")]


def test_deletion_of_a_row_from_before_the_conversion(app: Pair) -> None:
    """Such a row has global_t 0, as has one that was not there before: its deletion counts all the same."""
    tx_id = ended(app, "DELETE FROM t WHERE id = 1")
    assert write_set(app, tx_id) == [(1, number(1), 0, True, False)]
    tx_id = ended(app, "INSERT INTO t VALUES (2, 'two')", "DELETE FROM t WHERE id = 2")
    assert write_set(app, tx_id) == []  # born and deleted
