"""psp trace with the logs of real daemons: one that has committed, one that has lost, one in doubt."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.trace import lines
from psp.trace.lines import Event
from psp.waiting import wait_until

from tests.cluster.support import (
    OUTCOME_UNKNOWN,
    WAIT_S,
    adopted_pair,
    execute,
    paused,
    raises,
    settle,
    tx_id_of,
)

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO item SELECT i, 0 FROM generate_series(1, 9) i;
"""
TEXT_LINE = re.compile(r"[0-9-]{10} [0-9:]{8}\.[0-9]{6}[+-][0-9]{4} psp-[a-z-]+ [a-z]+: .")
AT_ORIGIN = ["COMMIT received", "sent to the primary", "decision received", "answered"]
AT_PRIMARY = ["request received", "batch sent to PostgreSQL", "decided"]


@pytest.fixture(scope="module", params=["text", "json"])
def shared_pair(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    logged = {"log_format": request.param, "log_commits_one_in": 1}
    options = Options(
        pg_settings={"shared_buffers": "32MB"},
        primary_options=logged,
        sp_options={**logged, "commit_timeout_ms": 5000},
    )
    with adopted_pair([SCHEMA], options) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    settle(shared_pair)
    yield shared_pair
    settle(shared_pair)


def logs(cluster: LocalCluster) -> dict[str, Path]:
    binaries = {PRIMARY: daemons.PRIMARY_BINARY} | {sp.name: daemons.SP_BINARY for sp in cluster.sps}
    return {name: cluster.state.directory / name / f"{binary}.log" for name, binary in binaries.items()}


def told(cluster: LocalCluster, name: str, event: str) -> list[Event]:
    """All events of that name in a daemon's log."""
    with logs(cluster)[name].open(encoding="utf-8") as file:
        return [one for one in lines.events(name, file) if one.name == event]


def psp_trace(cluster: LocalCluster, wanted: object, *options: str) -> subprocess.CompletedProcess[str]:
    files = [str(path) for path in logs(cluster).values()]
    command = [sys.executable, "-m", "psp", "trace", str(wanted), *files, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)


def way_of(cluster: LocalCluster, wanted: object) -> dict[str, Any]:
    result = psp_trace(cluster, wanted, "--json")
    assert result.returncode == 0, result.stderr
    way: dict[str, Any] = json.loads(result.stdout)
    return way


def at(way: dict[str, Any], where: str) -> list[str]:
    return [step["step"] for step in way["steps"] if step["at"] == where]


def newest(cluster: LocalCluster, sp: str) -> Event:
    """The answer to an SP's last COMMIT, which has been given to the application before."""
    wait_until("an answer", lambda: told(cluster, sp, lines.COMMIT_ANSWERED), WAIT_S)
    return told(cluster, sp, lines.COMMIT_ANSWERED)[-1]


def test_a_transaction_that_has_committed(pair: LocalCluster) -> None:
    before = len(told(pair, "north", lines.COMMIT_ANSWERED))
    execute(pair.sp("north"), "UPDATE item SET n = n + 1 WHERE id = 1")
    wait_until("the line", lambda: len(told(pair, "north", lines.COMMIT_ANSWERED)) > before, WAIT_S)
    tx = newest(pair, "north").tx
    wait_until("south", lambda: tx in [event.tx for event in told(pair, "south", lines.APPLIED)], WAIT_S)

    way = way_of(pair, tx)
    assert (way["outcome"], at(way, "north"), at(way, PRIMARY)) == ("committed", AT_ORIGIN, AT_PRIMARY)
    assert at(way, "south") == ["received from the stream", "applied"]
    assert way == way_of(pair, way["global_t"])
    # One machine, one clock: what was found of the clocks must be true of it.
    for clock in way["clocks"]:
        if clock["uncertainty_ms"] is not None:
            assert abs(clock["ahead_ms"]) <= clock["uncertainty_ms"] + 0.01, way["clocks"]
    assert next(step["in_file_ms"] for step in way["steps"] if step["at"] == "north") == 0
    shown = psp_trace(pair, tx)
    assert f"transaction {tx}: committed as {way['global_t']}" in shown.stdout, shown.stderr


def update(sp: SpNode) -> None:
    with suppress(psycopg.errors.SerializationFailure):
        execute(sp, "UPDATE item SET n = n + 1 WHERE id = 2")


def test_a_transaction_that_has_lost_at_the_primary(pair: LocalCluster) -> None:
    """Both have sent their requests before the primary sees one."""
    before = {sp.name: len(told(pair, sp.name, lines.COMMIT_SENT)) for sp in pair.sps}

    def both_are_sent() -> bool:
        return all(len(told(pair, name, lines.COMMIT_SENT)) > number for name, number in before.items())

    with ThreadPoolExecutor(2) as pool:
        with paused(pair, PRIMARY):
            commits = [pool.submit(update, sp) for sp in pair.sps]
            wait_until("both requests", both_are_sent, WAIT_S)
        for commit in commits:
            commit.result(WAIT_S)
    sent = {told(pair, sp.name, lines.COMMIT_SENT)[-1].tx: sp.name for sp in pair.sps}

    def decisions() -> dict[str, Event]:
        return {event.tx: event for event in told(pair, PRIMARY, lines.DECIDED) if event.tx in sent}

    # The loser may know by what has arrived at its semi-primary before the primary says so.
    wait_until("both decisions", lambda: len(decisions()) == 2, WAIT_S)
    decided = decisions()
    lost = next(event for event in decided.values() if event.fields["outcome"] == "lost")
    won = next(event for event in decided.values() if event.fields["outcome"] == "committed")
    assert (lost.fields["winner_t"], lost.fields["winner_sp"]) == (won.fields["global_t"], sent[won.tx])

    way = way_of(pair, lost.tx)
    assert (way["outcome"], way["global_t"]) == ("lost", None)
    # Sent again if the loser has asked for the winner's name meanwhile.
    assert list(dict.fromkeys(at(way, PRIMARY))) == AT_PRIMARY
    assert at(way, sent[lost.tx])[:2] == AT_ORIGIN[:2]
    assert at(way, sent[won.tx]) == []
    assert f"lost to {won.fields['global_t']} of {sent[won.tx]}" in psp_trace(pair, lost.tx).stdout


def test_a_transaction_in_doubt(pair: LocalCluster) -> None:
    """Its application was told 08007, and asks later; psp trace tells both."""
    north = pair.sp("north")
    with paused(pair, PRIMARY), raises(OUTCOME_UNKNOWN) as errors:
        execute(north, "UPDATE item SET n = n + 1 WHERE id = 3")
    tx = tx_id_of(errors[0])
    settle(pair)
    ((outcome,),) = execute(north, "SELECT psp.outcome(%s)", (tx,))

    way = way_of(pair, tx)
    assert way["outcome"] == outcome
    assert any("(08007). It is: " in remark for remark in way["remarks"]), way


def test_a_lost_one_has_no_key_in_the_log(pair: LocalCluster) -> None:
    for path in logs(pair).values():
        assert "(id)=(" not in path.read_text()


def test_every_line_of_the_logs_is_whole(pair: LocalCluster) -> None:
    written = [line for path in logs(pair).values() for line in path.read_text().splitlines()]
    written = [line for line in written if line != "ready"]
    if pair.state.primary_options["log_format"] == "json":
        parsed = [json.loads(line) for line in written]
        assert all({"time", "daemon", "level"} <= set(line) for line in parsed)
        assert all(("event" in line) or ("message" in line) for line in parsed)
        marked = [line for line in parsed if line.get("event") in lines.EVENTS]
    else:
        assert all(TEXT_LINE.match(line) for line in written)
        marked = [line for line in written if " tx=" in line]
    assert len([line for line in written if lines.parse("a.log", line)]) == len(marked) > 0


def test_an_id_that_is_nowhere(pair: LocalCluster) -> None:
    result = psp_trace(pair, "00000000-0000-4000-8000-000000000001")
    assert result.returncode == 1
    assert "other transactions from" in result.stderr
