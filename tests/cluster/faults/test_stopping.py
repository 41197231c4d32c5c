"""A daemon that is told to stop does so soon, also while it waits."""

import threading
import time

import psycopg
from psp.cluster import verify
from psp.cluster.local import Zone
from psp.waiting import wait_until

from tests.cluster.support import (
    APPLY_WORKER,
    SCHEMA,
    WAIT_S,
    MakeCluster,
    execute,
    wait_streaming,
    waiting,
)

STOP_S = 6


def test_while_an_own_commit_is_not_yet_proven(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one")], SCHEMA.read_text(), None)
    one = cluster.sp("one")
    wait_streaming(cluster)
    committer = threading.Thread(target=execute, args=(one, "INSERT INTO document (note) VALUES ('kept')"))
    with psycopg.connect(one.admin_dsn) as holder:
        # The backend is decided and cannot write its proof; the apply worker waits for the backend.
        holder.execute("LOCK TABLE psp.applied IN SHARE MODE")
        committer.start()
        wait_until("the apply worker to wait", lambda: waiting(one, APPLY_WORKER, "advisory"), WAIT_S)
        begun_s = time.monotonic()
        cluster.stop("one", "daemon")
        assert time.monotonic() - begun_s < STOP_S
        holder.rollback()
    committer.join(WAIT_S)
    cluster.start("one", "daemon")
    wait_streaming(cluster)
    assert execute(one, "SELECT note FROM document") == [("kept",)]
    assert verify.verify(cluster).consistent
