"""When the primary can decide nothing, every SP says so, with the cause, and stops saying so by itself."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options
from psp.primary import members
from psp.waiting import wait_until

from tests.cluster.faults.standby import Standby, at_primary, set_list
from tests.cluster.support import WAIT_S, adopted_pair, execute, settle
from tests.threads import running

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"
ADD: LiteralString = "INSERT INTO item SELECT coalesce(max(id), 0) + 1, 'added' FROM item"
STATE: LiteralString = "SELECT state, last_error FROM psp.status"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    options = Options(pg_settings={"shared_buffers": "32MB"}, sp_options={"commit_timeout_ms": 3000})
    with adopted_pair([SCHEMA], options) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Everything streams; afterwards, too, and COMMITs work."""
    settle(shared_pair)
    yield shared_pair
    settle(shared_pair)
    execute(shared_pair.sps[0], ADD)


@pytest.fixture
def standby(pair: LocalCluster) -> Iterator[Standby]:
    """Synchronous. Afterwards there is none."""
    pair.stop(PRIMARY, "daemon")
    standby = Standby(pair)
    standby.make_synchronous()
    settle(pair)
    yield standby
    set_list(pair, "")
    pair.stop(PRIMARY, "daemon")
    standby.remove()


def add(cluster: LocalCluster) -> None:
    """A COMMIT that nobody may be able to decide."""
    with suppress(psycopg.Error):
        execute(cluster.sps[0], ADD)


def await_blocked(cluster: LocalCluster, why: str) -> None:
    """At every SP, for this reason; only an administrator sees it."""

    def is_blocked() -> bool:
        found = [states(sp.admin_dsn) for sp in cluster.sps]
        return all(state == "blocked" and why in (error or "") for state, error in found)

    wait_until(f"every SP to be blocked: {why}", is_blocked, WAIT_S)
    assert can_commit(cluster) == {"north": False, "south": False}


def states(dsn: str) -> tuple[str, str | None]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(STATE).fetchone()
        assert row is not None
        return row


def await_end(cluster: LocalCluster) -> None:
    """Nobody says it any more."""
    well = ("streaming", None)

    def all_well() -> bool:
        return all(states(sp.admin_dsn) == well for sp in cluster.sps)

    wait_until("every SP to stream", all_well, WAIT_S)
    assert can_commit(cluster) == {"north": True, "south": True}
    wait_until("psp primary status to be well", lambda: standstill(cluster) is None, WAIT_S)


def can_commit(cluster: LocalCluster) -> dict[str, bool]:
    """What an application is told at each SP."""
    return {sp.name: execute(sp, "SELECT psp.can_commit()")[0][0] for sp in cluster.sps}


def standstill(cluster: LocalCluster) -> str | None:
    found = members.gather(cluster.primary_dsn)
    assert (found["standstill"] is None) == (members.show_standstill(found) is None)
    cause: str | None = found["standstill"]
    return cause


@contextmanager
def logged(cluster: LocalCluster) -> Iterator[None]:
    """Each daemon logs one line at level error, and one when it has ended, in this block."""
    folder = cluster.state.directory
    logs = [folder / PRIMARY / "psp-primary.log"]
    logs += [folder / sp.name / "psp-semi-primary.log" for sp in cluster.sps]
    before = [log.stat().st_size for log in logs]
    yield
    for log, size in zip(logs, before, strict=True):
        text = new_text(log, size)
        errors = [line for line in text.splitlines() if "no transaction can" in line]
        assert errors, text
        assert all("error" in line for line in errors), errors
        assert re.search("(decides transactions|transactions are decided) again", text), text


def new_text(log: Path, size: int) -> str:
    with log.open() as file:
        file.seek(size)
        return file.read()


def test_a_standby_that_is_cut_off(pair: LocalCluster, standby: Standby) -> None:
    """It is connected, and gets nothing."""
    with logged(pair):
        with running(lambda: add(pair)), standby.cut():
            add(pair)
            await_blocked(pair, "0 of 1 have what was written, 1 are connected")
            wait_until("psp primary status to tell", lambda: standstill(pair) == "standby", WAIT_S)
        await_end(pair)


def test_a_standby_that_is_gone(pair: LocalCluster, standby: Standby) -> None:
    """No transaction has to find out."""
    with logged(pair):
        standby.server.stop()
        await_blocked(pair, "0 of 1 have what was written, 0 are connected")
        wait_until("psp primary status to tell", lambda: standstill(pair) == "standby", WAIT_S)
        standby.server.start()
        await_end(pair)


def test_the_primarys_postgresql_is_stopped(pair: LocalCluster) -> None:
    """And starts again: psp-primary goes on."""
    with logged(pair):
        pair.stop(PRIMARY, "postgres", "immediate")
        await_blocked(pair, "does not answer")
        pair.start(PRIMARY, "postgres")
        await_end(pair)


def test_the_primarys_postgresql_is_silent(pair: LocalCluster) -> None:
    """Its sessions are there, and nothing comes."""
    find: LiteralString = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'psp-primary%'"
    pids = [pid for (pid,) in at_primary(pair, find)]
    with logged(pair):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            await_blocked(pair, "it is silent")
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await_end(pair)


@pytest.mark.parametrize(
    ("sqlstate", "why", "cause"),
    [("53100", "has no space", "no space"), ("42501", "again and again", "a batch fails")],
)
def test_batches_fail(pair: LocalCluster, sqlstate: str, why: str, cause: str) -> None:
    """As on a full disk, and where a right is missing. A trigger raises both: filling a disk needs root."""
    pair.stop(PRIMARY, "daemon")
    pair.state.primary_options = {"certify": "sql"}
    settle(pair)
    with psycopg.connect(pair.primary_dsn, autocommit=True) as primary:
        primary.execute(
            "CREATE FUNCTION psp.fail() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE SQLSTATE '{sqlstate}' USING MESSAGE = 'it fails'; END $$;"
            "CREATE TRIGGER fail BEFORE INSERT ON psp.tx_log FOR EACH STATEMENT EXECUTE FUNCTION psp.fail();"
            "ALTER TABLE psp.tx_log ENABLE ALWAYS TRIGGER fail".encode()
        )
        with logged(pair), running(lambda: add(pair)):
            try:
                await_blocked(pair, why)
                wait_until("psp primary status to tell", lambda: standstill(pair) == cause, WAIT_S)
            finally:
                primary.execute("DROP FUNCTION psp.fail() CASCADE")
            await_end(pair)


def test_a_member_that_is_away(pair: LocalCluster) -> None:
    """psp primary status tells since when, and what it keeps of the log."""

    def south() -> dict[str, Any]:
        found: dict[str, Any]
        [found] = [m for m in members.gather(pair.primary_dsn)["semi_primaries"] if m["name"] == "south"]
        return found

    wait_until("south to be seen", lambda: south()["is_connected"], WAIT_S)
    pair.kill("south")
    wait_until("south to be missed", lambda: south()["is_connected"] is False, WAIT_S)
    assert south()["seen_at"] is not None
    wait_until("south to say so", lambda: can_commit(pair) == {"north": True, "south": False}, WAIT_S)
    execute(pair.sps[0], ADD)
    wait_until("south to keep the log", lambda: south()["keeps_bytes"], WAIT_S)
    pair.start("south", "daemon")
    wait_until("south to be back", lambda: south()["is_connected"], WAIT_S)
    wait_until("south to keep nothing", lambda: south()["keeps_bytes"] is None, WAIT_S)
