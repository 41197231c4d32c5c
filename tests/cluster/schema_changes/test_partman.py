"""pg_partman on a running cluster: a year of maintenance in fast motion, with writers at both servers."""

from __future__ import annotations

from functools import partial
from typing import LiteralString

import pytest
from psp import paths
from psp.cluster.local import LocalCluster, SpNode
from psycopg import sql

from tests.cluster.support import SERIALIZATION_FAILURE, as_admin, connect, execute, retry, settle
from tests.threads import running

SCHEMA = "CREATE TABLE event (id int, writer text, PRIMARY KEY (id, writer)) PARTITION BY RANGE (id)"
MONTH = 1000  # ids
AGAIN = (SERIALIZATION_FAILURE, "40P01", "55P03")
INSTALL: tuple[LiteralString, ...] = (
    "CREATE SCHEMA partman",
    "CREATE EXTENSION pg_partman SCHEMA partman",
    "GRANT ALL ON SCHEMA partman TO {role}",
    "GRANT ALL ON ALL TABLES IN SCHEMA partman TO {role}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA partman TO {role}",
    "GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA partman TO {role}",
)
CREATE: tuple[LiteralString, ...] = (
    "CREATE TABLE event_template (LIKE event, PRIMARY KEY (id, writer))",
    "SELECT partman.create_parent('public.event', 'id', 'native', '1000', p_premake := 2, "
    "p_template_table := 'public.event_template')",
    "UPDATE partman.part_config SET retention = '3000', retention_keep_table = false",
)

pytestmark = pytest.mark.skipif(paths.server_version() != 15, reason="Debian 12 has pg_partman for 15 only")


def install(cluster: LocalCluster) -> list[str]:
    """At each server, as docs/schema-changes.md says. What PostgreSQL has told."""
    told: list[str] = []
    for sp in cluster.sps:
        role = sql.Identifier(execute(sp, "SELECT current_user")[0][0])
        with connect(as_admin(sp), autocommit=True) as admin:
            admin.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
            for statement in INSTALL:
                admin.execute(sql.SQL(statement).format(role=role))
    return told


def partitions(cluster: LocalCluster) -> list[str]:
    """Those with rows; partitions and rows must be the same at both."""
    settle(cluster)
    names = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'event'::regclass ORDER BY 1"
    assert execute(cluster.sps[0], names) == execute(cluster.sps[1], names)
    rows = "SELECT tableoid::regclass::text, id, writer FROM event ORDER BY id, writer"
    found = [execute(sp, rows) for sp in cluster.sps]
    assert found[0] == found[1]
    return sorted({name for name, _, _ in found[0]})


def write(sp: SpNode, month: int, first: int) -> None:
    """Ten rows of a month, each a transaction."""
    for number in range(first, first + 10):
        add = "INSERT INTO event VALUES (%s, %s)"
        retry(partial(execute, sp, add, (month * MONTH + number * 50, sp.name)))


def take_over(cluster: LocalCluster) -> None:
    """The configuration at the second server, as docs/schema-changes.md says."""
    first, second = cluster.sps
    kept = execute(first, "SELECT json_agg(c)::text FROM partman.part_config c")[0][0]
    execute(
        second,
        "INSERT INTO partman.part_config "
        "SELECT * FROM json_populate_recordset(NULL::partman.part_config, %s)",
        [kept],
    )


def test_a_year_of_maintenance(pair: LocalCluster) -> None:
    north, south = pair.sps
    told = install(pair)
    assert sum("tables of this extension: partman.part_config" in text for text in told) == 2
    for statement in CREATE:
        retry(partial(execute, north, statement))
    settle(pair)
    take_over(pair)
    for month in range(12):
        for sp in (north, south):
            write(sp, month, 0)
        settle(pair)
        maintained = north if month < 8 else south  # then that one is the one that has it
        with running(*(partial(write, sp, month, 10) for sp in (north, south))):
            retry(partial(execute, maintained, "CALL partman.run_maintenance_proc()"), AGAIN)
        settle(pair)
    assert partitions(pair) == [f"event_p{month * MONTH}" for month in (10, 11, 8, 9)]
    assert execute(south, "SELECT min(id), max(id), count(*) FROM event") == [(8000, 11950, 160)]
