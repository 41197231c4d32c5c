"""psp_client.django at a cluster: what a Django user expects of a transaction that may run several times."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import pytest
from django.db import (  # type: ignore[import-untyped]
    IntegrityError,
    OperationalError,
    connections,
    transaction,
)
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp_client import Backoff

from tests.cluster.support import WAIT_S, applying_paused, as_admin, execute
from tests.retrying import django_project
from tests.retrying.support import rival, wait_for_units
from tests.threads import running

QUICK = Backoff(attempts=5, first_s=0.01, longest_s=0.1)


@pytest.fixture(scope="module")
def project(adopted: LocalCluster) -> None:
    django_project.use(*(sp.dsn for sp in adopted.sps))


@pytest.fixture(autouse=True)
def closing(project: None) -> Iterator[None]:
    yield
    for connection in connections.all():
        connection.close()


def add(name: str, using: str = "default") -> str:
    with connections[using].cursor() as cursor:
        cursor.execute("UPDATE counter SET value = value + 1")
        cursor.execute("INSERT INTO unit (name) VALUES (%s)", [name])
    return "done"


class Work:
    """A unit of work that loses its first attempts: another SP commits the same row before it."""

    def __init__(self, pair: LocalCluster, losses: int = 1) -> None:
        self.calls = 0
        self._pair = pair
        self._losses = losses

    def __call__(self, *_: object) -> str:
        self.calls += 1
        add("it")
        if self.calls <= self._losses:
            self.lose()
        return "done"

    def lose(self) -> None:
        rival(self._pair)


@contextmanager
def at_commit(
    replacement: Callable[[Any, Callable[[], None]], None], using: str = "default"
) -> Iterator[None]:
    """The database's first COMMIT does this instead: it gets the connection, and Django's own COMMIT."""
    connection = connections[using]
    own = connection._commit
    with mock.patch.object(connection, "_commit") as patched:

        def first() -> None:
            patched.side_effect = own
            replacement(connection, own)

        patched.side_effect = first
        yield


def lose_answer(connection: Any, commit: Callable[[], None]) -> None:
    commit()
    lose_session(connection, commit)


def lose_session(connection: Any, _: Callable[[], None]) -> None:
    connection.connection.close()
    raise OperationalError("the connection is lost")


def test_a_conflict_is_run_again(pair: LocalCluster) -> None:
    from psp_client.django import run

    work = Work(pair, losses=2)
    assert run(work, backoff=QUICK) == "done"
    assert work.calls == 3
    wait_for_units(pair, ["it"])


def test_it_gives_up_with_the_last_error(pair: LocalCluster) -> None:
    from psp_client.django import run

    work = Work(pair, losses=9)
    with pytest.raises(OperationalError) as caught:
        run(work, backoff=QUICK)
    assert (getattr(caught.value.__cause__, "sqlstate", None), work.calls) == ("40001", 5)
    wait_for_units(pair, [])


def test_nothing_else_is_run_again(pair: LocalCluster) -> None:
    from psp_client.django import retried

    calls = []

    @retried
    def work() -> None:
        calls.append(1)
        with connections["default"].cursor() as cursor:
            cursor.execute("INSERT INTO counter VALUES (1, 0)")

    with pytest.raises(IntegrityError):
        work()
    assert len(calls) == 1


@pytest.mark.parametrize(("lost", "calls"), [(lose_answer, 1), (lose_session, 2)])
def test_a_lost_connection_at_commit_is_asked_about(
    pair: LocalCluster, lost: Callable[[Any, Callable[[], None]], None], calls: int
) -> None:
    """Hooks run once in either case."""
    from psp_client.django import run

    work, told = Work(pair, losses=0), []

    def with_hook() -> str:
        transaction.on_commit(lambda: told.append(work.calls))
        return work()

    with at_commit(lost):
        assert run(with_hook, backoff=QUICK) == "done"
    assert (work.calls, told) == (calls, [calls])
    wait_for_units(pair, ["it"])


def test_an_outcome_that_stays_unknown(pair: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from psp_client import django

    ends = "SELECT pg_terminate_backend(pg_backend_pid()), %s"
    with monkeypatch.context() as patch:
        patch.setattr(django, "_FIND_OUTCOME", ends)
        with at_commit(lose_answer), pytest.raises(django.OutcomeUnknown) as caught:
            django.run(lambda: add("it"), timeout_s=0.2)
    assert isinstance(caught.value, OperationalError)
    assert django.outcome(caught.value.tx_id) == "committed"
    wait_for_units(pair, ["it"])


def test_hooks_run_once_after_the_commit_that_counts(pair: LocalCluster) -> None:
    from psp_client.django import run

    work, told = Work(pair), []

    def with_hook() -> None:
        transaction.on_commit(lambda: told.append(execute(pair.sps[0], "SELECT name FROM unit")))
        work()

    run(with_hook, backoff=QUICK)
    assert (work.calls, told) == (2, [[("it",)]])


def test_an_error_of_a_hook_is_no_error_of_commit(pair: LocalCluster) -> None:
    """It is passed on, and nothing is run again, though it says 40001."""
    from psp_client.django import run

    work = Work(pair, losses=0)

    def hook() -> None:
        run(Work(pair, losses=9), backoff=Backoff(attempts=1))

    def with_hook() -> None:
        transaction.on_commit(hook)
        work()

    with pytest.raises(OperationalError):
        run(with_hook, backoff=QUICK)
    assert work.calls == 1
    wait_for_units(pair, ["it"])


def test_inside_a_transaction_it_is_refused(pair: LocalCluster) -> None:
    from psp_client.django import retried

    work = retried(Work(pair).__call__)
    with (
        transaction.atomic(),
        pytest.raises(transaction.TransactionManagementError, match="outermost function"),
    ):
        work()
    with transaction.atomic():
        assert retried(using="other")(lambda: add("it", "other"))() == "done"
    wait_for_units(pair, ["it"])


def test_in_a_test_case_it_is_a_savepoint(pair: LocalCluster) -> None:
    from django.test import TestCase  # type: ignore[import-untyped]
    from psp_client.django import run

    class Case(TestCase):  # type: ignore[misc]
        databases = ("default",)

        def test(self) -> None:
            with self.captureOnCommitCallbacks() as hooks:
                run(lambda: (transaction.on_commit(lambda: None), add("it")))
            assert len(hooks) == 1

    result = unittest.TestResult()
    unittest.TestSuite([Case("test")]).run(result)
    assert result.wasSuccessful(), result.errors + result.failures
    assert result.testsRun == 1
    wait_for_units(pair, [])


def test_set_rollback_rolls_back(pair: LocalCluster) -> None:
    from psp_client.django import run

    run(lambda: (add("it"), transaction.set_rollback(True)))
    wait_for_units(pair, [])


def test_swallowed_errors_are_no_commits(pair: LocalCluster) -> None:
    """PostgreSQL would roll back at COMMIT, and Django would say nothing."""
    from psp_client.django import run

    def work() -> None:
        add("it")
        with connections["default"].cursor() as cursor:
            try:
                cursor.execute("SELECT 1 / 0")
            except Exception as error:
                assert "zero" in str(error)

    with pytest.raises(Exception, match="current transaction is aborted"):
        run(work)
    wait_for_units(pair, [])


def test_asynchronous_code(pair: LocalCluster) -> None:
    from asgiref.sync import sync_to_async
    from psp_client.django import retried, run

    async def view() -> None: ...

    with pytest.raises(TypeError, match="sync_to_async"):
        retried(view)
    work = Work(pair)

    async def main() -> str:
        return await sync_to_async(lambda: run(work, backoff=QUICK))()

    assert asyncio.run(main()) == "done"
    wait_for_units(pair, ["it"])


# ---- requests -------------------------------------------------------------------------------------


@pytest.fixture
def client() -> Any:
    from django.test import Client

    return Client(raise_request_exception=False)


def respond(text: str) -> Any:
    from django.http import HttpResponse  # type: ignore[import-untyped]

    return HttpResponse(text)


def read_stream(request: Any) -> str:
    return str(request.read())


def read_file(request: Any) -> str:
    return str(request.FILES["file"].read())


@pytest.mark.parametrize("read", [read_stream, read_file, lambda request: request.POST["field"]])
def test_a_request_is_run_again_with_its_body(
    pair: LocalCluster, client: Any, read: Callable[[Any], str]
) -> None:
    from django.core.files.base import ContentFile  # type: ignore[import-untyped]

    work = Work(pair)
    django_project.views["view"] = lambda request: respond(read(request) + work())
    if read is read_stream:
        response = client.post("/view", data=b"body", content_type="application/octet-stream")
    else:
        response = client.post("/view", {"field": "body", "file": ContentFile(b"body", "name")})
    assert response.content in (b"bodydone", b"b'body'done")
    assert work.calls == 2
    wait_for_units(pair, ["it"])


def test_a_body_that_cannot_be_read_again_is_an_error(
    pair: LocalCluster, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings  # type: ignore[import-untyped]

    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 3)
    work = Work(pair)
    django_project.views["view"] = lambda request: respond(read_stream(request) + work())
    response = client.post("/view", data=b"body", content_type="application/octet-stream")
    assert (response.status_code, work.calls) == (500, 1)
    wait_for_units(pair, [])


def test_a_view_finds_its_request_as_it_was(pair: LocalCluster, client: Any) -> None:
    """Session, messages, lazy objects and attributes."""
    from django.contrib import messages  # type: ignore[import-untyped]
    from django.utils.functional import SimpleLazyObject  # type: ignore[import-untyped]
    from psp_client._rewind import Rewind

    work = Work(pair)
    users: list[list[int]] = []

    def new_user() -> list[int]:
        users.append([len(users)])
        return users[-1]

    def view(request: Any) -> Any:
        assert not hasattr(request, "seen")
        request.seen = True
        request.session["visits"] = request.session.get("visits", 0) + 1
        messages.info(request, "sold")
        work()
        return respond(f"{request.session['visits']} {len(messages.get_messages(request))}")

    django_project.views["view"] = view
    assert client.get("/view").content == b"1 1"
    work.calls = 0
    assert client.get("/view").content == b"2 2"  # the first message has waited
    assert work.calls == 2

    from django.test import RequestFactory

    request = RequestFactory().get("/")
    request.user = SimpleLazyObject(new_user)
    kept = Rewind(request)
    request.user.append(7)
    assert kept.rewind()
    assert (list(request.user), users) == ([1], [[0, 7], [1]])


def test_a_decorated_view_needs_no_atomic_request(pair: LocalCluster, client: Any) -> None:
    from psp_client.django import RetryMiddleware, retried

    work = Work(pair)
    view = retried(backoff=QUICK)(lambda request: respond(read_stream(request) + work()))
    middleware = RetryMiddleware(lambda request: respond("unused"))
    assert middleware.process_view(None, view, [], {}) is None
    from django.test import RequestFactory

    request = RequestFactory().post("/", data=b"body", content_type="application/octet-stream")
    assert view(request).content == b"b'body'done"
    assert work.calls == 2


def test_the_middleware_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.conf import settings
    from django.core.exceptions import (  # type: ignore[import-untyped]
        ImproperlyConfigured,
        MiddlewareNotUsed,
    )
    from psp_client.django import RetryMiddleware

    with monkeypatch.context() as patch:
        patch.setattr(settings, "MIDDLEWARE", django_project.MIDDLEWARE[::-1])
        with pytest.raises(ImproperlyConfigured, match="CSRF"):
            RetryMiddleware(respond)
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["other"], "ATOMIC_REQUESTS", True)
        with pytest.raises(ImproperlyConfigured, match="default and other"):
            RetryMiddleware(respond)
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", False)
        with pytest.raises(MiddlewareNotUsed):
            RetryMiddleware(respond)


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "answer lost"])
def test_a_session_at_another_semi_primary_has_what_was_committed(
    pair: LocalCluster, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from psp_client.django import run

    north, south = pair.sps
    connection = connections["several"]
    with ExitStack() as late:
        late.enter_context(applying_paused(south))

        def work() -> None:
            add("it", "several")

        with at_commit(lose_answer, "several") if is_lost else nullcontext():
            run(work, using="several", backoff=QUICK)
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "PORT", django_project.ports(south.dsn, north.dsn))
        read: list[Any] = []
        with running(lambda: read.extend(in_thread(lambda: run(names, using="several")))):
            wait_until("the wait", lambda: execute(as_admin(south), WAITS), WAIT_S)
            late.close()
    assert read == [("it",)]
    wait_for_units(pair, ["it"])


WAITS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'several' AND query LIKE '%psp.wait_for%'"


def names() -> list[tuple[str]]:
    with connections["several"].cursor() as cursor:
        cursor.execute("SELECT name FROM unit")
        return list(cursor.fetchall())


def in_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """Django gives each thread connections of its own, by the settings of today."""
    try:
        return work()
    finally:
        connections["several"].close()
