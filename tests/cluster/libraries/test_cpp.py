"""The C++ client library at a real cluster, in both modes and without psp: client_libs/cpp/example.cc."""

import subprocess

import psycopg
import pytest
from psp import paths
from psp.cluster.local import LocalCluster
from psycopg.conninfo import make_conninfo

from tests.cluster.libraries.served import cpp_client
from tests.cluster.support import wait_for_row

FIRST_ITEM = 80
STOCK_AFTER = [
    99,
    99,
    99,
    99,
    99,
    98,
    100,
    100,
]  # of the eight items that the program sells
SOLD = [
    "sold: true",
    "committed in flight: 4",
    "left: 98 after attempts: 2",
    "refused",
    "not committed: 25P02",
    "left after abort: 100",
]


def run_example(dsn: str) -> list[str]:
    """What the program prints; it must succeed."""
    command = [str(paths.binary("psp-client-example")), dsn, str(FIRST_ITEM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def stock(connection: psycopg.Connection[tuple[int]]) -> list[int]:
    rows = connection.execute(
        "SELECT stock FROM item WHERE id >= %s AND id < %s ORDER BY id",
        (FIRST_ITEM, FIRST_ITEM + len(STOCK_AFTER)),
    )
    return [row[0] for row in rows]


def test_example(items_cluster: LocalCluster) -> None:
    """Commit (asked again in views mode), several in flight, a conflict, a failed statement, abort."""
    mode = items_cluster.state.mode
    sp = items_cluster.sps[0]
    asked_again = ["asked again: true true"] if mode == "views" else []
    assert run_example(sp.dsn) == [f"mode: {mode}", SOLD[0], *asked_again, *SOLD[1:]]
    with psycopg.connect(sp.dsn) as connection:
        assert stock(connection) == STOCK_AFTER
    for item, left in enumerate(STOCK_AFTER, FIRST_ITEM):
        wait_for_row(
            items_cluster.sps[1],
            f"SELECT 1 FROM item WHERE id = {item} AND stock = {left}",
        )


def test_run_in_a_run_leaves_the_outer_transaction(items_cluster: LocalCluster) -> None:
    """Its statements would go on without a transaction, each committed by itself."""
    sp = items_cluster.sps[0]
    with cpp_client(sp) as client:
        with pytest.raises(psycopg.errors.InternalError_, match="the outer Run ends"):
            client.run_in_run("UPDATE item SET stock = 0 WHERE id = 88")
        client.begin()
        client.execute("UPDATE item SET stock = stock - 1 WHERE id = 88")
        client.commit()
    wait_for_row(sp, "SELECT 1 FROM item WHERE id = 88 AND stock = 99")


def test_read_only_transaction(items_cluster: LocalCluster) -> None:
    with cpp_client(items_cluster.sps[0]) as client:
        tx_id = client.begin(read_only=True)
        client.execute("SELECT stock FROM item WHERE id = 89")
        assert client.commit().tx_id == tx_id
        with pytest.raises(psycopg.errors.InternalError_, match="known to its client alone"):
            client.outcome(tx_id)
        client.begin(read_only=True)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.execute("UPDATE item SET stock = 0 WHERE id = 89")
        client.abort()


def test_plain_postgresql(items_cluster: LocalCluster) -> None:
    """The same program on a PostgreSQL without psp."""
    dsn = make_conninfo(items_cluster.primary_dsn, dbname="postgres")
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS item")
        connection.execute("CREATE TABLE item (id int PRIMARY KEY, stock int CHECK (stock >= 0))")
        connection.execute("INSERT INTO item SELECT n, 100 FROM generate_series(1, 100) n")
        connection.commit()
        assert run_example(dsn) == ["mode: native", *SOLD]
        assert stock(connection) == STOCK_AFTER
        connection.execute("DROP TABLE item")
