# SPDX-License-Identifier: PostgreSQL
"""The client for ordinary programs; `_async.py` is its twin for asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import psycopg
import zmq
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from psp_client._book import RequestBook
from psp_client._common import (
    FIND_AGAIN_AFTER,
    FIND_ENDPOINT,
    FIND_MODE,
    FIND_OUTCOME,
    LOOK_INTERVAL_S,
    Attempt,
    Committed,
    NoTransactionError,
    Settings,
    TransactionOpenError,
    as_places,
    begin_statement,
    committed,
    connection_id,
    reachable,
    refuse_connection_id,
    status_of,
    unknown,
)  # fmt: skip
from psp_client._errors import OutcomeUnknown, failed_transaction, instead_of, is_of_gone, is_retryable
from psp_client._messages import Kind, Reply
from psp_client._outcome import FIND_ID, FIND_PSP, FORGOTTEN, Deadline
from psp_client._places import FENCE, TOKEN, Places, fence_key, is_in_vain, is_useless, wait_statement
from psp_client._request import ASK, DONE, Request, answer, stored

T = TypeVar("T")
Session = tuple[psycopg.Connection[Any], int]
"""And the number of the place where it is."""


def connect(
    dsn: str | Sequence[str] | Places[str] = "", settings: Settings | None = None, **parameters: Any
) -> Client:
    """Connects to a semi-primary's PostgreSQL, by psycopg's `dsn` and `parameters`, and detects the mode.

    Several DSNs, the nearest first: where one is gone, the next is taken; `run` carries what was seen there.
    Clients that are given the same Places share that.
    """
    places = as_places(dsn)

    def again() -> Session:
        place = places.at
        try:
            return psycopg.connect(places.sources[place], **{**parameters, "autocommit": True}), place
        except psycopg.OperationalError:
            places.leave(place)
            raise

    connection, place = _first(again, len(places.sources))
    try:
        return Client(connection, place, places, again, settings or Settings())
    except BaseException:
        connection.close()
        raise


def _first(again: Callable[[], Session], sources: int) -> Session:
    """At any of them."""
    for _ in range(sources - 1):
        with suppress(psycopg.OperationalError):
            return again()
    return again()


def plain_cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[TupleRow]:
    """Rows are tuples, also if the application's own cursors return something else."""
    return psycopg.Cursor(connection, row_factory=tuple_row)


class Client:
    """One connection. One thread at a time may use it; a context manager that closes it."""

    def __init__(
        self, connection: psycopg.Connection[Any], place: int, places: Places[str],
        again: Callable[[], Session], settings: Settings,
    ) -> None:  # fmt: skip
        self.connection = connection
        """Where a transaction's statements run. BEGIN and COMMIT are the client's."""
        self.settings = settings
        row = plain_cursor(connection).execute(FIND_MODE).fetchone()
        self.mode = "views" if row and row[0] else "native"
        """`native` also on a PostgreSQL without psp, where everything works the same."""
        self._again = again
        self._place: int | None = place  # None: the session is gone
        self._places = places
        self._open: UUID | None = None
        self._by_request = False  # the open transaction needs psp's commit; else PostgreSQL's is all
        self._has_psp: bool | None = None  # of this session; None: nobody has asked yet
        self._attempt = Attempt()  # of native mode, the last one
        self._tickets: dict[UUID, int | Committed | psycopg.Error] = {}
        self._requests = _Requests(lambda: again()[0], settings)
        if self.mode == "views" and settings.endpoint is None:
            self._requests.find_endpoint(connection)

    def close(self) -> None:
        """Rolls back an open transaction. Commits that were not waited for continue."""
        try:
            self._requests.close()
        finally:
            self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- the thesis's API -----------------------------------------------------------------------

    def begin(self, isolation: str | None = None, *, read_only: bool = False) -> UUID:
        """Begins a transaction; returns its id, for `commit`, `get` and `outcome`.

        read_only: it cannot write (25006) and costs no commit request; its id serves `commit` and `get` only.
        """
        self._refuse_second()
        self._connect_if_closed()
        self._by_request = self.mode == "views" and not read_only
        self._attempt = Attempt(can_write=not read_only)
        statement = begin_statement(
            isolation or self.settings.isolation, read_only=read_only, by_request=self._by_request
        )
        try:
            self._open = self._begin(statement)
        except BaseException:  # BEGIN may have come before the error, or before an interrupt
            self._roll_back_quietly()
            raise
        return self._open

    def execute(self, query: str, parameters: Any = None) -> psycopg.Cursor[Any]:
        """`connection.execute`."""
        return self.connection.execute(query.encode(), parameters)

    def commit(self, tx_id: UUID | None = None) -> Committed:
        """Commits the open transaction, or asks again for one whose outcome is unknown.

        Raises SerializationFailure if another transaction was first, OutcomeUnknown if no answer comes.
        """
        return self.get(self._commit_async(tx_id))

    def commit_async(self) -> UUID:
        """Sends the commit request of the open transaction and returns its id; the connection is free.

        In native mode the COMMIT has ended when this returns, and `get` gives its result.
        """
        return self._commit_async(None)

    def get(self, tx_id: UUID) -> Committed:
        """Waits for the outcome of a `commit_async`, once for each. Returns and raises what `commit` does."""
        ticket = self._tickets.pop(tx_id, None)
        if ticket is None:
            raise NoTransactionError(f"psp: no commit of {tx_id} is under way here")
        if isinstance(ticket, psycopg.Error):
            raise ticket
        if isinstance(ticket, Committed):
            return ticket
        return committed(tx_id, self._requests.wait(ticket, tx_id))

    def abort(self) -> None:
        """Rolls back the open transaction, if there is one."""
        if self._open is not None:
            self._roll_back()

    def outcome(self, tx_id: UUID) -> str:
        """The status of a transaction: running, waiting, pending, committed, aborted. Final: the last two.

        In native mode also forgotten, for one that is so old that nobody knows it any more; views mode
        raises an error with SQLSTATE 25P01 then.
        """
        refuse_connection_id(tx_id)
        if self.mode == "native":
            row = plain_cursor(self.connection).execute(FIND_OUTCOME, (tx_id,)).fetchone()
            return str(row[0]) if row else "aborted"
        return status_of(self._requests.wait(self._requests.ask(Kind.OUTCOME, tx_id), tx_id))

    def run(
        self, function: Callable[[psycopg.Connection[Any]], T], isolation: str | None = None, *,
        read_only: bool = False, request: Request | None = None, token: str | None = None,
        on_token: Callable[[str], object] | None = None,
    ) -> T:  # fmt: skip
        """Runs `function` in a transaction and commits it; again after 40001, a lost connection and the like.

        Another exception of `function` rolls back and is passed on. An unknown outcome is not retried.
        Inside another `run` it raises TransactionOpenError, and the outer transaction continues.

        `request`: `function` runs for it once in all, in this program and in others; what it returns is
        stored as JSON, and each later `run` returns that. An unknown outcome is retried then: psp knows.
        Raises RequestFailed if the request has failed for good, and ProgrammingError (PS422) if its key was
        another's. Native mode.

        `token`: what the transaction must see, of psp.token() or of `on_token` of an earlier run;
        `on_token` is called with a token of this one. Without them a client of several semi-primaries
        carries its own from one to the next. Native mode.
        """
        self._refuse_second()
        failures, attempts = 0, self.settings.backoff.attempts
        while True:
            has_begun = False
            try:
                self._reach(token)
                has_begun = True
                self.begin(isolation, read_only=read_only)
                result = function(self.connection) if request is None else self._serve(function, request)
                self.commit()
                break
            except psycopg.Error as error:
                self._roll_back_quietly()
                if is_of_gone(error):
                    self._leave()
                failures += 1
                is_unknown = self._attempt.is_undecided or isinstance(error, OutcomeUnknown)
                may_retry = request is not None if is_unknown else is_retryable(error)
                if is_in_vain(error.sqlstate, has_begun) or not may_retry or failures >= attempts:
                    raise
                time.sleep(self.settings.backoff.pause_s(failures))
            except BaseException:
                self._roll_back_quietly()
                raise
        self._note_token(on_token)
        return result

    # ---- how ------------------------------------------------------------------------------------

    def _connect_if_closed(self) -> None:
        if not self.connection.closed:
            return
        before = self.connection  # its server has ended it, a restart for example
        self._place = None
        self.connection, self._place = self._again()
        self.connection.cursor_factory = before.cursor_factory
        self.connection.row_factory = before.row_factory
        self._has_psp = None

    def _leave(self) -> None:
        """The next attempt is made at the next semi-primary, if there are several."""
        if self._places.are_several and self._place is not None:
            self._places.leave(self._place)
            self._place = None
            self.connection.close()

    def _reach(self, token: str | None) -> None:
        """A session at the semi-primary of today that has all that must be seen."""
        if self._place is not None and self._place != self._places.at:
            self.connection.close()
        self._connect_if_closed()
        assert self._place is not None
        for seen, wanted in self._places.waits_at(self._place):
            try:
                plain_cursor(self.connection).execute(wait_statement(wanted))
            except psycopg.Error as error:
                if not is_useless(error.sqlstate):
                    raise
                seen.forget()
                self._roll_back_quietly()
        if token is not None:
            plain_cursor(self.connection).execute(wait_statement(token))

    def _note_token(self, on_token: Callable[[str], object] | None) -> None:
        """What a later transaction has to see, at another semi-primary, too."""
        if self.mode == "views" or (on_token is None and not self._places.need_tokens):
            return
        token = None
        try:
            if not self._attempt.is_answer_lost:
                if self._has_psp is None:
                    self._has_psp = bool(self._value(FIND_PSP))
                if not self._has_psp:
                    return
                token = str(self._value(TOKEN))
                if self._place is not None:
                    self._places.note(self._place, token)
        except psycopg.Error as error:
            if not is_of_gone(error):
                return  # it joins, for example
        if token is None:
            token = self._fenced_token()
        if on_token is not None and token is not None:
            on_token(token)

    def _fenced_token(self) -> str | None:
        """Of what was committed, though the session is lost. None: no semi-primary gives one in time."""
        deadline = Deadline(self.settings.timeout_s)
        while True:
            place = None
            try:
                connection, place = self._again()
                with connection:
                    plain_cursor(connection).execute(FENCE.encode(), (fence_key(),))
                    row = plain_cursor(connection).execute(TOKEN.encode()).fetchone()
                assert row is not None
                return self._places.seen.note_fence(row[0])
            except psycopg.Error as error:
                if not is_retryable(error):
                    return None
                if place is not None and is_of_gone(error):
                    self._places.leave(place)
            pause_s = deadline.pause_s()
            if pause_s is None:
                return None
            time.sleep(pause_s)

    def _serve(self, function: Callable[[psycopg.Connection[Any]], T], request: Request) -> T:
        """The request's result, stored in the open transaction or earlier."""
        cursor = plain_cursor(self.connection).execute(ASK.encode(), request.parameters)
        found = answer(cursor.fetchone())
        if not found.is_new:
            known: T = found.known()
            return known
        text, result = stored(function(self.connection))
        plain_cursor(self.connection).execute(DONE.encode(), (text,))
        served: T = result
        return served

    def _refuse_second(self) -> None:
        if self._open is not None:
            raise TransactionOpenError("psp: a transaction is open: commit or abort it first")

    def _begin(self, statement: str) -> UUID:
        cursor = plain_cursor(self.connection).execute(statement.encode())
        if not self._by_request:
            return connection_id()
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        assert row is not None
        tx_id: UUID = row[0]
        return tx_id

    def _commit_async(self, asked: UUID | None) -> UUID:
        tx_id = asked or self._open
        if tx_id is None:
            raise NoTransactionError("psp: no transaction is open")
        if tx_id == self._open:
            self._open = None
            self._end(tx_id)
        elif tx_id not in self._tickets:
            refuse_connection_id(tx_id)
            if self.mode == "native":
                self._tickets[tx_id] = self._asked_again(tx_id)
        if tx_id not in self._tickets:
            self._tickets[tx_id] = self._requests.ask(Kind.COMMIT, tx_id)
        return tx_id

    def _end(self, tx_id: UUID) -> None:
        """PostgreSQL's COMMIT: in native mode the commit itself, in views mode what must come before it."""
        try:
            if not self._by_request:
                self._begin_commit()
            if plain_cursor(self.connection).execute("COMMIT").statusmessage == "ROLLBACK":
                raise failed_transaction()
            if not self._by_request:
                self._tickets[tx_id] = Committed(tx_id)
        except psycopg.Error as error:
            if not self._by_request:
                self._roll_back_quietly()
                self._tickets[tx_id] = self._native_error(tx_id, error)
            elif not self.connection.broken:
                raise
            # Else the COMMIT may have reached PostgreSQL: the semi-primary knows.
        except BaseException:  # an interrupt, perhaps before COMMIT was sent
            self._roll_back_quietly()
            raise

    def _begin_commit(self) -> None:
        """What psp will be asked about if the COMMIT fails. A transaction that has failed commits nothing."""
        if (
            not self._attempt.can_write
            or self.connection.info.transaction_status == TransactionStatus.INERROR
        ):
            return
        if self._has_psp is None:
            self._has_psp = bool(self._value(FIND_PSP))
        if self._has_psp:
            self._attempt.tx_id = self._value(FIND_ID)
        self._attempt.begin_commit(has_psp=self._has_psp)

    def _value(self, query: str) -> Any:
        row = plain_cursor(self.connection).execute(query.encode()).fetchone()
        return row[0] if row else None

    def _native_error(self, tx_id: UUID, error: psycopg.Error) -> Committed | psycopg.Error:
        """08007, a lost connection: psp itself is asked what became of it, by the id that it has given."""
        asked = self._attempt.id_to_ask_about(error)
        if asked is None:
            return error
        answer = self._asked_again(asked)
        if isinstance(answer, Committed):
            self._attempt.is_answer_lost = True
            return Committed(tx_id)
        return instead_of(error, answer)

    def _asked_again(self, tx_id: UUID) -> Committed | psycopg.Error:
        deadline_s = time.monotonic() + self.settings.timeout_s
        while True:
            place = None
            try:
                connection, place = self._again()
                with connection:
                    row = plain_cursor(connection).execute(FIND_OUTCOME, (tx_id,)).fetchone()
                if row and row[0] == "committed":
                    return Committed(tx_id)
                if row and row[0] == FORGOTTEN:
                    return OutcomeUnknown(tx_id, "it is forgotten")
                return psycopg.errors.TransactionRollback(f"psp: transaction {tx_id} is aborted")
            except psycopg.OperationalError as error:
                if place is not None and is_of_gone(error):
                    self._places.leave(place)
                if time.monotonic() >= deadline_s:
                    return unknown(tx_id, None)
                time.sleep(min(self.settings.retry_interval_s, LOOK_INTERVAL_S))

    def _roll_back(self) -> None:
        """Leaves nothing open: a session that cannot roll back is closed, and `begin` makes another one."""
        self._open = None
        try:
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                plain_cursor(self.connection).execute("ROLLBACK")
        except BaseException:
            self.connection.close()
            raise

    def _roll_back_quietly(self) -> None:
        with suppress(psycopg.Error):
            self._roll_back()


class _Requests:
    """The ZeroMQ side: made when it is first needed, so that native mode never has it."""

    def __init__(self, again: Callable[[], psycopg.Connection[Any]], settings: Settings) -> None:
        self._again = again
        self._settings = settings
        self._book = RequestBook(settings.retry_interval_s)
        self._endpoint = settings.endpoint
        self._socket: zmq.Socket[bytes] | None = None

    def ask(self, kind: Kind, tx_id: UUID) -> int:
        number = self._book.ask(kind, tx_id, time.monotonic())
        if self._socket is None and self._endpoint is not None:
            self._connect(self._endpoint)
        self._receive()
        self._send_due()
        return number

    def wait(self, number: int, tx_id: UUID) -> Reply:
        """Raises OutcomeUnknown after the time limit. Afterwards the request is not sent again."""
        try:
            return self._wait(number, tx_id)
        finally:
            self._book.give_up(number)

    def _wait(self, number: int, tx_id: UUID) -> Reply:
        deadline_s = time.monotonic() + self._settings.timeout_s
        while True:
            self._receive()
            reply = self._book.take(number)
            if reply is not None:
                return reply
            now_s = time.monotonic()
            if now_s >= deadline_s:
                raise unknown(tx_id, self._book.give_up(number))
            if self._book.unanswered(number) >= FIND_AGAIN_AFTER or self._socket is None:
                self._find_endpoint_anew()
            self._send_due()
            self._pause(min(self._book.wait_s(now_s), deadline_s - now_s))

    def _pause(self, seconds: float) -> None:
        if self._socket is None:  # PostgreSQL may not be there either: not at once again
            time.sleep(LOOK_INTERVAL_S)
        else:
            self._socket.poll(max(1, int(seconds * 1000)))

    def _send_due(self) -> None:
        if self._socket is not None:
            for message in self._book.due(time.monotonic()):
                with suppress(zmq.Again):  # thousands wait already: later
                    self._socket.send(message, zmq.NOBLOCK)

    def _receive(self) -> None:
        while self._socket is not None and self._socket.poll(0):
            self._book.receive(self._socket.recv(zmq.NOBLOCK))

    def find_endpoint(self, connection: psycopg.Connection[Any]) -> None:
        """As the daemon has recorded it in the database; nothing if the daemon has never run."""
        row = plain_cursor(connection).execute(FIND_ENDPOINT).fetchone()
        if row and row[0]:
            self._endpoint = reachable(row[0], connection.info.host)

    def _find_endpoint_anew(self) -> None:
        """From a session of its own: the client's may be in a transaction, with an old snapshot."""
        before = self._endpoint
        if self._settings.endpoint is None:
            # PostgreSQL is down, too, or its schema is being changed: later.
            with suppress(psycopg.Error), self._again() as connection:
                self.find_endpoint(connection)
        if self._endpoint is not None and (self._endpoint != before or self._socket is None):
            self._connect(self._endpoint)

    def _connect(self, endpoint: str) -> None:
        self.close()
        self._book.send_all_again()
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.connect(endpoint)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=1000)  # a commit request that was just sent still goes out
            self._socket = None
