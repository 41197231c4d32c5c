# SPDX-License-Identifier: PostgreSQL
"""Transactions of Django that are run again: each is committed once, or an error tells that it is not.

@retried
def sell(request, item):
    Item.objects.filter(pk=item).update(stock=F("stock") - 1)
    return HttpResponse()

or, with ATOMIC_REQUESTS, "psp_client.django.RetryMiddleware" as the last one of MIDDLEWARE.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

from django.conf import settings  # type: ignore[import-untyped]
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed  # type: ignore[import-untyped]
from django.db import (  # type: ignore[import-untyped]
    DEFAULT_DB_ALIAS,
    Error,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)

from psp_client import _errors
from psp_client._outcome import (
    BACKOFF,
    FIND_ID,
    FIND_PSP,
    TIMEOUT_S,
    Deadline,
    as_id,
    is_worth_another,
    may_be_committed,
)
from psp_client._places import (
    FENCE,
    TOKEN,
    Seen,
    fence_key,
    is_gone,
    is_in_vain,
    is_useless,
    note_for_user,
    of_user,
    waits_for,
)
from psp_client._retry import Backoff
from psp_client._rewind import Rewind, request_of

__all__ = ["OutcomeUnknown", "RetryMiddleware", "outcome", "retried", "run"]

P = ParamSpec("P")
T = TypeVar("T")
_WAIT_FOR = "SELECT psp.wait_for(%s)"
_FIND_OUTCOME = "SELECT CAST(psp.outcome(CAST(%s AS uuid)) AS text)"
_seen: dict[str, Seen] = defaultdict(Seen)
"""By alias: what this process has committed or seen, at semi-primaries that libpq has chosen."""


class OutcomeUnknown(_errors.OutcomeUnknown, OperationalError):  # type: ignore[misc]
    """Psp has told nothing of the outcome in time. `outcome(error.tx_id)` asks again."""


def run(
    work: Callable[[], T], *, using: str = DEFAULT_DB_ALIAS, backoff: Backoff = BACKOFF,
    timeout_s: float = TIMEOUT_S, rewind: Callable[[], bool] = lambda: True, token: str | None = None,
    on_token: Callable[[str], object] | None = None,
) -> T:  # fmt: skip
    """Commits what `work()` does in one transaction, once; returns what it returns.

    `work` may run several times; on_commit hooks run once, after the commit. `rewind` is called before
    `work` runs again; if it returns False, the error is raised. OutcomeUnknown: psp has told nothing of the
    outcome for `timeout_s`. On a database without psp, an error that leaves the outcome open is raised.

    If HOST names several semi-primaries, a session at another one waits for what was committed and seen
    before. `token`: what the transaction must see besides; `on_token` is called with one of this
    transaction.
    """
    connection = connections[using]
    if connection.in_atomic_block and getattr(connection.atomic_blocks[-1], "_from_testcase", False):
        with transaction.atomic(using=using):  # TestCase rolls all back: there is nothing to commit
            return work()
    _refuse_inside(connection)
    failures = 0
    while True:
        attempt = _Attempt(connection)
        try:
            _reach(connection, token)
            attempt.has_begun = True
            with transaction.atomic(using=using, durable=True):
                result = work()
                attempt.begin_commit()
            break
        except Error as error:
            connection.close_if_unusable_or_obsolete()
            if _are_several(connection) and _is_gone(error):
                connection.close()  # libpq looks for another one
            asked = attempt.id_to_ask_about(error)
            if asked is not None and _errors.is_committed(
                asked, outcome(asked, using, timeout_s), OutcomeUnknown
            ):
                attempt.is_answer_lost = True
                break
            failures += 1
            is_last = failures >= backoff.attempts or is_in_vain(_sqlstate(error), attempt.has_begun)
            if is_last or not _is_worth_another(error) or not rewind():
                raise
        time.sleep(backoff.pause_s(failures))
    if attempt.has_psp and (on_token or _are_several(connection) or of_user.get() is not None):
        noted = _note_token(connection, attempt.is_answer_lost, timeout_s)
        if on_token and noted is not None:
            on_token(noted)
    attempt.run_hooks()
    return result


@overload
def retried(function: Callable[P, T]) -> Callable[P, T]: ...
@overload
def retried(
    *, using: str = ..., backoff: Backoff = ..., timeout_s: float = ...
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def retried(
    function: Callable[..., Any] | None = None, *, using: str = DEFAULT_DB_ALIAS,
    backoff: Backoff = BACKOFF, timeout_s: float = TIMEOUT_S,
) -> Any:  # fmt: skip
    """A function that runs in a transaction of its own, as `run` does; a view, ATOMIC_REQUESTS or not."""
    if function is None:
        return partial(retried, using=using, backoff=backoff, timeout_s=timeout_s)
    if iscoroutinefunction(function):
        raise TypeError(
            f"psp: {function.__qualname__} is asynchronous, and Django has no transactions there: "
            "decorate a function that is not, and await sync_to_async(function)()"
        )

    @wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        request = request_of((named.get("request"), *arguments[:2]))
        return run(
            partial(function, *arguments, **named), using=using, backoff=backoff, timeout_s=timeout_s,
            rewind=(lambda: True) if request is None else Rewind(request).rewind,
        )  # fmt: skip

    wrapper._non_atomic_requests = {  # type: ignore[attr-defined]
        using,
        *getattr(function, "_non_atomic_requests", ()),
    }
    return wrapper


class RetryMiddleware:
    """Runs views again that ATOMIC_REQUESTS makes transactions. It must be the last middleware."""

    sync_capable = True
    async_capable = False
    backoff = BACKOFF
    timeout_s = TIMEOUT_S

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        atomic = [alias for alias in connections if connections.settings[alias]["ATOMIC_REQUESTS"]]
        if not atomic:
            raise MiddlewareNotUsed("psp: no database has ATOMIC_REQUESTS")
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        if len(atomic) > 1:
            raise ImproperlyConfigured(
                f"psp: {' and '.join(sorted(atomic))} have ATOMIC_REQUESTS: {name} can run requests of one "
                "database only again, since two do not commit together"
            )
        if settings.MIDDLEWARE[-1] != name:
            raise ImproperlyConfigured(
                f"psp: {name} must be the last one of MIDDLEWARE: it calls the view, and what comes after "
                "it, such as the protection against CSRF, would not be asked"
            )
        self._alias = atomic[0]

    def __call__(self, request: Any) -> Any:
        return self._get_response(request)

    def process_view(
        self, request: Any, view: Callable[..., Any], arguments: Any, named: dict[str, Any]
    ) -> Any:
        """The view's response. None: Django itself must call it, without a transaction, or refuse it."""
        if self._alias in getattr(view, "_non_atomic_requests", ()) or iscoroutinefunction(view):
            return None
        response = run(
            partial(view, request, *arguments, **named), using=self._alias, backoff=self.backoff,
            timeout_s=self.timeout_s, rewind=Rewind(request).rewind,
        )  # fmt: skip
        if response is None:
            raise ValueError(f"psp: the view {view!r} has returned None, and no response")
        return response


def outcome(tx_id: UUID, using: str = DEFAULT_DB_ALIAS, timeout_s: float = TIMEOUT_S) -> str:
    """`committed`, `aborted` or, of a very old one, `forgotten`.

    OutcomeUnknown: nobody has answered for so long.
    """
    connection = connections[using]
    deadline = Deadline(timeout_s)
    while True:
        try:
            return str(_ask(connection, _FIND_OUTCOME, [str(tx_id)]))
        except Error as error:
            connection.close_if_unusable_or_obsolete()
            if not _is_worth_another(error):
                raise
            pause_s = deadline.pause_s()
            if pause_s is None:
                raise OutcomeUnknown(tx_id, str(error)) from error
        time.sleep(pause_s)


class _Attempt:
    """One transaction, from the moment at which only its COMMIT is left."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._hooks: list[Any] = []
        self.has_psp = False
        self.is_answer_lost = False
        self.has_begun = False
        self._is_committing = False
        self._tx_id: UUID | None = None

    def begin_commit(self) -> None:
        connection = self._connection
        if connection.closed_in_transaction:
            raise OperationalError("psp: the connection was lost, and the work has gone on without it")
        if connection.needs_rollback:  # as transaction.set_rollback(True) wants it
            return
        # Not by Django itself, since an error of theirs would look like one of COMMIT.
        self._hooks, connection.run_on_commit = connection.run_on_commit, []
        self.has_psp = _has_psp(connection)
        if self.has_psp:
            self._tx_id = as_id(_ask(connection, FIND_ID, []))
        self._is_committing = True

    def id_to_ask_about(self, error: Exception) -> UUID | None:
        """None: the transaction was rolled back. Raises the error if nobody could tell."""
        if not self._is_committing or not may_be_committed(_sqlstate(error)):
            return None
        if not self.has_psp:
            raise error
        return self._tx_id

    def run_hooks(self) -> None:
        self._connection.run_on_commit = self._hooks
        self._connection.run_and_clear_commit_hooks()


def _are_several(connection: Any) -> bool:
    return "," in str(connection.settings_dict.get("HOST") or "")


def _reach(connection: Any, token: str | None) -> None:
    """Waits until there is here what must be seen."""
    session, sp_id = getattr(connection, "psp_place", (None, None))
    here = sp_id if session is not None and session is connection.connection else None
    for whose, wanted in waits_for(_seen[connection.alias], here):
        try:
            _ask(connection, _WAIT_FOR, [wanted])
        except Error as error:
            if not is_useless(_sqlstate(error)):
                raise
            whose.forget()
    if token is not None:
        _ask(connection, _WAIT_FOR, [token])


def _note_token(connection: Any, is_answer_lost: bool, timeout_s: float) -> str | None:
    """What a later transaction has to see."""
    seen = _seen[connection.alias]
    deadline = Deadline(timeout_s)
    while True:
        try:
            if is_answer_lost:
                _ask(connection, FENCE, [fence_key()])
                return seen.note_fence(str(_ask(connection, TOKEN, [])))
            token = str(_ask(connection, TOKEN, []))
            connection.psp_place = (connection.connection, seen.note(token))
            note_for_user(token)
            return token
        except Error as error:
            connection.close_if_unusable_or_obsolete()
            if not _is_worth_another(error):
                return None  # it joins, for example
            if _is_gone(error):
                connection.close()
            is_answer_lost = True  # the token would be of another server
        pause_s = deadline.pause_s()
        if pause_s is None:
            return None
        time.sleep(pause_s)


def _refuse_inside(connection: Any) -> None:
    # get_autocommit would connect, and connecting may fail: not before it can be tried again.
    is_manual = connection.connection is not None and not connection.autocommit
    if connection.in_atomic_block or is_manual:
        raise transaction.TransactionManagementError(
            f'psp: a transaction is open on "{connection.alias}", and only the whole of it can be run again: '
            "decorate the outermost function; with ATOMIC_REQUESTS the view, or exempt it by "
            "@transaction.non_atomic_requests"
        )


def _has_psp(connection: Any) -> bool:
    """Asked once of each session."""
    if connection.vendor != "postgresql":
        return False
    known, session = getattr(connection, "psp_known", (False, None)), connection.connection
    if known[1] is not session:
        known = connection.psp_known = (bool(_ask(connection, FIND_PSP, [])), session)
    return bool(known[0])


def _ask(connection: Any, query: str, parameters: list[object]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchone()[0]


def _sqlstate(error: Exception) -> str | None:
    """As psycopg and psycopg2 tell it; None if the server has sent no error."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)


def _is_worth_another(error: Exception) -> bool:
    sqlstate = _sqlstate(error)
    if sqlstate is None:  # the connection is lost, or a mistake of the call
        return isinstance(error, OperationalError | InterfaceError)
    return is_worth_another(sqlstate)


def _is_gone(error: Exception) -> bool:
    return _is_worth_another(error) and is_gone(_sqlstate(error))
