"""psp.conflicts tells with which statement transactions lose, where pg_stat_statements is loaded."""

from psp.cluster.local import Options, Zone
from psp.watch import gather

from tests.cluster.commit.test_lost_keys import conflict, conflicts, lose
from tests.cluster.support import MakeCluster, as_admin, connect, execute, needs_module, wait_streaming

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL);
INSERT INTO item VALUES (1, 100), (2, 100);
"""
KEY = "WHERE within = '1 hour' AND key = '(id)=({})' AND query_id IS NOT NULL"


@needs_module()
def test_the_statement_that_lost(make_cluster: MakeCluster) -> None:
    settings = {"shared_buffers": "32MB", "shared_preload_libraries": "pg_stat_statements"}
    cluster = make_cluster([Zone("north"), Zone("south")], SCHEMA, Options(pg_settings=settings))
    wait_streaming(cluster)
    for sp in cluster.sps:
        with connect(as_admin(sp)) as connection:
            connection.execute("SET LOCAL psp.schema_changes = local")
            connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")

    _, loser = lose(cluster.sps, "UPDATE item SET stock = stock - %s WHERE id = 1", [(1,), (2,)])
    row = conflict(loser.admin_dsn, KEY.format(1))
    assert row["statement"] == "UPDATE item SET stock = stock - $1 WHERE id = $2"
    ((query_id,),) = execute(
        as_admin(loser),
        "SELECT queryid FROM public.pg_stat_statements WHERE query LIKE 'UPDATE item%WHERE id%'",
    )
    assert row["query_id"] == query_id
    told = conflict(cluster.primary_dsn, KEY.format(1))
    assert told["query_id"] == query_id and told["loser"] == loser.name

    # The words are for those who may read pg_stat_statements; the key is for those who may read the table.
    (plain,) = conflicts(loser.dsn, KEY.format(1))
    assert (plain["statement"], plain["query_id"]) == (None, query_id)

    view = gather.look([gather.Source(dsn) for dsn in (cluster.primary_dsn, loser.admin_dsn)])
    assert [key.statement for key in view.hot_within(3600)] == [row["statement"]]

    _, loser = lose(cluster.sps, "DELETE FROM item WHERE id = %s AND stock = 100", [(2,), (2,)])
    assert conflict(loser.admin_dsn, KEY.format(2))["statement"].startswith("DELETE FROM item")
