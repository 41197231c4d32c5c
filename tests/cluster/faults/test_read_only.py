"""With the module preloaded, a server that cannot commit says so, and drivers go to the next one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.paths import server_version
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


@contextmanager
def after_an_outage(cluster: LocalCluster, options: str = "") -> Iterator[psycopg.Connection[Any]]:
    """A session that began meanwhile."""
    with broken(cluster) as first:
        dsn = psycopg.conninfo.make_conninfo(first.dsn, options=options) if options else first.dsn
        connection = psycopg.connect(dsn, autocommit=True)
    with connection:
        yield connection


def test_a_transaction_that_is_rolled_back_does_not_make_it_read_only_for_good(pair: LocalCluster) -> None:
    with after_an_outage(pair) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT 1")
        connection.execute("ROLLBACK")
        with raises("22012"):
            connection.execute("INSERT INTO item (note) VALUES ((1 / 0)::text)")
        connection.execute("BEGIN")
        connection.execute("SAVEPOINT a")
        connection.execute(ADD)
        connection.execute("ROLLBACK TO a")
        connection.execute(ADD)
        connection.execute("COMMIT")
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("off",)


@pytest.mark.parametrize("end", ["RELEASE a", "ROLLBACK TO a; RELEASE a"])
def test_a_savepoint_does_not_bring_it_back(pair: LocalCluster, end: str) -> None:
    """PostgreSQL restores at its end what held at its begin."""
    with after_an_outage(pair) as connection:
        connection.execute("BEGIN")
        connection.execute("SAVEPOINT a")
        connection.execute(ADD)
        connection.execute(end.encode())
        connection.execute(ADD)
        connection.execute("COMMIT")


def test_a_chained_transaction_that_never_began_is_forgotten(pair: LocalCluster) -> None:
    with broken(pair) as first:
        connection = connect(first, autocommit=True)
        connection.execute("BEGIN READ WRITE")
        connection.execute(ADD)
        with raises("08006"):
            connection.execute("COMMIT AND CHAIN")
    with connection:
        connection.execute(ADD)


def test_rows_are_locked_by_who_may_write(pair: LocalCluster) -> None:
    with broken(pair) as first, connect(first, autocommit=True) as connection, raises("08006"):
        connection.execute("SELECT FROM item FOR UPDATE")


def test_an_error_of_the_question_is_not_the_last_word(pair: LocalCluster) -> None:
    with after_an_outage(pair) as connection:
        with connect(as_admin(pair.sps[0])) as admin:
            admin.execute("LOCK TABLE psp.identity IN ACCESS EXCLUSIVE MODE")
            connection.execute("SET lock_timeout = '100ms'")
            with raises("55P03"):
                connection.execute(ADD)
        connection.execute(ADD)


def test_a_parallel_query_asks_nothing(pair: LocalCluster) -> None:
    with after_an_outage(pair) as connection:
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {setting} = 0".encode())
        connection.execute(
            f"SET {'debug_parallel_query' if server_version() >= 16 else 'force_parallel_mode'} = on".encode()
        )
        connection.execute(
            "CREATE FUNCTION pg_temp.asks() RETURNS bigint LANGUAGE plpgsql PARALLEL RESTRICTED AS "
            "$$ BEGIN RETURN (SELECT count(*) FROM pg_class); END $$"
        )
        connection.execute("SELECT pg_temp.asks(), count(*) FROM pg_class a JOIN pg_class b USING (oid)")
        connection.execute(ADD)


@pytest.mark.parametrize(
    "statements",
    [
        ["BEGIN READ ONLY", "SAVEPOINT a", "SELECT 1"],
        ["BEGIN READ ONLY", "COMMIT AND CHAIN", "SELECT 1"],
        ["BEGIN READ ONLY", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SELECT 1"],
        ["BEGIN", "SELECT set_config('transaction_read_only', 'on', true)"],
        ["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SELECT 1"],
        ["SET default_transaction_read_only = on", "SELECT 1"],
    ],
)
def test_all_ways_in_which_clients_make_it_read_only(pair: LocalCluster, statements: list[str]) -> None:
    with after_an_outage(pair) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        with raises("25006"):
            connection.execute(ADD)


def test_a_session_that_asks_to_be_read_only_stays_so(pair: LocalCluster) -> None:
    with after_an_outage(pair, "-c default_transaction_read_only=on") as connection:
        connection.execute("SELECT 1")
        with raises("25006"):
            connection.execute(ADD)


def test_a_choice_ends_with_its_transaction(pair: LocalCluster) -> None:
    with after_an_outage(pair) as connection:
        connection.execute("BEGIN READ ONLY")
        connection.execute("COMMIT")
        connection.execute("SET transaction_read_only = on")
        connection.execute(ADD)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_older_snapshot_does_not_answer(pair: LocalCluster, isolation: str) -> None:
    """The state is that of now, and not that of the transaction's snapshot."""
    with broken(pair) as first:
        connection = connect(first, autocommit=True)
        connection.execute("SET psp.serializable = 'repeatable read'")
        connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        connection.execute("SELECT 1 FROM item")
    with connection:
        if isolation == "serializable":  # PostgreSQL has prepared for one that only reads
            with raises("08006"):
                connection.execute(ADD)
            connection.execute("ROLLBACK")
        connection.execute(ADD)


def test_explain_writes_nothing(pair: LocalCluster) -> None:
    with broken(pair) as first, connect(first, autocommit=True) as connection:
        connection.execute(f"EXPLAIN {ADD}".encode())
        for statement in (
            "COPY item (note) FROM STDIN",
            "CREATE TABLE made (id int PRIMARY KEY)",
            "TRUNCATE item",
        ):
            with raises("08006"):
                connection.execute(statement.encode())


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
