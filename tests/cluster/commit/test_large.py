"""Large values and large transactions."""

import hashlib
import random

from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options, Zone

from tests.cluster.support import SCHEMA, MakeCluster, connect, execute, wait_for_row


def test_a_value_of_10_mb(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    body = random.Random(7).randbytes(10 * 1024 * 1024)
    key = execute(first, "INSERT INTO document (body) VALUES (%s) RETURNING id", (body,))[0][0]
    wait_for_row(second, "SELECT 1 FROM document WHERE id = %s", (key,))
    assert execute(second, "SELECT sha256(body) FROM document WHERE id = %s", (key,)) == [
        (hashlib.sha256(body).digest(),)
    ]
    execute(second, "DELETE FROM document WHERE id = %s", (key,))


def test_a_transaction_of_200000_rows(make_cluster: MakeCluster) -> None:
    """With the settings that users get, among them how long a COMMIT waits for its answer."""
    cluster = make_cluster([Zone("one"), Zone("two")], SCHEMA.read_text(), Options())
    first, second = cluster.sps
    with connect(first) as connection:
        connection.execute("INSERT INTO counter SELECT 'bulk ' || n, n FROM generate_series(1, 200000) n")
    verify.wait_drained(cluster, 180)
    count = "SELECT count(*), sum(value) FROM counter WHERE name LIKE 'bulk %%'"
    assert execute(second, count, ()) == [(200000, 20000100000)]
    with connect(second) as connection:
        connection.execute("UPDATE counter SET value = value + 1 WHERE name LIKE 'bulk %%'", ())
    verify.wait_drained(cluster, 180)
    assert execute(first, count, ()) == [(200000, 20000300000)]
    execute(first, "DELETE FROM counter WHERE name LIKE 'bulk %%'", ())
    assert verify.verify(cluster, 180).consistent
