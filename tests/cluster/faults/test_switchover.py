"""`psp primary switchover`: a standby takes the place of a server that lives, and no client sees an error."""

from collections.abc import Callable
from typing import LiteralString, NoReturn

import psycopg
import pytest
from psp import paths
from psp.cli import app
from psp.cluster.configs import PRIMARY, PRIMARY_DATABASE
from psp.cluster.local import LocalCluster, Options
from psp.primary import switchover as switching
from psp.servers.pgserver import server_account
from psp.waiting import WaitTimeout, wait_until
from typer.testing import CliRunner, Result

from tests.cluster.faults.test_away import TABLE, under_load
from tests.cluster.faults.test_newer_primary import Second, with_second
from tests.cluster.support import WAIT_S, adopted_pair, settle
from tests.threads import running

HANDS_OVER = "this PostgreSQL hands over to its standby"
OPTIONS = Options(
    pg_settings={"shared_buffers": "32MB"},
    sp_options={"commit_timeout_ms": 60000, "disconnected_grace_ms": 0},
)


def switchover(cluster: LocalCluster, second: Second, *options: str) -> Result:
    dsns = (cluster.primary_dsn, second.standby.server.dsn(PRIMARY_DATABASE))
    return CliRunner().invoke(app, ["primary", "switchover", *dsns, *options])


def address(second: Second) -> str:
    with switching.at_standby(second.standby.server.dsn(PRIMARY_DATABASE)) as standby:
        return switching.address(standby)


def epoch(cluster: LocalCluster) -> int:
    with psycopg.connect(cluster.primary_dsn) as connection:
        row = connection.execute("SELECT max(epoch) FROM psp.epochs").fetchone()
    assert row is not None
    return int(row[0])


def begins_again(cluster: LocalCluster, after: int) -> None:
    wait_until("psp-primary to begin again", lambda: epoch(cluster) > after, WAIT_S)


def test_a_switch_under_load_is_no_error(record_property: Callable[[str, object], None]) -> None:
    """The old server lives on, and what starts beside it waits."""
    with with_second(TABLE, OPTIONS) as (cluster, second), second.runs():

        def switch() -> None:
            done = switchover(cluster, second)
            assert done.exit_code == 0, done.output
            assert "The new server decides" in done.stdout
            assert "pg_rewind" in done.stdout or "pg_basebackup" in done.stdout

        second.says("this PostgreSQL is a standby")
        longest_s = under_load(cluster.sps, switch)
        record_property("longest_wait_s", longest_s)
        print(f"the longest COMMIT took {longest_s:.2f} s")
        log = cluster.state.directory / PRIMARY / "psp-primary.log"
        assert HANDS_OVER in log.read_text()
        before = epoch(cluster)
        refused = switchover(cluster, second, "--withdraw")
        assert refused.exit_code == 1
        assert "the standby was promoted" in refused.stderr
        assert cluster.is_running(PRIMARY, "daemon"), "it waits"
        assert epoch(cluster) == before


def test_a_server_that_was_stopped_follows_as_it_is() -> None:
    """Its shutdown is the last of its WAL, which the new one has: nothing is to be rewound."""
    with with_second(TABLE, OPTIONS) as (cluster, second), second.runs():
        old, new = cluster.server(PRIMARY), second.standby.server

        def switch() -> None:
            program = f"{paths.postgres_program('pg_ctl')} stop -s -m fast -D {old.data_dir}"
            account = server_account()
            stop = f"cd / && runuser -u {account.pw_name} -- {program}" if account else program
            done = switchover(cluster, second, "--stop", stop)
            assert done.exit_code == 0, done.output
            assert "can follow the new one as it is" in done.output.replace("\n", " ")

        second.says("this PostgreSQL is a standby")
        print(f"the longest COMMIT took {under_load(cluster.sps, switch):.2f} s")
        (old.data_dir / "standby.signal").touch()
        with (old.data_dir / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{new.dsn('postgres')}'\n")
        old.start()
        with psycopg.connect(new.dsn("postgres"), autocommit=True) as connection:
            look: LiteralString = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
            wait_until("the old one to follow", lambda: connection.execute(look).fetchone(), WAIT_S)


def test_a_switch_that_does_not_come_about_is_no_error() -> None:
    """A step fails, or the command was killed and is withdrawn: the old server goes on, in a new epoch."""
    with (
        with_second(TABLE, OPTIONS) as (cluster, second),
        second.runs(),
        psycopg.connect(second.standby.server.dsn("postgres"), autocommit=True) as standby,
    ):
        refused = switchover(cluster, second, "--withdraw")
        assert "nothing to withdraw" in refused.output

        def pause_replay(step: str) -> None:
            if "COMMITs wait" in step:
                standby.execute("SELECT pg_wal_replay_pause()")

        def fails() -> None:
            before = epoch(cluster)
            dsn = second.standby.server.dsn(PRIMARY_DATABASE)
            with switching.at_old(cluster.primary_dsn) as old, switching.at_standby(dsn) as to:
                busy = switchover(cluster, second)
                assert "another psp primary switchover" in busy.stderr
                with pytest.raises(WaitTimeout, match="the standby to replay"):
                    switching.switch(old, to, 5, pause_replay)
            standby.execute("SELECT pg_wal_replay_resume()")
            begins_again(cluster, before)

        def is_killed_and_withdrawn() -> None:
            before = epoch(cluster)
            with switching.at_old(cluster.primary_dsn) as old:
                switching.begin(old, 60, address(second))
                wait_until("the old one to end", lambda: switching.end(old), WAIT_S)
            status = CliRunner().invoke(app, ["primary", "status", cluster.primary_dsn])
            assert "This server hands over" in status.output
            done = switchover(cluster, second, "--withdraw")
            assert "Withdrawn" in done.output
            begins_again(cluster, before)

        under_load(cluster.sps, fails, is_killed_and_withdrawn)


def test_a_promotion_that_may_have_begun_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command loses the standby when it is to be promoted: only forwards, and nobody sees an error."""
    with with_second(TABLE, OPTIONS) as (cluster, second), second.runs():
        second.says("this PostgreSQL is a standby")

        def lost(*_: object) -> NoReturn:
            raise psycopg.OperationalError("the connection is lost")

        def switch() -> None:
            before = epoch(cluster)
            with monkeypatch.context() as changed:
                changed.setattr(switching, "promote", lost)
                failed = switchover(cluster, second)
            assert failed.exit_code == 1
            assert "may be promoted, or become so" in failed.stderr.replace("\n", " ")
            refused = switchover(cluster, second, "--withdraw")
            assert refused.exit_code == 1
            assert "about to become writable" in refused.stderr
            with switching.at_standby(second.standby.server.dsn(PRIMARY_DATABASE)):
                for options in ((), ("--withdraw",)):
                    busy = switchover(cluster, second, *options)
                    assert "at work at the standby" in busy.stderr
            assert epoch(cluster) == before
            done = switchover(cluster, second)
            assert done.exit_code == 0, done.output
            assert "An earlier one is finished" in done.stdout
            assert epoch(cluster) == before

        under_load(cluster.sps, switch)


def test_a_stop_that_fails_is_taken_back() -> None:
    """It comes after the mark that forbids a withdrawal to others."""
    with with_second(TABLE, OPTIONS) as (cluster, second), second.runs():
        second.says("this PostgreSQL is a standby")

        def fails() -> None:
            before = epoch(cluster)
            failed = switchover(cluster, second, "--stop", "exit 3")
            assert failed.exit_code == 1
            assert "has ended with 3" in failed.stderr
            begins_again(cluster, before)

        under_load(cluster.sps, fails)


def test_a_daemon_that_starts_meanwhile_waits() -> None:
    """Also where the one before it has crashed, and could not say that it has ended."""
    with adopted_pair([TABLE], OPTIONS) as cluster:
        settle(cluster)
        cluster.kill(PRIMARY)
        before = epoch(cluster)
        with switching.at_old(cluster.primary_dsn) as old:
            switching.begin(old, 60, "standby:5432")
            assert switching.end(old) is None
            with running(lambda: cluster.start(PRIMARY, "daemon")):
                wait_until("it to end the hand-over", lambda: switching.end(old), WAIT_S)
                assert epoch(cluster) == before
                assert switching.withdraw(old, even_if_promoting=False)
        assert epoch(cluster) > before
        settle(cluster)
