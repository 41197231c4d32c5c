"""pgbouncer in front of semi-primaries, in each of its modes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until

from tests.cluster.schema_changes.statements import allow_ddl
from tests.cluster.support import adopted_pair, execute, paused, retry
from tests.poolers.pgbouncer import PoolMode, pgbouncer

CLIENTS = 12
ROUNDS = 8
SCHEMA = """
CREATE TABLE counter (id int PRIMARY KEY, value int NOT NULL);
INSERT INTO counter SELECT n, 0 FROM generate_series(1, 6) n;
CREATE TABLE done (tx uuid PRIMARY KEY, counter int REFERENCES counter);
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        for sp in cluster.sps:
            allow_ddl(sp)
        yield cluster


def add(sp: SpNode, counter: int, in_transactions: bool) -> None:
    """Adds to a counter ROUNDS times, over one connection, and notes each transaction that was reported."""

    def one(connection: psycopg.Connection[tuple[object, ...]]) -> None:
        update = "UPDATE counter SET value = value + 1 WHERE id = %s"
        note = "INSERT INTO done VALUES (psp.transaction_id(), %s)"
        if in_transactions:
            with connection.transaction():
                connection.execute(update, [counter])
                connection.execute(note, [counter])
        else:
            connection.execute(f"WITH c AS ({update}) {note}", [counter, counter])

    # Prepared statements belong to sessions, and a pooler gives another session to each transaction.
    with psycopg.connect(sp.dsn, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(ROUNDS):
            retry(lambda: one(connection), ("40001", "40P01"))


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_many_clients_share_few_sessions(pair: LocalCluster, mode: PoolMode) -> None:
    """Nothing is lost or doubled, and each transaction has its own id."""
    execute(pair.sps[0], "DELETE FROM done")
    execute(pair.sps[0], "UPDATE counter SET value = 0")
    verify.wait_drained(pair)
    errors: list[BaseException] = []

    def client(sp: SpNode, n: int) -> None:
        try:
            add(sp, n % 6 + 1, mode != "statement")
        except BaseException as error:
            errors.append(error)
            raise

    with pgbouncer(pair.sps[0], mode) as north, pgbouncer(pair.sps[1], mode) as south:
        clients = [threading.Thread(target=client, args=((north, south)[n % 2], n)) for n in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        assert errors == []
        verify.wait_drained(pair)
        for sp in (north, south):
            assert execute(sp, "SELECT sum(value) FROM counter") == [(CLIENTS * ROUNDS,)]
            assert execute(sp, "SELECT count(*) FROM done") == [(CLIENTS * ROUNDS,)]
            outcomes = execute(sp, "SELECT DISTINCT psp.outcome(tx) FROM done")
            assert outcomes == [("committed",)]


def test_a_client_that_goes_away_in_commit(pair: LocalCluster) -> None:
    """pgbouncer ends the session. What has become of the transaction can be asked over any other one."""
    with pgbouncer(pair.sps[0], "transaction") as north:
        client = psycopg.connect(north.dsn, prepare_threshold=None)
        client.execute("INSERT INTO counter VALUES (100, 1)")
        row = client.execute("SELECT psp.transaction_id()").fetchone()
        assert row is not None
        with paused(pair, PRIMARY):
            client.pgconn.send_query(b"COMMIT")
            client.pgconn.flush()
            wait_until(
                "the COMMIT",
                lambda: execute(
                    north, "SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'"
                ),
                30,
            )
            client.pgconn.finish()
        outcome = wait_until("the outcome", lambda: execute(north, "SELECT psp.outcome(%s)", [row[0]]), 60)
        verify.wait_drained(pair)
        for sp in pair.sps:
            found = execute(sp, "SELECT value FROM counter WHERE id = 100")
            assert bool(found) == (outcome == [("committed",)])


def test_a_schema_change(pair: LocalCluster) -> None:
    with pgbouncer(pair.sps[0], "transaction") as north:
        execute(north, "ALTER TABLE counter ADD COLUMN note text DEFAULT 'none'")
        retry(lambda: execute(north, "UPDATE counter SET note = 'pooled' WHERE id = 1"))
    verify.wait_drained(pair)
    assert execute(pair.sps[1], "SELECT note FROM counter WHERE id < 3 ORDER BY id") == [
        ("pooled",),
        ("none",),
    ]
