"""Views mode: a commit request that is asked again gets the same answer, whatever has crashed meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import uuid4

import psp_client
import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options
from psp.waiting import wait_until
from psp_client import Client, Committed, Settings
from support import WAIT_S, adopted_pair, wait_for_row, wait_streaming

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);
INSERT INTO item SELECT n, 100 FROM generate_series(1, 20) n;
"""
SETTINGS = Settings(retry_interval_s=0.2, timeout_s=WAIT_S)


@pytest.fixture(scope="module")
def views_cluster() -> Iterator[LocalCluster]:
    """Two SPs in views mode."""
    options = Options(mode="views", pg_settings={"shared_buffers": "32MB"})
    with adopted_pair([SCHEMA], options) as cluster:
        yield cluster


@pytest.fixture
def cluster(views_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Everything runs again afterwards."""
    yield views_cluster
    views_cluster.resume()
    wait_streaming(views_cluster)


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with psp_client.connect(cluster.sps[0].dsn, SETTINGS) as found:
        yield found


def take(client: Client, item: int) -> None:
    client.execute("UPDATE item SET stock = stock - 1 WHERE id = %s", (item,))


def commit_one(client: Client, item: int) -> Committed:
    """Tries until the daemon has found the primary, after a test before this one."""

    def attempt() -> Committed | None:
        with suppress(psycopg.errors.ConnectionFailure):
            client.begin()
            take(client, item)
            return client.commit()
        return None

    return wait_until("a commit", attempt, WAIT_S)


def test_committed_is_committed(client: Client) -> None:
    done = commit_one(client, 1)
    assert client.commit(done.tx_id) == done
    assert client.outcome(done.tx_id) == "committed"


def test_aborted_is_aborted(cluster: LocalCluster, client: Client) -> None:
    with psp_client.connect(cluster.sps[0].dsn, SETTINGS) as other:
        tx_id = client.begin()
        take(client, 2)
        other.run(lambda _: take(other, 2))
    for _ in range(2):
        with pytest.raises(psycopg.errors.SerializationFailure):
            client.commit(tx_id)
    assert client.outcome(tx_id) == "aborted"


def test_at_another_semi_primary(cluster: LocalCluster, client: Client) -> None:
    done = commit_one(client, 3)
    with psp_client.connect(cluster.sps[1].dsn, SETTINGS) as other:
        for tx_id in (done.tx_id, uuid4()):
            with pytest.raises(psycopg.Error) as error:
                other.commit(tx_id)
            assert error.value.sqlstate == "25P01"


def crash_daemon(cluster: LocalCluster) -> None:
    cluster.kill("north")


def crash_postgres(cluster: LocalCluster) -> None:
    cluster.stop("north", "postgres", "immediate")


def crash_primary(cluster: LocalCluster) -> None:
    cluster.kill("primary")
    cluster.stop("primary", "postgres", "immediate")


CRASHES = (crash_daemon, crash_postgres, crash_primary)


@pytest.mark.parametrize("crash", CRASHES)
def test_answers_survive(
    cluster: LocalCluster, client: Client, crash: Callable[[LocalCluster], None]
) -> None:
    """One was answered, one request is on its way: rows and answers say the same, everywhere."""
    done = commit_one(client, 4)
    item = 5 + CRASHES.index(crash)
    client.begin()
    take(client, item)
    tx_id = client.commit_async()
    crash(cluster)
    cluster.resume()
    try:
        client.get(tx_id)
        stock = 99
    except (psycopg.errors.TransactionRollback, psycopg.errors.ConnectionFailure):
        stock = 100
    for sp in cluster.sps:
        wait_for_row(sp, "SELECT 1 FROM item WHERE id = %s AND stock = %s", (item, stock))
    with psp_client.connect(cluster.sps[0].dsn, SETTINGS) as again:
        assert again.outcome(tx_id) == ("committed" if stock == 99 else "aborted")
        assert again.commit(done.tx_id).tx_id == done.tx_id
