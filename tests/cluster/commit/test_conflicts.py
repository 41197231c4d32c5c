"""Two SPs write the same thing at once: exactly one of them commits, and nothing is ever lost."""

import threading
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.local import LocalCluster, SpNode
from psp.cluster.verify import wait_drained

from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    applying_paused,
    connect,
    execute,
    raises,
    retry,
    wait_for_row,
)


def race(
    sps: list[SpNode], statement: LiteralString, parameters: list[tuple[Any, ...]]
) -> list[psycopg.Error | None]:
    """Each SP runs the statement in a transaction of its own; none says COMMIT before all have run it."""
    barrier = threading.Barrier(len(sps), timeout=30)
    outcomes: list[psycopg.Error | None] = [None] * len(sps)

    def client(number: int) -> None:
        try:
            with connect(sps[number]) as connection:
                connection.execute(statement, parameters[number])
                barrier.wait()
        except psycopg.Error as error:
            outcomes[number] = error

    threads = [threading.Thread(target=client, args=(n,)) for n in range(len(sps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    return outcomes


def assert_one_winner(
    sps: list[SpNode], outcomes: list[psycopg.Error | None]
) -> tuple[SpNode, list[psycopg.Error]]:
    winners = [sp for sp, outcome in zip(sps, outcomes, strict=True) if outcome is None]
    losers = [outcome for outcome in outcomes if outcome is not None]
    assert len(winners) == 1, outcomes
    assert {error.sqlstate for error in losers} == {SERIALIZATION_FAILURE}
    return winners[0], losers


@pytest.mark.parametrize(
    ("setting", "expected"), [("40P01", "40P01"), ("40001", "40001"), ("23505", "40001")]
)
def test_the_loser_is_told_the_code_that_it_has_chosen(
    cluster: LocalCluster, setting: str, expected: str
) -> None:
    north, south = cluster.sps[:2]
    execute(north, "INSERT INTO account VALUES (902, 'coded', NULL, 100) ON CONFLICT DO NOTHING")
    wait_for_row(south, "SELECT 1 FROM account WHERE id = 902")
    with applying_paused(south):
        execute(north, "UPDATE account SET balance = balance + 1 WHERE id = 902")
        with raises(expected) as caught, connect(south) as connection:
            connection.execute("SELECT set_config('psp.lost_sqlstate', %s, false)", [setting])
            connection.execute("UPDATE account SET balance = balance + 1 WHERE id = 902")
    assert caught[0].diag.message_primary == "could not serialize access due to concurrent update"


def test_the_same_row_on_two_sps(cluster: LocalCluster) -> None:
    sps = cluster.sps[:2]
    execute(sps[0], "INSERT INTO account VALUES (1, 'contested', NULL, 100)")
    wait_for_row(sps[1], "SELECT 1 FROM account WHERE id = 1")
    for round_ in range(10):
        outcomes = race(
            sps,
            "UPDATE account SET owner = %s, balance = balance + 1 WHERE id = 1",
            [(f"{sp.name} in round {round_}",) for sp in sps],
        )
        winner, losers = assert_one_winner(sps, outcomes)
        for error in losers:
            assert error.diag.message_primary == "could not serialize access due to concurrent update"
            detail = error.diag.message_detail or ""
            assert "account" in detail and "1" in detail and winner.name in detail, detail
        wait_drained(cluster)
        for sp in cluster.sps:
            row = execute(sp, "SELECT owner, balance FROM account WHERE id = 1")
            assert row == [(f"{winner.name} in round {round_}", 101 + round_)]


def test_the_same_new_key_on_three_sps(cluster: LocalCluster) -> None:
    sps = cluster.sps
    outcomes = race(sps, "INSERT INTO account VALUES (2, %s, NULL)", [(sp.name,) for sp in sps])
    winner, _ = assert_one_winner(sps, outcomes)
    wait_drained(cluster)
    assert {tuple(execute(sp, "SELECT owner FROM account WHERE id = 2")) for sp in sps} == {((winner.name,),)}


def test_the_same_unique_value_on_two_sps(cluster: LocalCluster) -> None:
    sps = cluster.sps[:2]
    outcomes = race(
        sps,
        "INSERT INTO account VALUES (%s, %s, 'taken@example.org')",
        [(10 + n, sp.name) for n, sp in enumerate(sps)],
    )
    winner, losers = assert_one_winner(sps, outcomes)
    detail = losers[0].diag.message_detail or ""
    assert "email" in detail and winner.name in detail, detail
    wait_drained(cluster)
    for sp in cluster.sps:
        assert execute(sp, "SELECT owner FROM account WHERE email = 'taken@example.org'") == [(winner.name,)]
    # Replication goes on: neither SP has stopped.
    execute(sps[0], "INSERT INTO account VALUES (20, 'after', NULL)")
    wait_for_row(sps[1], "SELECT 1 FROM account WHERE id = 20")


def test_an_update_against_a_delete(cluster: LocalCluster) -> None:
    updater, deleter = cluster.sps[:2]
    execute(updater, "INSERT INTO account VALUES (30, 'x', NULL)")
    wait_for_row(deleter, "SELECT 1 FROM account WHERE id = 30")
    with connect(updater) as first, connect(deleter) as second:
        first.execute("UPDATE account SET balance = 7 WHERE id = 30")
        second.execute("DELETE FROM account WHERE id = 30")
        second.commit()
        try:
            first.commit()
            raise AssertionError("both committed")
        except psycopg.Error as error:
            assert error.sqlstate == SERIALIZATION_FAILURE
    wait_drained(cluster)
    assert execute(updater, "SELECT 1 FROM account WHERE id = 30") == []


def test_different_rows_do_not_conflict(cluster: LocalCluster) -> None:
    sps = cluster.sps
    execute(sps[0], "INSERT INTO account SELECT n, 'many', NULL FROM generate_series(100, 102) n")
    for sp in sps:
        wait_for_row(sp, "SELECT 1 FROM account WHERE id = 102")
    outcomes = race(sps, "UPDATE account SET balance = 1 WHERE id = %s", [(100,), (101,), (102,)])
    assert outcomes == [None, None, None]


def test_no_increment_is_lost(cluster: LocalCluster) -> None:
    """Two counters, three SPs, thousands of increments with retry."""
    increments_each = 350
    names = ("left", "right")
    for name in names:
        execute(cluster.sps[0], "INSERT INTO counter VALUES (%s, 0)", (name,))
    for sp in cluster.sps:
        wait_for_row(sp, "SELECT 1 FROM counter WHERE name = 'right'")
    failures: list[BaseException] = []

    def client(sp: SpNode, name: str) -> None:
        try:
            with connect(sp) as connection:

                def increment() -> None:
                    with connection.transaction():
                        connection.execute("UPDATE counter SET value = value + 1 WHERE name = %s", (name,))

                for _ in range(increments_each):
                    retry(increment)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=client, args=(sp, name)) for sp in cluster.sps for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive()
    assert failures == []
    wait_drained(cluster)
    for sp in cluster.sps:
        rows = execute(sp, "SELECT name, value FROM counter WHERE name IN ('left', 'right') ORDER BY name")
        assert rows == [(name, increments_each * len(cluster.sps)) for name in names]
