"""The Python client library at a real cluster: one program for both modes, ordinary and asyncio."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import psp_client
import psycopg
import pytest
from psp.cluster.local import LocalCluster, SpNode
from psp_client import Client, Settings

from tests.cluster.support import wait_for_row

CONTENDERS, ROUNDS = 4, 5


@pytest.fixture
def sp(items_cluster: LocalCluster) -> SpNode:
    return items_cluster.sps[0]


@pytest.fixture
def client(sp: SpNode) -> Iterator[Client]:
    with psp_client.connect(sp.dsn) as found:
        yield found


def stock(client: Client, item: int) -> int:
    row = client.execute("SELECT stock FROM item WHERE id = %s", (item,)).fetchone()
    assert row is not None
    return int(row[0])


def take(client: Client, item: int, count: int = 1) -> None:
    client.execute("UPDATE item SET stock = stock - %s WHERE id = %s", (count, item))


def test_finds_the_mode(items_cluster: LocalCluster, client: Client) -> None:
    assert client.mode == items_cluster.state.mode


def test_commit_is_seen_everywhere(items_cluster: LocalCluster, client: Client) -> None:
    tx = client.begin()
    take(client, 1)
    assert stock(client, 1) == 99
    assert client.commit().tx_id == tx
    assert stock(client, 1) == 99
    wait_for_row(items_cluster.sps[1], "SELECT 1 FROM item WHERE id = 1 AND stock = 99")


def test_returning_with_parameters(client: Client) -> None:
    client.begin()
    cursor = client.execute("UPDATE item SET stock = stock - %s WHERE id = %s RETURNING stock", (3, 5))
    assert cursor.fetchall() == [(97,)]
    client.abort()


def test_abort_leaves_nothing(client: Client) -> None:
    client.begin()
    take(client, 2)
    client.abort()
    assert stock(client, 2) == 100
    client.abort()


def test_read_only(client: Client) -> None:
    client.begin()
    stock(client, 3)
    client.commit()


def test_read_only_transaction(client: Client) -> None:
    """Costs nothing but its reads: no number of PostgreSQL's, no commit request."""
    tx_id = client.begin(read_only=True)
    assert stock(client, 3) == 100
    assert client.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)
    assert client.commit().tx_id == tx_id
    with pytest.raises(psp_client.NoTransactionError):
        client.commit(tx_id)
    with pytest.raises(psp_client.NoTransactionError):
        client.outcome(tx_id)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        client.run(lambda _: take(client, 3), read_only=True)
    assert client.run(lambda _: stock(client, 3), read_only=True) == 100


def test_failed_statement_fails_the_commit(client: Client) -> None:
    client.begin()
    with pytest.raises(psycopg.errors.CheckViolation):
        take(client, 4, 101)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        client.commit()
    assert stock(client, 4) == 100


def test_misuse(client: Client) -> None:
    with pytest.raises(psp_client.NoTransactionError):
        client.commit()
    with pytest.raises(psp_client.NoTransactionError):
        client.get(uuid.uuid4())
    client.begin()
    with pytest.raises(psp_client.TransactionOpenError):
        client.begin()
    client.abort()
    with pytest.raises(ValueError, match="isolation"):
        Settings(isolation="serializable")
    if client.mode == "views":
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            client.begin("serializable")
        client.begin()  # nothing is left open
        client.abort()


def test_asking_again_for_a_committed_transaction(client: Client) -> None:
    tx_id = client.begin()
    take(client, 1)
    client.commit()
    if client.mode == "views":
        assert client.commit(tx_id).tx_id == tx_id
        assert client.outcome(tx_id) == "committed"
        return
    # psp has never heard of this id, and must not be made to say that it was aborted.
    for ask in (client.commit, client.outcome):
        with pytest.raises(psp_client.NoTransactionError):
            ask(tx_id)


def test_commit_async(client: Client) -> None:
    """Several in flight; each is got once, in any order."""
    tickets = []
    for item in range(10, 14):
        client.begin()
        take(client, item)
        tickets.append(client.commit_async())
    assert [client.get(ticket).tx_id for ticket in reversed(tickets)] == tickets[::-1]
    with pytest.raises(psp_client.NoTransactionError):
        client.get(tickets[0])
    assert [stock(client, item) for item in range(10, 14)] == [99] * 4


def test_one_of_two_writers_is_told(sp: SpNode, client: Client) -> None:
    """A serialization failure, the same exception whether a row lock or certification found it."""
    with psp_client.connect(sp.dsn) as other:
        client.begin()
        stock(client, 20)
        other.run(lambda _: take(other, 20))
        with pytest.raises(psycopg.errors.SerializationFailure):
            take(client, 20)
            client.commit()
        client.abort()
        assert stock(client, 20) == 99


def test_run_returns_and_raises(client: Client) -> None:
    assert client.run(lambda _: stock(client, 21)) == 100

    def fail(_: psycopg.Connection[Any]) -> None:
        take(client, 21)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.run(fail)
    assert stock(client, 21) == 100


def test_run_gives_up(sp: SpNode) -> None:
    attempts = []

    def fail(_: psycopg.Connection[Any]) -> None:
        attempts.append(1)
        raise psycopg.errors.SerializationFailure("always")

    backoff = psp_client.Backoff(attempts=3, longest_s=0.001)
    with psp_client.connect(sp.dsn, Settings(backoff=backoff)) as client:
        with pytest.raises(psycopg.errors.SerializationFailure):
            client.run(fail)
        assert len(attempts) == 3
        client.begin()  # nothing is left open
        client.abort()


def test_outcome_of_an_unknown_transaction(client: Client) -> None:
    if client.mode == "native":
        assert client.outcome(uuid.uuid4()) == "forgotten"  # or never known: psp has not made this id
    else:
        with pytest.raises(psycopg.Error) as error:
            client.outcome(uuid.uuid4())
        assert error.value.sqlstate == "25P01"


def test_asyncio(sp: SpNode) -> None:
    """Contending tasks, each with its own connection: every increment counts once."""

    async def work() -> list[int]:
        async with await psp_client.connect_async(sp.dsn) as client:
            for _ in range(ROUNDS):
                await client.run(
                    lambda connection: connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 30")
                )
            row = await (await client.execute("SELECT stock FROM item WHERE id = 30")).fetchone()
            return list(row or ())

    async def contend() -> None:
        await asyncio.gather(*(work() for _ in range(CONTENDERS)))

    asyncio.run(contend())
    with psp_client.connect(sp.dsn) as client:
        assert stock(client, 30) == 100 - CONTENDERS * ROUNDS


def test_asyncio_commit_async(sp: SpNode) -> None:
    async def work() -> list[uuid.UUID]:
        async with await psp_client.connect_async(sp.dsn) as client:
            tickets = []
            for item in range(40, 44):
                await client.begin()
                await client.execute("UPDATE item SET stock = 0 WHERE id = %s", (item,))
                tickets.append(await client.commit_async())
            done = await asyncio.gather(*(client.get(ticket) for ticket in tickets))
            assert [found.tx_id for found in done] == tickets
            await client.begin()
            await client.abort()
            read = await client.begin(read_only=True)
            assert (await client.commit()).tx_id == read
            return tickets

    assert len(asyncio.run(work())) == 4
    with psp_client.connect(sp.dsn) as client:
        assert [stock(client, item) for item in range(40, 44)] == [0] * 4


def test_plain_postgresql(items_cluster: LocalCluster) -> None:
    """Without psp, too: begin and commit are plain SQL."""
    with psp_client.connect(items_cluster.primary_dsn, dbname="postgres") as client:
        assert client.mode == "native"
        client.begin()
        client.execute("CREATE TEMP TABLE mine (id int)")
        client.commit()
        client.execute("SELECT FROM mine")
