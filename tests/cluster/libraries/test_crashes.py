"""Views mode: a commit request that is asked again gets the same answer, also after each kind of crash."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from uuid import UUID, uuid4

import psycopg
import pytest
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp_client import Committed
from psp_client._messages import Status

from tests.cluster.libraries.served import LIBRARIES, AnyClient, one_of_each, python_client
from tests.cluster.support import WAIT_S, wait_for_row
from tests.cluster.wire import ask_until_final, commits, written

ITEMS = count(101)  # each test takes new ones
FINAL = {status: status for status in ("committed", "aborted")}


@pytest.fixture(params=LIBRARIES)
def client(views_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with LIBRARIES[request.param](views_cluster.sps[0]) as found:
        yield found


def take(client: AnyClient, item: int) -> None:
    client.execute(f"UPDATE item SET stock = stock - 1 WHERE id = {item}")


def commit_one(client: AnyClient) -> Committed:
    client.begin()
    take(client, next(ITEMS))
    return client.commit()


def test_committed_is_committed(views_cluster: LocalCluster, client: AnyClient) -> None:
    done = commit_one(client)
    assert client.commit(done.tx_id) == done
    assert client.outcome(done.tx_id) == "committed"
    with python_client(views_cluster.sps[0]) as another:
        assert another.commit(done.tx_id) == done


def test_aborted_is_aborted(views_cluster: LocalCluster, client: AnyClient) -> None:
    item = next(ITEMS)
    tx_id = client.begin()
    take(client, item)
    with python_client(views_cluster.sps[0]) as other:
        other.run(lambda _: take(other, item))
    assert client.commit_async() == tx_id
    with pytest.raises(psycopg.errors.SerializationFailure):
        client.get(tx_id)
    with pytest.raises(psycopg.errors.SerializationFailure):
        client.commit(tx_id)
    assert client.outcome(tx_id) == "aborted"


def test_at_another_semi_primary(views_cluster: LocalCluster, client: AnyClient) -> None:
    done = commit_one(client)
    with python_client(views_cluster.sps[1]) as other:
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


@dataclass
class UnderWay:
    """Of one client: what it was answered before the crash, and a request that is on its way."""

    client: AnyClient
    done: Committed = field(init=False)
    item: int = field(default_factory=lambda: next(ITEMS))
    tx_id: UUID = field(init=False)

    def begin(self) -> None:
        self.done = commit_one(self.client)
        self.client.begin()
        take(self.client, self.item)
        self.tx_id = self.client.commit_async()

    def check(self, cluster: LocalCluster) -> None:
        """Answers and rows say the same, everywhere, and are the same when they are asked for again."""
        answer = self._ask(self.client.get)
        stock = 99 if answer == "committed" else 100
        for sp in cluster.sps:
            wait_for_row(
                sp,
                "SELECT 1 FROM item WHERE id = %s AND stock = %s",
                (self.item, stock),
            )
        end = wait_until(
            f"an end of {self.tx_id}",
            lambda: FINAL.get(self.client.outcome(self.tx_id)),
            WAIT_S,
        )
        assert end == ("committed" if stock == 99 else "aborted")
        assert self._ask(self.client.commit) == answer
        assert self.client.commit(self.done.tx_id) == self.done

    def _ask(self, how: Callable[[UUID], Committed]) -> str:
        """`committed`, or the SQLSTATE."""
        try:
            assert how(self.tx_id).tx_id == self.tx_id
        except (
            psycopg.errors.TransactionRollback,
            psycopg.errors.ConnectionFailure,
        ) as error:
            return str(error.sqlstate)
        return "committed"


@pytest.mark.parametrize("crash", CRASHES)
def test_answers_survive(views_cluster: LocalCluster, crash: Callable[[LocalCluster], None]) -> None:
    """In each library: one was answered, one request is on its way; and one that was not requested goes on,
    unless its rows were lost.
    """
    running = written(views_cluster.sps[0], next(ITEMS))
    with ExitStack() as stack:
        all_under_way = [UnderWay(client) for client in one_of_each(stack, views_cluster.sps[0]).values()]
        for under_way in all_under_way:
            under_way.begin()
        crash(views_cluster)
        views_cluster.resume()
        for under_way in all_under_way:
            under_way.check(views_cluster)
    # Or it is aborted, since nothing could be sent.
    wait_until("a commit", partial(commits, views_cluster.sps[0]), WAIT_S)
    reply = ask_until_final(views_cluster.sps[0], running)
    if crash is crash_postgres:
        assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40000")
    else:
        assert reply.status == Status.COMMITTED
