"""psp.conflicts names the keys on which transactions are lost, who has won, and what helps."""

from functools import partial
from typing import Any

import psycopg
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until
from psycopg.rows import dict_row

from tests.cluster.commit.test_conflicts import assert_one_winner, race
from tests.cluster.support import (
    CONNECTION_FAILURE,
    SERIALIZATION_FAILURE,
    WAIT_S,
    as_admin,
    execute,
    retry,
    wait_for_row,
)

LAST_HOUR = "WHERE within = '1 hour' AND table_name = 'public.account'"


def conflicts(dsn: str, condition: str, **options: Any) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, row_factory=dict_row, **options) as connection:
        query = f"SELECT * FROM psp.conflicts {condition} ORDER BY rank"
        return connection.execute(query.encode()).fetchall()


def conflict(dsn: str, condition: str) -> dict[str, Any]:
    """The first one, once it is there: the daemons tell every few seconds."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        found[:] = conflicts(dsn, condition)
        return bool(found)

    wait_until(f"a conflict {condition}", is_there, WAIT_S)
    return found[0]


def lose(sps: list[SpNode], statement: Any, parameters: list[tuple[Any, ...]]) -> tuple[SpNode, SpNode]:
    """The winner and the loser."""
    outcomes = race(sps, statement, parameters)
    winner, _ = assert_one_winner(sps, outcomes)
    return winner, next(sp for sp in sps if sp is not winner)


def forget_losses(cluster: LocalCluster, sps: list[SpNode]) -> None:
    """Other tests lose many keys: a daemon that begins has counted nothing."""
    for sp in sps:
        cluster.kill(sp.name)
        cluster.start(sp.name)
        retry(
            partial(execute, sp, "INSERT INTO account VALUES (%s, 'begun')", (7050 + sps.index(sp),)),
            (CONNECTION_FAILURE, SERIALIZATION_FAILURE),
        )


def test_a_hot_number_has_the_command_that_helps(cluster: LocalCluster) -> None:
    sps = cluster.sps[:2]
    forget_losses(cluster, sps)
    execute(sps[0], "INSERT INTO account VALUES (7001, 'hot', NULL, 100)")
    wait_for_row(sps[1], "SELECT 1 FROM account WHERE id = 7001")
    losses = dict.fromkeys((sp.name for sp in sps), 0)
    while max(losses.values()) < 3:  # one SP has seen two rows that differ
        _, loser = lose(sps, "UPDATE account SET balance = balance + %s WHERE id = 7001", [(1,), (2,)])
        losses[loser.name] += 1
    loser = max(sps, key=lambda sp: losses[sp.name])
    winner = next(sp for sp in sps if sp is not loser)
    row = conflict(loser.dsn, f"{LAST_HOUR} AND key = '(id)=(7001)' AND losses >= 3")
    assert (row["kind"], row["columns"]) == ("row", "balance")
    assert row["losses"] == losses[loser.name]
    assert row["winners"] == f"{winner.name}: {row['losses']}"
    assert "psp mrv create public.account.balance DSN" in row["remedy"]
    assert row["losses_error"] == 0

    told = conflict(
        cluster.primary_dsn,
        f"{LAST_HOUR} AND key = '(id)=(7001)' AND loser = '{loser.name}' AND losses >= 3",
    )
    assert {name: told[name] for name in ("kind", "columns", "winners", "remedy")} == {
        name: row[name] for name in ("kind", "columns", "winners", "remedy")
    }


def test_a_unique_value(cluster: LocalCluster) -> None:
    _, loser = lose(
        cluster.sps[:2],
        "INSERT INTO account VALUES (%s, %s, 'lost@example.org')",
        [(7101, "one"), (7102, "two")],
    )
    row = conflict(loser.dsn, f"{LAST_HOUR} AND kind = 'unique value' AND key LIKE '%lost@example.org%'")
    assert row["index_name"] and "gen_random_uuid()" in row["remedy"]


def test_a_key_is_for_those_who_may_read_the_table(cluster: LocalCluster) -> None:
    sps = cluster.sps[:2]
    for sp in sps:
        execute(as_admin(sp), "CREATE ROLE lost_keys_reader LOGIN")
    execute(sps[0], "INSERT INTO account VALUES (7201, 'secret', NULL, 1)")
    wait_for_row(sps[1], "SELECT 1 FROM account WHERE id = 7201")
    _, loser = lose(sps, "UPDATE account SET owner = %s WHERE id = 7201", [("one",), ("two",)])
    conflict(loser.dsn, f"{LAST_HOUR} AND key = '(id)=(7201)'")
    dsn = f"{loser.dsn} user=lost_keys_reader"
    assert {row["key"] for row in conflicts(dsn, LAST_HOUR)} == {None}
    execute(loser, "GRANT SELECT ON account TO lost_keys_reader")
    try:
        assert "(id)=(7201)" in {row["key"] for row in conflicts(dsn, LAST_HOUR)}
        execute(as_admin(loser), "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        assert {row["key"] for row in conflicts(dsn, LAST_HOUR)} == {None}
    finally:
        execute(as_admin(loser), "GRANT USAGE ON SCHEMA public TO PUBLIC")
        execute(loser, "REVOKE SELECT ON account FROM lost_keys_reader")
        for sp in sps:
            execute(as_admin(sp), "DROP ROLE lost_keys_reader")
