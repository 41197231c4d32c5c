"""Statements whose meaning is another one at each server: what they read, what was set or left there."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Zone

from tests.cluster.schema_changes.statements import (
    allow_ddl,
    ddl,
    settle_unchanged,
    wait_for_relation,
)
from tests.cluster.support import as_admin, connect, execute, raises, settle, wait_for_row

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, x int NOT NULL);"


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Two SPs with one item, which hold the same rows after the test."""
    execute(shared_pair.sps[0], "DELETE FROM item")
    execute(shared_pair.sps[0], "INSERT INTO item VALUES (1, 1)")
    settle(shared_pair)
    yield shared_pair
    settle_unchanged(shared_pair)


@pytest.mark.parametrize(
    "ending", ["", ";", " WITH DATA", " -- with data", "; -- so", " WITH DATA; -- so", " WITH NO DATA"]
)
def test_a_table_as_a_query_has_the_rows_of_where_it_ran(pair: LocalCluster, ending: str) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("SET psp.add_keys = on")
        query = f"SELECT 10 / x AS tenth, ';' AS mark FROM item{ending}"
        connection.execute(f"CREATE TABLE quotients AS {query}".encode())
        execute(
            south, "INSERT INTO item VALUES (2, 0)"
        )  # comes before the statement, and it does not know it
    for sp in pair.sps:
        wait_for_relation(sp, "quotients")
    settle(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT tenth FROM quotients") == ([] if "NO" in ending else [(10,)])
    execute(south, "DROP TABLE quotients")


def test_a_view_that_cannot_be_filled_stops_nobody(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("CREATE MATERIALIZED VIEW quotient AS SELECT 10 / x AS tenth FROM item")
        connection.execute("CREATE UNIQUE INDEX ON quotient (tenth)")
        connection.execute("CREATE UNLOGGED TABLE aside AS SELECT 10 / x AS tenth FROM item")
        execute(south, "INSERT INTO item VALUES (2, 0)")
    wait_for_relation(south, "aside")
    assert execute(south, "SELECT relispopulated FROM pg_class WHERE relname = 'quotient'") == [(False,)]
    [(problem,)] = execute(as_admin(south), "SELECT psp.guard_problems()")
    unfilled = "materialized view public.quotient lacks rows of a schema change, REFRESH it"
    assert problem == f"{unfilled}: division by zero"
    pair.stop("south", "daemon")
    pair.resume()  # looks at its start
    wait_for_row(
        as_admin(south),
        "SELECT 1 FROM psp.status WHERE warnings LIKE '%%quotient lacks rows of a schema change%%'",
    )
    execute(south, "DELETE FROM item WHERE id = 2")
    settle(pair)
    execute(north, "REFRESH MATERIALIZED VIEW CONCURRENTLY quotient")
    wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'quotient' AND relispopulated")
    for sp in pair.sps:
        assert execute(sp, "SELECT tenth FROM quotient") == [(10,)]
    execute(north, "DROP MATERIALIZED VIEW quotient")
    execute(north, "DROP TABLE aside")


@pytest.mark.parametrize("at_south", [False, True])
def test_a_refresh_that_fails_elsewhere_stops_nobody(pair: LocalCluster, at_south: bool) -> None:
    north, south = pair.sps
    execute(north, "CREATE MATERIALIZED VIEW xs AS SELECT x FROM item")
    execute(north, "CREATE UNIQUE INDEX ON xs (x)")
    wait_for_relation(south, "xs_x_idx")
    with connect(north) as connection:
        connection.execute("REFRESH MATERIALIZED VIEW xs")
        execute(south, "INSERT INTO item VALUES (2, 1)")
    wait_for_row(as_admin(south), "SELECT 1 FROM psp.unfilled_views")
    assert execute(south, "SELECT x FROM xs") == [(1,)]  # as it was
    execute(south, "UPDATE item SET x = 2 WHERE id = 2")
    settle(pair)
    refreshing, other = (south, north) if at_south else (north, south)
    execute(refreshing, "REFRESH MATERIALIZED VIEW CONCURRENTLY xs")
    wait_for_row(other, "SELECT 1 FROM xs WHERE x = 2")
    assert execute(as_admin(south), "SELECT psp.guard_problems()") == []
    execute(north, "DROP MATERIALIZED VIEW xs")


@pytest.mark.parametrize(
    "statement", ["CREATE UNIQUE INDEX ON xs (x)", "SELECT psp.ddl('create index on xs ((1 / (2 - n)))')"]
)
def test_an_index_that_rows_of_a_view_elsewhere_break_stops_nobody(
    pair: LocalCluster, statement: LiteralString
) -> None:
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("CREATE MATERIALIZED VIEW xs AS SELECT x, count(*) OVER () AS n FROM item")
        execute(south, "INSERT INTO item VALUES (2, 1)")
    settle(pair)
    execute(north, statement)
    wait_for_row(south, "SELECT 1 FROM pg_index WHERE indrelid = 'xs'::regclass")
    assert execute(south, "SELECT relispopulated FROM pg_class WHERE relname = 'xs'") == [(False,)]
    [(problem,)] = execute(as_admin(south), "SELECT psp.guard_problems()")
    assert "materialized view public.xs lacks rows of a schema change" in problem
    execute(south, "DELETE FROM item WHERE id = 2")
    settle(pair)
    execute(south, "REFRESH MATERIALIZED VIEW xs")
    assert execute(south, "SELECT x FROM xs") == [(1,)]
    assert execute(as_admin(south), "SELECT psp.guard_problems()") == []
    execute(south, "DROP MATERIALIZED VIEW xs")


def test_who_joins_fills_no_view_of_empty_tables() -> None:
    with LocalCluster.temporary([Zone("a")]) as cluster:
        a = cluster.sps[0]
        with psycopg.connect(a.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
            connection.execute("INSERT INTO item VALUES (1, 1), (2, 2)")
        growth.adopt(cluster)
        allow_ddl(a)
        query = "SELECT count(*) FILTER (WHERE x > 1) * 100 / count(*) AS p FROM item"
        ddl(a, f"CREATE MATERIALIZED VIEW percent AS {query}")
        execute(a, "REFRESH MATERIALIZED VIEW percent")
        growth.join(cluster, Zone("b"))
        b = cluster.sp("b")
        wait_for_row(b, "SELECT 1 FROM item WHERE id = 2")
        settle(cluster)
        execute(a, "REFRESH MATERIALIZED VIEW percent")
        wait_for_row(b, "SELECT 1 FROM pg_class WHERE relname = 'percent' AND relispopulated")
        assert execute(b, "SELECT p FROM percent") == [(50,)]
        assert execute(as_admin(b), "SELECT psp.guard_problems()") == []


def test_settings_of_the_application_go_along(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET app.tenant = 't1'; SET app.other = 'it''s'")
        connection.execute("ALTER TABLE item ADD COLUMN tenant text DEFAULT current_setting('app.tenant')")
        body = "SELECT current_setting('app.other')"
        connection.execute(f"CREATE FUNCTION other() RETURNS text LANGUAGE sql AS $${body}$$".encode())
        connection.execute("SELECT psp.ddl('ALTER TABLE item ADD COLUMN other text DEFAULT other()')")
        connection.execute(
            "ALTER TABLE item ALTER COLUMN tenant DROP DEFAULT, ALTER COLUMN other DROP DEFAULT"
        )
    wait_for_row(south, "SELECT 1 FROM pg_attribute WHERE attrelid = 'item'::regclass AND attname = 'other'")
    settle(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT tenant, other FROM item") == [("t1", "it's")]
    execute(north, "ALTER TABLE item DROP COLUMN tenant, DROP COLUMN other")


def test_a_table_of_explain_is_no_part_of_schema_changes(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(north, "EXPLAIN ANALYZE CREATE TABLE explained AS SELECT 1 AS id")
    execute(north, "CREATE TABLE made (id int PRIMARY KEY)")
    wait_for_relation(south, "made")
    execute(south, "ALTER TABLE made ADD COLUMN x int")  # arrives where there is such a table
    wait_for_row(north, "SELECT 1 FROM pg_attribute WHERE attrelid = 'made'::regclass AND attname = 'x'")
    statements: list[LiteralString] = [
        "ALTER TABLE explained ADD PRIMARY KEY (id)",
        "SELECT psp.ddl('ALTER TABLE explained ADD PRIMARY KEY (id)')",
        "CREATE VIEW of_it AS SELECT * FROM explained",
        "DROP TABLE explained",
    ]
    for statement in statements:
        with connect(north) as connection, raises("0A000") as errors:
            connection.execute(statement)
        assert "DROP TABLE explained" in str(errors[0].diag.message_hint)
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("DROP TABLE explained")
    execute(north, "DROP TABLE made")


def test_a_table_that_has_a_column_of_that_name_gets_no_key(pair: LocalCluster) -> None:
    with connect(pair.sps[0]) as connection:
        connection.execute("SET psp.add_keys = on")
        connection.execute("CREATE TABLE keyless (psp_key uuid)")
        with raises("0A000") as errors:
            connection.commit()
        assert "there is a column psp_key" in str(errors[0].diag.message_hint)
