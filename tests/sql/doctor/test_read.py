"""What psp doctor reads of real databases, and that a superuser's session runs nothing of users."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from psp.cli import app
from psp.doctor import read
from psp.doctor.facts import Facts
from psp.doctor.rules import judge
from psp.output import console
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair


@pytest.fixture
def adopted(pair: Pair) -> Pair:
    pair.run(f"CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t OWNER TO {APPLICATION}")
    pair.adopt()
    return pair


def told(facts: Facts, point: str) -> str:
    (found,) = [finding for finding in judge(facts) if finding.point == point]
    return " | ".join(f"{p.severity} {p.object}: {p.problem} ({p.hint})" for p in found.problems)


def test_a_cluster_is_read(adopted: Pair) -> None:
    facts = read.read_cluster([adopted.primary_dsn, adopted.dsn])
    assert [(server.name, server.trouble) for server in facts.servers] == [("primary", None), ("one", None)]
    assert "psp-primary does not run" in told(facts, "psp-primary")
    assert "its state is stopped" in told(facts, "streams")
    assert told(facts, "one cluster") == ""
    assert told(facts, "schemas are alike") == ""
    assert f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}" in told(facts, "roles and grants")
    assert "fsync is off" in told(facts, "durability")


def test_servers_that_cannot_be_read_are_findings(pair: Pair) -> None:
    nobody = "host=127.0.0.1 port=1 dbname=x"
    done = CliRunner().invoke(app, ["doctor", nobody, "not a connection string", pair.dsn, "--json"])
    found = json.loads(done.stdout)
    (answers,) = [point for point in found["points"] if point["point"] == "every server answers"]
    assert (done.exit_code, found["verdict"], answers["verdict"]) == (2, "wrong", "wrong")
    problems = [problem["problem"] for problem in answers["problems"]]
    assert len(problems) == 3
    assert "does not answer" in problems[0]
    assert "cannot be looked at" in problems[1]
    assert problems[2] == "the database is not under psp"


def test_one_that_never_answers_holds_up_no_other(adopted: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "ANSWER_MAX_S", 15)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        frozen = f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=x connect_timeout=300"
        facts = read.read_cluster([frozen, adopted.primary_dsn, frozen, adopted.dsn])
    assert [server.name for server in facts.servers[1::2]] == ["primary", "one"]
    assert [server.trouble for server in facts.servers[1::2]] == [None, None]
    for server in facts.servers[::2]:
        assert server.name.startswith("host=127.0.0.1 port=")
        assert "it has not told all within 15 s" in (server.trouble or "")
    assert "does not answer" in told(facts, "every server answers")


def test_another_version_is_told_and_not_read(adopted: Pair) -> None:
    adopted.run("UPDATE psp.identity SET schema_version = 1")
    found = read.read_server(adopted.dsn, "one")
    assert (found.schema_version, found.member) == (1, None)
    assert "has version 1" in told(Facts((found,)), "versions")


def test_a_superuser_asks_nothing_of_a_schema_of_somebody_else(pair: Pair) -> None:
    """The owner of schema psp could have put a function there that would run as the superuser."""
    pair.run(
        f"""
        CREATE SCHEMA psp; CREATE TABLE psp.ran (n int);
        CREATE FUNCTION psp.bad() RETURNS text LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'run as %', current_user; END $$;
        CREATE VIEW psp.identity AS SELECT psp.bad() AS name, 24 AS schema_version;
        ALTER SCHEMA psp OWNER TO {APPLICATION};
        """
    )
    found = read.read_server(pair.dsn, "one")
    assert found.trouble is not None
    assert f"schema psp belongs to {APPLICATION}" in found.trouble
    assert found.member is None


def test_names_of_users_are_not_found_first(adopted: Pair) -> None:
    """The database's search_path, and functions with better matching arguments, do not reach doctor."""
    adopted.run(
        f"""
        SET psp.schema_changes = local;
        CREATE SCHEMA trap;
        CREATE FUNCTION trap.age(xid) RETURNS integer LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'run as %', current_user; END $$;
        ALTER DATABASE {adopted.name} SET search_path = trap, pg_catalog;
        """
    )
    found = read.read_server(adopted.dsn, "one")
    assert found.trouble is None
    assert found.health is not None
    assert found.member is not None


MENDED: list[tuple[str, str, str, str]] = [
    ("open schema", "GRANT CREATE ON SCHEMA public TO PUBLIC", "search_paths", "schema public"),
    ("table", "ALTER TABLE t SET (autovacuum_enabled = off)", "vacuum and transaction ids", "public.t"),
    ("role", "CREATE ROLE reads_all IN ROLE pg_read_all_data", "roles and grants", "reads_all"),
    ("rights", "REVOKE pg_monitor FROM psp_semi_primary", "roles and grants", "lacks pg_monitor"),
    ("database", "ALTER DATABASE {} SET statement_timeout = '1s'", "timeouts", "statement_timeout=1s"),
    (
        "isolation",
        "ALTER ROLE application SET default_transaction_isolation = serializable",
        "isolation",
        "role appl",
    ),
]
UNDO = {
    "open schema": "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    "table": "ALTER TABLE t RESET (autovacuum_enabled)",
    "role": "DROP ROLE reads_all",
    "rights": "GRANT pg_monitor TO psp_semi_primary",
    "database": "ALTER DATABASE {} RESET statement_timeout",
    "isolation": "ALTER ROLE application RESET default_transaction_isolation",
}


@pytest.mark.parametrize(("what", "spoil", "point", "words"), MENDED, ids=[case[0] for case in MENDED])
def test_what_is_wrong_is_read_until_it_is_mended(
    adopted: Pair, what: str, spoil: str, point: str, words: str
) -> None:
    look: Callable[[], str] = lambda: told(read.read_cluster([adopted.dsn]), point)  # noqa: E731
    assert words not in look()
    adopted.run(spoil.format(adopted.name))
    try:
        assert words in look()
    finally:
        adopted.run(UNDO[what].format(adopted.name))
    assert words not in look()


def test_transactions_are_read(adopted: Pair) -> None:
    with adopted.connect() as connection:
        connection.execute("CREATE TEMPORARY TABLE x (n int)")
        health = read.read_server(adopted.dsn, "one").health
    assert health is not None
    assert health.transactions == []  # it is not a minute old
    assert [entry["name"] for entry in health.databases if entry["name"] == adopted.name] == [adopted.name]


def test_people_see_the_page_and_the_remedy(adopted: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 200)
    done = CliRunner().invoke(app, ["doctor", adopted.primary_dsn, adopted.dsn])
    shown: Any = " ".join(done.stdout.split())
    assert done.exit_code == 2
    assert "fine" in shown
    assert "docs/operating.md#high-availability-of-the-primary" in shown
    assert "--notes" in shown
    more = CliRunner().invoke(app, ["doctor", adopted.primary_dsn, adopted.dsn, "--notes"]).stdout
    assert "SQL cannot see" in more
