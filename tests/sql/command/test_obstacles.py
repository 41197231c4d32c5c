"""What servers do not have alike: what the schema check says of each kind of it."""

import pytest
from psp.cluster.obstacles import Server, Things, compare
from psp.problems import Problem


def compared(north: Things, south: Things) -> list[Problem]:
    return compare({"north": Server(north, None, None), "south": Server(south, None, None)})


def test_what_is_the_same_is_no_problem() -> None:
    things = {("role", "r"): "member of s", ("changer", "r"): "", ("extension", "e"): "1.0"}
    assert compared(things, things) == []


TOLD: list[tuple[str, Things, Things, str, str]] = [
    ("role", {("role", "r"): ""}, {}, "warning", "CREATE ROLE at south"),
    ("changer", {("role", "r"): "", ("changer", "r"): ""}, {}, "error", "CREATE ROLE at south"),
    ("member", {("role", "r"): "member of a"}, {("role", "r"): ""}, "warning",
     "north: member of a; south: none"),
    ("tablespace", {}, {("tablespace", "t"): ""}, "warning", "CREATE TABLESPACE at north"),
    ("installed", {("extension", "e"): "1.0", ("available extension", "e"): ""},
     {("available extension", "e"): ""}, "warning", "CREATE, ALTER or DROP EXTENSION"),
    ("versions", {("extension", "e"): "1.0", ("available extension", "e"): ""},
     {("extension", "e"): "1.1", ("available extension", "e"): ""}, "warning", "north: 1.0; south: 1.1"),
    ("no-package", {("extension", "e"): "1.0", ("available extension", "e"): ""},
     {("extension", "e"): "1.0"}, "warning", "not at south"),
    ("available", {}, {("available extension", "e"): ""}, "note", "not at north"),
    ("collation", {("collation", "pg_catalog.sv"): ""}, {}, "note", "only at north"),
    ("locale", {("locale of", "the database"): "c, C"}, {("locale of", "the database"): "i, sv"}, "warning",
     "north: c, C; south: i, sv"),
    ("version", {("version of", "PostgreSQL"): "15"}, {("version of", "PostgreSQL"): "16"}, "warning",
     "north: 15; south: 16"),
    ("rights", {("rights on", "the database"): "a: CREATE"}, {("rights on", "the database"): "b: CREATE"},
     "warning", "north: a: CREATE"),
    ("settings", {("settings of", "role r"): "a=b"}, {}, "note", "only at north"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("north", "south", "severity", "text"), [told[1:] for told in TOLD], ids=[told[0] for told in TOLD]
)
def test_it_is_told_once(north: Things, south: Things, severity: str, text: str) -> None:
    (problem,) = compared(north, south)
    assert problem.severity == severity
    assert text in f"{problem.problem} {problem.hint}"


def test_a_server_without_schema_changes_is_told_beside_others_only() -> None:
    guarded, unguarded = (Server({}, None, None, found) for found in (True, False))
    (problem,) = compare({"north": guarded, "south": unguarded})
    assert problem.severity == "error"
    assert "stops south for good" in problem.problem
    plain = Server({}, None, None)
    assert compare({"north": unguarded, "south": unguarded, "plain": plain}) == []


def test_the_databases_rights_are_not_compared_while_one_joins() -> None:
    """It keeps clients out."""
    here, there = ({("rights on", "the database"): f"{name}: CONNECT"} for name in ("PUBLIC", "pg_monitor"))
    assert len(compared(here, there)) == 1
    assert compare({"a": Server(here, None, None), "b": Server(there, None, None, joining=True)}) == []


def test_collations_of_another_icu_are_one_note() -> None:
    names = ("af-x-icu", "ak-x-icu", "zu-x-icu")
    (problem,) = compared({("collation", f"pg_catalog.{name}"): "" for name in names}, {})
    assert (problem.severity, problem.problem) == ("note", "it is only at north")
    assert problem.object == "collation pg_catalog.af-x-icu and 2 others"


def test_views_are_compared_with_those_of_the_same_version() -> None:
    """Each version of PostgreSQL may write them otherwise."""

    def differing(*servers: tuple[str, str]) -> set[str]:
        found = {
            str(n): Server({("version of", "PostgreSQL"): version}, {("view", "v"): text}, None)
            for n, (version, text) in enumerate(servers)
        }
        return {problem.object for problem in compare(found)} - {"version of PostgreSQL"}

    assert differing(("15", "SELECT t.a"), ("18", "SELECT a")) == set()
    assert differing(("15", "SELECT t.a"), ("18", "SELECT a"), ("18", "SELECT b")) == {"view v"}
    assert differing(("18", "SELECT a"), ("18", "SELECT b")) == {"view v"}
