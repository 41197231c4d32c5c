"""pg_partman on a running cluster: a year of maintenance in fast motion, with writers at both servers."""

from __future__ import annotations

from functools import partial
from typing import LiteralString

import pytest
from psp import paths
from psp.cluster.local import LocalCluster
from psycopg import sql

from tests.cluster.support import as_admin, connect, execute, retry, settle

SCHEMA = "CREATE TABLE event (id int, writer text, PRIMARY KEY (id, writer)) PARTITION BY RANGE (id)"
MONTH = 1000  # ids
KEPT = 3  # months
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


def bounds(cluster: LocalCluster) -> list[str]:
    """The partitions, which must be the same at both, and hold the same rows."""
    settle(cluster)
    found = [
        execute(
            sp,
            "SELECT c.relname, (SELECT count(*) FROM event e WHERE e.tableoid = c.oid) FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass ORDER BY 1",
        )
        for sp in cluster.sps
    ]
    assert found[0] == found[1]
    return [name for name, rows in found[0] if rows > 0]


def test_a_year_of_maintenance(pair: LocalCluster) -> None:
    north, south = pair.sps
    told = install(pair)
    assert sum("tables of this extension: partman.part_config" in text for text in told) == 2
    for statement in CREATE:
        retry(partial(execute, north, statement))
    settle(pair)
    for month in range(12):
        for sp in (north, south):
            add = "INSERT INTO event SELECT %s + n * 50, %s FROM generate_series(0, 19) n"
            retry(partial(execute, sp, add, (month * MONTH, sp.name)))
        settle(pair)
        retry(partial(execute, north, "CALL partman.run_maintenance_proc()"))
        settle(pair)
    kept = bounds(pair)
    assert kept == [f"event_p{month * MONTH}" for month in (10, 11, 8, 9)]
    assert execute(south, "SELECT min(id), max(id), count(*) FROM event") == [(8000, 11950, 160)]
