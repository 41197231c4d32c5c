"""psp console: who gets an answer, which one, and that a bad request learns nothing."""

import json
import socket
import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from psp.console import connections
from psp.console.cli import open_server, read_access
from psp.console.server import STREAM, Access, Server
from psp.console.stream import EVENTS_KEPT, LOG_EVERY_S, Feed
from psp.output import PspError
from psp.waiting import wait_until
from psp.watch.changes import changes
from psp.watch.combine import Told, combine
from psp.watch.model import Server as Asked
from psp.watch.model import View

from tests.sql.command.test_top import NOW, conflict, member, primary, semi_primary, view

TOKEN = "t" * 32
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
KEY = "(v)=(<img src=x onerror=alert(1)>\n\ndata: x)"


def a_view() -> View:
    return view(
        primary(member("a"), member("b", is_connected=False), conflicts=[conflict("a", 30, key=KEY)]),
        semi_primary("a"),
    )


@contextmanager
def served(access: Access, looked: View | None = None) -> Iterator[Server]:
    feed = Feed(a_view if looked is None else lambda: looked, 1)
    feed.step()
    server = open_server(("127.0.0.1", 0), feed, access)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        feed.end()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with served(Access(frozenset(), token=TOKEN)) as made:
        yield made


def port(server: Server) -> int:
    return int(server.server_address[1])


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port(server), timeout=10)
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    return connection.getresponse()


def first_look(answer: HTTPResponse) -> str:
    """The data of the first event of a stream."""
    line = answer.readline()
    assert line.startswith(b"data: ")
    assert answer.readline() == b"\n"
    return line[6:].decode()


@pytest.mark.parametrize("path", ["/", "/console.css", "/console.js"])
def test_the_page_has_no_data_and_needs_no_right(server: Server, path: str) -> None:
    answer = ask(server, path)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["Set-Cookie"] is None
    body = answer.read().decode()
    assert "://" not in body.replace("http://www.w3.org/2000/svg", "")  # it asks nobody else
    assert "innerHTML" not in body


def test_the_stream_has_the_view_as_one_line(server: Server) -> None:
    told = json.loads(first_look(ask(server, STREAM, **RIGHT)))
    assert told["hot_keys"][0]["key"] == KEY
    assert told["headline"]["sentence"] == "b cannot write."
    assert told["events"][0]["what"] == "b cannot write."


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer x", f"Basic {TOKEN}", "Bearer \xff"])
def test_the_stream_needs_the_token(server: Server, authorization: str) -> None:
    answer = ask(server, STREAM, Authorization=authorization)
    assert answer.status == 401
    assert answer.read() == b"Unauthorized\n"


def test_a_password_is_for_everything() -> None:
    with served(Access(frozenset(), password="correct horse")) as server:
        for path in ("/", STREAM):
            answer = ask(server, path)
            assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Basic ")
        pair = b64encode(b"psp:correct horse").decode()
        assert ask(server, "/", Authorization=f"Basic {pair}").status == 200
        assert ask(server, STREAM, Authorization=f"Basic {pair}").status == 200
        wrong = b64encode(b"psp:correct hors").decode()
        assert ask(server, STREAM, Authorization=f"Basic {wrong}").status == 401


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        [*command.split(), "-out", str(certificate), "-keyout", str(key)], check=True, capture_output=True
    )
    access = Access(frozenset(), password="correct horse", tls=(certificate, key))
    with served(access) as server:
        trust = ssl.create_default_context(cafile=str(certificate))
        pair = b64encode(b"psp:correct horse").decode()
        origin = f"https://localhost:{port(server)}"
        connection = HTTPSConnection("localhost", port(server), timeout=10, context=trust)
        connection.request("GET", STREAM, headers={"Authorization": f"Basic {pair}", "Origin": origin})
        assert json.loads(first_look(connection.getresponse()))["zones"]
        with suppress(OSError):  # it may have ended the connection already
            assert b"HTTP" not in raw(server, b"GET / HTTP/1.1\r\n\r\n")  # in the clear: no answer


@pytest.mark.parametrize("path", ["/", STREAM])
def test_another_name_is_not_served(server: Server, path: str) -> None:
    """A name of another site that leads here: DNS rebinding."""
    for host in ("evil.example", f"evil.example:{port(server)}", "127.0.0.1", "127.0.0.1:1", ""):
        assert ask(server, path, Host=host, **RIGHT).status == 421
    assert ask(server, "/", Host=f"LOCALHOST:{port(server)}").status == 200


def test_two_names_are_not_served(server: Server) -> None:
    text = f"GET / HTTP/1.1\r\nHost: localhost:{port(server)}\r\nHost: evil.example\r\n\r\n"
    assert raw(server, text.encode()).startswith(b"HTTP/1.1 421 ")


def test_another_origin_is_refused(server: Server) -> None:
    for origin in ("https://evil.example", "null", f"https://127.0.0.1:{port(server)}"):
        assert ask(server, STREAM, Origin=origin, **RIGHT).status == 403
    assert ask(server, STREAM, Origin=f"http://127.0.0.1:{port(server)}", **RIGHT).status == 200
    assert ask(server, STREAM, Sec_Fetch_Site="cross-site", **RIGHT).status == 403
    assert ask(server, "/console.js", Sec_Fetch_Site="same-site").status == 403


def raw(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port(server)), timeout=10) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /<script>alert(1)</script> HTTP/1.1", 404),
        (b"GET /../../etc/passwd HTTP/1.1", 404),
        (b"GET /console.js?<script> HTTP/1.1", 404),
        (b"POST / HTTP/1.1", 405),
        (b"<script> / HTTP/1.1", 405),
        (b"<script>", 400),
        (b"GET / HTTP/<script>", 400),
    ],
)
def test_a_bad_request_gets_a_short_answer(server: Server, request_line: bytes, status: int) -> None:
    host = f"Host: 127.0.0.1:{port(server)}".encode()
    answer = raw(server, request_line + b"\r\n" + host + b"\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(body) < 60 and b"script>" not in answer and b"Python" not in head
    assert b"Content-Security-Policy" in head
    assert ask(server, "/").status == 200


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: "])
def test_a_long_request_is_cut_short(server: Server, start: bytes) -> None:
    """The connection is closed with bytes unread, so the answer may be lost on its way."""
    with suppress(OSError):
        answer = raw(server, start + b"<script>" * 10000 + b"\r\n\r\n")
        assert b"script>" not in answer and b" 200 " not in answer
    assert ask(server, "/").status == 200


def test_more_connections_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    with served(Access(frozenset(), token=TOKEN)) as server:
        streams = [ask(server, STREAM, **RIGHT) for _ in range(2)]
        for stream in streams:
            first_look(stream)
        with pytest.raises(OSError):
            ask(server, "/")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX: "])
def test_clients_that_do_not_ask_keep_out_nobody(server: Server, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(connections.CONNECTIONS_MAX + 8):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port(server)), timeout=10))
            line.sendall(sent)
        assert ask(server, "/").status == 200
        first_look(ask(server, STREAM, **RIGHT))


def test_a_byte_now_and_then_does_not_prolong_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_MAX_S", 0.5)
    with (
        served(Access(frozenset(), token=TOKEN)) as server,
        socket.create_connection(("127.0.0.1", port(server)), timeout=10) as line,
    ):
        line.sendall(b"GET / HTTP/1.1\r\nX: ")

        def is_closed() -> bool:
            try:
                line.sendall(b"x")
                line.settimeout(0.05)
                return line.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until("the connection to be closed", is_closed, 10)


def newest(feed: Feed) -> dict[str, Any]:
    told = feed.next(0, 0)
    assert told is not None
    found: dict[str, Any] = json.loads(told[1])
    return found


def test_a_look_that_fails_is_told_and_the_next_one_follows() -> None:
    feed = Feed(iter([a_view(), a_view()]).__next__, 1)
    feed.step()
    good, feed._look = feed._look, lambda: combine([Told(Asked("host=a", "primary", "primary"), {})], NOW)
    feed.step()
    feed.step()
    told = newest(feed)
    assert told["headline"]["sentence"] == "psp console could not look."
    assert "TypeError" in told["headline"]["detail"]
    assert [zone["name"] for zone in told["zones"]] == ["a", "b"]
    assert [event["what"] for event in told["events"]] == ["psp console could not look.", "b cannot write."]
    feed._look = good
    feed.step()
    told = newest(feed)
    assert told["headline"]["sentence"] == "b cannot write."


def test_sizes_of_the_log_and_rates_are_kept() -> None:
    times = [NOW + timedelta(seconds=second) for second in range(3 * LOG_EVERY_S + 1)]
    feed = Feed(iter([replace(a_view(), taken_at=time) for time in times]).__next__, 1)
    for _ in times:
        feed.step()
    told = newest(feed)
    assert [size for _, size in told["log_sizes"]] == [2**20] * 4
    assert told["rates"] == {"a": [12.5] * len(times), "b": [0] * len(times)}


@pytest.mark.parametrize("listen", ["0.0.0.0", "192.0.2.1", "::"])
def test_elsewhere_it_needs_a_password_and_tls(listen: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    for password, pem in ((None, None), (file, None), (None, file)):
        with pytest.raises(PspError, match="no loopback address"):
            read_access(listen, password, pem, pem, [])
    if listen != "192.0.2.1":
        with pytest.raises(PspError, match="no name by which a browser can ask"):
            read_access(listen, file, file, file, [])
    access = read_access(listen, file, file, file, ["console.example"])
    assert access.password == "correct horse" and access.token is None
    assert read_access("::1", None, None, None, []).token


def test_a_password_file_that_others_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("correct horse")
    file.chmod(0o644)
    with pytest.raises(PspError, match="open to others"):
        read_access("127.0.0.1", file, None, None, [])
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(PspError, match="less than eight"):
        read_access("127.0.0.1", file, None, None, [])


def test_changes_are_events() -> None:
    before = view(primary(member("a"), member("b")), semi_primary("a"))
    after = view(
        primary(member("a"), member("c"), epoch=4, catalog_version=3),
        semi_primary("a", state="retrying", can_commit=False, last_error="no room"),
    )
    told = [(event.state, event.what, event.more) for event in changes(before, after)]
    assert told == [
        ("warn", "a cannot write.", "a: no room."),
        ("warn", "a: retrying", "a: no room."),
        ("ok", "c is there", "connected"),
        ("warn", "b is no member any more", ""),
        ("ok", "Epoch 4 begins", "psp-primary was started"),
        ("ok", "Schema version 3", ""),
    ]
    assert list(changes(after, replace(after))) == []


def job(state: str, error: str | None = None, **more: object) -> dict[str, object]:
    known = {
        "change": 7, "statement_n": 1, "statement": "VACUUM t", "requested_at": str(NOW), "state": state,
        "last_error": error,
    }  # fmt: skip
    return known | more


def test_jobs_and_hot_keys_are_events() -> None:
    def look(state_a: str, state_b: str, error: str | None = None, **more: Any) -> View:
        return view(
            primary(member("a"), member("b"), **more),
            semi_primary("a", jobs=[job(state_a)]),
            semi_primary("b", jobs=[job(state_b, error)]),
        )

    before = look("waiting", "waiting")
    after = look("done", "failed", "no room", conflicts=[conflict("a", 612)])
    assert [(event.state, event.what, event.more) for event in changes(before, after)] == [
        ("ok", "Job is done at a", "VACUUM t"),
        ("warn", "Job has failed at b", "b: no room"),
        ("warn", "Hot key: 612 losses in a minute", "public.item (id)=(1)"),
    ]
    assert [event.what for event in changes(after, look("done", "done"))] == [
        "Job is done at b",
        "A key is hot no more",
    ]
    (one,) = after.jobs
    assert one.states == {"a": "done", "b": "failed"}


def test_events_are_bounded() -> None:
    looks = [view(primary(member("a", is_connected=n % 2 == 0))) for n in range(2 * EVENTS_KEPT)]
    feed = Feed(iter(looks).__next__, 1)
    for _ in looks:
        feed.step()
    told = feed.next(0, 0)
    assert told is not None and told[0] == len(looks)
    assert len(json.loads(told[1])["events"]) == EVENTS_KEPT
