"""Sequences: every SP draws from a class of its own, and a crash does not make it draw a number twice."""

import psycopg
from conftest import SCHEMA, MakeCluster
from psp.cluster import verify
from psp.cluster.local import Zone
from psp.waiting import wait_until
from support import WAIT_S, execute, wait_streaming

INSERT = "INSERT INTO document (note) VALUES ('x') RETURNING id"


def test_numbers_that_a_crash_gave_back_are_not_drawn_again(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one"), Zone("two")], SCHEMA.read_text(), None)
    one = cluster.sp("one")
    drawn = {execute(sp, INSERT)[0][0] for _ in range(20) for sp in cluster.sps}
    assert len(drawn) == 40
    verify.wait_drained(cluster)
    # What a crash may do: the sequence goes back, the rows come again from the primary.
    with psycopg.connect(one.admin_dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT setval('document_id_seq', base + increment * sp_id, false) "
            "FROM psp.sequences, psp.identity WHERE sequence_name = 'document_id_seq'"
        )
    cluster.stop("one", "daemon")
    cluster.start("one", "daemon")
    wait_streaming(cluster)
    wait_until(
        "the sequence to move past the rows",
        lambda: execute(one, "SELECT last_value FROM document_id_seq")[0][0] > max(drawn) - 64,
        WAIT_S,
    )
    again = {execute(sp, INSERT)[0][0] for _ in range(20) for sp in cluster.sps}
    assert len(again) == 40
    assert not again & drawn
    assert verify.verify(cluster).consistent
