"""Sequences: every SP draws from a class of its own, and a crash does not make it draw a number twice."""

import psycopg
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Zone
from psp.waiting import wait_until

from tests.cluster.support import SCHEMA, WAIT_S, MakeCluster, as_admin, execute, wait_streaming

OUT_OF_CLASS = (
    "SELECT (d.last_value - q.base - q.increment * i.sp_id) % q.stride <> 0 "
    "FROM document_id_seq d, psp.sequences q, psp.identity i WHERE q.sequence_name = 'document_id_seq'"
)
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


def test_the_daemon_sets_right_what_setval_has_done(cluster: LocalCluster) -> None:
    """As an application does after a bulk load: the number belongs to another SP."""
    one, two, _ = cluster.sps
    drawn = {execute(sp, INSERT)[0][0] for sp in (one, two)}
    with psycopg.connect(one.admin_dsn, autocommit=True) as admin:
        verify.wait_drained(cluster)
        admin.execute("SELECT setval('document_id_seq', (SELECT max(id) + 1 FROM document))")
        wait_until(
            "the sequence to be set right",
            lambda: admin.execute(OUT_OF_CLASS).fetchall() == [(False,)],
            WAIT_S,
        )
    again = {execute(sp, INSERT)[0][0] for _ in range(100) for sp in (one, two)}
    assert len(again) == 200
    assert not again & drawn


def test_numbers_that_a_migration_has_chosen_are_not_drawn_elsewhere(cluster: LocalCluster) -> None:
    """It loads rows and calls setval, which the other semi-primaries do not see."""
    one, two, _ = cluster.sps
    first = execute(one, INSERT)[0][0] + 64 * 100
    execute(
        one,
        "INSERT INTO document (id, note) SELECT n, 'x' FROM generate_series(%s::int, %s::int) n",
        [first, first + 640],
    )
    execute(as_admin(one), "SELECT setval('document_id_seq', (SELECT max(id) FROM document))")
    wait_until(
        "the sequence to move past the rows",
        lambda: execute(two, "SELECT last_value FROM document_id_seq")[0][0] > first + 640 - 64,
        WAIT_S,
    )
    assert execute(two, INSERT)[0][0] > first + 640
