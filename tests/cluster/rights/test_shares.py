"""What a role without rights can make a daemon do keeps nobody else waiting."""

import time
from typing import Any

import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options, Zone

from tests.cluster.support import MakeCluster, as_admin, connect, execute, wait_for_row
from tests.threads import running

SCHEMA = "CREATE TABLE t (id int PRIMARY KEY, v text)"
ASK = "SELECT psp.runs_as_it_is(%s, current_user)"
NESTED = "SELECT 1; " + "/*" * 200_000 + "*/" * 200_000
SLOW = "SELECT 1; " + "a." * 400_000
"""As large a message as the daemon reads. The parser refuses it at its end."""


@pytest.fixture
def shared(make_cluster: MakeCluster) -> LocalCluster:
    return make_cluster([Zone("a"), Zone("b")], SCHEMA, Options())


def test_a_message_that_scanners_read_in_quadratic_time(shared: LocalCluster) -> None:
    begin = time.monotonic()
    for text in (NESTED, "SELECT 1; SELECT " + "+" * 100_000 + "1"):
        with connect(shared.sps[0]) as connection, pytest.raises(psycopg.errors.StatementTooComplex):
            connection.execute(ASK, [text])
    assert time.monotonic() - begin < 10


def test_no_commit_waits_for_messages(shared: LocalCluster) -> None:
    a, b = shared.sps
    execute(as_admin(a), "CREATE ROLE idler LOGIN")

    def ask() -> None:
        with psycopg.connect(a.admin_dsn, autocommit=True) as connection:
            connection.execute("SET SESSION AUTHORIZATION idler")
            for _ in range(3):
                with pytest.raises(psycopg.Error):
                    connection.execute(ASK, [SLOW])

    asking: list[Any] = [ask] * 8
    with running(*asking):
        time.sleep(0.5)
        begin = time.monotonic()
        for n in range(5):
            execute(a, "INSERT INTO t VALUES (%s, repeat(md5(%s::text), 10000))", (n, n))
        assert time.monotonic() - begin < 5
    wait_for_row(b, "SELECT 1 FROM t WHERE id = 4")
