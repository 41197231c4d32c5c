"""`psp primary promote` of a plain streaming standby: what it looks at, and what is there afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from psp.cli import app
from psp.cluster.configs import PRIMARY, PRIMARY_DATABASE, PRIMARY_ROLE
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.waiting import wait_until
from typer.testing import CliRunner, Result

from tests.cluster.faults.following import follows
from tests.cluster.faults.standby import Standby
from tests.cluster.support import WAIT_S, adopted_pair, execute, settle, wait_for_commits

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY)"


@contextmanager
def pair() -> Iterator[tuple[LocalCluster, Standby]]:
    """With an asynchronous standby that has everything."""
    with adopted_pair([SCHEMA], Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        settle(cluster)
        standby = Standby(cluster)
        yield cluster, standby
        standby.remove()


def promote(cluster: LocalCluster, standby: Standby, *options: str, asks: bool = True) -> Result:
    sps = [sp.admin_dsn for sp in cluster.sps] if asks else []
    dsn = standby.server.dsn(PRIMARY_DATABASE)
    return CliRunner().invoke(app, ["primary", "promote", dsn, *sps, *options])


def await_loss(cluster: LocalCluster) -> None:
    """The primary's server is killed, and its semi-primaries have noticed."""
    cluster.kill(PRIMARY)
    cluster.server(PRIMARY).stop("immediate")
    for sp in cluster.sps:
        wait_until(f"{sp.name} to notice", partial(cannot_commit, sp), WAIT_S)


def cannot_commit(sp: SpNode) -> bool:
    return execute(sp, "SELECT psp.can_commit()") == [(False,)]


def is_standby(standby: Standby) -> bool:
    with psycopg.connect(standby.server.dsn("postgres")) as connection:
        row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    assert row is not None
    return bool(row[0])


def test_a_standby_takes_the_place_of_a_lost_server() -> None:
    with pair() as (cluster, standby):
        north, south = cluster.sps
        execute(north, "INSERT INTO item VALUES (1)")
        settle(cluster)

        result = promote(cluster, standby)
        assert result.exit_code == 1
        assert "the old server is writable" in result.stderr
        assert "north can commit at this moment" in result.stderr

        await_loss(cluster)
        result = promote(cluster, standby, asks=False)
        assert result.exit_code == 1
        assert "not asked whether they have more than this standby: north, south" in result.stderr
        assert is_standby(standby)

        result = promote(cluster, standby)
        assert result.exit_code == 0, result.output
        assert "pg_rewind" in result.stdout or "pg_basebackup" in result.stdout
        assert not is_standby(standby)
        result = promote(cluster, standby)
        assert "it is writable already" in result.stderr

        cluster.state.primary_options = {
            "database": standby.server.socket_dsn(PRIMARY_DATABASE, PRIMARY_ROLE)
        }
        cluster.start(PRIMARY, "daemon")
        wait_for_commits(south)
        execute(south, "INSERT INTO item VALUES (2)")
        cluster.stop(PRIMARY, "daemon")


def test_a_standby_that_lacks_transactions_is_not_promoted() -> None:
    """It was not synchronous, and cut off before the last ones."""
    with pair() as (cluster, standby):
        north, _ = cluster.sps
        standby.server.stop()
        execute(north, "INSERT INTO item VALUES (1)")
        settle(cluster)
        cluster.stop(PRIMARY, "daemon")
        cluster.start(PRIMARY, "daemon")
        wait_until("north to follow it", lambda: follows(north, cluster.primary_dsn), WAIT_S)
        await_loss(cluster)
        standby.server.start()

        result = promote(cluster, standby)
        assert result.exit_code == 1
        assert "it was not synchronous, and they would be lost" in result.stderr
        assert "has followed a start of psp-primary that the standby lacks" in result.stderr
        assert is_standby(standby)

        result = promote(cluster, standby, "--force")
        assert result.exit_code == 0, result.output
        assert "Not heeded: north knows of transactions up to" in result.stderr
        assert not is_standby(standby)


@pytest.mark.parametrize("name", ["primary", "sp"])
def test_only_a_standby_of_the_primary_is_promoted(name: str) -> None:
    with pair() as (cluster, standby):
        dsn = cluster.primary_dsn if name == "primary" else cluster.sps[0].admin_dsn
        result = CliRunner().invoke(app, ["primary", "promote", dsn])
        assert result.exit_code == 1
        assert is_standby(standby)
