"""Deferrable unique constraints: another server's row waits for a local transaction with the same value."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import APPLY_WORKER, WAIT_S, adopted_pair, connect, execute, waiting
from tests.threads import running

SCHEMA = """
CREATE TABLE at_commit (id int PRIMARY KEY, v int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE at_statement (id int PRIMARY KEY, v int UNIQUE DEFERRABLE);
CREATE TABLE keyed (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int);
CREATE TABLE parts (id int, v int, PRIMARY KEY (id), UNIQUE (id, v) DEFERRABLE) PARTITION BY HASH (id);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE late (id int PRIMARY KEY);
CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION waits();
"""
WAITS_FOR_TEST: LiteralString = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        yield cluster


CASES: list[tuple[str, LiteralString, LiteralString, LiteralString]] = [
    (
        "at_commit",
        "INSERT INTO at_commit VALUES (1, 7)",
        "INSERT INTO at_commit VALUES (2, 7)",
        "SELECT id FROM at_commit WHERE v = 7",
    ),
    (
        "at_statement",
        "INSERT INTO at_statement VALUES (1, 7)",
        "INSERT INTO at_statement VALUES (2, 7)",
        "SELECT id FROM at_statement WHERE v = 7",
    ),
    (
        "primary-key",
        "INSERT INTO keyed VALUES (1, 1)",
        "INSERT INTO keyed VALUES (1, 2)",
        "SELECT v FROM keyed WHERE id = 1",
    ),
]


@pytest.mark.parametrize(("here", "there", "found"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_one_of_two_takes_the_value(
    pair: LocalCluster, here: LiteralString, there: LiteralString, found: LiteralString
) -> None:
    """The local transaction has passed PostgreSQL's check and has not asked the primary yet."""
    north, south = pair.sps
    outcomes: list[str | None] = []

    def local() -> None:
        try:
            with connect(north) as connection:
                connection.execute(here)
                connection.execute("INSERT INTO late VALUES (1)")
            outcomes.append(None)
        except psycopg.Error as error:
            outcomes.append(error.sqlstate)

    def has_come_or_waits() -> bool:
        return bool(execute(north, found) or waiting(north, APPLY_WORKER))

    with connect(north, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(1)")
        with running(local):
            wait_until(
                "the local transaction to wait",
                lambda: execute(north, WAITS_FOR_TEST),
                WAIT_S,
            )
            execute(south, there)
            wait_until("the other server's row", has_come_or_waits, WAIT_S)
            holder.execute("SELECT pg_advisory_unlock(1)")
    assert outcomes != [None]
    assert verify.verify(pair, WAIT_S).consistent
    for sp in pair.sps:
        assert len(execute(sp, found)) == 1


def test_values_that_change_hands_are_applied(pair: LocalCluster) -> None:
    with connect(pair.sps[0]) as connection:
        connection.execute("INSERT INTO at_commit SELECT n, n FROM generate_series(10, 19) n")
        connection.execute("INSERT INTO keyed SELECT n, n FROM generate_series(10, 19) n")
        connection.execute("INSERT INTO parts SELECT n, n FROM generate_series(10, 19) n")
    for _ in range(3):
        with connect(pair.sps[0]) as connection:
            connection.execute("UPDATE at_commit SET v = 29 - v WHERE id BETWEEN 10 AND 19")
            connection.execute("UPDATE at_statement SET v = v + 1")
            connection.execute("UPDATE keyed SET id = 29 - id WHERE id BETWEEN 10 AND 19")
            connection.execute("UPDATE parts SET v = 29 - v")
    assert verify.verify(pair, WAIT_S).consistent
