"""psp.retry_autocommit: a statement that is a whole transaction and has lost is run again by the server."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.cluster.verify import wait_drained
from psp.waiting import wait_until

from tests.cluster.schema_changes.statements import changing_pair, ddl
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    WAIT_S,
    applying_paused,
    as_admin,
    connect,
    execute,
    needs_module,
    paused,
    raises,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL);
CREATE TABLE session (id uuid PRIMARY KEY);
CREATE TABLE named (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE trail (id int, n int, at_depth int, PRIMARY KEY (id, n));
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO trail VALUES (NEW.id, NEW.n, pg_trigger_depth()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON item DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION note();
CREATE FUNCTION add(item_id int) RETURNS int LANGUAGE sql AS
    $$ UPDATE item SET n = n + 1 WHERE id = item_id RETURNING n $$;
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS ALL DEFERRED;
    IF NEW.n = 1 THEN UPDATE item SET n = 2 WHERE id = NEW.id; ELSIF NEW.n = 2 THEN RAISE 'too late'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON item DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.id = 9) EXECUTE FUNCTION late();
"""
ADD = "UPDATE item SET n = n + 1 WHERE id = 1"
ATTEMPTS = 5

pytestmark = needs_module()
Session = psycopg.Connection[tuple[Any, ...]]
Work = Callable[[Session], None]
Win = Callable[[SpNode], object]


@pytest.fixture(scope="module")
def adopted() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        yield cluster


@pytest.fixture
def pair(adopted: LocalCluster) -> LocalCluster:
    """Item 1 is 0 at both."""
    wait_drained(adopted)
    for statement in (
        "DELETE FROM item",
        "DELETE FROM trail",
        "INSERT INTO item VALUES (1, 0)",
    ):
        execute(adopted.sps[0], statement)
    wait_drained(adopted)
    return adopted


@contextmanager
def session(sp: SpNode, retries: int = ATTEMPTS) -> Iterator[Session]:
    """It has loaded the module, as the first statement that writes does."""
    with connect(sp, autocommit=True) as connection:
        connection.execute("INSERT INTO session VALUES (gen_random_uuid())")
        connection.execute(f"SET psp.retry_autocommit = {retries}".encode())
        yield connection


def losses(sp: SpNode) -> int:
    return int(execute(sp, "SELECT losses_total FROM psp.status")[0][0])


def add_one(sp: SpNode) -> None:
    execute(sp, ADD)


def lose(cluster: LocalCluster, work: Work, retries: int = ATTEMPTS, win: Win = add_one) -> None:
    """Like lose_with, in a session that has the module and the setting."""
    with session(cluster.sps[1], retries) as connection:
        lose_with(cluster, connection, work, win)


def lose_with(cluster: LocalCluster, connection: Session, work: Work, win: Win = add_one) -> None:
    """Runs `work` at the second SP. What `win` does at the first is applied when it has lost."""
    first, second = cluster.sps
    may_begin = Event()

    def wait_and_work() -> None:
        assert may_begin.wait(WAIT_S)
        work(connection)

    wait_drained(cluster)
    lost = losses(second)
    with running(wait_and_work), applying_paused(second):
        try:
            win(first)
        finally:
            may_begin.set()
        wait_until("a loss", lambda: losses(second) > lost, WAIT_S)
    wait_drained(cluster)


def numbers(cluster: LocalCluster, number: int = 1) -> set[int]:
    """Item 1 (or another one) at both, which must be the same."""
    return {int(execute(sp, "SELECT n FROM item WHERE id = %s", (number,))[0][0]) for sp in cluster.sps}


@pytest.mark.parametrize("parameters", [None, (1,)], ids=["simple", "extended"])
def test_it_runs_again_when_the_winner_is_here(pair: LocalCluster, parameters: tuple[int] | None) -> None:
    def work(connection: Session) -> None:
        where = "%s" if parameters else "1"
        done = connection.execute(f"UPDATE item SET n = (n + 1) * 10 WHERE id = {where}".encode(), parameters)
        assert done.rowcount == 1
        assert connection.execute("SELECT n FROM item WHERE id = 1").fetchone() == (20,)

    lose(pair, work)
    assert numbers(pair) == {20}


def test_without_the_setting_it_is_lost(pair: LocalCluster) -> None:
    def work(connection: Session) -> None:
        with raises(SERIALIZATION_FAILURE):
            connection.execute(ADD)

    lose(pair, work, retries=0)
    assert numbers(pair) == {1}


def test_what_it_finds_then_counts(pair: LocalCluster) -> None:
    def work(connection: Session) -> None:
        assert connection.execute("UPDATE item SET n = 7 WHERE id = 1 AND n = 0").rowcount == 0

    lose(pair, work)
    assert numbers(pair) == {1}


def test_a_later_attempt_may_not_ask_for_its_id(pair: LocalCluster) -> None:
    """It would be told the first attempt's, which is aborted."""

    def work(connection: Session) -> None:
        with raises(SERIALIZATION_FAILURE):
            connection.execute(
                "UPDATE item SET n = CASE n WHEN 0 THEN 5 ELSE length(psp.transaction_id()::text) END"
            )

    lose(pair, work)
    assert numbers(pair) == {1}


def test_an_error_of_the_second_attempt_is_the_statements_own(
    pair: LocalCluster,
) -> None:
    def work(connection: Session) -> None:
        with raises("22012"):
            connection.execute("UPDATE item SET n = 1 / (1 - n) WHERE id = 1")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        connection.execute("INSERT INTO item VALUES (3, 3)")

    lose(pair, work)
    assert numbers(pair) == {1} and numbers(pair, 3) == {3}


def test_the_first_statement_of_a_session_where_the_module_is_preloaded(
    pair: LocalCluster,
) -> None:
    second = pair.sps[1]
    with connect(as_admin(second), autocommit=True) as admin:
        admin.execute("ALTER DATABASE app SET session_preload_libraries = 'psp_capture'")
        try:
            with connect(second, autocommit=True) as connection:
                connection.execute("SET psp.retry_autocommit = 5")
                lose_with(pair, connection, assert_updated)
        finally:
            admin.execute("ALTER DATABASE app RESET session_preload_libraries")
    assert numbers(pair) == {2}


def assert_updated(connection: Session) -> None:
    assert connection.execute(ADD).rowcount == 1


def test_what_deferred_triggers_write_is_undone_with_it(pair: LocalCluster) -> None:
    def work(connection: Session) -> None:
        connection.execute("UPDATE item SET n = n + 10 WHERE id = 1")

    lose(pair, work)
    for sp in pair.sps:
        assert execute(sp, "SELECT n FROM trail WHERE id = 1 ORDER BY n") == [
            (1,),
            (11,),
        ]


def test_a_violation_by_a_deferred_trigger_is_no_loss(pair: LocalCluster) -> None:
    with session(pair.sps[1]) as connection:
        connection.execute("INSERT INTO trail VALUES (1, 1, 0)")
        with raises("23505"):
            connection.execute(ADD)
        connection.execute("DELETE FROM trail")
        connection.execute(ADD)
    wait_drained(pair)
    assert numbers(pair) == {1}


def in_a_block(connection: Session) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO item VALUES (4, 0)")
        connection.execute(ADD)


def in_one_message(connection: Session) -> None:
    connection.execute(f"INSERT INTO item VALUES (4, 0); {ADD}".encode())


def in_a_pipeline(connection: Session) -> None:
    send_together(connection, b"INSERT INTO item VALUES (4, 0)", ADD.encode())


def first_of_a_pipeline(connection: Session) -> None:
    send_together(connection, ADD.encode(), b"INSERT INTO item VALUES (4, 0)")


def send_together(connection: Session, *statements: bytes) -> None:
    """By libpq: psycopg's pipelines do not expect an error of COMMIT itself."""
    with closing(connection):
        libpq = connection.pgconn
        libpq.enter_pipeline_mode()
        for statement in statements:
            libpq.send_query_params(statement, None)
        libpq.pipeline_sync()
        states = []
        result = libpq.get_result()
        while result is None or result.status != psycopg.pq.ExecStatus.PIPELINE_SYNC:
            if result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
                states.append((result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode())
            result = libpq.get_result()
        if states:
            raise psycopg.errors.lookup(states[0])("of the pipeline")


def with_returning(connection: Session) -> None:
    connection.execute("UPDATE item SET n = n + 1 WHERE id = %s RETURNING n", (1,))


def with_a_writing_cte(connection: Session) -> None:
    connection.execute(f"WITH added AS (INSERT INTO item VALUES (4, 0)) {ADD}".encode())


def whose_id_is_shown(connection: Session) -> None:
    connection.execute("SET psp.show_transaction_id = on")
    connection.execute(ADD)


def that_asks_for_its_id(connection: Session) -> None:
    connection.execute("UPDATE item SET n = length(psp.transaction_id()::text) WHERE id = 1")


def under_repeatable_read(connection: Session) -> None:
    connection.execute("SET default_transaction_isolation = 'repeatable read'")
    connection.execute(ADD)


def in_a_do_block(connection: Session) -> None:
    connection.execute(f"DO $$ BEGIN {ADD}; END $$".encode())


def in_a_function(connection: Session) -> None:
    connection.execute("SELECT add(1)")


@pytest.mark.parametrize(
    "other",
    [
        in_a_block,
        in_one_message,
        in_a_pipeline,
        first_of_a_pipeline,
        with_returning,
        with_a_writing_cte,
        whose_id_is_shown,
        that_asks_for_its_id,
        under_repeatable_read,
        in_a_do_block,
        in_a_function,
    ],
)
def test_only_a_statement_that_is_the_whole_transaction(pair: LocalCluster, other: Work) -> None:
    """Of others the client has more to send, or has seen something: they are lost, as a whole."""

    def work(connection: Session) -> None:
        with raises(SERIALIZATION_FAILURE):
            other(connection)

    lose(pair, work)
    assert numbers(pair) == {1}
    assert execute(pair.sps[1], "SELECT 1 FROM item WHERE id = 4") == []


def test_a_pipeline_of_several_is_one_transaction(pair: LocalCluster) -> None:
    with session(pair.sps[1]) as connection, raises("22012"), connection.pipeline():
        connection.execute(ADD)
        connection.execute("SELECT 1 / 0")
    wait_drained(pair)
    assert numbers(pair) == {0}


def test_while_it_waits_it_can_be_cancelled(pair: LocalCluster) -> None:
    """Nothing is in doubt: the attempt that was asked for has lost."""
    first, second = pair.sps
    with session(second) as connection:
        wait_drained(pair)
        with applying_paused(second):
            execute(first, ADD)
            connection.execute("SET statement_timeout = '1s'")
            with raises("57014"):
                connection.execute(ADD)
        connection.execute("RESET statement_timeout")
        connection.execute(ADD)
    wait_drained(pair)
    assert numbers(pair) == {2}


@pytest.mark.parametrize("prepare", [False, True])
def test_two_sps_add_to_one_row_without_an_error(pair: LocalCluster, prepare: bool) -> None:
    rounds = 40

    def add(sp: SpNode) -> None:
        with session(sp, 100) as connection:
            for _ in range(rounds):
                connection.execute("UPDATE item SET n = n + 1 WHERE id = %s", (1,), prepare=prepare)

    with running(*(lambda sp=sp: add(sp) for sp in pair.sps for _ in range(2))):
        pass
    wait_drained(pair)
    assert numbers(pair) == {4 * rounds}


def test_a_unique_value_that_was_taken_elsewhere_is_a_violation(pair: LocalCluster) -> None:
    """As at one server, with the constraint's name, and the row is here for who looks for it."""
    take: LiteralString = "INSERT INTO named VALUES ({}, 'ann')"

    def work(connection: Session) -> None:
        with raises("23505") as errors:
            connection.execute(take.format(2))
        assert errors[0].diag.constraint_name == "named_name_key"
        assert connection.execute("SELECT id FROM named").fetchall() == [(1,)]

    lose(pair, work, win=lambda sp: execute(sp, take.format(1)))


def test_what_is_deferred_again_runs_before_the_decision(pair: LocalCluster) -> None:
    """COMMIT decides then, as without the setting: what a trigger defers once more may fail."""
    second = pair.sps[1]
    with session(second) as connection:
        connection.execute("INSERT INTO item VALUES (9, 0)")
        with raises("P0001"):
            connection.execute("UPDATE item SET n = 1 WHERE id = 9")
        connection.execute("UPDATE item SET n = 3 WHERE id = 9")
    wait_drained(pair)
    assert numbers(pair, 9) == {3}


def test_where_a_trigger_leaves_work_for_commit_it_may_lose(pair: LocalCluster) -> None:
    second = pair.sps[1]
    execute(second, "INSERT INTO item VALUES (9, 0)")

    def work(connection: Session) -> None:
        with raises(SERIALIZATION_FAILURE):
            connection.execute("UPDATE item SET n = n + 3")

    lose(pair, work)
    assert (numbers(pair), numbers(pair, 9)) == ({1}, {0})


def test_who_waits_for_the_winner_gives_way_to_what_comes_before_it(pair: LocalCluster) -> None:
    """Its locks of tables last until its transaction ends, and a schema change waits for one of them."""

    def work(connection: Session) -> None:
        with raises(SERIALIZATION_FAILURE):
            connection.execute(
                "UPDATE item SET n = n + 1 FROM (SELECT count(*) AS c FROM session) s WHERE id = 1"
            )

    def win(sp: SpNode) -> None:
        ddl(sp, "ALTER TABLE session ADD COLUMN added int")
        add_one(sp)

    lose(pair, work, win=win)
    assert numbers(pair) == {1}


def test_statement_timeout_ends_before_commit(pair: LocalCluster) -> None:
    """As without the setting: a COMMIT that is cut short would be in doubt."""
    second = pair.sps[1]
    waits = (
        "SELECT 1 FROM pg_stat_activity WHERE query = %s AND state = 'active'"
        " AND query_start < clock_timestamp() - interval '200 ms'"
    )
    with session(second) as connection:
        connection.execute("SET statement_timeout = '100ms'")
        may_begin = Event()

        def wait_and_update() -> None:
            assert may_begin.wait(WAIT_S)
            assert_updated(connection)

        with running(wait_and_update), paused(pair, PRIMARY):
            may_begin.set()
            wait_until("its COMMIT to wait", lambda: execute(second, waits, (ADD,)), WAIT_S)
        with raises("57014"):
            connection.execute("UPDATE item SET n = n + 1 FROM pg_sleep(2) WHERE id = 1")
    wait_drained(pair)
    assert numbers(pair) == {1}


def test_in_a_database_without_psp(pair: LocalCluster) -> None:
    """The role's settings hold there, too."""
    first = pair.sps[0]
    role = psycopg.conninfo.conninfo_to_dict(first.dsn)["user"]
    elsewhere = psycopg.conninfo.make_conninfo(first.dsn, dbname="postgres")
    with connect(as_admin(first), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {role} SET session_preload_libraries = 'psp_capture'".encode())
        admin.execute(f"ALTER ROLE {role} SET psp.retry_autocommit = 5".encode())
        try:
            with psycopg.connect(elsewhere, autocommit=True) as connection:
                connection.execute("CREATE TEMP TABLE one (id int)")
                assert connection.execute("INSERT INTO one VALUES (1)").rowcount == 1
        finally:
            admin.execute(f"ALTER ROLE {role} RESET ALL".encode())
