"""What is committed at one SP is soon at all the others, with each kind of write."""

import uuid
from decimal import Decimal
from typing import LiteralString

import psycopg
import pytest
from psp.cli import app
from psp.cluster import verify
from psp.cluster.local import LocalCluster, SpNode
from typer.testing import CliRunner

from tests.cluster.support import connect, execute, forge, wait_for_row


def pairs(cluster: LocalCluster) -> list[tuple[SpNode, SpNode]]:
    return [(here, there) for here in cluster.sps for there in cluster.sps if here != there]


def test_inserts_updates_and_deletes_go_both_ways(cluster: LocalCluster) -> None:
    for base, (here, there) in enumerate(pairs(cluster)):
        id_ = 1000 + base
        execute(here, "INSERT INTO account VALUES (%s, 'ann', NULL, 10)", (id_,))
        wait_for_row(there, "SELECT 1 FROM account WHERE id = %s", (id_,))
        execute(there, "UPDATE account SET balance = balance + 5 WHERE id = %s", (id_,))
        wait_for_row(here, "SELECT 1 FROM account WHERE id = %s AND balance = %s", (id_, Decimal(15)))
        execute(here, "DELETE FROM account WHERE id = %s", (id_,))
        wait_for_row(there, "SELECT 1 WHERE NOT EXISTS (SELECT FROM account WHERE id = %s)", (id_,))


def test_a_client_reads_its_own_commits_at_once(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        for n in range(50):
            connection.execute("INSERT INTO account VALUES (%s, 'own', NULL)", (2000 + n,))
            connection.commit()
            found = connection.execute("SELECT count(*) FROM account WHERE owner = 'own'").fetchone()
            assert found == (n + 1,)
            connection.commit()


def test_a_deleted_row_can_be_inserted_again_elsewhere(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    for _ in range(3):
        execute(first, "INSERT INTO account VALUES (3000, 'phoenix', 'p@example.org')")
        wait_for_row(second, "SELECT 1 FROM account WHERE id = 3000")
        execute(second, "DELETE FROM account WHERE id = 3000")
        wait_for_row(first, "SELECT 1 WHERE NOT EXISTS (SELECT FROM account WHERE id = 3000)")


def test_a_unique_value_can_be_taken_again_once_it_is_free(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    execute(first, "INSERT INTO account VALUES (3100, 'a', 'free@example.org')")
    wait_for_row(second, "SELECT 1 FROM account WHERE id = 3100")
    execute(second, "UPDATE account SET email = NULL WHERE id = 3100")
    execute(second, "INSERT INTO account VALUES (3101, 'b', 'free@example.org')")
    wait_for_row(first, "SELECT 1 FROM account WHERE id = 3101 AND email = 'free@example.org'")


def test_unique_values_are_swapped(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    execute(first, "INSERT INTO account VALUES (3200, 'a', 'x@swap'), (3201, 'b', 'y@swap')")
    with connect(first) as connection:
        connection.execute("UPDATE account SET email = 'z@swap' WHERE id = 3200")
        connection.execute("UPDATE account SET email = 'x@swap' WHERE id = 3201")
        connection.execute("UPDATE account SET email = 'y@swap' WHERE id = 3200")
    wait_for_row(second, "SELECT 1 FROM account WHERE id = 3200 AND email = 'y@swap'")
    wait_for_row(second, "SELECT 1 FROM account WHERE id = 3201 AND email = 'x@swap'")


def test_what_was_rolled_back_is_not_replicated(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    with connect(first) as connection:
        connection.execute("INSERT INTO account VALUES (3300, 'kept', NULL)")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO account VALUES (3301, 'rolled back', NULL)")
                raise psycopg.Rollback
        except psycopg.Rollback:
            pass
        connection.execute("UPDATE account SET balance = 1 WHERE id = 3300")
    wait_for_row(second, "SELECT 1 FROM account WHERE id = 3300 AND balance = 1")
    assert execute(second, "SELECT 1 FROM account WHERE id = 3301") == []


def test_a_transaction_appears_at_once_or_not_at_all(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    execute(first, "INSERT INTO account VALUES (3400, 'a', NULL, 100), (3401, 'b', NULL, 100)")
    wait_for_row(second, "SELECT 1 FROM account WHERE id = 3401")
    with connect(first) as writer:
        for amount in range(40):
            writer.execute("UPDATE account SET balance = balance - %s WHERE id = 3400", (amount,))
            writer.execute("UPDATE account SET balance = balance + %s WHERE id = 3401", (amount,))
            writer.commit()
            seen = execute(second, "SELECT sum(balance) FROM account WHERE id IN (3400, 3401)")
            assert seen == [(Decimal(200),)]


def test_read_only_transactions_are_not_certified(cluster: LocalCluster) -> None:
    published = "SELECT count(*) FROM psp.tx_log"
    with psycopg.connect(cluster.primary_dsn) as primary:
        before = primary.execute(published).fetchone()
        primary.commit()
        with connect(cluster.sps[0]) as connection:
            connection.execute("SELECT count(*) FROM account")
            connection.commit()
            connection.execute("UPDATE account SET balance = 0 WHERE id = -1")
        assert primary.execute(published).fetchone() == before


def test_identity_columns_do_not_collide(cluster: LocalCluster) -> None:
    drawn: list[int] = []
    for _ in range(20):
        for sp in cluster.sps:
            drawn += [row[0] for row in execute(sp, "INSERT INTO document (note) VALUES ('n') RETURNING id")]
    assert len(set(drawn)) == 60


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_isolation_levels(cluster: LocalCluster, level: LiteralString) -> None:
    first, second, _ = cluster.sps
    key = str(uuid.uuid4())
    with connect(first, autocommit=True) as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}")
        connection.execute("INSERT INTO counter VALUES (%s, 3)", (key,))
        connection.execute("COMMIT")
    wait_for_row(second, "SELECT 1 FROM counter WHERE name = %s AND value = 3", (key,))


def test_verify_sees_a_difference(cluster: LocalCluster) -> None:
    sp = cluster.sps[0]
    execute(sp, "INSERT INTO account VALUES (3500, 'honest', NULL)")
    verify.wait_drained(cluster)
    with psycopg.connect(sp.admin_dsn) as admin:
        forge(admin, "UPDATE account SET owner = 'forged' WHERE id = 3500")
        assert verify.verify(cluster).differing() == ["public.account"]
        dsns = [cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps)]
        told = CliRunner().invoke(app, ["primary", "verify", *dsns])
        assert told.exit_code == 1 and "DIFFERS" in told.stdout
        assert CliRunner().invoke(app, ["primary", "verify", dsns[1], dsns[0]]).exit_code == 1
        forge(admin, "UPDATE account SET owner = 'honest' WHERE id = 3500")
    assert CliRunner().invoke(app, ["primary", "verify", *dsns]).exit_code == 0
