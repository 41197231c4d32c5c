"""Rows that are written while an adoption copies a snapshot are at the primary in the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psp.cluster.verify import verify_servers
from psp.output import PspError
from psp.problems import RefusedError
from psp.schema import adopt as adopt_module
from psp.schema.adopt import Options, adopt
from psp.waiting import wait_until

from tests.sql.databases import Pair
from tests.threads import running

SCHEMA = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE item (id int PRIMARY KEY, v text, m mood DEFAULT 'good');
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY HASH (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE quiet (id int PRIMARY KEY);
INSERT INTO item SELECT n, 'v' || n FROM generate_series(1, 1000) n;
INSERT INTO parted SELECT n, 'v' || n FROM generate_series(1, 1000) n;
INSERT INTO quiet SELECT n FROM generate_series(1, 10) n;
"""


@pytest.fixture(autouse=True)
def no_table_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt_module, "SMALL_BYTES", -1)


class Meanwhile:
    """Progress that lets others write when the snapshot is copied, before the locks."""

    def __init__(self, locking: Callable[[], object]) -> None:
        self._locking = locking
        self.attempts = 0

    def say(self, text: str) -> None:
        if text.startswith("locking"):
            self.attempts += 1
            if self.attempts == 1:
                self._locking()

    def rows(self, table: str, done: int, total: int) -> None:
        pass


def adopt_meanwhile(pair: Pair, progress: Meanwhile, add_keys: bool = False) -> None:
    adopt(pair.dsn, pair.primary_dsn, Options(name="one", lock_wait_s=5, add_keys=add_keys), progress)


def check_rows(pair: Pair) -> None:
    found = verify_servers(pair.primary_dsn, {"one": pair.dsn})
    assert found.consistent, found.differing()


WRITES = {
    "nothing": (),
    "insert": ("INSERT INTO item SELECT n, 'new' FROM generate_series(2001, 2100) n",),
    "update": ("UPDATE item SET v = 'x' WHERE id % 7 = 0", "UPDATE parted SET v = 'x' WHERE id < 5"),
    "delete": ("DELETE FROM item WHERE id BETWEEN 10 AND 30", "DELETE FROM parted WHERE id = 1"),
    "key": ("UPDATE item SET id = id + 5000 WHERE id < 20", "UPDATE parted SET id = 7777 WHERE id = 7"),
    "as many": (
        "DELETE FROM item WHERE id IN (5, 6)", "INSERT INTO item VALUES (5, 'again'), (6006, 'instead')",
    ),
    "truncate": ("TRUNCATE item", "INSERT INTO item VALUES (1, 'first')"),
    "written again": ("DELETE FROM item WHERE id = 4", "VACUUM FREEZE item", "VACUUM FULL parted"),
}  # fmt: skip


@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
def test_what_is_written_meanwhile(pair: Pair, writes: tuple[str, ...]) -> None:
    pair.run(SCHEMA)

    def write() -> None:
        with psycopg.connect(pair.dsn, autocommit=True) as connection:
            for statement in writes:
                connection.execute(statement.encode())

    adopt_meanwhile(pair, Meanwhile(write))
    check_rows(pair)


def test_a_transaction_that_is_open_in_the_snapshot(pair: Pair) -> None:
    """Its subtransactions have numbers that the snapshot does not list."""
    pair.run(SCHEMA)
    with closing(pair.connect()) as writer:
        writer.execute("INSERT INTO item VALUES (3001, 'top')")
        for number in range(100):  # more than a snapshot lists
            writer.execute("SAVEPOINT s")
            writer.execute("UPDATE item SET v = 'sub' WHERE id = %s", [number])
            writer.execute("RELEASE s")
        with psycopg.connect(pair.dsn) as other:  # later numbers, which have ended in the snapshot
            other.execute("UPDATE item SET v = 'ended' WHERE id = 500")
        adopt_meanwhile(pair, Meanwhile(writer.commit))
    check_rows(pair)


def test_a_lock_that_is_refused_at_first(pair: Pair) -> None:
    """What an attempt has done at the primary is undone, but for the snapshot's rows."""
    pair.run(SCHEMA)
    with closing(pair.connect()) as writer:
        writer.execute("DELETE FROM item WHERE id < 10")

        def again() -> None:
            writer.execute("INSERT INTO item VALUES (1, 'again')")

        class Patient(Meanwhile):
            def say(self, text: str) -> None:
                super().say(text)
                if text.startswith("waiting"):
                    writer.commit()

        progress = Patient(again)
        adopt_meanwhile(pair, progress)
        assert progress.attempts == 2
    check_rows(pair)


def test_the_primarys_daemon_is_met(pair: Pair) -> None:
    """It reads the primary's tables in an order of its own, and adoption empties all of them: a deadlock."""
    pair.run(SCHEMA)
    with psycopg.connect(pair.primary_dsn) as daemon:
        daemon.execute("SET deadlock_timeout = '1min'")  # the other one finds it
        daemon.execute("SELECT FROM psp.decided LIMIT 1")

        def read() -> None:
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'psp.decided'::regclass AND NOT granted"
            wait_until("adoption waits", lambda: daemon.execute(waiting).fetchone() == (1,), 60)
            daemon.execute("SELECT FROM psp.semi_primaries LIMIT 1")
            daemon.commit()

        with running(read):
            adopt_meanwhile(pair, Meanwhile(list))
    check_rows(pair)


def test_tables_that_get_a_key_are_copied_under_the_locks(pair: Pair) -> None:
    pair.run(SCHEMA + "CREATE TABLE bare (v int); INSERT INTO bare SELECT generate_series(1, 50)")
    with pytest.raises(RefusedError):
        adopt_meanwhile(pair, Meanwhile(list))

    def write() -> None:
        pair.run("DELETE FROM bare WHERE v > 40; INSERT INTO bare VALUES (100); DELETE FROM item")

    adopt_meanwhile(pair, Meanwhile(write), add_keys=True)
    counts = pair.primary_rows(
        "SELECT table_name, count(*) FROM psp.data JOIN psp.tables USING (table_id) "
        "WHERE NOT deleted GROUP BY 1 ORDER BY 1"
    )
    assert counts == [("bare", 41), ("parted", 1000), ("quiet", 10)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TYPE mood RENAME VALUE 'good' TO 'fine'",
        "CREATE TABLE aaa (id int PRIMARY KEY)",
        "DROP TABLE quiet",
    ],
)
def test_a_schema_that_changes_meanwhile(pair: Pair, change: str) -> None:
    pair.run(SCHEMA)
    with pytest.raises(PspError, match="the schema has changed"):
        adopt_meanwhile(pair, Meanwhile(lambda: pair.run(change)))
    assert pair.primary_rows("SELECT state FROM psp.cluster") == [("empty",)]
    assert pair.adopt() == 1


def test_small_tables_are_copied_under_the_locks(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they are not small any more when the locks are there."""
    monkeypatch.setattr(adopt_module, "SMALL_BYTES", 1 << 20)
    pair.run(SCHEMA)
    grow = "INSERT INTO item SELECT n, repeat('v', 100) FROM generate_series(2001, 200000) n"
    with pytest.raises(PspError, match="the tables have grown"):
        adopt_meanwhile(pair, Meanwhile(lambda: pair.run(grow)))
    assert pair.primary_rows("SELECT state FROM psp.cluster") == [("empty",)]
    pair.run("TRUNCATE item")
    adopt_meanwhile(pair, Meanwhile(lambda: pair.run("INSERT INTO item VALUES (1, 'meanwhile')")))
    check_rows(pair)
