"""psp primary status and remove: who belongs to a cluster, and how a semi-primary that is lost leaves it."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from psp.cli import app
from psp.output import PspError
from psp.primary import members
from psp.primary.database import daemon_lock
from psp.schema.join import Replaces, prepare_join
from psp.sessions import open_session
from psp.sql_files import read_sql
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.sql.databases import Pair


@pytest.fixture
def cluster(pair: Pair) -> Pair:
    """`one` has all rows, `two` has joined and has none."""
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    pair.adopt()
    name = f"{pair.name}_two"
    pair.server.create_database(name)
    prepare_join(pair.server.dsn(name), pair.primary_dsn, "two", "far")
    return pair


def status(cluster: Pair) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["primary", "status", cluster.primary_dsn, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_status_tells_who_is_how_far(cluster: Pair) -> None:
    found = status(cluster)
    told = [(m["name"], m["zone"], m["state"], m["behind"]) for m in found["semi_primaries"]]
    assert told == [("one", "", "member", 0), ("two", "far", "joining", None)]
    assert (found["mode"], found["state"], found["is_served"]) == ("native", "adopted", False)
    shown = CliRunner().invoke(app, ["primary", "status", cluster.primary_dsn]).stdout
    assert "psp-primary does not run" in shown
    assert "joining" in shown


def test_a_semi_primary_joins_with_the_catalog_as_adopted(cluster: Pair) -> None:
    """The schema changes since then are rows, which come with the copy."""
    Pair(f"{cluster.name}_primary", cluster.server).run("UPDATE psp.cluster SET catalog_version = 4")
    three = Pair(f"{cluster.name}_three", cluster.server)
    cluster.server.create_database(three.name)
    prepare_join(three.dsn, cluster.primary_dsn, "three")
    with three.connect() as connection:
        assert connection.execute("SELECT catalog_version FROM psp.identity").fetchall() == [(1,)]


def test_a_role_of_a_schema_change_is_missing(cluster: Pair) -> None:
    Pair(f"{cluster.name}_primary", cluster.server).run(
        "INSERT INTO psp.data SELECT 0, record_send(ROW(1, n::int)), 1, 1, false, "
        "record_send(ROW(1, n::int, now(), 'süd'::text, r, '{}'::jsonb, 'CREATE VIEW'::text)) "
        "FROM unnest('{application,missing_ö,missing_a}'::text[]) WITH ORDINALITY u(r, n)"
    )
    three = Pair(f"{cluster.name}_three", cluster.server)
    cluster.server.create_database(three.name)
    with pytest.raises(PspError, match=r"do not exist here: missing_a, missing_ö$"):
        prepare_join(three.dsn, cluster.primary_dsn, "three")


def test_status_sees_the_daemon_by_its_lock(cluster: Pair) -> None:
    primary = Pair(f"{cluster.name}_primary", cluster.server)
    with primary.connect() as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", daemon_lock())
        assert status(cluster)["is_served"]


@pytest.mark.parametrize(
    ("names", "expected", "shown"),
    [
        ([], None, "psp-primary does not run, epoch"),
        (["psp-primary executor"], "sql", "and certifies by SQL"),
        (["psp-primary executor, module"] * 2, "module", "and certifies by the server module"),
        (["psp-primary executor", "psp-primary executor, module"], "sql", "and certifies by SQL"),
    ],
)
def test_status_tells_what_certifies(
    cluster: Pair, names: list[str], expected: str | None, shown: str
) -> None:
    with ExitStack() as sessions:
        for name in names:
            sessions.enter_context(psycopg.connect(cluster.primary_dsn, application_name=name))
        assert status(cluster)["certified_by"] == expected
        assert shown in str(members.show(members.gather(cluster.primary_dsn)).title)


def test_status_tells_who_is_connected_and_what_keeps_the_log(cluster: Pair) -> None:
    primary = Pair(f"{cluster.name}_primary", cluster.server)

    def found() -> dict[str, Any]:
        member: dict[str, Any]
        [member] = [m for m in status(cluster)["semi_primaries"] if m["name"] == "one"]
        return member

    def shown() -> str:
        console = Console(width=200, file=io.StringIO(), record=True)
        console.print(members.show(members.gather(cluster.primary_dsn)))
        return console.export_text()

    write = read_sql("primary/daemon/write_presence.sql")
    for parameter in (b"$1", b"$2", b"$3"):
        write = write.replace(parameter + b"::", b"%s::")
    write = write.split(b"\n", 1)[1]
    sp_id = found()["sp_id"]
    assert found()["is_connected"] is None, "no daemon runs"
    assert "never heard" in shown()
    with primary.connect() as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", daemon_lock())
        daemon.execute(write, ([sp_id], [1], [1500]))
        daemon.commit()
        assert found()["is_connected"] is True
        seen_at = found()["seen_at"]
        daemon.execute(write, ([sp_id], [0], [-1]))
        daemon.commit()
        assert found()["is_connected"] is False
        assert found()["seen_at"] == seen_at, "a new daemon knows no better"
        assert f"no, last heard {seen_at[:10]}" in shown()
    assert found()["keeps_bytes"] is None
    primary.run(
        "INSERT INTO psp.replication_log "
        "SELECT max(acked_t) + 1, gen_random_uuid(), 1, 'x' FROM psp.semi_primaries"
    )
    assert found()["keeps_bytes"] == status(cluster)["log_bytes"] > 0


@pytest.mark.parametrize(
    ("name", "expected", "shown"),
    [
        ("psp-primary watch", (None, None), None),
        ("psp-primary watch: standby, 12 s", ("standby", 12), "for 12 s so far: synchronous standbys lack"),
        ("psp-primary watch: no space, 3 s", ("no space", 3), "there is no space"),
        ("psp-primary watch: ahead: a, b, 3 s", ("ahead: a, b", 3), "waits until that is accepted (a, b)"),
    ],
)
def test_status_tells_that_nothing_can_be_decided(
    cluster: Pair, name: str, expected: tuple[str | None, int | None], shown: str | None
) -> None:
    with psycopg.connect(cluster.primary_dsn, application_name=name):
        found = members.gather(cluster.primary_dsn)
    assert (found["standstill"], found["standstill_s"]) == expected
    text = members.show_standstill(found)
    assert text == shown if shown is None else shown in (text or "")


def test_status_tells_who_has_lost_lately(cluster: Pair) -> None:
    assert status(cluster)["losses"] is None
    told = {
        "losers": [{"sp_id": 1, "losses_per_s": 1.5, "losses": 7, "reservations": 2, "used": 1}],
        "reservations": [
            {"sp_id": 2, "table_id": 1, "key": "00ff" * 20, "keys": 3, "age_ms": 120, "waiting": 4},
            {"sp_id": 2, "table_id": 99, "key": "", "keys": 1, "age_ms": 130, "waiting": 0},
        ],
    }
    primary = Pair(f"{cluster.name}_primary", cluster.server)
    with primary.connect() as daemon:
        daemon.execute(read_sql("primary/daemon/write_losses.sql").replace(b"$1", b"%s"), (json.dumps(told),))
    new = "UPDATE psp.losses SET updated_at = now() + interval '4 seconds'"  # a slow machine looks later
    primary.run(new)
    losses = status(cluster)["losses"]
    assert losses["losers"] == [
        {"name": "one", "losses_per_s": 1.5, "losses": 7, "reservations": 2, "used": 1}
    ]
    assert [(r["name"], r["table"], r["waiting"]) for r in losses["reservations"]] == [
        ("two", "table_id 99", 0),
        ("two", "public.t", 4),
    ]
    primary.run(new)
    shown = CliRunner().invoke(app, ["primary", "status", cluster.primary_dsn]).stdout
    assert "00ff…" in shown
    primary.run("UPDATE psp.losses SET updated_at = now() - interval '6 seconds'")
    assert status(cluster)["losses"] is None, "it says nothing about now"


def test_one_that_is_removed_is_waited_for_no_more(cluster: Pair) -> None:
    asked = CliRunner().invoke(app, ["primary", "remove", cluster.primary_dsn, "two"], input="n\n")
    assert asked.exit_code == 1
    assert len(status(cluster)["semi_primaries"]) == 2
    done = CliRunner().invoke(app, ["primary", "remove", cluster.primary_dsn, "two", "--yes"])
    assert done.exit_code == 0, done.output
    assert [m["name"] for m in status(cluster)["semi_primaries"]] == ["one"]
    again = CliRunner().invoke(app, ["primary", "remove", cluster.primary_dsn, "two", "--yes"])
    assert again.exit_code == 1
    assert "no semi-primary named two" in again.stderr


@contextmanager
def connected(cluster: Pair, name: str) -> Iterator[psycopg.Connection[Any]]:
    """As if psp-primary ran, with this semi-primary connected to it. Yields the daemon's session."""
    with psycopg.connect(cluster.primary_dsn, autocommit=True) as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", daemon_lock())
        daemon.execute(
            "UPDATE psp.semi_primaries SET is_connected = name = %s, "
            "seen_at = CASE WHEN name = %s THEN now() ELSE seen_at END",
            (name, name),
        )
        yield daemon


def remove(cluster: Pair, name: str, *options: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["primary", "remove", cluster.primary_dsn, name, *options], input=answer)


def test_one_that_is_connected_is_not_removed_without_force(cluster: Pair) -> None:
    with connected(cluster, "one"):
        refused = remove(cluster, "one", "--yes")
        assert refused.exit_code == 1
        assert "one is connected" in refused.stderr
        assert "stop its psp-semi-primary first" in refused.stderr
        assert "--force" in refused.stderr
        assert [m["name"] for m in status(cluster)["semi_primaries"]] == ["one", "two"]
        asked = remove(cluster, "one", "--force", answer="n\n")
        assert asked.exit_code == 1
        assert "can commit nothing any more" in asked.stderr
        done = remove(cluster, "one", "--force", "--yes")
        assert done.exit_code == 0, done.output
        assert [m["name"] for m in status(cluster)["semi_primaries"]] == ["two"]


def replace(cluster: Pair, name: str, *options: str, answer: str | None = None) -> Result:
    """By a new database, which is empty."""
    with psycopg.connect(cluster.server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{cluster.name}_new"'.encode())
    command = ["schema", "join", cluster.server.dsn(f"{cluster.name}_new"), "--name", name]
    return CliRunner().invoke(app, [*command, "--primary-dsn", cluster.primary_dsn, *options], input=answer)


def test_a_database_takes_the_place_of_one_that_is_lost(cluster: Pair) -> None:
    done = replace(cluster, "two", "--replace", answer="y\n")
    assert done.exit_code == 0, done.output
    told = [(m["sp_id"], m["name"], m["zone"], m["state"]) for m in status(cluster)["semi_primaries"]]
    assert told == [(1, "one", "", "member"), (3, "two", "far", "joining")], "the number is never used again"
    with psycopg.connect(cluster.primary_dsn) as primary:
        query = "SELECT sp_id FROM psp.semi_primaries WHERE released_at IS NOT NULL"
        assert primary.execute(query).fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("two", ["--replace"], "two is connected"),
        ("two", [], "has a semi-primary named two already"),
        ("nobody", ["--replace"], "no semi-primary named nobody"),
        ("two", ["--force"], "--replace"),
    ],
)
def test_nobody_is_replaced_by_mistake(cluster: Pair, name: str, options: list[str], why: str) -> None:
    before = status(cluster)["semi_primaries"]
    with connected(cluster, "two"):
        refused = replace(cluster, name, *options)
    assert refused.exit_code != 0
    assert why in refused.stderr
    assert [m["sp_id"] for m in status(cluster)["semi_primaries"]] == [m["sp_id"] for m in before]


def test_one_that_is_connected_is_replaced_by_force(cluster: Pair) -> None:
    with connected(cluster, "two"):
        done = replace(cluster, "two", "--replace", "--force", "--yes")
        assert done.exit_code == 0, done.output
    assert [m["sp_id"] for m in status(cluster)["semi_primaries"]] == [1, 3]


def test_what_a_replacement_costs_is_asked(cluster: Pair) -> None:
    asked = replace(cluster, "two", "--replace", answer="n\n")
    assert asked.exit_code == 1
    assert "it can only join again, with an empty database" in asked.stderr
    assert [m["sp_id"] for m in status(cluster)["semi_primaries"]] == [1, 2]


def test_the_replaced_one_stays_if_the_last_commit_fails(
    cluster: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The primary has committed by then."""

    def fail() -> None:
        raise psycopg.OperationalError

    @contextmanager
    def open_failing(dsn: str) -> Iterator[psycopg.Connection[Any]]:
        with open_session(dsn) as connection:
            monkeypatch.setattr(connection, "commit", fail)
            yield connection

    with psycopg.connect(cluster.server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{cluster.name}_new"'.encode())
    monkeypatch.setattr("psp.schema.join.open_session", open_failing)
    new = cluster.server.dsn(f"{cluster.name}_new")
    with pytest.raises(psycopg.OperationalError):
        prepare_join(new, cluster.primary_dsn, "two", replaces=Replaces.LOST)
    assert [m["sp_id"] for m in status(cluster)["semi_primaries"]] == [1, 2]


def test_a_join_that_fails_replaces_nobody(cluster: Pair) -> None:
    with psycopg.connect(cluster.server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{cluster.name}_new"'.encode())
    new = cluster.server.dsn(f"{cluster.name}_new")
    with psycopg.connect(new, autocommit=True) as connection:
        connection.execute("CREATE TABLE there (id int PRIMARY KEY)")
    with pytest.raises(PspError, match="not empty"):
        prepare_join(new, cluster.primary_dsn, "two", replaces=Replaces.LOST)
    assert [m["sp_id"] for m in status(cluster)["semi_primaries"]] == [1, 2]


def test_what_a_removal_costs_is_told(cluster: Pair) -> None:
    with connected(cluster, "one") as daemon:
        daemon.execute("INSERT INTO psp.replication_log VALUES (2, gen_random_uuid(), 2, '')")
        asked = remove(cluster, "two", answer="n\n").stderr
        assert "two has never been heard" in asked
        assert "no row yet" in asked
        daemon.execute("UPDATE psp.semi_primaries SET is_connected = false")
        asked = remove(cluster, "one", answer="n\n").stderr
        assert "one is not connected, last heard 20" in asked
        assert "lacks 2 committed transactions" in asked


def test_who_was_connected_before_the_daemon_ended_is_not_removed(cluster: Pair) -> None:
    """It commits again as soon as psp-primary runs."""
    with connected(cluster, "one"):
        pass
    refused = remove(cluster, "one", "--yes")
    assert refused.exit_code == 1
    assert "one was connected when psp-primary ran last" in refused.stderr
    assert remove(cluster, "one", "--yes", "--force").exit_code == 0


def test_a_join_takes_yes_and_tells_when_clients_may_come(cluster: Pair) -> None:
    name = f"{cluster.name}_three"
    cluster.server.create_database(name)
    command = ["schema", "join", cluster.server.dsn(name), "--primary-dsn", cluster.primary_dsn, "--yes"]
    done = CliRunner().invoke(app, [*command, "--name", "three"])
    assert done.exit_code == 0, done.output
    assert "only superusers and members of pg_monitor can connect" in done.stderr
