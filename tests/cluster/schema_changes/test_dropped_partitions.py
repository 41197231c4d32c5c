"""DROP of partitions with rows: no server keeps any, nor does the primary for those that join later."""

from functools import partial

import psycopg
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Zone

from tests.cluster.schema_changes.statements import allow_ddl
from tests.cluster.support import connect, execute, retry, settle, wait_for_row

SCHEMA = """
CREATE TABLE event (day int, id int, v text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE PROCEDURE maintain(today int, kept int) LANGUAGE plpgsql AS $$
DECLARE
    part record;
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS event_%1$s PARTITION OF event '
                   'FOR VALUES FROM (%1$s) TO (%1$s + 1)', today);
    FOR part IN SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'event'::regclass AND substr(c.relname, 7)::int <= today - kept LOOP
        EXECUTE format('DROP TABLE %s', part.name);
    END LOOP;
END $$;
"""


def days(pair: LocalCluster) -> list[int]:
    """Of the rows, at all servers."""
    settle(pair)
    found = [execute(sp, "SELECT DISTINCT day FROM event ORDER BY 1") for sp in pair.sps]
    assert all(rows == found[0] for rows in found)
    return [day for (day,) in found[0]]


def test_maintenance_drops_old_partitions(pair: LocalCluster) -> None:
    """A month in fast motion, with both servers writing; as pg_partman does it."""
    north, south = pair.sps
    for today in range(1, 13):
        retry(partial(execute, north, "CALL maintain(%s, 3)", [today]))
        settle(pair)
        for sp, first in ((north, 0), (south, 100)):
            execute(
                sp, "INSERT INTO event SELECT %s, %s + n, 'x' FROM generate_series(1, 20) n", [today, first]
            )
    assert days(pair) == [10, 11, 12]
    with connect(south) as connection:
        connection.execute("INSERT INTO event VALUES (10, 500, 'gone'), (11, 500, 'kept')")
        connection.execute("UPDATE event SET v = 'gone' WHERE day = 10")
        connection.execute("DROP TABLE event_10")
        connection.execute("CREATE TABLE event_10 PARTITION OF event FOR VALUES FROM (10) TO (11)")
        connection.execute("INSERT INTO event VALUES (10, 1, 'again')")
    assert days(pair) == [10, 11, 12]
    assert execute(north, "SELECT id, v FROM event WHERE day = 10") == [(1, "again")]
    execute(north, "DROP TABLE event_10")
    assert days(pair) == [11, 12]


def test_one_who_joins_gets_no_row_of_a_dropped_partition() -> None:
    with LocalCluster.temporary([Zone("a")]) as cluster:
        a = cluster.sps[0]
        with psycopg.connect(a.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        allow_ddl(a)
        for today in (1, 2):
            execute(a, "CALL maintain(%s, 5)", [today])
            execute(a, "INSERT INTO event VALUES (%s, 1, 'x')", [today])
        execute(a, "DROP TABLE event_1")
        growth.join(cluster, Zone("b"))
        wait_for_row(cluster.sp("b"), "SELECT 1 FROM event WHERE day = 2")
        assert days(cluster) == [2]
