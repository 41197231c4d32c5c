"""psp trace: what it reads of logs, how it places steps of servers whose clocks differ, what it prints."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psp.cli import app
from psp.trace import lines
from psp.trace.clocks import Bounds, narrowest
from psp.trace.lines import Event
from psp.trace.way import CAME_BACK, DECIDED, Way, way_of
from typer.testing import CliRunner, Result

TX = "3c7d9a52-8a51-4c0e-9a0b-6f0f6f0a8d11"
OTHER = "00000000-0000-4000-8000-000000000001"
BEGINS = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NAMES = st.sampled_from(sorted(lines.EVENTS))
VALUES = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
FIELDS = st.dictionaries(st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True), VALUES, max_size=5)
ZONES = st.integers(-12 * 60, 14 * 60)


def without_names_of_its_own(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name not in ("tx", "event", "time")}


def shown_value(value: str) -> str:
    return value if re.fullmatch("[-a-zA-Z0-9_.:+]+", value) else json.dumps(value, ensure_ascii=False)


def text_line(event: Event, zone_minutes: int = 0, daemon: str = "psp-semi-primary") -> str:
    """As common/log.cc writes it."""
    time = event.time.astimezone(timezone(timedelta(minutes=zone_minutes)))
    fields = {"tx": event.tx, **event.fields}
    shown = " ".join(f"{name}={shown_value(value)}" for name, value in fields.items())
    return f"{time:%Y-%m-%d %H:%M:%S.%f%z} {daemon} info: {event.name} {shown}"


def json_line(event: Event) -> str:
    time = f"{event.time:%Y-%m-%dT%H:%M:%S.%f}Z"
    members = {"time": time, "daemon": "psp-primary", "level": "info", "event": event.name, "tx": event.tx}
    return json.dumps({**members, **event.fields}, separators=(",", ":"))


@given(NAMES, FIELDS, ZONES, st.sampled_from(["", "Mar 01 12:00:00 host psp-semi-primary[7]: "]))
def test_both_formats_are_read(name: str, fields: dict[str, str], zone: int, before: str) -> None:
    event = Event("a.log", BEGINS, name, TX, without_names_of_its_own(fields))
    assert lines.parse("a.log", before + text_line(event, zone) + "\n") == event
    also = Event("a.log", BEGINS, name, TX, {**event.fields, "daemon": "psp-primary", "level": "info"})
    found = lines.parse("a.log", before + json_line(event) + "\r\n")
    assert found is not None
    assert found.fields == {**also.fields, **event.fields}


@given(st.text() | st.binary().map(lambda some: some.decode(errors="replace")))
def test_any_line_is_read_without_an_error(line: str) -> None:
    assert lines.parse("a.log", line) is None


@given(NAMES, FIELDS, st.data())
def test_a_damaged_line_is_read_without_an_error(name: str, fields: dict[str, str], data: Any) -> None:
    event = Event("a.log", BEGINS, name, TX, without_names_of_its_own(fields))
    whole = data.draw(st.sampled_from([text_line(event), json_line(event)]))
    at = data.draw(st.integers(0, len(whole)))
    damaged = whole[:at] + data.draw(st.text(max_size=4)) + whole[data.draw(st.integers(at, len(whole))) :]
    lines.parse("a.log", damaged)


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-01 12:00:00.000000+0000 psp-primary info: stopped",
        f"2026-03-01 12:00:00.000000+0000 psp-primary info: decided tx={TX} and more words",
        f"2026-03-01 12:00:00.000000+0000 psp-primary warning: job 1.1: decided tx={TX} sp=a",
        f"2026-03-01 12:00:00.000000 psp-primary info: decided tx={TX}",  # no zone
        f"2026-13-01 12:00:00.000000+0000 psp-primary info: decided tx={TX}",
        "2026-03-01 12:00:00.000000+0000 psp-primary info: decided tx=7",
        f'{{"time":"2026-03-01T12:00:00.000000Z","event":"unheard","tx":"{TX}"}}',
        f'{{"time":"2026-03-01T12:00:00.000000Z","event":"decided","tx":"{TX}"',
        '{"time":"2026-03-01T12:00:00.000000Z","event":"decided","tx":["tx"]}',
        '{"time":' + "[" * 100_000 + "tx",
    ],
)
def test_what_is_no_event_is_passed_over(line: str) -> None:
    assert lines.parse("a.log", line) is None


def test_a_terminal_gets_no_control_characters() -> None:
    event = lines.parse("a.log", json_line(Event("a.log", BEGINS, lines.DECIDED, TX, {"sp": "a\x1b[2J"})))
    assert event is not None
    assert event.fields["sp"] == "a\ufffd[2J"


class World:
    """Servers whose clocks differ, and what they log."""

    def __init__(self, **ahead_ms: float) -> None:
        self.ahead_ms = ahead_ms
        self.events: list[Event] = []

    def log(self, server: str, at_ms: float, name: str, tx: str = TX, **fields: str | float) -> None:
        time = BEGINS + timedelta(milliseconds=at_ms + self.ahead_ms[server])
        told = {key: str(value) for key, value in fields.items()}
        self.events.append(Event(f"{server}.log", time, name, tx, told))

    def commit(
        self, sp: str, tx: str = TX, at_ms: float = 0, way_ms: float = 30, back_ms: float = 30
    ) -> None:
        """It takes 1 ms at the semi-primary, and 6 at the primary."""
        arrived = at_ms + 1 + way_ms
        decided = arrived + 6
        end = decided + back_ms
        self.log("primary", decided, lines.DECIDED, tx, sp=sp, outcome="committed", global_t=41, total_ms=6,
                 parked_ms=0, queue_ms=2, certify_ms=4)  # fmt: skip
        self.log(sp, end, lines.COMMIT_ANSWERED, tx, sp=sp, outcome="committed", global_t=41,
                 total_ms=end - at_ms, check_ms=1, away_ms=end - at_ms - 1, answer_ms=0)  # fmt: skip


def way(world: World) -> Way:
    found = way_of(TX, world.events)
    assert found is not None
    return found


def names(found: Way) -> list[tuple[str, str]]:
    return [(one.step.where, one.step.name) for one in found.steps]


@given(st.floats(-5e6, 5e6), st.floats(1, 500), st.floats(1, 500))
def test_a_clock_is_found_within_the_uncertainty(ahead: float, way_ms: float, back_ms: float) -> None:
    world = World(lisbon=0, primary=ahead)
    world.commit("lisbon", way_ms=way_ms, back_ms=back_ms)
    found = way(world)
    clock = found.clocks["primary.log"]
    assert abs(clock.middle * 1000 - ahead) <= clock.uncertainty * 1000 + 0.01
    assert clock.uncertainty * 1000 == pytest.approx((way_ms + back_ms) / 2, abs=0.01)
    # Who sends does so before the other one has it.
    assert [where for where, _ in names(found)] == ["lisbon"] * 2 + ["primary"] * 3 + ["lisbon"] * 2


def test_a_request_near_to_the_primary_makes_it_more_certain() -> None:
    world = World(lisbon=0, primary=1000)
    world.commit("lisbon")
    wide = way(world).clocks["primary.log"].uncertainty
    world.commit("lisbon", OTHER, at_ms=200, way_ms=3, back_ms=3)
    assert way(world).clocks["primary.log"].uncertainty < wide / 5


def test_a_clock_that_was_set_meanwhile_is_told_by_this_transaction_alone() -> None:
    world = World(lisbon=0, primary=1000)
    world.commit("lisbon")
    world.ahead_ms["primary"] = -2000
    world.commit("lisbon", OTHER, at_ms=200)
    assert way(world).clocks["primary.log"].middle == pytest.approx(1, abs=0.031)


def test_old_transactions_tell_nothing_of_clocks() -> None:
    world = World(lisbon=0, primary=1000)
    world.commit("lisbon")
    alone = way(world).clocks["primary.log"]
    world.commit("lisbon", OTHER, at_ms=-600_000, way_ms=3, back_ms=3)
    assert way(world).clocks["primary.log"] == alone


def test_the_clock_of_another_semi_primary_needs_both_ways() -> None:
    world = World(lisbon=0, primary=0, tokyo=700)
    world.commit("lisbon")
    world.log("tokyo", 140, lines.APPLIED, sp="tokyo", from_sp="lisbon", global_t=41, total_ms=3)
    assert not way(world).clocks["tokyo.log"].is_known
    world.commit("tokyo", OTHER, at_ms=300, way_ms=90, back_ms=90)
    clock = way(world).clocks["tokyo.log"]
    assert clock.is_known
    assert clock.middle == pytest.approx(0.7, abs=clock.uncertainty)
    assert names(way(world))[-2:] == [("tokyo", "received from the stream"), ("tokyo", "applied")]


def test_what_has_a_line_of_its_own_is_not_reckoned() -> None:
    world = World(lisbon=0, primary=0)
    world.log("lisbon", 0, lines.COMMIT_RECEIVED, sp="lisbon", watermark=40, rows=1, bytes=99)
    world.log("lisbon", 1, lines.COMMIT_SENT, sp="lisbon")
    world.commit("lisbon")
    told = {(one.step.name, one.step.is_reckoned) for one in way(world).steps if one.step.where == "lisbon"}
    assert told == {
        ("COMMIT received", False), ("sent to the primary", False), (CAME_BACK, True), ("answered", False),
    }  # fmt: skip


def test_bounds_that_contradict_each_other_are_none() -> None:
    assert narrowest([Bounds(0, 1), Bounds(0.5, 3)]) == Bounds(0.5, 1)
    assert narrowest([Bounds(0, 1), Bounds(2, 3)]) is None


def run(tmp_path: Path, world: World, wanted: str, *options: str) -> Result:
    files: dict[str, list[str]] = {}
    for number, event in enumerate(world.events):
        write = text_line if number % 2 else json_line
        files.setdefault(event.file, ["what a daemon has said before"]).append(write(event))
    for name, written in files.items():
        (tmp_path / name).write_text("\n".join([*written, ""]))
    paths = [str(tmp_path / name) for name in files]
    return CliRunner().invoke(app, ["trace", wanted, *paths, *options])


def a_world() -> World:
    world = World(lisbon=0, primary=400, tokyo=0)
    world.commit("lisbon")
    world.log("tokyo", 140, lines.APPLIED, sp="tokyo", from_sp="lisbon", global_t=41, total_ms=3)
    return world


@pytest.mark.parametrize("wanted", [TX, TX.upper(), TX.replace("-", ""), "41"])
def test_the_way_is_printed(tmp_path: Path, wanted: str) -> None:
    result = run(tmp_path, a_world(), wanted)
    assert result.exit_code == 0, result.output
    assert f"transaction {TX}: committed as 41" in result.stdout
    assert re.search(r"30\.0 +0\.000 primary +~ request received", result.stdout), result.stdout
    assert "give or take 30.000 ms" in result.stdout


def test_programs_get_json(tmp_path: Path) -> None:
    told = json.loads(run(tmp_path, a_world(), TX, "--json").stdout)
    assert (told["tx"], told["outcome"], told["global_t"]) == (TX, "committed", 41)
    decided = next(step for step in told["steps"] if step["step"] == DECIDED)
    assert decided["in_file_ms"] == 6
    assert decided["uncertainty_ms"] == 30
    assert told["steps"][-1]["uncertainty_ms"] is None  # tokyo has sent nothing
    assert [Path(clock["file"]).name for clock in told["clocks"]] == [
        "lisbon.log",
        "primary.log",
        "tokyo.log",
    ]


def test_who_applies_a_transaction_knows_that_it_has_committed(tmp_path: Path) -> None:
    world = World(tokyo=0)
    world.log("tokyo", 140, lines.APPLIED, sp="tokyo", from_sp="lisbon", global_t=41, total_ms=3)
    output = run(tmp_path, world, TX).stdout
    assert "committed as 41" in output
    assert "No file here is the log of the semi-primary that was asked to commit it" in output


def test_a_semi_primary_may_be_called_primary(tmp_path: Path) -> None:
    world = World(primary=0)
    end = {"outcome": "lost", "winner_t": "40", "winner_sp": "[b]a[/b]", "total_ms": "5"}
    world.log("primary", 5, lines.COMMIT_ANSWERED, sp="primary", **end)
    output = run(tmp_path, world, TX).stdout
    assert "lost to 40 of [b]a[/b]" in output
    assert "No file here is the primary's log" in output


def test_an_unknown_outcome_is_explained(tmp_path: Path) -> None:
    world = World(lisbon=0)
    world.log("lisbon", 10_000, lines.COMMIT_ANSWERED, sp="lisbon", outcome="in_doubt", sqlstate="08007",
              total_ms=10_000, check_ms=1)  # fmt: skip
    output = run(tmp_path, world, TX).stdout
    assert "in doubt (08007)" in output
    assert "psp.outcome tells it for good" in output
    assert "No file here is the primary's log" in output


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_id_that_is_nowhere(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = run(tmp_path, a_world(), OTHER, *options)
    assert result.exit_code == 1
    assert f"tells of {OTHER}" in result.output
    assert "they tell of 1 other transaction from 2026-03-01 12:00:00" in result.output


def test_logs_without_transactions_name_the_setting(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-03-01 12:00:00.000000+0000 psp-primary info: stopped\n")
    result = CliRunner().invoke(app, ["trace", TX, str(tmp_path / "a.log")])
    assert result.exit_code == 1
    assert "log_commits_one_in: 1" in result.output


@pytest.mark.parametrize(("wanted", "file"), [("nonsense", "a.log"), (TX, "missing.log"), (TX, ".")])
def test_what_cannot_be_read_is_told(tmp_path: Path, wanted: str, file: str) -> None:
    (tmp_path / "a.log").write_text("")
    result = CliRunner().invoke(app, ["trace", wanted, str(tmp_path / file)])
    assert result.exit_code == 1
    assert "error:" in result.output


def test_standard_input_is_a_file() -> None:
    text = "\n".join(text_line(event) for event in a_world().events)
    result = CliRunner().invoke(app, ["trace", "41", "-"], input=text)
    assert result.exit_code == 0, result.output
