"""The server module psp_certify does what sql/primary/daemon/certify_batch.sql does."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.paths import module_dir, server_version
from psp.primary import module
from psp.primary.database import init_primary, upgrade_primary
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server
from psp.sql_files import read_sql
from psp.waiting import wait_until

from tests.sql.certify.batches import SPS, USE_READ, Batch, Batches, Row, Transaction, make_id

Connection = psycopg.Connection[Any]

FORMS = ("certify_batch", "certify_by_module")
SETTINGS = (  # of primary/certify/batch_statement.cc
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;"
    "SET enable_hashjoin = off; SET enable_mergejoin = off"
)
# Everything but places and times; large values by how they are stored, too.
CONTENTS = (
    "SELECT *, pg_column_size(image), pg_column_compression(image) FROM psp.data ORDER BY table_id, key",
    "SELECT *, pg_column_compression(write_set) FROM psp.replication_log ORDER BY global_t",
    "SELECT tx_id, sp_id, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use,"
    " decided_ms FROM psp.tx_log ORDER BY tx_id",
    "SELECT * FROM psp.decided ORDER BY first_t, last_t",
    "SELECT * FROM psp.log_start",
    "SELECT sp_id, forgotten_xid FROM psp.semi_primaries ORDER BY sp_id",
)
BY_INDEX = (
    "SELECT ctid FROM psp.data WHERE table_id > 0 ORDER BY table_id, key",
    "SELECT ctid FROM psp.data WHERE deleted ORDER BY table_id, key",
    "SELECT ctid FROM psp.tx_log WHERE tx_id IS NOT NULL ORDER BY tx_id",
    "SELECT ctid FROM psp.tx_log WHERE decided_ms IS NOT NULL ORDER BY decided_ms, ctid",
    "SELECT ctid FROM psp.replication_log WHERE global_t > 0 ORDER BY global_t",
)
_numbers = itertools.count(1)

pytestmark = pytest.mark.skipif(
    module_dir(server_version()) is None, reason="it needs the server module, which is not built"
)


class Primary:
    """A primary's database whose batches one form of the statement certifies."""

    def __init__(self, server: PgServer, form: str) -> None:
        name = f"certify{next(_numbers)}"
        server.create_database(name)
        self.dsn = server.dsn(name)
        init_primary(self.dsn)
        self.form = form
        self.connection = self.connect()
        for number in range(1, SPS + 1):
            self.connection.execute("INSERT INTO psp.semi_primaries (name) VALUES ($1)", (f"sp{number}",))

    def connect(self) -> Connection:
        connection = psycopg.connect(self.dsn, autocommit=True, cursor_factory=psycopg.RawCursor)
        connection.execute(SETTINGS)
        connection.prepare_threshold = 0
        return connection

    def certify(self, batch: Batch, connection: Connection | None = None) -> list[Any] | str:
        """The rows, or the error's SQLSTATE."""
        statement = read_sql(f"primary/daemon/{self.form}.sql")
        try:
            found = (connection or self.connection).execute(statement, batch.parameters()).fetchall()
        except psycopg.Error as error:
            return str(error.sqlstate)
        return sorted(found, key=lambda row: row[0])

    def contents(self) -> list[list[Any]]:
        return [self.connection.execute(query).fetchall() for query in CONTENTS]

    def collect(self, upto: int) -> None:
        """Deleted keys, as the daemon's housekeeper does."""
        self.connection.execute(read_sql("primary/daemon/collect_deleted.sql"), (upto, -1, b"", 1000))

    def forget(self, upto: int) -> None:
        """All decisions until now, of the committed ones those up to this number."""
        self.connection.execute(
            "UPDATE psp.log_start SET clock_ms = clock_ms + 1, truncated_t = greatest(truncated_t, $1)",
            (upto,),
        )
        self.connection.execute(read_sql("primary/daemon/purge_tx_log.sql"), (0, -(10**9), 1000))


def check_indexes(connection: Connection) -> None:
    """They lead to the very rows that the tables have."""
    for query in BY_INDEX:
        with connection.transaction():
            by_index = connection.execute(query).fetchall()
            for setting in ("enable_seqscan = on", "enable_indexscan = off", "enable_indexonlyscan = off"):
                connection.execute(f"SET LOCAL {setting}".encode())
            assert connection.execute(query).fetchall() == by_index, query


@pytest.fixture(params=FORMS)
def primary(server: PgServer, request: pytest.FixtureRequest) -> Iterator[Primary]:
    found = Primary(server, request.param)
    yield found
    found.connection.close()


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_do_the_same(server: PgServer, seed: int) -> None:
    both = [Primary(server, form) for form in FORMS]
    batches = Batches(seed)
    for number in range(120):
        batch = batches.next()
        sql, by_module = (one.certify(batch) for one in both)
        assert sql == by_module, f"batch {number}: {batch}"
        assert isinstance(sql, list), sql
        if number % 10 == 9:
            upto = batches.random.randint(0, batches.newest_t)
            for one in both:
                one.collect(upto)
                one.forget(upto)
            assert both[0].contents() == both[1].contents(), f"after batch {number}"
    check_indexes(both[1].connection)
    for one in both:
        one.connection.close()


def new_id() -> uuid.UUID:
    return make_id(next(_numbers), 1)


def commit(global_t: int, **more: Any) -> Transaction:
    return Transaction(new_id(), 1, global_t, write_set=b"w", **more)


def test_one_tx_id_twice_is_refused(primary: Primary) -> None:
    one = commit(2, watermark=1)
    assert primary.certify(Batch([one, Transaction(one.tx_id, 1, 3, 1, write_set=b"w")])) == "23505"
    assert primary.contents()[1:4] == [[], [], []]


def test_the_first_key_that_is_lost_counts(primary: Primary) -> None:
    keys = [b"c", b"a", b"d", b"b"]
    assert primary.certify(Batch([commit(2)], [Row(1, 1, key, b"x") for key in keys])) == []
    found = primary.certify(Batch([commit(3, watermark=1)], [Row(1, 1, key, b"y") for key in keys]))
    assert found == [(1, None, None, 1, b"a", 2, 1, None)]


def test_a_collected_key_counts_as_written_by_the_last_that_was_collected(primary: Primary) -> None:
    primary.certify(Batch([commit(2)], [Row(1, 1, b"gone")]))
    primary.collect(2)
    batch = Batch([commit(3, watermark=1, seen=[2])], [Row(1, 1, b"never", b"x")])
    assert primary.certify(batch) == [(1, None, None, 1, b"never", 2, 0, None)]


def test_of_what_is_forgotten_nothing_is_said(primary: Primary) -> None:
    def ask(tx_id: uuid.UUID) -> list[Any] | str:
        return primary.certify(Batch([Transaction(tx_id, 1, reason="asked")]))

    first, second, third = (make_id(xid, 1) for xid in (10, 20, 30))
    for number, tx_id in enumerate((second, first, third), start=2):
        assert primary.certify(Batch([Transaction(tx_id, 1, number, write_set=b"w")])) == []
    assert ask(make_id(5, 1)) == []  # written down: it has never committed
    primary.forget(3)
    forgotten = [(1, 0, "asked", None, None, None, None, None)]
    for tx_id in (first, second, make_id(19, 1), make_id(5, 1), make_id(30, 9), uuid.uuid4()):
        assert ask(tx_id) == forgotten
    assert ask(make_id(21, 1)) == []
    assert ask(make_id(1, 2)) == []  # of another semi-primary nothing is forgotten
    assert ask(third) == [(1, 4, None, None, None, None, None, None)]
    assert primary.certify(Batch([Transaction(make_id(15, 1), 1, 5, write_set=b"w")])) == []  # open for long
    lost = Transaction(make_id(15, 1, 1), 1, reason="it has lost", loss=(1, b"k", 2, 1, None))
    assert primary.certify(Batch([lost])) == [(1, 0, None, 1, b"k", 2, 1, None)]
    assert ask(lost.tx_id) == forgotten  # it may have lost against itself


def test_a_request_that_comes_again_when_it_is_forgotten_is_not_aborted(primary: Primary) -> None:
    """It loses against what it has written itself; one that asks later is not told that it has aborted."""
    tx_id = make_id(10, 1)
    batch = Batch([Transaction(tx_id, 1, 2, 1, write_set=b"w")], [Row(1, 1, b"k", b"x")])
    assert primary.certify(batch) == []
    primary.forget(2)
    again = Batch([Transaction(tx_id, 1, 3, 1, write_set=b"w")], [Row(1, 1, b"k", b"x")])
    assert primary.certify(again) == [(1, 0, None, 1, b"k", 2, 1, None)]
    asked = primary.certify(Batch([Transaction(tx_id, 1, reason="asked")]))
    assert asked == [(1, 0, "asked", None, None, None, None, None)]


def test_a_key_that_is_read_is_not_written(primary: Primary) -> None:
    primary.certify(Batch([commit(2)], [Row(1, 1, b"k", b"x")]))
    before = primary.contents()[0]
    assert primary.certify(Batch([commit(3, watermark=2)], [Row(1, 1, b"k", use=USE_READ)])) == []
    assert primary.contents()[0] == before
    lost = primary.certify(Batch([commit(4, watermark=1)], [Row(1, 1, b"k", use=USE_READ)]))
    assert lost == [(1, None, None, 1, b"k", 2, 1, USE_READ)]


def test_a_key_that_is_collected_after_the_look_up_refuses_the_batch(primary: Primary) -> None:
    primary.certify(Batch([commit(2)], [Row(1, 1, b"k")]))
    batch = Batch([commit(3, watermark=2)], [Row(1, 1, b"k", b"x")])
    with primary.connect() as session, primary.connect() as collector, ThreadPoolExecutor(1) as pool:
        with collector.transaction():
            collector.execute(read_sql("primary/daemon/collect_deleted.sql"), (2, -1, b"", 1000))
            under_way = pool.submit(primary.certify, batch, session)
            wait_until(
                "the batch to wait for the collector",
                lambda: primary.connection.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
                    (session.info.backend_pid,),
                ).fetchone(),
                30,
            )
        assert under_way.result() == "40001"
    assert primary.certify(batch) == []


def test_a_batch_of_the_snapshot_before_a_rollback_is_certified(primary: Primary) -> None:
    """The collector has rolled back: nothing was collected."""
    primary.certify(Batch([commit(2)], [Row(1, 1, b"k")]))
    batch = Batch([commit(3, watermark=2)], [Row(1, 1, b"k", b"x")])
    with primary.connect() as session, primary.connect() as collector, ThreadPoolExecutor(1) as pool:
        with collector.transaction(force_rollback=True):
            collector.execute(read_sql("primary/daemon/collect_deleted.sql"), (2, -1, b"", 1000))
            under_way = pool.submit(primary.certify, batch, session)
            wait_until(
                "the batch to wait for the collector",
                lambda: primary.connection.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
                    (session.info.backend_pid,),
                ).fetchone(),
                30,
            )
        assert under_way.result() == []


@pytest.fixture
def by_module(server: PgServer) -> Iterator[Primary]:
    found = Primary(server, "certify_by_module")
    yield found
    found.connection.close()


@pytest.mark.parametrize(
    ("number", "value", "problem"),
    [
        (1, "{NULL}", "$1 of psp.certify_batch has a NULL"),
        (2, "{1,2}", "$2 of psp.certify_batch has another length"),
        (5, "{0}", "$5 of psp.certify_batch is not a place in $7"),
        (6, "{1}", "$6 of psp.certify_batch is not a place in $7"),
        (8, None, "$8 of psp.certify_batch is NULL"),
        (9, "{NULL}", "$9 of psp.certify_batch lacks what is to commit"),
        (15, "{2}", "$15 of psp.certify_batch is no transaction's"),
        (15, "{0}", "$15 of psp.certify_batch is no transaction's"),
        (17, "{}", "$17 of psp.certify_batch has another length"),
        (8, "{why}", "$15 of psp.certify_batch is of one that must not commit"),
    ],
)
def test_what_no_daemon_sends_is_an_error_of_nobody(
    by_module: Primary, number: int, value: str | None, problem: str
) -> None:
    """XX000: the executor tries again and aborts no transaction for it."""
    values: list[str | None] = [*Batch([commit(2)], [Row(1, 1, b"k", b"x")]).parameters()]
    values[number - 1] = value
    with pytest.raises(psycopg.errors.InternalError_) as raised:
        by_module.connection.execute(read_sql("primary/daemon/certify_by_module.sql"), values)
    assert raised.value.diag.message_primary == f"psp: parameter {problem}"


def test_a_read_only_session_certifies_nothing(by_module: Primary) -> None:
    by_module.connection.execute("SET default_transaction_read_only = on")
    assert by_module.certify(Batch([commit(2)])) == "25006"


def test_only_the_daemon_may_call_it(by_module: Primary) -> None:
    call = read_sql("primary/daemon/certify_by_module.sql")
    values = Batch([commit(2)]).parameters()
    by_module.connection.execute("GRANT USAGE ON SCHEMA psp TO application")
    by_module.connection.execute("SET ROLE application")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        by_module.connection.execute(call, values)
    by_module.connection.execute("SET ROLE psp_primary")
    assert by_module.connection.execute(call, values).fetchall() == []


def test_who_may_call_it_needs_the_rights_to_the_tables(by_module: Primary) -> None:
    by_module.connection.execute("GRANT USAGE ON SCHEMA psp TO application")
    by_module.connection.execute("GRANT EXECUTE ON FUNCTION psp.certify_batch TO application")
    by_module.connection.execute("SET ROLE application")
    assert by_module.certify(Batch([commit(2)])) == "42501"


def functions(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'psp'::regnamespace AND prolang ="
            " (SELECT oid FROM pg_language WHERE lanname = 'c') ORDER BY proname"
        ).fetchall()
    return [name for (name,) in found]


def has_installed_module(dsn: str) -> bool:
    """Whether `make install` has put the module into the server's own library folder."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'").fetchone()
    assert row is not None
    return (Path(row[0]) / "psp_certify.so").exists()


def test_upgrade_looks_again_whether_the_server_has_the_module() -> None:
    both = ["certify_batch", "certify_module_version"]
    with temporary_server({"fsync": "off"}) as server:
        server.create_database("primary")
        dsn = server.dsn("primary")
        init_primary(dsn)
        assert functions(dsn) == both
        file = server.folder / "lib" / "psp_certify.so"
        file.rename(file.with_suffix(".away"))
        upgrade_primary(dsn)
        assert functions(dsn) == [] or has_installed_module(dsn)
        file.write_text("no library")
        upgrade_primary(dsn)
        assert functions(dsn) == []
        file.with_suffix(".away").rename(file)
        upgrade_primary(dsn)
        assert functions(dsn) == both


def test_who_is_no_superuser_leaves_it_as_it_is(by_module: Primary) -> None:
    with psycopg.connect(by_module.dsn) as connection:
        connection.execute("SET ROLE psp_primary")
        module.install(connection)
    assert functions(by_module.dsn) == ["certify_batch", "certify_module_version"]
