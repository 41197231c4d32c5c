"""Views mode: bad commit requests get a clear answer and change nothing, by the wire's own messages."""

from concurrent.futures import ThreadPoolExecutor
from socket import create_connection
from uuid import UUID, uuid4

import psp_client
import psycopg
import pytest
import zmq
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until
from psp_client._messages import Kind, Status, read_reply, request

from tests.cluster.support import WAIT_S, as_admin, execute, forget_all, wait_for_row
from tests.cluster.wire import ask, begin, socket, stock, written

NOT_AN_ID = b"\x08\x07\x10\x01\x1a\x02ab"  # request 7: COMMIT of an id of two bytes


@pytest.fixture
def sp(views_cluster: LocalCluster) -> SpNode:
    return views_cluster.sps[0]


def test_commit_while_the_transaction_is_open(sp: SpNode) -> None:
    with psycopg.connect(sp.dsn) as connection:
        tx_id = begin(connection)
        connection.execute("UPDATE item SET stock = 1 WHERE id = 201")
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.FAILED, "25001")
        assert ask(sp, Kind.OUTCOME, tx_id).status == Status.RUNNING
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED
    assert stock(sp, 201) == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_a_transaction_of_nobody(sp: SpNode, kind: Kind) -> None:
    reply = ask(sp, kind, uuid4())
    assert (reply.status, reply.sqlstate) == (Status.FAILED, "25P01")


def test_another_semi_primarys_transaction_is_left_alone(views_cluster: LocalCluster, sp: SpNode) -> None:
    tx_id = written(sp, 202)
    for kind in Kind:
        assert ask(views_cluster.sps[1], kind, tx_id).sqlstate == "25P01"
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED


def older(tx_id: UUID) -> UUID:
    """An id of the same semi-primary whose transaction began before; what it names has never been."""
    xid = int.from_bytes(tx_id.bytes[:6], "big") - 1
    return UUID(bytes=xid.to_bytes(6, "big") + tx_id.bytes[6:])


def test_one_that_the_primary_has_forgotten(views_cluster: LocalCluster, sp: SpNode) -> None:
    tx_id = written(sp, 212)
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED
    assert ask(sp, Kind.COMMIT, UUID(bytes=b"\xff" + tx_id.bytes[1:])).status == Status.ABORTED
    forget_all(views_cluster)
    for kind in Kind:
        reply = ask(sp, kind, older(tx_id))
        assert (reply.status, reply.sqlstate) == (Status.FAILED, "25P01")
        assert "tx_log_retention_s" in reply.detail
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED  # the semi-primary knows it still


def test_rolled_back(sp: SpNode) -> None:
    with psycopg.connect(sp.dsn) as connection:
        tx_id = begin(connection)
        connection.rollback()
    for _ in range(2):
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40000")


def test_finished_ones_keep_their_answer(sp: SpNode) -> None:
    committed, aborted = written(sp, 203), written(sp, 204)
    first = ask(sp, Kind.COMMIT, committed)
    assert first.status == Status.COMMITTED
    assert first.global_t > 0
    assert ask(sp, Kind.ABORT, aborted).status == Status.ABORTED
    for kind in Kind:
        assert ask(sp, kind, committed) == first
        assert ask(sp, kind, aborted).status == Status.ABORTED
    assert (stock(sp, 203), stock(sp, 204)) == (99, 100)


def test_many_requests_for_one_transaction_at_once(sp: SpNode) -> None:
    tx_id = written(sp, 205)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: ask(sp, Kind.COMMIT, tx_id), range(8)))
    assert {reply.status for reply in replies} == {Status.COMMITTED}
    assert len({reply.global_t for reply in replies}) == 1
    assert stock(sp, 205) == 99


LOCKS_OF = """
SELECT 1 FROM pg_locks l, LATERAL hashtextextended(%s::text, 0) h
 WHERE l.locktype = 'advisory' AND l.classid::bigint << 32 | l.objid::bigint = h
"""


def test_a_client_that_vanishes_in_the_middle_leaves_nothing(sp: SpNode) -> None:
    admin = as_admin(sp)
    connection = psycopg.connect(sp.dsn)
    tx_id = begin(connection)
    connection.execute("UPDATE item SET stock = 0 WHERE id = 210")
    assert execute(admin, LOCKS_OF, (tx_id,))
    connection.close()
    wait_until("its lock to go", lambda: not execute(admin, LOCKS_OF, (tx_id,)), WAIT_S)
    assert not execute(admin, "SELECT 1 FROM psp.transactions WHERE tx_id = %s", (tx_id,))
    assert not execute(admin, "SELECT 1 FROM item_temp WHERE id = 210")
    assert stock(sp, 210) == 100


def test_a_client_that_vanishes_before_the_answer_is_served(sp: SpNode) -> None:
    tx_id = written(sp, 211)
    with socket(sp) as made:
        made.linger = WAIT_S * 1000
        made.send(request(1, Kind.COMMIT, tx_id))
    admin = as_admin(sp)
    wait_for_row(admin, "SELECT 1 FROM psp.transactions WHERE tx_id = %s AND status = 'committed'", (tx_id,))
    assert stock(sp, 211) == 99
    wait_for_row(admin, "SELECT 1 WHERE NOT EXISTS (SELECT FROM item_temp WHERE id = 211)")
    wait_for_row(sp, "SELECT 1 FROM psp.status WHERE waiting = 0")


def test_a_client_that_vanishes_before_its_request_is_collected(sp: SpNode) -> None:
    tx_id = written(sp, 206)
    admin = as_admin(sp)
    # As if running_timeout_ms had passed for all that began before the next one.
    execute(
        admin,
        "SELECT psp.collect_garbage((xid::text::bigint + 1)::text::xid8) FROM psp.transactions"
        " WHERE tx_id = %s",
        (tx_id,),
    )
    assert execute(sp, "SELECT psp.outcome(%s)::text", (tx_id,)) == [("aborted",)]
    wait_for_row(admin, "SELECT 1 WHERE NOT EXISTS (SELECT FROM item_temp WHERE id = 206)")
    reply = ask(sp, Kind.COMMIT, tx_id)
    assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40000")
    assert stock(sp, 206) == 100


def test_a_clock_that_jumps_collects_nobody(sp: SpNode) -> None:
    tx_id = written(sp, 217)
    admin = as_admin(sp)
    execute(admin, "UPDATE psp.transactions SET changed_at = changed_at - interval '2 days'")
    begun = written(sp, 218)
    assert ask(sp, Kind.COMMIT, begun).status == Status.COMMITTED
    wait_for_row(admin, "SELECT 1 WHERE NOT EXISTS (SELECT FROM item_temp WHERE id = 218)")  # it was here
    assert ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED


def test_garbage_on_the_port(sp: SpNode) -> None:
    with socket(sp) as made:
        for garbage in (b"", b"\xff" * 100, b"not a message"):
            made.send(garbage)
        made.send_multipart([b"too", b"many", b"frames"])
        made.send(NOT_AN_ID)
        while (reply := read_reply(made.recv())) is None or reply.request_id != 7:
            pass
        assert (reply.status, reply.sqlstate) == (Status.FAILED, "08P01")
        tx_id = written(sp, 207)
        made.send(request(8, Kind.COMMIT, tx_id))
        last = read_reply(made.recv())
        assert last is not None
        assert (last.request_id, last.status) == (8, Status.COMMITTED)


@pytest.mark.parametrize(
    "garbage",
    [[b"x" * 1_000_000], [b""] * 50_000, [b"\x1b" * 1000]],
    ids=["a huge frame", "very many parts", "another protocol"],
)
def test_garbage_of_one_client_is_nothing_to_others(sp: SpNode, garbage: list[bytes]) -> None:
    with socket(sp) as made:
        made.send_multipart(garbage)
        assert ask(sp, Kind.COMMIT, written(sp, 213)).status == Status.COMMITTED


def test_a_peer_that_does_not_speak_zeromq(sp: SpNode) -> None:
    row = execute(sp, "SELECT psp.client_endpoint()")[0]
    host, _, port = str(row[0]).removeprefix("tcp://").rpartition(":")
    with create_connection((host, int(port))) as talking, create_connection((host, int(port))):
        talking.sendall(b"GET / HTTP/1.0\r\n\r\n" * 1000)
        assert ask(sp, Kind.COMMIT, written(sp, 214)).status == Status.COMMITTED


def test_a_client_that_never_reads_is_nothing_to_others(sp: SpNode) -> None:
    """More answers than the daemon keeps for one client: the others of them are dropped."""
    with socket(sp) as made:
        made.rcvhwm = 1
        made.sndhwm = 0
        for _ in range(150_000):
            made.send(NOT_AN_ID)
        assert ask(sp, Kind.COMMIT, written(sp, 215)).status == Status.COMMITTED


def test_a_req_socket_is_served(sp: SpNode) -> None:
    assert ask(sp, Kind.COMMIT, written(sp, 208), zmq.REQ).status == Status.COMMITTED


def test_conflict_names_row_and_winner(views_cluster: LocalCluster, sp: SpNode) -> None:
    tx_id = written(sp, 209)
    with psp_client.connect(views_cluster.sps[1].dsn) as other:
        other.run(lambda run: run.execute("UPDATE item SET stock = 50 WHERE id = 209"))
    for _ in range(2):
        reply = ask(sp, Kind.COMMIT, tx_id)
        assert (reply.status, reply.sqlstate) == (Status.ABORTED, "40001")
        assert "(id)=(209)" in reply.detail
        assert "south" in reply.detail
