"""Views mode: bad commit requests get a clear answer and change nothing, by the wire's own messages."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psp_client
import psycopg
import pytest
import zmq
from psp.cluster.local import LocalCluster, SpNode
from psp_client._messages import Kind, Status, read_reply, request
from support import as_admin, execute, wait_for_row
from wire import ask, begin, socket, stock, written


@pytest.fixture
def sp(views_cluster: LocalCluster) -> SpNode:
    return views_cluster.sps[0]


def test_commit_while_the_transaction_is_open(sp: SpNode) -> None:
    with psycopg.connect(sp.dsn) as connection:
        tx_id = begin(connection)
        connection.execute("UPDATE item SET stock = 1 WHERE id = 1")
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.FAILED, "25001")
        assert ask(sp, Kind.OUTCOME, tx_id).status == Status.RUNNING
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED
    assert stock(sp, 1) == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_a_transaction_of_nobody(sp: SpNode, kind: Kind) -> None:
    reply = ask(sp, kind, uuid4())
    assert (reply.status, reply.sqlstate) == (Status.FAILED, "25P01")


def test_another_semi_primarys_transaction_is_left_alone(views_cluster: LocalCluster, sp: SpNode) -> None:
    tx_id = written(sp, 2)
    for kind in Kind:
        assert ask(views_cluster.sps[1], kind, tx_id).sqlstate == "25P01"
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED


def test_rolled_back(sp: SpNode) -> None:
    with psycopg.connect(sp.dsn) as connection:
        tx_id = begin(connection)
        connection.rollback()
    for _ in range(2):
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40000")


def test_finished_ones_keep_their_answer(sp: SpNode) -> None:
    committed, aborted = written(sp, 3), written(sp, 4)
    first = ask(sp, Kind.COMMIT, committed)
    assert first.status == Status.COMMITTED
    assert first.global_t > 0
    assert ask(sp, Kind.ABORT, aborted).status == Status.ABORTED
    for kind in Kind:
        assert ask(sp, kind, committed) == first
        assert ask(sp, kind, aborted).status == Status.ABORTED
    assert (stock(sp, 3), stock(sp, 4)) == (99, 100)


def test_many_requests_for_one_transaction_at_once(sp: SpNode) -> None:
    tx_id = written(sp, 5)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: ask(sp, Kind.COMMIT, tx_id), range(8)))
    assert {reply.status for reply in replies} == {Status.COMMITTED}
    assert len({reply.global_t for reply in replies}) == 1
    assert stock(sp, 5) == 99


def test_a_client_that_vanishes_is_collected(sp: SpNode) -> None:
    tx_id = written(sp, 6)
    with psycopg.connect(sp.dsn) as connection:
        begin(connection)
        connection.execute("UPDATE item SET stock = 0 WHERE id = 6")
        connection.close()  # in the middle
    admin = as_admin(sp)
    # As if running_timeout_ms had passed.
    execute(
        admin,
        "UPDATE psp.transactions SET changed_at = changed_at - interval '2 hours' WHERE tx_id = %s",
        (tx_id,),
    )
    wait_for_row(sp, "SELECT 1 WHERE psp.outcome(%s) = 'aborted'", (tx_id,))
    wait_for_row(admin, "SELECT 1 WHERE NOT EXISTS (SELECT FROM item_temp WHERE id = 6)")
    reply = ask(sp, Kind.COMMIT, tx_id)
    assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40000")
    assert stock(sp, 6) == 100


def test_garbage_on_the_port(sp: SpNode) -> None:
    with socket(sp) as made:
        for garbage in (b"", b"\xff" * 100, b"not a message"):
            made.send(garbage)
        made.send_multipart([b"too", b"many", b"frames"])
        made.send(b"\x08\x07\x10\x01\x1a\x02ab")  # request 7: COMMIT of an id of two bytes
        while (reply := read_reply(made.recv())) is None or reply.request_id != 7:
            pass
        assert (reply.status, reply.sqlstate) == (Status.FAILED, "08P01")
        tx_id = written(sp, 7)
        made.send(request(8, Kind.COMMIT, tx_id))
        last = read_reply(made.recv())
        assert last is not None
        assert (last.request_id, last.status) == (8, Status.COMMITTED)


def test_a_req_socket_is_served(sp: SpNode) -> None:
    assert ask(sp, Kind.COMMIT, written(sp, 8), zmq.REQ).status == Status.COMMITTED


def test_conflict_names_row_and_winner(views_cluster: LocalCluster, sp: SpNode) -> None:
    tx_id = written(sp, 9)
    with psp_client.connect(views_cluster.sps[1].dsn) as other:
        other.run(lambda run: run.execute("UPDATE item SET stock = 50 WHERE id = 9"))
    for _ in range(2):
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40001")
        assert "(id)=(9)" in reply.detail
        assert "south" in reply.detail
