"""A role to which dblink was granted may put a server of its own in the place of the hook's connection.

With capture by SQL: the server module has a connection that no role reaches.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from psp.cluster.local import LocalCluster
from psp.schema.native.capture import use

from tests.cluster.support import (
    OUTCOME_UNKNOWN,
    WAIT_S,
    as_admin,
    connect,
    execute,
    raises,
    tx_id_of,
    wait_for_row,
)
from tests.threads import running

INSERT = "INSERT INTO counter VALUES (%s)"
IS_THERE = "SELECT 1 FROM counter WHERE name = %s"

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def session(cluster: LocalCluster) -> Iterator[Session]:
    """An ordinary role's session, to which dblink was granted."""
    sp = cluster.sps[0]
    with psycopg.connect(sp.admin_dsn, autocommit=True) as admin:
        use(admin, "sql")
        role = psycopg.conninfo.conninfo_to_dict(sp.dsn)["user"]
        functions = admin.execute(
            "SELECT oid::regprocedure::text FROM pg_proc"
            " WHERE pronamespace = 'psp'::regnamespace AND proname LIKE 'dblink%'"
        ).fetchall()
        for (function,) in functions:
            admin.execute(f'GRANT EXECUTE ON FUNCTION {function} TO "{role}"'.encode())
        try:
            with connect(sp, autocommit=True) as connection:
                yield connection
        finally:
            for (function,) in functions:
                admin.execute(f'REVOKE EXECUTE ON FUNCTION {function} FROM "{role}"'.encode())
            use(admin, "auto")


def message(kind: bytes, body: bytes) -> bytes:
    """A message of PostgreSQL's protocol."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


class Impostor:
    """A server that lets one client in. To each request it says that it is committed, or nothing."""

    def __init__(self, *, answers: bool) -> None:
        self.heard = b""
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))

    def take_the_place_of_psp(self, session: Session) -> None:
        """Its connection becomes the one that the commit hook uses."""
        port = self._listener.getsockname()[1]
        place = f"host=127.0.0.1 port={port} user=psp dbname=psp sslmode=disable gssencmode=disable"
        session.execute(INSERT, (str(uuid4()),))
        session.execute("SELECT psp.dblink_disconnect('psp')")
        session.execute("SELECT psp.dblink_connect_u('psp', %s)", (place,))

    def serve(self) -> None:
        """Serves until the client leaves."""
        ready = message(b"Z", b"I")
        with self._listener, self._listener.accept()[0] as connection, suppress(OSError):
            connection.settimeout(WAIT_S)  # so that a test that fails ends
            connection.recv(4096)
            connection.sendall(message(b"R", b"\0\0\0\0") + ready)
            while received := connection.recv(1 << 20):
                self.heard += received
                if received.startswith(b"X"):  # the client ends the connection, and takes no answer
                    return
                if b"client_encoding" in received:
                    connection.sendall(message(b"C", b"SET\0") + ready)
                elif self._answers:
                    connection.sendall(message(b"C", b"PSP 5\0") + ready)


def test_a_connection_in_place_of_psps_own_decides_nothing(cluster: LocalCluster, session: Session) -> None:
    """The role's own server gets the request, but no secret, and its answer is not believed."""
    impostor = Impostor(answers=True)
    name = str(uuid4())
    with running(impostor.serve):
        impostor.take_the_place_of_psp(session)
        with raises(OUTCOME_UNKNOWN):
            session.execute(INSERT, (name,))
    assert b"commit " in impostor.heard
    token = str(execute(as_admin(cluster.sps[0]), "SELECT token FROM psp.identity")[0][0])
    assert token.encode() not in impostor.heard
    is_nowhere(cluster, session, name)


def test_a_server_that_never_answers_holds_nothing_up(cluster: LocalCluster, session: Session) -> None:
    """Its session, in the commit hook, has locked a row that is written elsewhere: it is ended."""
    impostor = Impostor(answers=False)
    wanted, name = str(uuid4()), str(uuid4())
    execute(cluster.sps[0], INSERT, (wanted,))
    wait_for_row(cluster.sps[1], IS_THERE, (wanted,))
    with running(impostor.serve):
        impostor.take_the_place_of_psp(session)
        session.execute("BEGIN")
        session.execute("SELECT 1 FROM counter WHERE name = %s FOR UPDATE", (wanted,))
        session.execute(INSERT, (name,))

        def commit() -> None:
            with raises(OUTCOME_UNKNOWN) as errors:
                session.execute("COMMIT")
            asked = session.execute("SELECT psp.outcome(%s)", (tx_id_of(errors[0]),)).fetchone()
            assert asked == ("aborted",)

        with running(commit):
            execute(cluster.sps[1], "UPDATE counter SET value = 7 WHERE name = %s", (wanted,))
            wait_for_row(cluster.sps[0], "SELECT 1 FROM counter WHERE name = %s AND value = 7", (wanted,))
    is_nowhere(cluster, session, name)


def is_nowhere(cluster: LocalCluster, session: Session, name: str) -> None:
    """The session commits again; what the impostor got is at no server."""
    behind = str(uuid4())
    session.execute(INSERT, (behind,))
    for sp in cluster.sps:
        wait_for_row(sp, IS_THERE, (behind,))
        assert execute(sp, IS_THERE, (name,)) == []


def test_no_plan_shows_what_a_request_is_proved_with(cluster: LocalCluster, session: Session) -> None:
    notices: list[str] = []
    token = execute(as_admin(cluster.sps[0]), "SELECT token FROM psp.identity")[0][0]
    login = execute(as_admin(cluster.sps[0]), "SELECT psp.proof(token, 'login') FROM psp.identity")[0][0]
    session.add_notice_handler(
        lambda notice: notices.append(str(notice.message_primary) + str(notice.message_detail))
    )
    name = str(uuid4())
    session.execute("SET client_min_messages = debug5; SET debug_print_plan = on; SET debug_print_parse = on")
    session.execute("SET debug_print_rewritten = on")
    session.execute(INSERT, (name,))
    update = "UPDATE counter SET value = value + 1"  # twice: the row is looked up at COMMIT
    session.execute(f"BEGIN; {update} WHERE name = '{name}'; {update} WHERE name = '{name}'; COMMIT".encode())
    session.execute("SELECT psp.outcome(gen_random_uuid())")
    text = "".join(notices)
    assert "commit_hook" in text or "PLANNEDSTMT" in text
    for secret in (str(token), str(login)):
        as_bytes = " ".join(str(byte) for byte in secret.encode())
        assert secret not in text
        assert as_bytes not in text
