"""psp.token and psp.wait_for: what a session has seen at one semi-primary is seen at another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.cluster.support import adopted_pair, applying_paused, as_admin, connect, execute, raises

TABLES = "CREATE TABLE note (id int PRIMARY KEY, v text)"
WAIT: LiteralString = "SELECT psp.wait_for(%s)"


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES]) as cluster:
        yield cluster


def token_after(sp: SpNode, statement: LiteralString, parameters: Any = None) -> str:
    """Commits the statement; the token of what is seen there afterwards."""
    with connect(sp, autocommit=True) as connection:
        connection.execute(statement, parameters)
        row = connection.execute("SELECT psp.token()").fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def refused(sqlstate: str, words: str) -> Iterator[None]:
    with raises(sqlstate) as caught:
        yield
    assert words in str(caught[0])


def test_what_was_committed_elsewhere_is_seen_after_the_wait(pair: LocalCluster) -> None:
    for number in range(40):
        writer, reader = pair.sps if number % 2 else reversed(pair.sps)
        token = token_after(writer, "INSERT INTO note VALUES (%s, 'new')", [number])
        with connect(reader, autocommit=True) as connection:
            connection.execute(WAIT, [token])
            assert connection.execute("SELECT v FROM note WHERE id = %s", [number]).fetchall() == [("new",)]


def test_it_waits_as_long_as_it_is_told(pair: LocalCluster) -> None:
    north, south = pair.sps
    with applying_paused(south):
        token = token_after(north, "INSERT INTO note VALUES (100, 'late')")
        with refused("57014", "has not arrived in time"):
            execute(south, "SELECT psp.wait_for(%s, '300 ms')", [token])
        with refused("57014", "has not arrived in time"):
            execute(south, "SELECT psp.wait_for(%s, '0')", [token])
        assert execute(south, "SELECT v FROM note WHERE id = 100") == []
    execute(south, WAIT, [token])
    assert execute(south, "SELECT v FROM note WHERE id = 100") == [("late",)]


def test_it_can_be_cancelled(pair: LocalCluster) -> None:
    north, south = pair.sps
    with applying_paused(south):
        token = token_after(north, "INSERT INTO note VALUES (110, 'late')")
        with connect(south) as connection:
            connection.execute("SET statement_timeout = '500ms'")
            with refused("57014", "statement timeout"):
                connection.execute("SELECT psp.wait_for(%s, '1 min')", [token])


def test_who_waits_sees_it_as_soon_as_it_arrives(pair: LocalCluster) -> None:
    north, south = pair.sps
    begun = threading.Event()

    def read(token: str) -> list[tuple[str]]:
        with connect(south) as connection:  # one transaction
            begun.set()
            connection.execute("SELECT psp.wait_for(%s, '30 s')", [token])
            return connection.execute("SELECT v FROM note WHERE id = 120").fetchall()

    with ThreadPoolExecutor(1) as pool, applying_paused(south):
        token = token_after(north, "INSERT INTO note VALUES (120, 'awaited')")
        found = pool.submit(read, token)
        assert begun.wait(10)
    assert found.result(60) == [("awaited",)]


def test_own_commits_are_seen_at_once_where_the_token_was_given(pair: LocalCluster) -> None:
    """Also while the server lags behind the others."""
    north, south = pair.sps
    with applying_paused(north):
        token = token_after(north, "INSERT INTO note VALUES (130, 'own')")
        execute(north, "SELECT psp.wait_for(%s, '0')", [token])
    execute(south, WAIT, [token])
    assert execute(south, "SELECT v FROM note WHERE id = 130") == [("own",)]


def test_a_snapshot_that_stays_is_refused(pair: LocalCluster) -> None:
    north, south = pair.sps
    with applying_paused(south), connect(south) as connection:
        token = token_after(north, "INSERT INTO note VALUES (140, 'late')")
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        with refused("25001", "keeps its snapshot"):
            connection.execute(WAIT, [token])
    execute(south, WAIT, [token])
    with connect(south) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(WAIT, [token])  # the snapshot has it
        assert connection.execute("SELECT v FROM note WHERE id = 140").fetchall() == [("late",)]


def test_tokens_that_are_none(pair: LocalCluster) -> None:
    north, south = pair.sps
    good = token_after(north, "INSERT INTO note VALUES (150, 'good')")
    execute(south, WAIT, [good])
    version, cluster, history, sp_id, watermark, newest = good.split(".")
    for wrong in ("", "psp1", "x" * 10_000, good + ".1", good.replace("psp1", "psp2"), good[:-1] + "x"):
        with refused("22023", "this is no token"):
            execute(south, WAIT, [wrong])
    other = "00000000" if cluster != "00000000" else "11111111"
    with refused("22023", "of another cluster"):
        execute(south, WAIT, [".".join((version, other, history, sp_id, watermark, newest))])
    other = "00000000" if history != "00000000" else "11111111"
    with refused("55000", "not in this cluster any more"):
        execute(south, WAIT, [".".join((version, cluster, other, sp_id, watermark, newest))])
    future = str(int(newest) + 1_000_000)
    with refused("57014", "has not arrived in time"):
        execute(
            south, "SELECT psp.wait_for(%s, '0')",
            [".".join((version, cluster, history, sp_id, watermark, future))],
        )  # fmt: skip
    assert len(execute(south, "SELECT psp.wait_for(NULL)")) == 1


def test_no_timeout_is_the_usual_one(pair: LocalCluster) -> None:
    north, south = pair.sps
    with ThreadPoolExecutor(1) as pool, applying_paused(south):
        token = token_after(north, "INSERT INTO note VALUES (155, 'late')")
        done = pool.submit(execute, south, "SELECT psp.wait_for(%s, NULL)", [token])
        assert not done.done() and execute(south, "SELECT v FROM note WHERE id = 155") == []
    done.result(60)
    assert execute(south, "SELECT v FROM note WHERE id = 155") == [("late",)]


def test_a_number_is_of_the_epoch_that_began_before_it(pair: LocalCluster) -> None:
    """A start of psp-primary may keep own commits above W that an older one decided; nothing is lost then."""
    north, south = pair.sps
    with applying_paused(north):
        execute(south, "INSERT INTO note VALUES (156, 'not yet at north')")
        token = token_after(north, "INSERT INTO note VALUES (157, 'own, above W')")
        pair.stop(PRIMARY, "daemon")
        pair.start(PRIMARY, "daemon")
    for sp in (south, north):
        execute(sp, "SELECT psp.wait_for(%s, '1 min')", [token])


def test_every_role_may_ask(pair: LocalCluster) -> None:
    north, south = pair.sps
    token = token_after(north, "INSERT INTO note VALUES (160, 'for all')")
    for sp in (north, south):
        with connect(as_admin(sp), autocommit=True) as connection:
            connection.execute("CREATE ROLE nobody_special")
            connection.execute("SET ROLE nobody_special")
            connection.execute(WAIT, [token])
            assert connection.execute("SELECT psp.token() LIKE 'psp1.%'").fetchall() == [(True,)]


def test_an_application_goes_to_the_next_server_and_finds_its_commits(pair: LocalCluster) -> None:
    """With a connection string of docs/several-servers.md; libpq takes the first host that answers."""
    parts = [conninfo_to_dict(sp.dsn) for sp in pair.sps]
    both = make_conninfo(
        pair.sps[0].dsn,
        **{key: ",".join(str(part[key]) for part in parts) for key in ("host", "port")},
        connect_timeout=3,
    )

    def port(connection: psycopg.Connection[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return connection.execute("SELECT current_setting('port')").fetchall()

    with psycopg.connect(both, autocommit=True) as connection:
        assert port(connection) == [(str(parts[0]["port"]),)]
        connection.execute("INSERT INTO note VALUES (170, 'before it died')")
        ((token,),) = connection.execute("SELECT psp.token()").fetchall()
    pair.stop("north", "postgres", "immediate")
    try:
        with psycopg.connect(both, autocommit=True) as connection:
            assert port(connection) == [(str(parts[1]["port"]),)]
            connection.execute(WAIT, [token])
            assert connection.execute("SELECT v FROM note WHERE id = 170").fetchall() == [("before it died",)]
            connection.execute("UPDATE note SET v = 'and after' WHERE id = 170")
            ((token,),) = connection.execute("SELECT psp.token()").fetchall()
    finally:
        pair.start("north", "postgres")
    with psycopg.connect(both, autocommit=True) as connection:
        assert port(connection) == [(str(parts[0]["port"]),)]
        connection.execute("SELECT psp.wait_for(%s, '1 min')", [token])
        assert connection.execute("SELECT v FROM note WHERE id = 170").fetchall() == [("and after",)]
