"""A client of views mode by its wire alone: PostgreSQL, ZeroMQ and the messages, no library between."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import zmq
from psp.cluster.local import SpNode
from psp.waiting import wait_until
from psp_client._messages import Kind, Reply, Status, read_reply, request

from tests.cluster.support import WAIT_S


@contextmanager
def socket(sp: SpNode, kind: int = zmq.DEALER) -> Iterator[zmq.Socket[bytes]]:
    """A client's end."""
    with psycopg.connect(sp.dsn) as connection:
        row = connection.execute("SELECT psp.client_endpoint()").fetchone()
    assert row is not None
    with zmq.Context() as context, context.socket(kind) as made:
        made.linger = 0
        made.rcvtimeo = WAIT_S * 1000
        made.connect(row[0])
        yield made


def ask(sp: SpNode, kind: Kind, tx_id: UUID, socket_kind: int = zmq.DEALER) -> Reply:
    """One request's answer."""
    with socket(sp, socket_kind) as made:
        made.send(request(1, kind, tx_id))
        reply = read_reply(made.recv())
    assert reply is not None
    return reply


def ask_until_final(sp: SpNode, tx_id: UUID) -> Reply:
    """A commit request, again for as long as the daemon asks for more time: COMMITTED or ABORTED."""

    def final() -> Reply | None:
        reply = ask(sp, Kind.COMMIT, tx_id)
        return None if reply.status == Status.FAILED else reply

    return wait_until(f"an end of {tx_id}", final, WAIT_S)


def begin(connection: psycopg.Connection[Any]) -> UUID:
    row = connection.execute("SELECT psp.begin()").fetchone()
    assert row is not None
    return UUID(str(row[0]))


def written(sp: SpNode, item: int) -> UUID:
    """A transaction that took one of an item, and whose commit was not requested."""
    with psycopg.connect(sp.dsn) as connection:
        tx_id = begin(connection)
        connection.execute("UPDATE item SET stock = stock - 1 WHERE id = %s", (item,))
    return tx_id


def stock(sp: SpNode, item: int) -> int:
    with psycopg.connect(sp.dsn) as connection:
        row = connection.execute("SELECT stock FROM item WHERE id = %s", (item,)).fetchone()
    assert row is not None
    return int(row[0])


def commits(sp: SpNode) -> bool:
    """Whether the SP's daemon takes a commit and the primary certifies it. Changes no value."""
    try:
        with psycopg.connect(sp.dsn) as connection:
            tx_id = begin(connection)
            connection.execute("UPDATE item SET stock = stock WHERE id = 500")
    except psycopg.errors.CannotConnectNow:  # it is recovering
        return False
    return ask(sp, Kind.COMMIT, tx_id).status == Status.COMMITTED
