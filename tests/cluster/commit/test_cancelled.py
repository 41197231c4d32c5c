"""A COMMIT that is cancelled while the primary decides ends in doubt; psp.outcome tells what became of it."""

import threading
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.waiting import wait_until

from tests.cluster.schema_changes.statements import allow_ddl
from tests.cluster.support import (
    OUTCOME_UNKNOWN,
    SCHEMA,
    SERIALIZATION_FAILURE,
    WAIT_S,
    MakeCluster,
    connect,
    execute,
    raises,
    tx_id_of,
    wait_for_row,
    wait_streaming,
)

RTT_MS = 600
IN_HOOK = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def waits_in_hook(admin: psycopg.Connection[Any], pid: int) -> bool:
    """True when the backend, connected, has sent its write-set: it has the hook's lock, and sleeps."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S" and admin.execute(IN_HOOK, (pid,)).fetchone() is not None


@pytest.fixture
def far(make_cluster: MakeCluster) -> LocalCluster:
    """One SP far from the primary, so that there is time to cancel in."""
    cluster = make_cluster([Zone("far", RTT_MS), Zone("near")], SCHEMA.read_text(), None)
    wait_streaming(cluster)
    return cluster


def check_committed(far: LocalCluster, error: psycopg.Error) -> None:
    """Nothing else stood in the way, so the primary has committed it, and both SPs get it."""
    sp = far.sp("far")
    assert execute(sp, "SELECT psp.outcome(%s)", (tx_id_of(error),)) == [("committed",)]
    for name in ("far", "near"):
        assert wait_for_row(far.sp(name), "SELECT note FROM document") == ("kept",)
    execute(sp, "UPDATE document SET note = 'and again'")
    assert verify.verify(far).consistent


def cancelled_commit(sp: SpNode, statement: LiteralString) -> psycopg.Error:
    """What the session is told. The primary commits."""
    errors: list[psycopg.Error] = []

    def commit(connection: psycopg.Connection[Any]) -> None:
        with raises(OUTCOME_UNKNOWN) as caught:
            connection.commit()
        errors.extend(caught)

    with (
        connect(sp) as connection,
        psycopg.connect(sp.admin_dsn, autocommit=True) as admin,
    ):
        pid = connection.info.backend_pid
        # So that the hook is connected: it holds the lock while it connects, too.
        connection.execute("INSERT INTO counter VALUES ('first', 0)")
        connection.commit()
        connection.execute(statement)
        committer = threading.Thread(target=commit, args=(connection,))
        committer.start()
        wait_until("the hook to wait", lambda: waits_in_hook(admin, pid), WAIT_S)
        admin.execute("SELECT pg_cancel_backend(%s)", (pid,))
        committer.join(WAIT_S)
    return errors[0]


def test_by_another_session(far: LocalCluster) -> None:
    error = cancelled_commit(far.sp("far"), "INSERT INTO document (note) VALUES ('kept')")
    check_committed(far, error)


def test_a_schema_change_that_comes_soon_after_it_has_not_seen_its_rows(
    far: LocalCluster,
) -> None:
    """They are committed, and not in this database yet: the check of all rows did not find them."""
    sp = far.sp("far")
    allow_ddl(sp)
    with connect(sp) as migration:
        migration.execute("SELECT 1")
        cancelled_commit(sp, "INSERT INTO counter VALUES ('kept', -1)")
        with raises(SERIALIZATION_FAILURE, "57P01", "23514"):
            migration.execute(
                "SELECT psp.ddl('ALTER TABLE counter ADD CONSTRAINT positive CHECK (value >= 0)')"
            )
            migration.commit()
    for name in ("far", "near"):
        assert wait_for_row(far.sp(name), "SELECT value FROM counter WHERE name = 'kept'") == (-1,)
    wait_streaming(far)
    assert verify.verify(far).consistent


def test_a_statement_timeout_does_not_reach_it(far: LocalCluster) -> None:
    """PostgreSQL ends the time for a statement before deferred triggers run."""
    with connect(far.sp("far")) as connection:
        connection.execute("INSERT INTO document (note) VALUES ('kept')")
        connection.execute("SET statement_timeout = 300")
        connection.commit()
    wait_for_row(far.sp("near"), "SELECT note FROM document")
    assert verify.verify(far).consistent


def test_two_cancels_and_the_next_commit(far: LocalCluster) -> None:
    """Two cancels in a row: what COMMIT says is true. The session's next one is sound."""
    sp = far.sp("far")
    told: list[str | None] = []

    def commit(connection: psycopg.Connection[Any]) -> None:
        try:
            connection.commit()
            told.append(None)
        except psycopg.Error as error:
            told.append(error.sqlstate)

    with (
        connect(sp) as connection,
        psycopg.connect(sp.admin_dsn, autocommit=True) as admin,
    ):
        pid = connection.info.backend_pid
        for attempt in range(6):
            connection.execute("INSERT INTO counter VALUES (%s, 0)", (f"cancelled {attempt}",))
            row = connection.execute("SELECT psp.transaction_id()").fetchone()
            committer = threading.Thread(target=commit, args=(connection,))
            committer.start()
            if attempt > 0:  # the hook holds its lock while it connects for the first time, too
                wait_until("the hook to wait", partial(waits_in_hook, admin, pid), WAIT_S)
                for _ in range(2):
                    admin.execute("SELECT pg_cancel_backend(%s)", (pid,))
            committer.join(WAIT_S)
            if told[-1] is not None:
                connection.rollback()
            outcome = connection.execute("SELECT psp.outcome(%s)", row).fetchone()
            # 57014 is true when the first cancel came before anything was sent.
            possible = {
                None: {"committed"},
                "57014": {"aborted"},
                OUTCOME_UNKNOWN: {"committed", "aborted"},
            }
            assert outcome is not None and outcome[0] in possible[told[-1]], told
            connection.commit()
            connection.execute("INSERT INTO counter VALUES (%s, 0)", (f"after {attempt}",))
            connection.commit()
            if outcome == ("committed",):
                wait_for_row(
                    sp,
                    "SELECT 1 FROM counter WHERE name = %s",
                    (f"cancelled {attempt}",),
                )
    assert OUTCOME_UNKNOWN in told
    assert verify.verify(far, WAIT_S).consistent


def test_a_statement_timeout_in_a_procedures_commit(far: LocalCluster) -> None:
    """There the time for the CALL goes on, so it ends in doubt, and says so."""
    sp = far.sp("far")
    with connect(sp, autocommit=True) as connection:
        connection.execute("INSERT INTO document (note) VALUES ('kept')")
        connection.execute("SET statement_timeout = 300")
        with raises(OUTCOME_UNKNOWN) as caught:
            connection.execute("DO $$ BEGIN UPDATE document SET note = 'again'; COMMIT; END $$")
        connection.execute("SET statement_timeout = 0")
        outcome = connection.execute("SELECT psp.outcome(%s)", (tx_id_of(caught[0]),)).fetchone()
    assert outcome == ("committed",)
    for name in ("far", "near"):
        wait_for_row(far.sp(name), "SELECT 1 FROM document WHERE note = 'again'")
    assert verify.verify(far, WAIT_S).consistent
