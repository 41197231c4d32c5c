"""Logical decoding at a semi-primary: what consumers of its changes see, and a subscriber's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.waiting import wait_until
from psycopg import sql

from tests.cluster.support import APPLY_WORKER, adopted_pair, as_admin, connect, execute, waiting

ITEMS = "CREATE TABLE item (id serial PRIMARY KEY, place text, amount int NOT NULL DEFAULT 0)"
PUBLICATION = "CREATE PUBLICATION items FOR TABLE item"
ONLY_LOCAL = ("only-local", "1")
SETTINGS = {"wal_level": "logical", "shared_buffers": "32MB"}


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([ITEMS, PUBLICATION], Options(pg_settings=SETTINGS)) as cluster:
        yield cluster


def changes(sp: SpNode, slot: str, options: Sequence[str] = ()) -> list[str]:
    """What a slot's consumer has to get of the application's tables, as test_decoding writes it."""
    # Decoding ends at what is on the disk, and SPs do not wait for theirs.
    execute(as_admin(sp), "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, '', '')")
    rows = execute(
        as_admin(sp),
        "SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, VARIADIC %s::text[]) "
        "WHERE data LIKE 'table public.%%'",
        (slot, ["include-xids", "0", *options]),
    )
    return [data for (data,) in rows]


def test_a_consumer_tells_local_changes_from_those_of_others(pair: LocalCluster) -> None:
    north, south = pair.sps
    for slot in ("all_changes", "own_changes"):
        execute(as_admin(north), "SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [slot])
    execute(south, "INSERT INTO item (place) VALUES ('south')")
    verify.wait_drained(pair)
    execute(north, "INSERT INTO item (place) VALUES ('north')")
    execute(north, "UPDATE item SET amount = 1 WHERE place = 'south'")
    everything = changes(north, "all_changes")
    assert len(everything) == 3 and "'south'" in everything[0]
    assert changes(north, "own_changes", ONLY_LOCAL) == everything[1:]


def test_a_subscriber_has_the_rows_of_all(pair: LocalCluster) -> None:
    """Publications are where the schema is; one of all tables has psp's own in it, and disturbs nobody."""
    north, south = pair.sps
    server = as_admin(north).dsn
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE reports")
        connection.execute("CREATE PUBLICATION whole FOR ALL TABLES")
    execute(as_admin(south), "CREATE PUBLICATION whole FOR ALL TABLES")
    assert execute(south, "SELECT tablename FROM pg_publication_tables WHERE pubname = 'items'") == [
        ("item",)
    ]
    reports = psycopg.conninfo.make_conninfo(server, dbname="reports")
    with psycopg.connect(server, autocommit=True) as connection:
        # A subscription to the same server cannot make its slot itself.
        connection.execute("SELECT pg_create_logical_replication_slot('reports', 'pgoutput')")
    with psycopg.connect(reports, autocommit=True) as connection:
        connection.execute(ITEMS.encode())
        connection.execute(
            sql.SQL(
                "CREATE SUBSCRIPTION reports CONNECTION {} PUBLICATION items WITH (create_slot = false)"
            ).format(sql.Literal(server))
        )
    for round_number in range(3):
        for sp in pair.sps:
            execute(sp, "INSERT INTO item (place, amount) VALUES (%s, %s)", (sp.name, round_number))
            execute(sp, "DELETE FROM item WHERE place = %s AND amount = %s - 1", (sp.name, round_number))
    verify.wait_drained(pair)
    expected = execute(north, "SELECT * FROM item ORDER BY id")
    assert len(expected) > 1

    def arrived() -> bool:
        with psycopg.connect(reports) as connection:
            return connection.execute("SELECT * FROM item ORDER BY id").fetchall() == expected

    wait_until("the subscriber's rows", arrived, 60)
    with psycopg.connect(reports, autocommit=True) as connection:
        connection.execute("DROP SUBSCRIPTION reports")


def test_the_session_of_a_killed_daemon_makes_way(pair: LocalCluster) -> None:
    """It has the origin, and waits for a lock that only its successor can end."""
    north, south = pair.sps
    (row,) = execute(north, "INSERT INTO item (place) VALUES ('locked') RETURNING id")
    verify.wait_drained(pair)
    blocker = connect(north)
    blocker.execute("UPDATE item SET amount = 1 WHERE id = %s", row)
    execute(south, "UPDATE item SET amount = 2 WHERE id = %s", row)
    wait_until("the worker to wait", lambda: waiting(north, APPLY_WORKER), 30)
    pair.kill("north")
    pair.start("north")
    verify.wait_drained(pair)
    assert execute(north, "SELECT amount FROM item WHERE id = %s", row) == [(2,)]
    blocker.close()


def test_the_mark_is_there_after_restarts(pair: LocalCluster) -> None:
    """Of the daemon, killed, and of PostgreSQL, stopped at once."""
    north, south = pair.sps
    execute(as_admin(north), "SELECT pg_create_logical_replication_slot('marked', 'test_decoding')")
    pair.kill("north")
    pair.start("north")
    execute(south, "INSERT INTO item (place) VALUES ('marked')")
    verify.wait_drained(pair)
    pair.stop("north", mode="immediate")
    pair.start("north")
    execute(south, "INSERT INTO item (place) VALUES ('marked')")
    verify.wait_drained(pair)
    assert len(execute(north, "SELECT id FROM item WHERE place = 'marked'")) == 2
    assert changes(north, "marked", ONLY_LOCAL) == []
