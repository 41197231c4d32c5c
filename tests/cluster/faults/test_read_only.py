"""With the module preloaded, a server that cannot commit says so, and drivers go to the next one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until

from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    as_admin,
    connect,
    execute,
    needs_module,
    paused,
    raises,
    settle,
)

SCHEMA = "CREATE TABLE item (id serial PRIMARY KEY, note text)"
ADD = "INSERT INTO item (note) VALUES ('added')"
PRELOAD = "ALTER DATABASE app SET session_preload_libraries = 'psp_capture'"

pytestmark = needs_module()


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA]) as cluster:
        for sp in cluster.sps:
            execute(as_admin(sp), PRELOAD)
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    settle(shared_pair)
    yield shared_pair
    settle(shared_pair)


def is_read_only(sp: SpNode) -> bool:
    """As a new session sees it, and a driver that looks for a server to write to."""
    return execute(sp, "SHOW transaction_read_only") == [("on",)]


@contextmanager
def broken(cluster: LocalCluster) -> Iterator[SpNode]:
    """The first SP, whose daemon was killed, until it says so. Then it serves again."""
    first = cluster.sps[0]
    cluster.kill(first.name)
    try:
        wait_until("it to be read-only", lambda: is_read_only(first), WAIT_S)
        yield first
    finally:
        cluster.start(first.name, "daemon")
        wait_until("it to be writable", lambda: not is_read_only(first), WAIT_S)


def both(cluster: LocalCluster) -> str:
    """A connection string with the two, the first one first."""
    parts = [psycopg.conninfo.conninfo_to_dict(sp.dsn) for sp in cluster.sps]
    several: dict[str, Any] = {**parts[0], "target_session_attrs": "read-write"}
    several |= {name: ",".join(str(part[name]) for part in parts) for name in ("host", "port")}
    return psycopg.conninfo.make_conninfo(**several)


def test_libpq_leaves_a_server_whose_daemon_was_killed(pair: LocalCluster) -> None:
    first, second = pair.sps
    with psycopg.connect(both(pair), autocommit=True) as connection:
        assert connection.execute("SELECT name FROM psp.status").fetchone() == (first.name,)
    with broken(pair), psycopg.connect(both(pair), autocommit=True) as connection:
        assert connection.execute("SELECT name FROM psp.status").fetchone() == (second.name,)
        connection.execute(ADD)
    with psycopg.connect(both(pair), autocommit=True) as connection:
        assert connection.execute("SELECT name FROM psp.status").fetchone() == (first.name,)


def test_libpq_leaves_a_server_whose_primary_is_away_from_it(pair: LocalCluster) -> None:
    with paused(pair, PRIMARY):
        wait_until("it to be read-only", lambda: is_read_only(pair.sps[0]), WAIT_S)
    wait_until("it to be writable", lambda: not is_read_only(pair.sps[0]), WAIT_S)


def test_reads_go_on_and_writes_fail_with_the_reason(pair: LocalCluster) -> None:
    with broken(pair) as first, connect(first, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) >= 0 FROM item").fetchone() == (True,)
        with raises("08006") as caught:
            connection.execute(ADD)
        assert "cannot commit: psp.status says stopped" in str(caught[0])
        with raises("25006"):
            connection.execute("CREATE TABLE made (id int PRIMARY KEY)")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_session_that_began_meanwhile_writes_afterwards(pair: LocalCluster, isolation: str) -> None:
    with broken(pair) as first:
        alone = connect(first, autocommit=True)
        in_block = connect(first)
        reading = connect(first, autocommit=True)
    with alone, in_block, reading:
        alone.execute(ADD)
        in_block.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
        in_block.execute(ADD)
        in_block.commit()
        assert reading.execute("SELECT nextval('item_id_seq') > 0").fetchone() == (True,)
        for connection in (alone, reading):
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)


def test_what_the_client_has_made_read_only_stays_so(pair: LocalCluster) -> None:
    with broken(pair) as first:
        connection = connect(first, autocommit=True)
        other = connect(first, autocommit=True)
    with connection, other:
        connection.execute("BEGIN READ ONLY")
        with raises("25006"):
            connection.execute(ADD)
        connection.execute("ROLLBACK")
        other.execute("BEGIN")
        other.execute("SET TRANSACTION READ ONLY")
        with raises("25006"):
            other.execute(ADD)
        other.execute("ROLLBACK")
        connection.execute(ADD)


def test_superusers_and_the_daemon_are_not_held_up(pair: LocalCluster) -> None:
    with broken(pair) as first, connect(as_admin(first), autocommit=True) as admin:
        assert admin.execute("SHOW transaction_read_only").fetchone() == ("off",)


def test_without_the_library_nothing_changes(pair: LocalCluster) -> None:
    with broken(pair) as first:
        admin = as_admin(first)
        execute(admin, "ALTER DATABASE app RESET session_preload_libraries")
        try:
            assert not is_read_only(first)
        finally:
            execute(admin, PRELOAD)


def test_a_login_does_not_fail_where_nobody_can_be_asked(pair: LocalCluster) -> None:
    first = pair.sps[0]
    with connect(as_admin(first)) as admin:
        admin.execute("LOCK TABLE psp.daemon_status IN ACCESS EXCLUSIVE MODE")
        assert not is_read_only(first)
