"""psp top: what it makes of servers' answers, in words and at 80 columns."""

import io
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psp.cli import app
from psp.watch import gather
from psp.watch.advice import advice
from psp.watch.combine import Told, combine
from psp.watch.commit_parts import cause
from psp.watch.headline import headline
from psp.watch.model import Headline, Server, View
from psp.watch.remedies import remedy_parts
from psp.watch.screen import number, render
from rich.console import Console
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PRIMARY = Server("host=p dbname=psp", "primary", "primary")


def member(name: str, **more: Any) -> dict[str, Any]:
    known = {
        "sp_id": 1, "name": name, "zone": "", "registered_at": NOW, "state": "member", "acked_t": 9,
        "behind": 0, "is_connected": True, "seen_at": NOW, "keeps_bytes": None,
    }  # fmt: skip
    return known | more


def conflict(loser: str, losses: int, **more: Any) -> dict[str, Any]:
    known = {
        "loser": loser, "within": 60, "rank": 1, "table_name": "public.item", "key": "(id)=(1)",
        "kind": "row", "losses": losses, "losses_error": 0, "percent": 100, "waited_ms": 5,
        "winners": "lisbon: 2, tokyo: 1",
        "columns": "stock", "index_name": None, "query_id": 7, "statement": None,
        "remedy": "split it: psp mrv create public.item.stock DSN",
    }  # fmt: skip
    return known | more


def primary(*members: dict[str, Any], **more: Any) -> Told:
    known = {
        "epoch": 3, "state": "adopted", "mode": "native", "catalog_version": 2, "newest_t": 9,
        "log_begins_t": 1, "log_bytes": 2**20, "is_served": True, "certified_by": "module", "copies": 0,
        "synchronous_standby_names": "", "synchronous_standbys": 0, "waits_for_standbys_s": None,
        "standstill": None, "standstill_s": None, "hands_over": False, "disk_free_bytes": 81 * 2**30,
        "disk_bytes": 2**38, "losses": None, "conflicts": [],
    }  # fmt: skip
    return Told(PRIMARY, known | {"semi_primaries": list(members)} | more)


def semi_primary(name: str, blockers: Any = (), conflicts: Any = (), jobs: Any = (), **more: Any) -> Told:
    status = {
        "name": name, "sp_id": 1, "state": "streaming", "watermark": 9, "closed_t": 9, "lag_transactions": 0,
        "lag_ms": 0.5, "commits_per_s": 12.5, "aborts_per_s": 0.0, "rtt_ms": 30.1, "commits_total": 100,
        "aborts_total": 3, "waiting": 0, "last_error": None, "updated_at": str(NOW), "warnings": None,
        "losses_per_s": 0.0, "losses_total": 2, "reserved": None, "can_commit": True,
    }  # fmt: skip
    facts = {
        "status": status | more, "blockers": list(blockers), "conflicts": list(conflicts), "postgres": "15.1",
        "sees_jobs": bool(jobs), "jobs": list(jobs),
    }  # fmt: skip
    return Told(Server(f"host={name}", "semi-primary", name), facts)


def silent(name: str | None) -> Told:
    return Told(Server("host=gone", "semi-primary" if name else None, name, "connection refused"))


def view(*told: Told) -> View:
    return combine(told, NOW)


def shown(made: View, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render(made))
    return out.getvalue()


def test_the_primary_lists_all_members_and_semi_primaries_add_what_they_know() -> None:
    made = view(primary(member("lisbon"), member("tokyo", is_connected=False)), semi_primary("lisbon"))
    lisbon, tokyo = made.zones
    assert (lisbon.state, lisbon.rtt_ms, lisbon.is_connected) == ("streaming", 30.1, True)
    assert (tokyo.state, tokyo.can_commit, tokyo.answers) == ("away", False, False)


def test_without_the_primary_a_semi_primary_speaks_for_itself() -> None:
    assert headline(view(semi_primary("lisbon"))) == Headline("ok", "lisbon can write.")
    made = view(semi_primary("lisbon", can_commit=False, state="disconnected"))
    assert headline(made).sentence == "lisbon cannot write."


@pytest.mark.parametrize(
    ("told", "state", "sentence", "detail"),
    [
        ([primary(member("a")), semi_primary("a")], "ok", "Everybody can write.", ""),
        ([primary(member("a"))], "ok", "Everybody can write.", ""),
        (
            [primary(member("a"), conflicts=[conflict("a", 10)]), semi_primary("a", lag_ms=5001.0)],
            "ok",
            "Everybody can write.",
            "a is behind. One key is hot.",
        ),
        ([primary(member("a"), member("b", is_connected=False))], "warn", "b cannot write.", "not connected"),
        ([primary(member("a"), is_served=False)], "bad", "Nobody can write.", "psp-primary does not run"),
        (
            [primary(member("a"), standstill="standby", standstill_s=7), semi_primary("a", can_commit=False)],
            "bad",
            "Nobody can write.",
            "standbys lack what was written, for 7 s",
        ),
        ([primary(standstill="hearing: a", standstill_s=1)], "bad", "Nobody can write.", "has (a), for 1 s"),
        (
            [primary(member("a")), semi_primary("a", state="failed", can_commit=False, last_error="no room")],
            "bad",
            "Nobody can write.",
            "a: no room.",
        ),
        ([primary(is_served=False, hands_over=True)], "bad", "Nobody can write.", "hands over"),
        ([silent(None), semi_primary("a")], "ok", "a can write.", "host=gone does not answer."),
        ([silent("b"), semi_primary("a")], "warn", "a can write.", "b does not answer."),
        ([primary(member("b")), silent("b")], "warn", "Nobody tells", "b does not answer."),
        ([silent(None)], "unknown", "No server answers.", "host=gone does not answer."),
        ([primary()], "unknown", "No semi-primary has joined yet.", ""),
    ],
)
def test_can_everybody_write(told: list[Told], state: str, sentence: str, detail: str) -> None:
    found = headline(view(*told))
    assert (found.state, sentence in found.sentence, detail in found.detail) == (state, True, True), found


def test_losers_of_one_key_are_added_up() -> None:
    made = view(primary(member("a"), conflicts=[conflict("a", 3), conflict("b", 40, winners="a: 40")]))
    (key,) = made.hot_within(60)
    assert (key.losses, key.losers) == (43, {"b": 40, "a": 3})
    assert key.winners == {"a": 40, "lisbon": 2, "tokyo": 1}


def test_the_words_of_a_statement_are_those_of_its_loser() -> None:
    """Another semi-primary's statement may have the same number."""
    words = "UPDATE item SET stock = stock - $1 WHERE id = $2"
    mine, other = conflict("a", 3, statement=words), conflict("b", 3, query_id=8, statement="DELETE FROM x")
    told = [semi_primary("a", conflicts=[mine]), semi_primary("b", conflicts=[other])]
    row = {key: value for key, value in conflict("a", 3).items() if key != "statement"}
    (key,) = view(primary(conflicts=[row]), *told).hot_keys
    assert key.statement == words
    assert words in " ".join(shown(view(*told)).split())
    (silent_key,) = view(primary(conflicts=[row | {"loser": "c"}]), *told).hot_keys
    assert silent_key.statement is None


@pytest.mark.parametrize(
    ("remedy", "text", "command"),
    [
        ("split it: psp mrv create t.n DSN (docs/mrv.md)", "Split it (docs/mrv.md)", "psp mrv create t.n {}"),
        (
            "split: psp mrv create 'a: DSN' DSN; psp mrv create b DSN",
            "Split",
            "psp mrv create 'a: DSN' {}; psp mrv create b {}",
        ),
        ("run it again after a pause", "Run it again after a pause", None),
        (None, "", None),
    ],
)
def test_a_remedys_command(remedy: str | None, text: str, command: str | None) -> None:
    rows = [conflict("a", 3, remedy=remedy)]
    alone = view(primary(conflicts=rows))
    assert remedy_parts(alone.hot_keys[0], alone) == (text, command and command.replace("{}", "DSN"))
    asked = view(Told(Server("host=x user='o n'", "semi-primary", "a"), semi_primary("a").facts))
    assert remedy_parts(alone.hot_keys[0], asked)[1] == (
        command and command.replace("{}", shlex.quote("host=x user='o n'"))
    )


def test_keys_that_may_not_be_seen_stay_apart() -> None:
    rows = [conflict("a", 3, key=None), conflict("a", 2, key=None, rank=2)]
    assert [key.losses for key in view(semi_primary("a", conflicts=rows)).hot_keys] == [3, 2]


@pytest.mark.parametrize(
    ("told", "title", "command"),
    [
        (primary(is_served=False), "Start psp-primary", "systemctl start psp-primary"),
        (
            primary(standstill="standby", copies=1),
            "lost for good",
            "psp primary copies 'host=p dbname=psp' 0",
        ),
        (primary(standstill="no batch ends"), "lock on a table of psp", "pg_blocking_pids"),
        (primary(standstill="ahead: a"), "Promote the server that has", None),
        (primary(is_served=False, hands_over=True), "the standby promoted", None),
        (primary(hands_over=True), "switchover stopped half-way", "switchover 'host=p dbname=psp' STANDBY"),
        (primary(standstill="what is new"), "Read psp-primary's log", None),
        (
            primary(member("far off", is_connected=False, keeps_bytes=2**30)),
            "Is far off lost",
            "psp primary remove 'host=p dbname=psp' 'far off'",
        ),
        (semi_primary("a", state="stopped", can_commit=False), "daemon of a", "psp-semi-primary"),
        (semi_primary("a", state="retrying", last_error="no room"), "keeps a from applying", None),
        (primary(conflicts=[conflict("a", 50)]), "public.item (id)=(1): 50 losses", "psp mrv create"),
        (primary(conflicts=[conflict("a", 50, remedy="retry")]), "public.item (id)=(1): 50 losses", None),
        (semi_primary("a", lag_ms=7200.0), "why a is behind", None),
        (silent("a"), "why a does not answer", "psql host=gone -c 'SELECT 1'"),
    ],
)
def test_what_to_do(told: Told, title: str, command: str | None) -> None:
    found = [one for one in advice(view(told)) if title in one.title]
    assert len(found) == 1, advice(view(told))
    assert (command in (found[0].command or "")) if command else found[0].command is None


@pytest.mark.parametrize("state", ["failed", "retrying", "blocked"])
@pytest.mark.parametrize("can_commit", [True, False])
def test_an_error_stands_once(state: str, can_commit: bool) -> None:
    told = {"state": state, "can_commit": can_commit, "last_error": "no room on disk 7."}
    text = " ".join(shown(view(primary(), semi_primary("a", **told), semi_primary("b", **told))).split())
    assert text.count("no room on disk 7") == (0 if can_commit and state == "blocked" else 1), text


def test_a_hand_over_is_no_daemon_to_start() -> None:
    found = advice(view(primary(is_served=False, hands_over=True)))
    assert not any("Start psp-primary" in one.title for one in found)


def test_nothing_is_to_be_done_when_all_is_well() -> None:
    assert advice(view(primary(member("a"), conflicts=[conflict("a", 2)]), semi_primary("a"))) == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, None),
        ({"commit_ms": 32.0, "network_ms": 30.1, "certify_ms": 1.9}, "the distance; psp adds 1.9 ms"),
        ({"commit_ms": 43.0, "network_ms": 30.1, "parked_ms": 11.0, "certify_ms": 1.9}, "11.0 ms parked"),
        ({"commit_ms": 90.0, "network_ms": 88.1, "certify_ms": 1.9}, "58.0 ms on the way, beyond"),
        (
            {"commit_ms": 9.0, "network_ms": 0.1, "check_ms": 8.9, "rtt_ms": None},
            "8.9 ms before they are sent",
        ),
        ({"commit_ms": 60.0, "network_ms": 30.1, "certify_ms": 29.9}, "29.9 ms until they are durable"),
    ],
)
def test_what_makes_a_commit_slow(more: dict[str, float], told: str | None) -> None:
    (zone,) = view(semi_primary("a", **more)).zones
    found = cause(zone)
    assert found is None if told is None else found is not None and told in found


BLOCKER = {"pid": 42, "role": "app", "application": "report", "age_s": 3.5, "waits": False}


TIMES = {
    "commit_ms": 1234.5, "commit_p99_ms": 23456.7, "check_ms": 0.1, "network_ms": 190.2,
    "parked_ms": 1010.0, "queue_ms": 31.0, "certify_ms": 3.1, "answer_ms": 0.1,
}  # fmt: skip


def test_the_screen_fits_80_columns() -> None:
    names = [f"a-rather-long-name-{n}" for n in range(5)]
    members = [member(name, seen_at=NOW, keeps_bytes=3 * 2**20) for name in names]
    away = member("sydney", is_connected=False, keeps_bytes=2**31)
    told = [
        semi_primary(
            name, state="disconnected", commits_per_s=12345.6, aborts_per_s=1234.5, losses_per_s=1234.5,
            waiting=12345, rtt_ms=1234.5, lag_ms=123456.7, lag_transactions=1234567, blockers=[BLOCKER],
            warnings="a sequence is near its end", can_commit=True, **TIMES,
        )
        for name in names
    ]  # fmt: skip
    hot = [conflict(name, 612, key="(" + "x" * 500 + ")") for name in names]
    text = shown(view(primary(*members, away, conflicts=hot), *told))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    for part in (
        "sydney is away, last heard 2026-01-02 03:04:05", "for session 42 (app, report)", "psp mrv create",
        "3,060 public.item", "1.235M", "disconnected", "a sequence is near",
        "parked queue certify answer", "23,457", "1,234", "1,010", "81.0 GiB free",
        "1010.0 ms parked at the primary",
    ):  # fmt: skip
        assert part in " ".join(text.split()), part


def test_what_a_database_holds_cannot_command_a_terminal() -> None:
    text = shown(view(semi_primary("a", conflicts=[conflict("a", 1, key="(v)=(\x1b]0;x\x07[red]\n)")])))
    assert "\x1b" not in text and "\x07" not in text and "[red]" in text


def test_real_databases_without_daemons(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    pair.adopt()
    sources = [gather.Source(dsn) for dsn in (pair.primary_dsn, pair.dsn, pair.server.dsn("postgres"))]
    made = gather.look(sources)
    assert [(s.kind, bool(s.error)) for s in made.servers] == [
        ("primary", False), ("semi-primary", False), (None, True),
    ]  # fmt: skip
    assert [(zone.name, zone.state, zone.can_commit) for zone in made.zones] == [("one", "stopped", False)]
    assert headline(made).state == "bad"
    again = gather.look(sources)
    assert replace(again, taken_at=made.taken_at).zones == made.zones


def test_names_of_users_are_not_found_first(pair: Pair) -> None:
    """The owner of a database sets its search_path: no function of his runs as the superuser who looks."""
    pair.adopt()
    pair.run(
        f"""
        SET psp.schema_changes = local;
        CREATE SCHEMA trap;
        CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'run as %', current_user; END $$;
        ALTER DATABASE {pair.name} SET search_path = trap, pg_catalog;
        """
    )
    (found,) = gather.look([gather.Source(pair.dsn)]).servers
    assert (found.kind, found.error) == ("semi-primary", None)


def test_code_of_an_ordinary_role_is_not_run_as_a_superuser(pair: Pair) -> None:
    pair.run(f"CREATE SCHEMA psp AUTHORIZATION {APPLICATION}; CREATE VIEW psp.status AS SELECT 1 / 0 AS name")
    (found,) = gather.look([gather.Source(pair.dsn)]).servers
    assert found.kind is None and "name user=application" in (found.error or "")


def test_a_password_is_not_shown(pair: Pair) -> None:
    dsn = f"{pair.server.dsn('postgres')} password=secret"
    done = CliRunner().invoke(app, ["top", dsn, "--once", "--json"])
    assert done.exit_code == 0 and "secret" not in done.output and "neither a semi-primary" in done.output


def test_a_string_that_is_none(pair: Pair) -> None:
    done = CliRunner().invoke(app, ["top", "host=a nonsense", "--once"])
    assert done.exit_code == 1 and not isinstance(done.exception, psycopg.Error)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.04, "0.0"), (99.94, "99.9"), (123.4, "123"), (99_999, "99,999"), (99_999.7, "100k"),
     (1_234_567, "1.235M"), (7, "7")],
)  # fmt: skip
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert number(value) == text


def test_long_texts_are_wrapped() -> None:
    """Those that a screen cuts off would be lost."""
    dsn = "host=127.0.0.1 port=1 dbname=x"
    done = CliRunner().invoke(app, ["top", dsn, "--once"], env={"COLUMNS": "80"})
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "Connection refused" in " ".join(done.stdout.split())
