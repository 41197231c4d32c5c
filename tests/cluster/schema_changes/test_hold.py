"""While a table is changed, its writers at other SPs wait; nobody else does."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager, closing
from typing import LiteralString

import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options, SpNode

from tests.cluster.schema_changes.statements import changing_pair
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    as_admin,
    connect,
    execute,
    raises,
    retry,
    wait_for_row,
)
from tests.threads import running, running_until_left

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, v int, s text);
CREATE TABLE note (id int PRIMARY KEY, item int REFERENCES item);
CREATE TABLE other (id int PRIMARY KEY, v int);
INSERT INTO item SELECT n, n FROM generate_series(1, 20) n;
INSERT INTO other VALUES (1, 0), (2, 0);
CREATE TABLE event (id bigserial PRIMARY KEY, v int);
"""

LOCK_NOT_AVAILABLE = "55P03"
ENDED = (SERIALIZATION_FAILURE, "57P01")  # 57P01: it still held a lock of the table
# Less than the time for which a change would wait that should not, more than one takes on a busy machine.
OPTIONS = Options(sp_options={"conflict_grace_ms": 3_000})


UPDATE: LiteralString = "UPDATE item SET v = v + 1 WHERE id = %s"


def write_without_a_pause(sp: SpNode, left: threading.Event, statement: LiteralString) -> None:
    n = 0
    while not left.is_set():
        with connect(sp) as connection:
            try:
                while not left.is_set():
                    n += 1
                    connection.execute(statement, [n % 20 + 1])
                    connection.commit()
            except psycopg.Error as error:
                assert error.sqlstate in ENDED, error


def written_without_a_pause(
    sp: SpNode, sessions: int, statement: LiteralString = UPDATE
) -> AbstractContextManager[None]:
    """Inside the block, sessions at this SP run the statement, which has a number from 1 to 20."""
    return running_until_left(*[lambda left: write_without_a_pause(sp, left, statement)] * sessions)


def test_a_table_that_another_sp_writes_without_a_pause_is_changed_at_the_first_try(
    pair: LocalCluster,
) -> None:
    north, south = pair.sps
    with (
        written_without_a_pause(south, sessions=3),
        connect(north) as connection,
    ):
        for statement in (
            "ALTER TABLE item ADD CONSTRAINT positive CHECK (v > 0)",
            "ALTER TABLE item ADD w int DEFAULT 7",
            "CREATE RULE r AS ON DELETE TO item DO INSTEAD NOTHING",
            "DROP RULE r ON item",
            "CREATE UNIQUE INDEX item_s ON item (s)",
            "DROP INDEX item_s",
            "SELECT psp.ddl('ALTER TABLE item ALTER v TYPE bigint, DROP w, DROP CONSTRAINT positive')",
        ):
            connection.execute(statement.encode())
            connection.commit()


def test_truncate_of_such_a_table_gets_through(pair: LocalCluster) -> None:
    """It cannot ask before it has the lock. After a loss the table is held for its next attempt."""
    north, south = pair.sps
    with written_without_a_pause(south, 4, "INSERT INTO event (v) VALUES (%s)"):
        for _ in range(5):
            wait_for_row(north, "SELECT 1 FROM event LIMIT 1")
            retry(lambda: execute(north, "TRUNCATE event"), ENDED)


def test_writers_of_the_table_wait_and_others_do_not(pair: LocalCluster) -> None:
    north, south = pair.sps
    with (
        connect(north) as change,
        connect(south) as writer,
        connect(south) as bystander,
    ):
        change.execute("ALTER TABLE item ADD x int")
        writer.execute("UPDATE item SET v = 1 WHERE id = 1")
        bystander.execute("UPDATE other SET v = v + 1 WHERE id = 1")
        bystander.commit()

        def lose() -> None:
            with raises(SERIALIZATION_FAILURE):
                writer.commit()

        with running(lose):
            wait_for_row(
                south,
                "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'",
            )
            bystander.execute("UPDATE other SET v = v + 1 WHERE id = 1")
            bystander.commit()
            change.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX item_v ON item (v)",
        "DROP INDEX item_v",
        "CREATE POLICY mine ON item USING (v > 0)",
        "DROP POLICY mine ON item",
    ],
)
def test_writers_wait_for_what_says_nothing_about_rows_and_lose_nothing(
    pair: LocalCluster, statement: LiteralString
) -> None:
    """Its lock is one that their rows would wait for."""
    north, south = pair.sps
    with connect(north) as change, connect(south) as writer, connect(south) as bystander:
        change.execute("SET psp.hold_timeout = '8s'")
        change.execute(statement)
        writer.execute("UPDATE item SET v = 1 WHERE id = 5")
        with running(writer.commit):
            waits = "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'"
            wait_for_row(south, waits)
            bystander.execute("UPDATE other SET v = v + 1 WHERE id = 1")
            bystander.commit()
            assert execute(south, waits) == [(1,)]
            change.commit()


def test_a_rollback_lets_them_go_on(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as change, connect(south) as writer:
        change.execute("ALTER TABLE item ADD y int")
        writer.execute("UPDATE item SET v = 2 WHERE id = 2")
        with running(writer.commit):
            wait_for_row(
                south,
                "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'",
            )
            change.rollback()


def test_they_go_on_when_the_session_is_ended(pair: LocalCluster) -> None:
    north, south = pair.sps
    with closing(connect(north)) as change, connect(south) as writer:
        change.execute("ALTER TABLE item ADD y int")
        writer.execute("UPDATE item SET v = 3 WHERE id = 3")
        with running(writer.commit):
            wait_for_row(
                south,
                "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'",
            )
            execute(
                as_admin(north),
                "SELECT pg_terminate_backend(%s)",
                [change.info.backend_pid],
            )


def test_they_wait_for_hold_timeout_at_most(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as change, connect(south) as writer:
        for value in ("soon", "-1s", "0.5"):
            change.execute("SELECT set_config('psp.hold_timeout', %s, false)", [value])
            with raises("22023"):
                change.execute("ALTER TABLE item ADD y int")
            change.rollback()
        change.execute("SET psp.hold_timeout = '100ms'")
        change.execute("ALTER TABLE item ADD y int")
        writer.execute("UPDATE item SET v = 4 WHERE id = 4")
        writer.commit()
        # The change has not seen this row.
        with raises(*ENDED):
            change.commit()


def test_a_change_that_takes_longer_goes_on(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as change, connect(south) as writer:
        change.execute("SET psp.hold_timeout = 100")
        change.execute("ALTER TABLE item ADD y int")
        writer.execute("UPDATE note SET item = 1")
        writer.commit()
        wait_for_row(north, "SELECT 1 FROM pg_sleep(0.5)")
        change.execute("ALTER TABLE other ADD y int")
        change.commit()
        change.execute("ALTER TABLE item DROP y; ALTER TABLE other DROP y")
        change.commit()


def test_a_statement_that_is_itself_in_the_way_does_not_wait(pair: LocalCluster) -> None:
    """The rows that it would wait for can come only when its transaction has ended."""
    north, south = pair.sps
    with (
        written_without_a_pause(south, sessions=2),
        connect(north) as connection,
    ):
        connection.execute("CREATE INDEX item_of_note ON item (v)")
        connection.execute("ALTER TABLE other ADD x2 int")
        connection.commit()
        connection.execute("DROP INDEX item_of_note")
        connection.execute("ALTER TABLE other DROP x2")
        connection.commit()


def test_the_other_table_of_a_foreign_key_is_held(pair: LocalCluster) -> None:
    north, south = pair.sps
    with (
        written_without_a_pause(south, sessions=2),
        connect(north) as connection,
    ):
        connection.execute("ALTER TABLE note DROP CONSTRAINT note_item_fkey")
        connection.commit()
        connection.execute(
            "ALTER TABLE note ADD CONSTRAINT note_item_fkey FOREIGN KEY (item) REFERENCES item"
        )
        connection.commit()


def test_who_may_not_change_a_table_holds_nobody(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(as_admin(north), "CREATE ROLE weak; GRANT EXECUTE ON FUNCTION psp.ddl(text) TO weak")
    with connect(as_admin(north)) as weak, connect(south) as writer:
        weak.execute("SET ROLE weak")
        weak.execute("SAVEPOINT a")
        with raises("42501"):
            weak.execute("ALTER TABLE public.item ADD x int")
        weak.execute("ROLLBACK TO a")
        writer.execute("SET statement_timeout = '3s'")
        writer.execute("UPDATE item SET v = 5 WHERE id = 5")
        writer.commit()
        weak.rollback()
    execute(as_admin(north), "REVOKE ALL ON FUNCTION psp.ddl(text) FROM weak; DROP ROLE weak")


def test_messages_about_temporary_tables(pair: LocalCluster) -> None:
    north = pair.sps[0]
    for message in (
        "BEGIN; CREATE TEMP TABLE tt AS SELECT * FROM item; DROP TABLE tt; ROLLBACK",
        "RESET ALL; DROP TABLE IF EXISTS tt; CREATE TEMP TABLE tt AS SELECT * FROM item",
    ):
        with connect(north, autocommit=True) as connection:
            connection.execute(message.encode())


def test_the_second_one_waits_for_the_first(pair: LocalCluster) -> None:
    """At another SP: as long as its lock_timeout allows."""
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        first.execute("SET psp.hold_timeout = '8s'")  # longer than the test, on a busy machine too
        first.execute("ALTER TABLE item ADD z int")
        second.execute("SET lock_timeout = '300ms'")
        second.commit()
        with raises(LOCK_NOT_AVAILABLE):
            second.execute("ALTER TABLE other ADD z int")
        second.rollback()
        second.execute("RESET lock_timeout")
        with running(lambda: second.execute("ALTER TABLE other ADD z int")):
            wait_for_row(
                south,
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%other ADD z%' AND state = 'active'",
            )
            first.commit()
        second.commit()
    execute(north, "SELECT psp.ddl('ALTER TABLE item DROP z')")


def test_one_that_waits_can_be_cancelled(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as first, connect(south) as second:
        first.execute("ALTER TABLE item ADD z int")
        second.execute("SET statement_timeout = '300ms'")
        with raises("57014"):
            second.execute("ALTER TABLE other DROP IF EXISTS z")
        second.rollback()
        first.rollback()


def test_a_transaction_holds_more_and_more_tables(pair: LocalCluster) -> None:
    north, south = pair.sps
    with (
        written_without_a_pause(south, sessions=2),
        connect(north) as connection,
    ):
        connection.execute("ALTER TABLE note ADD extra int")
        connection.execute("ALTER TABLE item ADD extra int")
        connection.execute("INSERT INTO note VALUES (1, 1, 1)")
        connection.execute("ALTER TABLE item DROP extra")
        connection.execute("ALTER TABLE note DROP extra")
        connection.commit()


APPLY_WAITS: LiteralString = "SELECT 1 FROM psp.apply_session WHERE cardinality(pg_blocking_pids(pid)) > 0"
BEHIND_IT: LiteralString = """
SELECT 1 FROM pg_locks l JOIN psp.apply_session s ON s.pid = ANY (pg_blocking_pids(l.pid))
 WHERE l.relation = 'psp.apply_session'::regclass AND NOT l.granted
"""


@pytest.mark.parametrize(
    "again",
    [
        "CREATE OR REPLACE VIEW twice AS SELECT v FROM item",
        "SELECT psp.ddl('CREATE OR REPLACE VIEW twice AS SELECT v FROM item')",
        "CREATE VIEW once AS SELECT 1; CREATE OR REPLACE VIEW twice AS SELECT v FROM item",
    ],
)
def test_a_statement_waits_for_one_that_arrives(pair: LocalCluster, again: LiteralString) -> None:
    """Both would write the same rows of PostgreSQL's catalog."""
    north, south = pair.sps
    first: LiteralString = "ALTER TABLE item ADD w int; CREATE OR REPLACE VIEW twice AS SELECT v FROM item"
    with connect(south) as reader, connect(south, autocommit=True) as second:
        reader.execute("SELECT FROM item")
        execute(north, first)
        wait_for_row(as_admin(south), APPLY_WAITS)
        second.execute("SET lock_timeout = '50ms'")
        with raises(LOCK_NOT_AVAILABLE):
            second.execute(again)
        second.execute("RESET lock_timeout")
        with running(lambda: second.execute(again)):
            wait_for_row(as_admin(south), BEHIND_IT)
            reader.rollback()
        second.execute("DROP VIEW IF EXISTS once; DROP VIEW twice; ALTER TABLE item DROP w")


def test_who_is_in_the_way_of_another_change_does_not_wait_behind_it() -> None:
    """Neither would end before the other one, if no timeout ended the first."""
    with changing_pair(SCHEMA, Options(sp_options={"conflict_grace_ms": 60_000})) as cluster:
        north, south = cluster.sps
        with connect(north, options="-c psp.hold_timeout=60s -c statement_timeout=20s") as connection:
            connection.execute("CREATE VIEW of_north AS SELECT 1")
            execute(south, "CREATE VIEW of_south AS SELECT 1")
            execute(south, "INSERT INTO item VALUES (100, 1)")
            wait_for_row(as_admin(north), APPLY_WAITS)
            with raises(SERIALIZATION_FAILURE):
                connection.execute("ALTER TABLE item ADD w int")
        wait_for_row(north, "SELECT 1 FROM item WHERE id = 100")


def change_a_table_now_and_then(sp: SpNode, left: threading.Event) -> None:
    with connect(sp, autocommit=True) as connection:
        for n in itertools.count():
            if left.wait(0.5):
                return
            connection.execute(f"ALTER TABLE other ALTER v SET DEFAULT {n}".encode())


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE made_{n} (id int PRIMARY KEY)", "SELECT psp.ddl('CREATE VIEW seen_{n} AS SELECT 1')"],
)
def test_changes_of_two_servers_come_one_after_the_other(pair: LocalCluster, statement: str) -> None:
    """Neither loses, though they have no table in common."""
    north, south = pair.sps
    with (
        running_until_left(lambda left: change_a_table_now_and_then(north, left)),
        connect(south, autocommit=True) as connection,
    ):
        for n in range(8):
            connection.execute(statement.format(n=n).encode())
