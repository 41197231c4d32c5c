"""Bad input gets a clear error, changes nothing, and disturbs nobody else."""

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.output import PspError
from psp.paths import client_program, postgres_program, server_version
from psp.schema.release import release
from psp.servers.processes import ProcessName
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, connect, execute, raises, start_second, wait_for_row

REFUSED = "0A000"


@pytest.fixture(autouse=True)
def nobody_is_disturbed(cluster: LocalCluster) -> Iterator[None]:
    """After each test the daemons are the same processes as before, and replication works."""
    before = [cluster.pid(node.name, "daemon") for node in cluster.state.nodes]
    yield
    assert [cluster.pid(node.name, "daemon") for node in cluster.state.nodes] == before
    row = execute(cluster.sps[0], "INSERT INTO document (note) VALUES ('still fine') RETURNING id")
    wait_for_row(cluster.sps[2], "SELECT 1 FROM document WHERE id = %s", row[0])


def test_serializable_is_refused(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with raises(REFUSED) as errors:
            connection.execute("INSERT INTO document (note) VALUES ('x')")
        assert errors[0].diag.message_hint


def test_serializable_is_taken_for_less_by_the_administrators_word(cluster: LocalCluster) -> None:
    told: list[str] = []
    with connect(cluster.sps[0]) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.execute("SET psp.serializable = 'repeatable read'")
        connection.commit()
        for note in "first", "second":
            connection.execute("INSERT INTO document (note) VALUES (%s)", (f"serializable {note}",))
            connection.commit()
    assert [text for text in told if "SERIALIZABLE is taken for REPEATABLE READ" in text] == told[-1:]
    wait_for_row(cluster.sps[1], "SELECT 1 FROM document WHERE note = 'serializable second'")
    with connect(cluster.sps[0]) as connection, raises(REFUSED):
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.execute("SET psp.serializable = 'on'")
        connection.execute("INSERT INTO document (note) VALUES ('x')")


def test_truncate_is_refused(cluster: LocalCluster) -> None:
    with raises(REFUSED) as errors:
        execute(cluster.sps[0], "TRUNCATE account")
    assert "DELETE" in (errors[0].diag.message_hint or "")


def test_prepare_transaction_is_refused(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0], autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO document (note) VALUES ('prepared')")
        with raises(REFUSED):
            connection.execute("PREPARE TRANSACTION 'x'")
    with psycopg.connect(cluster.sps[0].admin_dsn) as admin:
        assert admin.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (0,)


def test_a_write_set_over_the_limit_is_refused(cluster: LocalCluster) -> None:
    sp = cluster.sps[0]
    over = int(str(cluster.state.sp_options["write_set_bytes_max"])) // 1024 + 1000
    with connect(sp) as connection:
        connection.execute(
            "INSERT INTO document (body)"
            " SELECT convert_to(repeat('x', 1024), 'UTF8') FROM generate_series(1, %s)",
            (over,),
        )
        with raises("54000") as errors:
            connection.commit()
        assert "write-set" in str(errors[0])
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM document WHERE body IS NOT NULL").fetchone() == (0,)


def test_an_application_cannot_touch_psp(cluster: LocalCluster) -> None:
    attempts: list[LiteralString] = [
        "DELETE FROM psp.write_set",
        "SELECT token FROM psp.identity",
        "INSERT INTO psp.watermarks VALUES (99)",
        "SELECT psp.refuse_commit(true, 1)",
        "SET session_replication_role = replica",
    ]
    for statement in attempts:
        with raises("42501"):
            execute(cluster.sps[0], statement)


def send(address: tuple[str, int] | str, payload: bytes) -> bytes:
    """Sends bytes and half-closes; what comes back until the other end closes or falls silent."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    received = b""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        connection.connect(address)
        try:
            connection.sendall(payload)
            while chunk := connection.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            return received
    return received


def garbage(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    return [
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 4096,
        *(draw.randbytes(n) for n in (1, 9, 100, 5000)),
    ]


ZMTP_GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 48
ZMTP_READY = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"


def zmtp_frame(payload: bytes) -> bytes:
    return b"\x02" + len(payload).to_bytes(8, "big") + payload


def test_garbage_at_the_primarys_port(cluster: LocalCluster) -> None:
    address = ("127.0.0.1", cluster.state.node(PRIMARY).daemon_port)
    for payload in garbage(1):
        send(address, payload)
        # a well-formed ZeroMQ peer whose messages are no messages of ours
        send(address, ZMTP_GREETING + ZMTP_READY + zmtp_frame(payload))


def test_garbage_at_the_hook_socket(cluster: LocalCluster) -> None:
    sp = cluster.sps[0]
    node = cluster.state.node(sp.name)
    address = str(cluster.state.socket_dir / f".s.PGSQL.{node.daemon_port}")
    startup = b"\0\3\0\0user\0psp\0database\0psp\0\0"
    hello = (len(startup) + 4).to_bytes(4, "big") + startup
    for payload in garbage(2):
        send(address, payload)
        send(address, hello + payload)
        send(address, hello + b"Q" + (len(payload) + 4).to_bytes(4, "big") + payload)
    # a length that is a lie
    send(address, hello + b"Q\x7f\xff\xff\xff")
    send(address, b"\x7f\xff\xff\xff" + startup)


def test_a_wrong_token_is_refused(cluster: LocalCluster) -> None:
    sp = cluster.sps[0]
    port = cluster.state.node(sp.name).daemon_port
    with (
        pytest.raises(psycopg.Error),
        psycopg.connect(
            host=str(cluster.state.socket_dir), port=port, user="psp", dbname="psp", password="guess"
        ) as connection,
    ):
        connection.execute("commit 00000000-0000-0000-0000-000000000000 1 0 - guess 00")


def test_a_second_daemon_with_the_same_sp_id(cluster: LocalCluster, second_daemon: ProcessName) -> None:
    """Refused by its own database, or by the primary: it must never serve, and say why."""
    before = execute(cluster.sps[0], "SELECT state FROM psp.status")
    log = second_daemon.cluster_dir / "second.log"
    try:
        start_second(cluster, second_daemon, cluster.sp_config(cluster.sps[0].name))
    except PspError as error:
        assert "sp1" in str(error) or "another" in str(error), error
    else:
        wait_until("a refusal in its log", lambda: "another" in log.read_text(), WAIT_S)
    assert execute(cluster.sps[0], "SELECT state FROM psp.status") == before
    execute(cluster.sps[0], "INSERT INTO document (note) VALUES ('the first daemon still serves')")


def test_a_daemon_pointed_at_a_plain_database(cluster: LocalCluster, second_daemon: ProcessName) -> None:
    config = {
        **cluster.sp_config(cluster.sps[0].name),
        "database": cluster.server("sp1").socket_dsn("postgres"),
    }
    with pytest.raises(PspError, match=r"postgres|adopt|psp"):
        start_second(cluster, second_daemon, config)


@pytest.fixture
def copy(cluster: LocalCluster) -> Iterator[str]:
    """A dump of the first SP, restored beside it: it knows the daemon's address and token."""
    server = cluster.server(cluster.sps[0].name)
    original, restored = cluster.sps[0].admin_dsn, server.socket_dsn("staging")
    with psycopg.connect(original, autocommit=True) as admin:
        admin.execute("CREATE DATABASE staging")
    try:
        dump = subprocess.run(
            [client_program("pg_dump", server_version()), original],
            capture_output=True,
            check=True,
            timeout=WAIT_S,
        ).stdout
        psql = [str(postgres_program("psql")), "-q", restored]
        subprocess.run(psql, input=dump, stdout=subprocess.DEVNULL, check=True, timeout=WAIT_S)
        yield restored
    finally:
        with psycopg.connect(original, autocommit=True) as admin:
            admin.execute("DROP DATABASE staging")


def test_a_copy_of_a_semi_primary_cannot_commit(cluster: LocalCluster, copy: str) -> None:
    row = execute(cluster.sps[0], "INSERT INTO document (note) VALUES ('original') RETURNING id")
    with psycopg.connect(copy) as staging:
        staging.execute("INSERT INTO document (id, note) VALUES (-1, 'from the copy')")
        with raises("08006") as errors:
            staging.commit()
        assert "another database" in (errors[0].diag.message_detail or "")
    wait_for_row(cluster.sps[2], "SELECT 1 FROM document WHERE id = %s", row[0])
    for sp in cluster.sps:
        assert execute(sp, "SELECT count(*) FROM document WHERE id = -1") == [(0,)]
    release(copy, None, drop_keys=False, force=True, lock_wait_s=WAIT_S, say=lambda _: None)
    with psycopg.connect(copy) as staging:
        staging.execute("INSERT INTO document (id, note) VALUES (-1, 'plain now')")


@pytest.mark.parametrize("binary", [daemons.PRIMARY_BINARY, daemons.SP_BINARY, daemons.MRV_BINARY])
@pytest.mark.parametrize(
    ("line", "key"),
    [("no_such_key: 1", "no_such_key"), ("log_level: loudly", "log_level"), ("database: [1, 2]", "database")],
)
def test_a_bad_configuration(cluster: LocalCluster, tmp_path: Path, binary: str, line: str, key: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"# first line\n{line}\n")
    done = subprocess.run(
        [str(paths.binary(binary)), "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2
    assert f"{file}:2: {key}" in done.stderr
