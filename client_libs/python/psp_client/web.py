# SPDX-License-Identifier: PostgreSQL
"""The Idempotency-Key header: WSGI and ASGI applications whose answers are stored with the work.

    def pay(connection, call):
        transfer(connection, json.loads(call.body))
        return Response(201, '{"paid": true}')

    application = wsgi(lambda: psp_client.connect("host=sp1 dbname=shop"), pay)

A call with the key of an earlier one gets the earlier answer, and nothing is done. After
draft-ietf-httpapi-idempotency-key-header: no key, 400; the key of another call, 422; the first one still
runs, 409. Calls of different users with the same key must not meet: `caller` tells them apart.

`read_your_writes(application)` and ReadYourWrites let users of any application find their own writes when
their next call is served at another semi-primary.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from psp_client._async import AsyncClient
from psp_client._places import Seen, of_user
from psp_client._request import Request
from psp_client._sync import Client

KEY_HEADER = "idempotency-key"
_REASONS = {200: "OK", 201: "Created", 204: "No Content", 400: "Bad Request", 409: "Conflict"}


@dataclass(frozen=True)
class Call:
    """What a client asks for. Headers have small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """As the header has it: a string of structured fields, with quotes, or bare."""
        return self.headers.get(KEY_HEADER, "").strip().strip('"')

    @property
    def payload(self) -> str:
        """The same for two calls that ask for the same."""
        return f"{self.method} {self.path} {hashlib.sha256(self.body).hexdigest()}"


@dataclass(frozen=True)
class Response:
    """What is answered, and stored."""

    status: int
    body: str
    content_type: str = "application/json"


Caller = Callable[[Call], str]
Environ = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
WsgiApplication = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


_COOKIE = "psp_token"
_HEADER = "psp-token"
_FORM = re.compile(r"psp1\.[0-9a-f]{8}\.([0-9a-f]{8}|-)\.[0-9]{1,9}\.[0-9]{1,18}\.[0-9]{1,18}")


def _seen_by(cookies: str, header: str) -> Seen:
    """What a caller has seen. What is no token comes from somebody else, or is none of ours."""
    seen = Seen()
    found = (cookie.strip().partition("=") for cookie in cookies.split(";"))
    for text in (header.strip(), *(value for name, _, value in found if name == _COOKIE)):
        if _FORM.fullmatch(text):
            seen.note(text)
    return seen


def _token_headers(seen: Seen, before: str | None, max_age_s: int) -> list[tuple[str, str]]:
    """Nothing if nothing has been read or written."""
    text = seen.text
    if text is None or text == before:
        return []
    cookie = f"{_COOKIE}={text}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_s}"
    return [("Set-Cookie", cookie), (_HEADER, text)]


def read_your_writes(application: WsgiApplication, *, max_age_s: int = 60) -> WsgiApplication:
    """A WSGI application whose users find their own writes, and what they have seen, at any semi-primary.

    The newest token goes to the user in the cookie psp_token and the header Psp-Token, and comes back with
    his next call. Each `run` of psp_client, also those for SQLAlchemy and Django, waits for it, and renews
    it. `max_age_s`: longer than any semi-primary lags. A token that was invented is waited for once.
    """

    def wrapped(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        seen = _seen_by(environ.get("HTTP_COOKIE", ""), environ.get("HTTP_PSP_TOKEN", ""))
        before = seen.text

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *_token_headers(seen, before, max_age_s)], *more)

        mark = of_user.set(seen)
        try:
            return application(environ, start)
        finally:
            of_user.reset(mark)

    return wrapped


class ReadYourWrites:
    """`read_your_writes` for ASGI: `app.add_middleware(ReadYourWrites)` in FastAPI and Starlette."""

    def __init__(self, app: AsgiApplication, max_age_s: int = 60) -> None:
        self._app = app
        self._max_age_s = max_age_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a call."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = _headers(scope)
        seen = _seen_by(headers.get("cookie", ""), headers.get(_HEADER, ""))
        before = seen.text

        async def send_with_token(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = _token_headers(seen, before, self._max_age_s)
                encoded = [(name.lower().encode(), value.encode()) for name, value in added]
                message = {**message, "headers": [*message.get("headers", ()), *encoded]}
            await send(message)

        mark = of_user.set(seen)
        try:
            await self._app(scope, receive, send_with_token)
        finally:
            of_user.reset(mark)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _problem(status: int, title: str) -> Response:
    return Response(status, json.dumps({"title": title, "status": status}), "application/problem+json")


def _request(call: Call, caller: Caller | None, of_role: str | None, wait_s: float) -> Request | Response:
    if not call.key:
        return _problem(400, "The header Idempotency-Key is missing")
    key = json.dumps([caller(call), call.key]) if caller else call.key
    if len(key.encode()) > 1000:
        return _problem(400, "The header Idempotency-Key is too long")
    return Request(key, call.payload, of_role, wait_s)


def _response(stored: Any) -> Response:
    return Response(**stored)


def _refusal(error: psycopg.Error) -> Response | None:
    """None: it is the service's own."""
    if error.sqlstate == "PS422":
        return _problem(422, "The Idempotency-Key was used for another request")
    if error.sqlstate == "55P03":
        return _problem(409, "A request with this Idempotency-Key is being served")
    return None


def wsgi(
    connect: Callable[[], Client], handler: Callable[[psycopg.Connection[Any], Call], Response], *,
    caller: Caller | None = None, of_role: str | None = None, wait_s: float = 1.0,
) -> WsgiApplication:  # fmt: skip
    """An application that serves each call once by `handler`, in the transaction that stores its answer.

    `connect` gives a client for the call, and it is closed afterwards. Exceptions of `handler` are passed on.
    """

    def serve(call: Call) -> Response:
        request = _request(call, caller, of_role, wait_s)
        if isinstance(request, Response):
            return request
        with connect() as client:
            try:
                return _response(client.run(lambda c: asdict(handler(c, call)), request=request))
            except psycopg.Error as error:
                refusal = _refusal(error)
                if refusal is None:
                    raise
                return refusal

    def application(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = {
            name.removeprefix("HTTP_").replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        }
        length = int(headers.get("content-length") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        answer = serve(Call(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "/"), headers, body))
        data = answer.body.encode()
        start_response(
            f"{answer.status} {_REASONS.get(answer.status, 'Status')}",
            [("Content-Type", answer.content_type), ("Content-Length", str(len(data)))],
        )
        return [data]

    return application


def asgi(
    connect: Callable[[], Awaitable[AsyncClient]],
    handler: Callable[[psycopg.AsyncConnection[Any], Call], Awaitable[Response]], *,
    caller: Caller | None = None, of_role: str | None = None, wait_s: float = 1.0,
) -> AsgiApplication:  # fmt: skip
    """The same for asyncio. Of other protocols than http it serves nothing."""

    async def serve(call: Call) -> Response:
        request = _request(call, caller, of_role, wait_s)
        if isinstance(request, Response):
            return request

        async def work(connection: psycopg.AsyncConnection[Any]) -> dict[str, Any]:
            return asdict(await handler(connection, call))

        async with await connect() as client:
            try:
                return _response(await client.run(work, request=request))
            except psycopg.Error as error:
                refusal = _refusal(error)
                if refusal is None:
                    raise
                return refusal

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"psp: no protocol {scope['type']} here")
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = await serve(Call(scope["method"], scope["path"], _headers(scope), body))
        content_type = answer.content_type.encode()
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [(b"content-type", content_type)],
            }
        )
        await send({"type": "http.response.body", "body": answer.body.encode()})

    return application
