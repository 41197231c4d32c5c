"""The console's HTTP server: three files that never change, and one stream of data for those who may see it.

Another site must not read it through a visitor's browser: the Host header must be a name of this server (DNS
rebinding), a request that another origin has made is refused, and no cookie exists. Every answer to a bad
request is short and repeats nothing of it.
"""

from __future__ import annotations

import base64
import hmac
import io
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from typing import Any

from psp.console import connections
from psp.console.stream import Feed

_STATIC = Path(__file__).parent / "static"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
}
STREAM = "/stream"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
KEEPALIVE_S = 10
USER = "psp"


@dataclass(frozen=True)
class Access:
    """Who may see the data: who has the token, which the page has in its address after the #, or who knows
    the password, which the browser asks for. One of the two is set.
    """

    hosts: frozenset[str]
    token: str | None = None
    password: str | None = None
    tls: tuple[Path, Path] | None = field(default=None)

    @property
    def origins(self) -> frozenset[str]:
        scheme = "https" if self.tls else "http"
        return frozenset(f"{scheme}://{host}" for host in self.hosts)

    def admits(self, authorization: str) -> bool:
        if self.password is not None:
            pair = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
            return _same(authorization, f"Basic {pair}")
        return self.token is not None and _same(authorization, f"Bearer {self.token}")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


class Server(ThreadingHTTPServer):
    """Serves until `shutdown`. Connections are bounded (connections.py)."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], feed: Feed) -> None:
        if ":" in address[0]:
            self.address_family = AF_INET6
        super().__init__(address, Handler)
        self.feed = feed
        self.access = Access(frozenset())
        self._tls: ssl.SSLContext | None = None
        self.places = connections.Places(connections.CONNECTIONS_MAX)
        self.files = {path: ((_STATIC / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()}

    def admit(self, access: Access) -> None:
        """Before it serves: who may see what."""
        self.access = access
        if access.tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*access.tls)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.places.take():
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(connections.HEAD_MAX_S)
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self.places.silent(request)
            if self._tls is not None:  # here, so that a slow handshake holds up nobody
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self.places.asks(request)
            self.places.give_back()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A visitor who goes away is no news."""


class Handler(BaseHTTPRequestHandler):
    """One request; then the connection ends."""

    server: Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(
            connections.HeadReader(self.connection, time.monotonic() + connections.HEAD_MAX_S)
        )

    def parse_request(self) -> bool:
        is_whole = super().parse_request()
        self.server.places.asks(self.connection)
        self.connection.settimeout(connections.IDLE_MAX_S)
        return is_whole

    def do_GET(self) -> None:
        refusal = self._refusal()
        if refusal is not None:
            self._short(refusal)
        elif self.path == STREAM:
            self._stream()
        else:
            body, kind = self.server.files[self.path]
            self._head(HTTPStatus.OK, kind, len(body))
            self.wfile.write(body)

    def _refusal(self) -> HTTPStatus | None:
        access = self.server.access
        hosts = self.headers.get_all("Host") or []
        origin = self.headers.get("Origin")
        if len(hosts) != 1 or hosts[0].lower() not in access.hosts:
            return HTTPStatus.MISDIRECTED_REQUEST
        if origin is not None and origin.lower() not in access.origins:
            return HTTPStatus.FORBIDDEN
        if self.path != "/" and self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return HTTPStatus.FORBIDDEN
        needs_right = self.path == STREAM or access.password is not None
        if needs_right and not access.admits(self.headers.get("Authorization", "")):
            return HTTPStatus.UNAUTHORIZED
        if self.path != STREAM and self.path not in self.server.files:
            return HTTPStatus.NOT_FOUND
        return None

    def _stream(self) -> None:
        """Server-sent events, one for each look; a comment now and then shows that the line is whole."""
        self._head(HTTPStatus.OK, "text/event-stream", None)
        seen = 0
        while not self.server.feed.ended:
            look = self.server.feed.next(seen, KEEPALIVE_S)
            if look is None:
                self.wfile.write(b": still here\n\n")
            else:
                seen, line = look
                self.wfile.write(b"data: " + line + b"\n\n")
            self.wfile.flush()

    def _short(self, status: HTTPStatus) -> None:
        body = f"{status.phrase}\n".encode()
        self._head(status, "text/plain; charset=utf-8", len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int | None) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # the first one had no heads: it would get the body only
        self.send_response_only(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.UNAUTHORIZED and self.server.access.password is not None:
            self.send_header("WWW-Authenticate", 'Basic realm="psp console", charset="UTF-8"')
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The answer to a request that cannot be read. The standard library's would repeat some of it."""
        unknown_method = code == HTTPStatus.NOT_IMPLEMENTED
        self._short(HTTPStatus.METHOD_NOT_ALLOWED if unknown_method else HTTPStatus(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a request may hold anything."""
