"""What is old is told by numbers and by clocks that cannot jump, and not by the time of day of a server."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster.local import LocalCluster, Options
from psp.schema.native.capture import CaptureChoice, use
from psp.waiting import wait_until

from tests.cluster.schema_changes.statements import allow_ddl
from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    as_admin,
    connect,
    execute,
    forget_all,
    is_streaming,
    raises,
    settle,
    wait_for_row,
)

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_pair
    settle(shared_pair)


@pytest.mark.parametrize("capture", ["sql", "auto"])
def test_what_is_forgotten_is_not_aborted(pair: LocalCluster, capture: CaptureChoice) -> None:
    north = pair.sps[0]
    with psycopg.connect(north.admin_dsn) as admin:
        use(admin, capture)
    ids: list[str] = []
    with connect(north) as older, connect(north) as connection, connect(north) as newer:
        for session in (older, connection, newer):
            session.execute("INSERT INTO item SELECT coalesce(max(id), 0) + 1 + %s FROM item", (len(ids),))
            row = session.execute("SELECT psp.transaction_id()::text, pg_current_xact_id()::text").fetchone()
            assert row is not None
            tx_id, xid = row
            assert int(tx_id.replace("-", "")[:12], 16) == int(xid)
            assert int(tx_id[-8:], 16) == 1  # north
            ids.append(tx_id)
        connection.commit()
        assert execute(north, "SELECT psp.outcome(%s)", (ids[1],)) == [("committed",)]
        forget_all(pair)
        for sp in pair.sps:
            assert execute(sp, "SELECT psp.outcome(%s)", (ids[1],)) == [("forgotten",)]
            assert execute(sp, "SELECT psp.outcome(%s)", (ids[0],)) == [("forgotten",)]
            assert execute(sp, "SELECT psp.outcome(%s)", (ids[2],)) == [("aborted",)]
        older.commit()  # the question has changed nothing
        assert execute(north, "SELECT psp.outcome(%s)", (ids[0],)) == [("committed",)]
        with raises("40000"):
            newer.commit()


def test_a_clock_that_was_set_back_hides_no_stopped_daemon(pair: LocalCluster) -> None:
    north = pair.sps[0]
    is_tomorrow = "UPDATE psp.daemon_status SET updated_at = updated_at + interval '1 day'"
    execute(as_admin(north), is_tomorrow)
    wait_until("the daemon to say what it does", lambda: is_streaming(pair, "north"), WAIT_S)
    pair.kill("north")
    execute(as_admin(north), is_tomorrow)
    assert execute(north, "SELECT state FROM psp.status") == [("stopped",)]


def test_a_clock_that_was_set_back_delays_no_job(pair: LocalCluster) -> None:
    south = as_admin(pair.sps[1])
    for sp in pair.sps:
        allow_ddl(sp)
    with connect(pair.sps[0], autocommit=True) as session:
        session.execute("CREATE INDEX CONCURRENTLY item_note ON item (note)")
    wait_for_row(south, "SELECT 1 FROM psp.jobs WHERE state = 'done'")
    pair.kill("south")
    execute(south, "UPDATE psp.jobs SET state = 'waiting', try_at = clock_timestamp() + interval '1 day'")
    pair.start("south")
    wait_for_row(south, "SELECT 1 FROM psp.jobs WHERE state = 'done'")
