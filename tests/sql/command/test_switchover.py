"""What `psp primary switchover` finds wrong before it does anything."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.output import PspError
from psp.primary import switchover as switching
from psp.primary.cli import _run
from psp.primary.switchover import (
    Source,
    Target,
    objections,
    refuse_unfit,
    refuse_unserved,
    refuse_withdrawal,
)
from psp.waiting import wait_until

from tests.sql.databases import Pair

SOURCE = Source(
    is_standby=False, system_identifier="7", cluster_id="c", copies=0, timeline="00000001", is_served=True,
    lost_slots=[], standstill=None, was_asked=False, target=None, is_promoting=False,
)  # fmt: skip
TARGET = Target(
    is_standby=True, system_identifier="7", cluster_id="c", streams=True, is_paused=False,
    synchronous_standby_names="", standbys=0, timeline=1, awaits_restart=[],
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ({}, {}, []),
        ({"standstill": "hearing: north"}, {}, ["has just started and hears first what each semi-primary"]),
        ({"standstill": "ahead: north"}, {}, ["this server lacks what a semi-primary has"]),
        ({"lost_slots": ["cdc"]}, {}, ["logical slots of the old server: cdc"]),
        ({"copies": 1}, {}, ["synchronous standbys"]),
        ({"copies": 2}, {"standbys": 1}, ["(2 at least), and 1 follow"]),
        ({"copies": 2}, {"standbys": 2}, []),
        ({}, {"synchronous_standby_names": "p3"}, ["synchronous standbys"]),
        ({"copies": 1}, {"synchronous_standby_names": "p3", "standbys": 1}, []),
        (
            {},
            {"streams": False, "is_paused": True, "awaits_restart": ["max_connections"]},
            ["does not stream", "pg_wal_replay_resume", "restart only: max_connections"],
        ),
    ],
)
def test_what_is_looked_at(source: dict[str, object], target: dict[str, object], found: list[str]) -> None:
    told = list(objections(replace(SOURCE, **source), replace(TARGET, **target)))  # type: ignore[arg-type]
    assert len(told) == len(found)
    for text, one in zip(told, found, strict=True):
        assert one in text


def test_two_that_are_no_pair() -> None:
    refuse_unfit(SOURCE, TARGET)
    for source, target, why in (
        (replace(SOURCE, is_standby=True), TARGET, "has nothing to hand over"),
        (SOURCE, replace(TARGET, is_standby=False), "writable already"),
        (SOURCE, replace(TARGET, system_identifier="8"), "no standby of the first one"),
        (SOURCE, replace(TARGET, timeline=2), "a server that was promoted since"),
    ):
        with pytest.raises(PspError, match=why):
            refuse_unfit(source, target)


def test_without_a_daemon_nobody_ends_it() -> None:
    """--force would only wait for one."""
    refuse_unserved(SOURCE)
    refuse_unserved(replace(SOURCE, is_served=False, was_asked=True))
    with pytest.raises(PspError, match="no psp-primary serves"):
        refuse_unserved(replace(SOURCE, is_served=False))


def test_what_cannot_be_withdrawn() -> None:
    asked = replace(SOURCE, was_asked=True, target="p2:5432")
    refuse_withdrawal(SOURCE, TARGET, "p2:5432")
    refuse_withdrawal(asked, TARGET, "p2:5432")
    for source, target, at, why in (
        (asked, replace(TARGET, is_standby=False), "p2:5432", "was promoted"),
        (asked, TARGET, "p3:5432", "is to p2:5432, and p3:5432 was asked"),
        (asked, replace(TARGET, system_identifier="8"), "p2:5432", "no standby of the first one"),
        (asked, replace(TARGET, timeline=2), "p2:5432", "a server that was promoted since"),
        (replace(asked, is_promoting=True), TARGET, "p2:5432", "about to become writable"),
    ):
        with pytest.raises(PspError, match=why):
            refuse_withdrawal(source, target, at)


def test_semi_primaries_wait_as_long_as_the_command() -> None:
    """psp-primary's end, the stop, its arrival, the replay, the promotion, the next start."""
    for timeout_s in (1, 20, 90):
        steps = max(switching.END_S, timeout_s) + 5 * timeout_s
        assert steps < switching.limit_s(timeout_s) <= 600


def test_a_stop_that_hangs_is_killed_with_all_it_started() -> None:
    with pytest.raises(PspError, match="took 1 s"):
        _run("sleep 600 & sleep 600", 1)
    with pytest.raises(PspError, match="has ended with 3"):
        _run("exit 3", 10)
    _run("true", 10)


@pytest.fixture
def old(pair: Pair) -> Iterator[psycopg.Connection[object]]:
    """The primary's database; no psp-primary runs."""
    with switching.at_old(pair.primary_dsn) as connection:
        yield connection


END = "UPDATE psp.hand_over SET ended_at = clock_timestamp()"


def test_a_promotion_that_may_have_begun_is_not_withdrawn(old: switching.Connection) -> None:
    assert not switching.begin(old, 60, "p2:5432")
    with pytest.raises(PspError, match="withdrawn meanwhile"):  # or not ended
        switching.mark_promoting(old)
    assert switching.withdraw(old, even_if_promoting=False)
    assert not switching.begin(old, 60, "p2:5432")
    old.execute(END)
    switching.mark_promoting(old)
    assert switching.look_at_source(old).is_promoting
    assert not switching.withdraw(old, even_if_promoting=False)
    assert switching.begin(old, 60, "p2:5432"), "the same standby"
    with pytest.raises(PspError, match="may have promoted another standby"):
        switching.begin(old, 60, "p3:5432")
    found = switching.look_at_source(old)
    assert (found.was_asked, found.target, found.is_promoting) == (True, "p2:5432", True)
    assert switching.withdraw(old, even_if_promoting=True)
    assert not switching.look_at_source(old).was_asked
    with pytest.raises(PspError, match="withdrawn meanwhile"):
        switching.mark_promoting(old)


def test_a_row_of_another_timeline_means_nothing(old: switching.Connection) -> None:
    """It came with a promotion."""
    switching.begin(old, 60, "p2:5432")
    old.execute(END)
    switching.mark_promoting(old)
    old.execute("UPDATE psp.hand_over SET timeline = '00000000'")
    found = switching.look_at_source(old)
    assert (found.was_asked, found.target, found.is_promoting) == (False, None, False)
    assert not switching.withdraw(old, even_if_promoting=True)
    assert not switching.begin(old, 60, "p3:5432")
    assert switching.look_at_source(old).target == "p3:5432"


def test_a_standstill_is_read_from_the_watch(old: switching.Connection, pair: Pair) -> None:
    """What psp-primary's watch calls itself (primary/server_watch.cc)."""
    assert switching.look_at_source(old).standstill is None
    with psycopg.connect(pair.primary_dsn, application_name="psp-primary watch: hearing: north, 3 s"):
        assert switching.look_at_source(old).standstill == "hearing: north"
    sessions: LiteralString = "SELECT FROM pg_stat_activity WHERE application_name ~ '^psp-primary watch'"
    wait_until("its session to be gone", lambda: not old.execute(sessions).fetchall(), 30)
    with psycopg.connect(pair.primary_dsn, application_name="psp-primary watch"):
        assert switching.look_at_source(old).standstill is None


def test_the_end_is_a_place_that_a_standby_reaches(old: switching.Connection) -> None:
    """At a page's end the place where the WAL goes on is behind the header of the next page."""
    switching.begin(old, 60, "p2:5432")
    assert switching.end(old) is None
    old.execute(END)
    old.execute("SELECT pg_switch_wal()")
    position = switching.end(old)
    [(is_flushed,)] = old.execute("SELECT %s::pg_lsn <= pg_current_wal_flush_lsn()", (position,)).fetchall()
    assert is_flushed


def test_only_what_can_be_a_synchronous_standby_counts(pair: Pair, tmp_path: Path) -> None:
    """pg_receivewal replays nothing."""
    with psycopg.connect(pair.primary_dsn, autocommit=True) as connection:
        command = [str(paths.postgres_program("pg_receivewal")), "-d", pair.primary_dsn, "-D", str(tmp_path)]
        with subprocess.Popen(command) as receiver:
            try:
                wait_until(
                    "it to stream",
                    lambda: connection.execute(
                        "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
                    ).fetchone(),
                    30,
                )
                assert switching.look_at_target(connection).standbys == 0
            finally:
                receiver.terminate()
