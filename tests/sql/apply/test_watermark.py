"""W: each snapshot sees its own, and what long snapshots keep in the database is in nobody's way."""

from typing import Any

import psycopg
import pytest

from tests.sql.databases import Pair, one

READ = "SELECT watermark FROM psp.watermark"
# One transaction for each batch, as the apply worker does it.
BATCHES = """DO $$ BEGIN
    FOR n IN 1..3000 LOOP
        PERFORM psp.end_batch(n - 1, n, false, false);
        COMMIT;
    END LOOP;
END $$"""


@pytest.fixture
def adopted(pair: Pair) -> Pair:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    pair.adopt()
    return pair


def pages_read(connection: psycopg.Connection[Any]) -> int:
    """How many pages one look at W needs."""
    plan = one(connection, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {READ}")[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_a_long_snapshot_makes_nobody_else_read_more(adopted: Pair) -> None:
    with adopted.connect() as long, adopted.connect(autocommit=True) as worker:
        long.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        before = one(long, READ)
        worker.execute(BATCHES)
        worker.execute("SELECT psp.forget_watermarks()")
        assert one(worker, READ) == 3000
        assert pages_read(worker) < 10
        assert one(long, READ) == before


def test_a_look_meets_few_entries(adopted: Pair) -> None:
    """PostgreSQL looks at all entries of an index's page, those of moves that are forgotten among them."""
    with adopted.connect(autocommit=True) as worker:
        worker.execute(BATCHES)
        pages = one(worker, "SELECT pg_relation_size('psp.watermarks_newest') / 8192")
        assert 3000 / pages < 60


def test_old_ones_are_forgotten(adopted: Pair) -> None:
    with adopted.connect(autocommit=True) as worker:
        worker.execute(BATCHES)
        worker.execute("SELECT psp.forget_watermarks()")
        assert worker.execute("SELECT watermark FROM psp.watermarks").fetchall() == [(3000,)]
        worker.execute("SELECT psp.forget_watermarks()")
        assert one(worker, READ) == 3000


def test_it_goes_back_when_a_copy_begins(adopted: Pair) -> None:
    """The primary may have been restored, and the copy be older than what was applied."""
    with adopted.connect(autocommit=True) as worker:
        worker.execute("SELECT psp.end_batch(0, 135, false, false)")
        worker.execute("SELECT psp.begin_copy()")
        assert one(worker, READ) == -1
        worker.execute("SELECT psp.end_batch(111, 111, false, false)")
        worker.execute("SELECT psp.forget_watermarks()")
        assert one(worker, READ) == 111


def test_a_batch_leaves_no_listener(adopted: Pair) -> None:
    """Code of an owner may have made the session one: its notifications would come without end."""
    with adopted.connect() as worker:
        worker.execute("LISTEN anything")
        worker.execute("SELECT psp.end_batch(0, 1, false, false)")
        worker.commit()
        assert worker.execute("SELECT pg_listening_channels()").fetchall() == []
