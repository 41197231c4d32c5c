"""Large values and large transactions."""

import hashlib
import random
import string

from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options, Zone

from tests.cluster.support import SCHEMA, MakeCluster, connect, execute, raises, wait_for_row


def test_a_value_of_10_mb(cluster: LocalCluster) -> None:
    first, second, _ = cluster.sps
    body = random.Random(7).randbytes(10 * 1024 * 1024)
    key = execute(first, "INSERT INTO document (body) VALUES (%s) RETURNING id", (body,))[0][0]
    wait_for_row(second, "SELECT 1 FROM document WHERE id = %s", (key,))
    assert execute(second, "SELECT sha256(body) FROM document WHERE id = %s", (key,)) == [
        (hashlib.sha256(body).digest(),)
    ]
    execute(second, "DELETE FROM document WHERE id = %s", (key,))


def test_keys_that_are_too_long_for_the_primary(cluster: LocalCluster) -> None:
    """The semi-primary's own index holds them still; the primary's, which has more in it, does not."""
    first, second, _ = cluster.sps
    text = "long " * 538  # PostgreSQL compresses it
    long = "".join(random.Random(7).choices(string.printable[:94], k=2690))
    with connect(first, autocommit=True) as connection:
        for statement in (
            "INSERT INTO counter VALUES (%s)",
            "INSERT INTO account (id, owner, email) VALUES (2690, 'long', %s)",
        ):
            with raises("54000") as errors:
                connection.execute(statement, (long,))
            assert "too long" in str(errors[0]) and errors[0].diag.message_hint
        connection.execute("INSERT INTO counter VALUES (%s)", (text,))
    wait_for_row(second, "SELECT 1 FROM counter WHERE name = %s", (text,))
    assert execute(first, "SELECT 1 FROM account WHERE owner = 'long'") == []


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
