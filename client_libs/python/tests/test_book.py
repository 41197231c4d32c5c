# SPDX-License-Identifier: PostgreSQL
"""When requests are sent again, and which answers count."""

from uuid import uuid4

from psp_client._book import RequestBook
from psp_client._messages import Kind, Status

TX = uuid4()


def reply(number: int, status: Status, sqlstate: str = "") -> bytes:
    text = b"\x2a" + bytes([len(sqlstate)]) + sqlstate.encode() if sqlstate else b""
    return bytes([8, number, 16, status]) + text


def test_sent_again_until_answered() -> None:
    book = RequestBook(retry_interval_s=2)
    number = book.ask(Kind.COMMIT, TX, now_s=10)
    assert len(book.due(10)) == 1
    assert book.due(11) == []
    assert book.wait_s(11) == 1
    assert len(book.due(12)) == 1
    assert book.unanswered(number) == 2
    assert book.receive(reply(number, Status.COMMITTED)) == number
    assert book.due(100) == []
    taken = book.take(number)
    assert taken is not None and taken.status == Status.COMMITTED
    assert book.take(number) is None


def test_without_requests_there_is_nothing_to_do() -> None:
    book = RequestBook(retry_interval_s=2)
    assert book.wait_s(now_s=5) == 2
    assert book.is_empty()
    number = book.ask(Kind.COMMIT, TX, now_s=5)
    assert not book.is_empty()
    book.receive(reply(number, Status.COMMITTED))
    assert book.is_empty()
    book.give_up(number)
    assert book.take(number) is None


def test_each_request_has_its_answer() -> None:
    book = RequestBook(retry_interval_s=2)
    first, second = (book.ask(Kind.COMMIT, uuid4(), now_s=0) for _ in range(2))
    assert len(book.due(0)) == 2
    book.receive(reply(second, Status.ABORTED))
    assert book.take(first) is None
    assert len(book.due(2)) == 1
    book.receive(reply(first, Status.COMMITTED))
    assert book.take(first) is not None


def test_not_decided_yet_is_no_answer() -> None:
    book = RequestBook(retry_interval_s=2)
    number = book.ask(Kind.COMMIT, TX, now_s=0)
    book.due(0)
    assert book.receive(reply(number, Status.FAILED, "57P03")) is None
    assert len(book.due(2)) == 1
    last = book.give_up(number)
    assert last is not None and last.sqlstate == "57P03"
    assert book.due(100) == []


def test_answers_to_nothing() -> None:
    book = RequestBook(retry_interval_s=2)
    number = book.ask(Kind.COMMIT, TX, now_s=0)
    assert book.receive(b"garbage") is None
    assert book.receive(reply(number + 1, Status.COMMITTED)) is None
    assert book.receive(reply(number, Status.COMMITTED)) == number
    assert book.receive(reply(number, Status.COMMITTED)) is None  # it was sent twice


def test_everything_again_on_a_new_connection() -> None:
    book = RequestBook(retry_interval_s=2)
    book.ask(Kind.COMMIT, TX, now_s=10)
    book.due(10)
    book.send_all_again()
    assert len(book.due(10)) == 1
