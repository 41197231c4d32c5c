"""Sessions that write a table without a pause, while it is changed."""

import threading
from contextlib import AbstractContextManager
from typing import LiteralString

import psycopg
from psp.cluster.local import SpNode

from tests.cluster.support import SERIALIZATION_FAILURE, connect
from tests.threads import running_until_left

ENDED = (SERIALIZATION_FAILURE, "57P01")  # 57P01: it still held a lock of the table

UPDATE: LiteralString = "UPDATE item SET v = v + 1 WHERE id = %s"


def write_without_a_pause(sp: SpNode, left: threading.Event, statement: LiteralString) -> None:
    n = 0
    while not left.is_set():
        with connect(sp) as connection:
            try:
                while not left.is_set():
                    n += 1
                    connection.execute(statement, [n % 20 + 1])
                    connection.commit()
            except psycopg.Error as error:
                assert error.sqlstate in ENDED, error


def written_without_a_pause(
    sp: SpNode, sessions: int, statement: LiteralString = UPDATE
) -> AbstractContextManager[None]:
    """Inside the block, sessions at this SP run the statement, which has a number from 1 to 20."""
    return running_until_left(*[lambda left: write_without_a_pause(sp, left, statement)] * sessions)
