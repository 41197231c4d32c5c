"""A primary that starts hears first what each semi-primary has: docs/decisions/71."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import LiteralString

import psycopg
from psp.cluster.configs import PRIMARY, PRIMARY_DATABASE
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.primary import members
from psp.schema.loss import accept_loss
from psp.waiting import wait_until

from tests.cluster.faults.following import follows, last_error
from tests.cluster.faults.test_newer_primary import Second, with_second
from tests.cluster.faults.test_restore import await_refusal
from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    execute,
    settle,
    wait_for_commits,
    wait_for_row,
)

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"
ADD: LiteralString = "INSERT INTO item VALUES (%s, %s)"
KEYS: LiteralString = "SELECT id FROM item ORDER BY id"
UNHEARD = "begins without having heard"


@contextmanager
def asynchronous() -> Iterator[tuple[LocalCluster, Second]]:
    """Its second server may lack what was acknowledged."""
    options = Options(pg_settings={"shared_buffers": "32MB"})
    with with_second(SCHEMA, options, synchronous=False) as (cluster, second):
        execute(cluster.sps[0], ADD, (1, "kept"))
        wait_for_row(cluster.sps[1], "SELECT 1 FROM item WHERE id = 1")
        wait_until("the standby to have it", partial(has_row, second), WAIT_S)
        yield cluster, second


def has_row(second: Second) -> bool:
    with psycopg.connect(second.standby.server.dsn(PRIMARY_DATABASE)) as connection:
        row = connection.execute("SELECT count(*) FROM psp.replication_log").fetchone()
    return row is not None and row[0] >= 1


def lose_primary(cluster: LocalCluster) -> None:
    cluster.kill(PRIMARY)
    cluster.server(PRIMARY).stop("immediate")


def log_of_primary(cluster: LocalCluster) -> str:
    return (cluster.state.directory / PRIMARY / "psp-primary.log").read_text()


def is_blocked(sp: SpNode) -> bool:
    return execute(sp, "SELECT state, psp.can_commit() FROM psp.status") == [("blocked", False)]


def standstill(second: Second) -> str:
    return str(members.gather(second.standby.server.dsn(PRIMARY_DATABASE))["standstill"])


def accept(cluster: LocalCluster, name: str) -> None:
    cluster.stop(name, "daemon")
    accept_loss(cluster.sp(name).admin_dsn)
    cluster.start(name, "daemon")


def test_a_promoted_standby_that_lacks_a_commit_decides_nothing() -> None:
    """Neither its second start; the server that has the commit takes the place again, and nothing is lost."""
    with asynchronous() as (cluster, second):
        north, south = cluster.sps
        with second.standby.cut():
            execute(north, ADD, (2, "only at the old one"))
            wait_for_row(south, "SELECT 1 FROM item WHERE id = 2")
            lose_primary(cluster)
        second.promote_server()
        for _ in range(2):
            with second.runs():
                second.says("nothing is decided here: semi-primary north has transactions")
                for sp in (north, south):
                    wait_until(f"{sp.name} to be blocked", partial(is_blocked, sp), WAIT_S)
                    assert "lacks what semi-primary" in last_error(sp)
                wait_until(
                    "status to tell",
                    lambda: standstill(second).startswith("ahead: north"),
                    WAIT_S,
                )
                assert "ready\n" not in second.log.read_text()
        cluster.start(PRIMARY)
        settle(cluster)
        execute(south, ADD, (3, "as before"))
        wait_for_row(north, "SELECT 1 FROM item WHERE id = 3")
        assert execute(north, KEYS) == [(1,), (2,), (3,)]


def test_while_an_old_primary_lives_it_goes_on() -> None:
    """Its semi-primaries tell the new one what that lacks, and tell their users of it."""
    with asynchronous() as (cluster, second):
        north, south = cluster.sps
        with second.standby.cut():
            execute(north, ADD, (2, "only at the old one"))
            second.promote_server()
            with second.runs():
                second.says("nothing is decided here: semi-primary")
                find = "another primary was promoted"
                wait_until(f"{north.name} to tell", lambda: find in last_error(north), WAIT_S)
                execute(south, ADD, (3, "goes on"))
                wait_for_row(north, "SELECT 1 FROM item WHERE id = 3")
                assert "ready\n" not in second.log.read_text()


def test_who_is_ahead_gives_its_loss_up() -> None:
    """Then the others go on, and it must join again."""
    with asynchronous() as (cluster, second):
        north, south = cluster.sps
        with second.standby.cut():
            cluster.stop(south.name, "daemon")
            execute(north, ADD, (2, "lost"))
            lose_primary(cluster)
        second.promote_server()
        with second.runs():
            second.says("nothing is decided here: semi-primary north has transactions")
            cluster.start(south.name, "daemon")
            wait_until("south to be blocked", partial(is_blocked, south), WAIT_S)
            accept(cluster, "north")
            second.says("ready\n")
            await_refusal(cluster, "north")
            wait_for_commits(south)
            execute(south, ADD, (3, "goes on"))
            assert execute(south, KEYS) == [(1,), (3,)]


def test_a_loss_that_was_given_up_blocks_no_later_start() -> None:
    """Who was away has lost its transactions. It waits for an older primary, and the others need not."""
    with asynchronous() as (cluster, second):
        north, south = cluster.sps
        with second.standby.cut():
            cluster.stop(south.name, "daemon")
            cluster.stop(PRIMARY, "daemon")
            cluster.start(PRIMARY, "daemon")
            wait_until("north to follow", partial(follows, north, cluster.primary_dsn), WAIT_S)
            wait_for_commits(north)
            execute(north, ADD, (2, "lost"))
            cluster.stop(north.name, "daemon")
            lose_primary(cluster)
        second.promote_server()
        cluster.start(south.name, "daemon")
        with second.runs():
            second.says(f"{UNHEARD} north")
            wait_for_commits(south)
            execute(south, ADD, (3, "goes on"))
            cluster.start(north.name, "daemon")
            wait_until("north to wait", lambda: "accept-loss" in last_error(north), WAIT_S)
        with second.runs():
            second.says("ready\n")
            wait_for_commits(south)
            execute(south, ADD, (4, "goes on"))
            assert "nothing is decided" not in second.log.read_text()


def test_a_restart_waits_for_one_that_is_away_only() -> None:
    """All who are there are heard at once. For the one that is away it waits, and then it says so."""
    with adopted_pair([SCHEMA]) as cluster:
        north, south = cluster.sps
        settle(cluster)
        cluster.stop(PRIMARY, "daemon")
        cluster.start(PRIMARY, "daemon")
        wait_for_commits(north)
        wait_for_commits(south)
        assert UNHEARD not in log_of_primary(cluster)
        cluster.stop(south.name, "daemon")
        cluster.stop(PRIMARY, "daemon")
        cluster.start(PRIMARY, "daemon")
        assert f"{UNHEARD} south" in log_of_primary(cluster)
        wait_for_commits(north)
        execute(north, ADD, (1, "alone"))
        settle(cluster)
