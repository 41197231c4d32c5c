"""What was told is on the synchronous standby: cancelled waits, lost sessions, emptied lists."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import LiteralString

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.output import PspError
from psp.primary import members
from psp.primary.database import set_copies
from psp.waiting import wait_until

from tests.cluster.faults.standby import EXECUTORS_THAT_WAIT, Standby, at_primary, set_list
from tests.cluster.support import (
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    WAIT_S,
    adopted_pair,
    connect,
    execute,
    paused,
    settle,
)
from tests.threads import running

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY, note text)"
ADD: LiteralString = "INSERT INTO item VALUES (%s, %s)"
FEWER = "lists 2 standbys, and 1 must have what is decided"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    options = Options(pg_settings={"shared_buffers": "32MB"}, sp_options={"commit_timeout_ms": 3000})
    with adopted_pair([SCHEMA], options) as cluster:
        yield cluster


@pytest.fixture(params=["auto"])
def pair(shared_pair: LocalCluster, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One row. The parameter: what certifies. Afterwards there is no standby, and all is equal."""
    shared_pair.stop(PRIMARY, "daemon")
    shared_pair.state.primary_options = {"certify": request.param}
    yield shared_pair
    set_list(shared_pair, "")
    set_copies(shared_pair.primary_dsn, 0)
    shared_pair.stop(PRIMARY, "daemon")
    settle(shared_pair)


@pytest.fixture
def standby(pair: LocalCluster) -> Iterator[Standby]:
    """Synchronous, and everything streams."""
    standby = Standby(pair)
    standby.make_synchronous()
    settle(pair)
    execute(pair.sps[0], "DELETE FROM item")
    execute(pair.sps[0], ADD, (0, "first"))
    settle(pair)
    yield standby
    standby.remove()


class Told:
    """What clients were told of one COMMIT each."""

    def __init__(self) -> None:
        self.committed: set[int] = set()
        self.errors: dict[int, str | None] = {}

    def add(self, sp: SpNode, key: int) -> None:
        """Inserts a row, and notes the answer."""
        try:
            execute(sp, ADD, (key, "told"))
            self.committed.add(key)
        except psycopg.Error as error:
            self.errors[key] = error.sqlstate


def executors_that_wait(cluster: LocalCluster) -> list[int]:
    return [pid for (pid,) in at_primary(cluster, EXECUTORS_THAT_WAIT)]


def end_waits(cluster: LocalCluster, function: LiteralString) -> None:
    """Of all that wait for the standby, until nobody waits."""
    end: LiteralString = f"SELECT {function}(pid) FROM ({EXECUTORS_THAT_WAIT}) AS waiting"

    def nobody_waits() -> bool:
        at_primary(cluster, end)
        return not executors_that_wait(cluster)

    wait_until("the waits to end", nobody_waits, WAIT_S)


def keys(sp: SpNode) -> set[int]:
    return {key for (key,) in execute(sp, "SELECT id FROM item")}


@pytest.mark.parametrize("pair", ["auto", "sql"], indirect=True)
@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_what_was_told_is_on_the_standby(
    pair: LocalCluster, standby: Standby, function: LiteralString
) -> None:
    """A wait that ends early is no proof: nobody is told, and a promotion loses nothing that was."""
    north, south = pair.sps
    told = Told()
    with standby.cut():
        with running(lambda: told.add(north, 1), lambda: told.add(south, 2)):
            wait_until("the batches to wait", lambda: executors_that_wait(pair), WAIT_S)
            end_waits(pair, function)
        standby.take_over()
    settle(pair)
    for sp in pair.sps:
        assert told.committed <= keys(sp), (told.committed, keys(sp))
    assert set(told.errors.values()) <= {OUTCOME_UNKNOWN, CONNECTION_FAILURE}


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_wait_that_ends_early_is_told_later(
    pair: LocalCluster, standby: Standby, function: LiteralString
) -> None:
    """The standby comes back: what was decided meanwhile is told then, and nothing is decided twice."""
    north, south = pair.sps
    told = Told()
    with ExitStack() as line:
        line.enter_context(standby.cut())
        with running(lambda: told.add(north, 1), lambda: told.add(south, 2)):
            wait_until("the batches to wait", lambda: executors_that_wait(pair), WAIT_S)
            end_waits(pair, function)
            assert not told.committed
            line.close()
    settle(pair)
    assert told.committed | set(told.errors) == {1, 2}
    assert keys(north) == keys(south) == {0, 1, 2}


def test_an_emptied_list_weakens_nothing(pair: LocalCluster, standby: Standby) -> None:
    """PostgreSQL ends the waits then, without a warning."""
    north, _ = pair.sps
    told = Told()
    with standby.cut(), running(lambda: told.add(north, 1)):
        wait_until("the batch to wait", lambda: executors_that_wait(pair), WAIT_S)
        set_list(pair, "")
        wait_until("the wait to end", lambda: not executors_that_wait(pair), WAIT_S)
        with running(lambda: told.add(north, 3)):
            pass
        assert not told.committed
    set_list(pair, "standby")
    settle(pair)
    assert keys(north) == {0, 1, 3}


def test_an_outcome_is_not_told_before_it_is_on_the_standby(pair: LocalCluster, standby: Standby) -> None:
    """The abort that a question makes is lost by the promotion; then the transaction arrives, and commits."""
    north, south = pair.sps
    answers: list[str] = []

    def ask(transaction: uuid.UUID) -> None:
        with connect(south, autocommit=True) as connection:
            try:
                row = connection.execute("SELECT psp.outcome(%s)", (transaction,)).fetchone()
            except psycopg.Error:
                return
            assert row is not None
            answers.append(row[0])

    told = Told()
    with connect(north, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute(ADD, (1, "asked for"))
        row = connection.execute("SELECT psp.transaction_id()").fetchone()
        assert row is not None

        def commit() -> None:
            try:
                connection.execute("COMMIT")
                told.committed.add(1)
            except psycopg.Error as error:
                told.errors[1] = error.sqlstate

        with paused(pair, "north"), running(commit):
            with standby.cut(), running(lambda: ask(row[0])):
                wait_until("the question's batch to wait", lambda: executors_that_wait(pair), WAIT_S)
                end_waits(pair, "pg_terminate_backend")
            assert answers in ([], ["unknown"]), answers
            with standby.cut():
                standby.take_over()
    settle(pair)
    assert told.committed <= keys(north)
    if 1 in keys(north):
        assert "aborted" not in answers


def test_the_number_of_copies_outlives_the_list_and_the_server(pair: LocalCluster, standby: Standby) -> None:
    """A promoted standby has none of its own: COMMITs wait until the number is lowered."""
    north, _ = pair.sps
    set_copies(pair.primary_dsn, 1)
    with pytest.raises(PspError):
        standby.take_over()
    log = (pair.state.directory / PRIMARY / "psp-primary.log").read_text()
    assert "and 0 are connected: psp primary copies asks for them" in log
    assert "COMMITs wait." in members.show_copies(members.gather(pair.primary_dsn))
    set_copies(pair.primary_dsn, 0)
    settle(pair)
    execute(north, ADD, (1, "after that"))


@pytest.mark.parametrize(
    "names", ["ANY 1 (standby, another)", 'FIRST 1 (standby, "an,other")', "standby, another"]
)
def test_a_start_waits_where_fewer_copies_are_required_than_listed(
    pair: LocalCluster, standby: Standby, names: LiteralString
) -> None:
    """A standby that is promoted might lack what was told. It begins when the list has changed."""
    north, _ = pair.sps
    log = pair.state.directory / PRIMARY / "psp-primary.log"
    pair.stop(PRIMARY, "daemon")
    set_list(pair, names)
    told = log.read_text().count(FEWER)
    with running(lambda: pair.start(PRIMARY, "daemon")):
        wait_until("it to wait", lambda: log.read_text().count(FEWER) > told, WAIT_S)
        standby.make_synchronous()
    settle(pair)
    execute(north, ADD, (1, "after that"))


def test_a_start_waits_for_the_copies_that_are_required(pair: LocalCluster, standby: Standby) -> None:
    """It says what it waits for, and what was decided before it is told when the standby has it."""
    north, _ = pair.sps
    pair.stop(PRIMARY, "daemon")
    standby.server.stop()
    with pytest.raises(PspError):
        pair.start(PRIMARY, "daemon")
    log = (pair.state.directory / PRIMARY / "psp-primary.log").read_text()
    assert "1 synchronous standby(s) must have what is decided, and 0 are connected" in log
    standby.server.start()
    settle(pair)
    execute(north, ADD, (1, "after that"))
