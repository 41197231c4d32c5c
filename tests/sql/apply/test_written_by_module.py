"""The server module writes the rows of other servers as SQL's functions do: the same rows and errors."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until
from psycopg import sql

from tests.sql.arriving import become_worker
from tests.sql.databases import APPLICATION, Pair, adopted_pair, one, unguarded
from tests.threads import running

SCHEMA = (
    f"GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};"
    + Path(__file__).with_name("kinds.sql").read_text()
)

# Values for the image's columns, as SQL. Some are wrong.
VALUES: dict[str, Sequence[Sequence[str]]] = {
    "plain": (
        ("1", "2", "3", "NULL"),
        ("'a'", "'b'", "'long'", "'c  '"),
        ("1.5", "2.345", "NULL", "99999.999"),
        ("'a'", "'b '", "'longer'", "'c      '", "NULL"),
        ("'2020-01-01 00:00:00.6Z'", "NULL", "'infinity'"),
    ),
    "as_text": (
        ("1", "2", "3"),
        ("'sad'", "'glad'", "'angry'", "NULL"),
        ("'5'", "'99'", "'98'", "NULL"),
        ("'{1,NULL}'", "'{}'", "NULL", "'{'"),
        ("'<a/>'", "'a'", "NULL"),
        ("'{1 day 00:00:01.7}'", "NULL"),
    ),
    "by_mood": (("'sad'", "'glad'"), ("1", "2", "NULL")),
    "equal": (("1", "1.0", "1.00", "2", "'NaN'"), ("'a'", "'b'", "NULL")),
    "padded": (("'a'", "'a  '", "'b'", "'long'"), ("1", "2")),
    "uniques": (
        ("1", "2", "3", "4"),
        ("1", "2", "3", "NULL", "NULL"),
        ("'a'", "'A'", "'b'", "NULL"),
        ("1", "60", "NULL", "2"),
    ),
    "late": (("1", "2", "3", "4"), ("1", "2", "3", "NULL")),
    "soon": (("1", "2", "3", "4"), ("1", "2", "3", "NULL")),
    "packed": (("1", "2"), ("repeat('abcd', 400)", "repeat('e', 300)", "'f'"), ("'a'", "NULL"), ("1", "2")),
    "computed": (("1", "2", "3"), ("1", "NULL")),
    "numbered": (("1", "2", "3"), ("1", "2"), ("1", "2", "NULL")),
    "apart": (("1", "2", "3"), ("'[1,3)'", "'[2,5)'", "'[5,9)'", "NULL")),
    "only_key": (("1", "2", "3"),),
    "parted": (("1", "2", "3", "11"), ("1", "2")),
    "watched": (("1", "2", "3"), ("1", "2")),
}
KEYS: dict[str, Sequence[Sequence[str]]] = {
    "plain": (("'a'", "'b'", "'c'"), ("1", "2", "3")),
    "computed": (("2", "4", "6"),),
}
KEY_PLACES = {"plain": (1, 0), "computed": (0,)}  # in the image; of all others the first one
# What an update cannot set, or is no arbiter of ON CONFLICT: the daemon has such rows deleted and inserted.
REPLACED = {"late", "soon", "numbered"}
BY_SQL = {"parted", "watched"}
SEEDS = 6
WAIT_S = 20


@pytest.fixture(scope="module")
def by_module(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA, capture="module")


@pytest.fixture(scope="module")
def by_sql(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA, capture="sql")


@contextmanager
def worker(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    warnings: list[str | None] = []
    with pair.rolled_back() as connection:
        become_worker(connection)
        connection.execute("SET LOCAL timezone = 'UTC'; SET LOCAL client_min_messages = warning")
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        yield connection
    assert not warnings


@dataclass(frozen=True)
class Call:
    """Of one of a table's functions with an array of records, each of SQL values."""

    function: str
    table: str
    records: Sequence[Sequence[str]]

    def run(self, connection: psycopg.Connection[Any]) -> None:
        table_id = one(connection, "SELECT table_id FROM psp.tables WHERE table_name = %s", self.table)
        kind = "keys" if self.function == "delete" else "rows"
        records = ", ".join(
            f"ROW({', '.join(values)})::psp.apply_{kind}_{table_id}" for values in self.records
        )
        array = f"ARRAY[{records}]::psp.apply_{kind}_{table_id}[]"
        connection.execute(f"SELECT psp.apply_{self.function}_{table_id}({array})".encode())


def outcome(connection: psycopg.Connection[Any], call: Call) -> str | None:
    """The SQLSTATE of its error."""
    try:
        with connection.transaction():
            call.run(connection)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def rows(connection: psycopg.Connection[Any], table: str) -> list[str]:
    found = connection.execute(
        sql.SQL("SELECT t::text FROM {} t ORDER BY t::text").format(sql.Identifier("public", table))
    )
    return [text for (text,) in found]


def is_there(connection: psycopg.Connection[Any], function: str) -> bool:
    return bool(one(connection, "SELECT to_regproc(%s) IS NOT NULL", function))


def key_of(table: str, function: str, record: Sequence[str]) -> tuple[str, ...]:
    """Equal for equal keys."""
    places = range(len(record)) if function == "delete" else KEY_PLACES.get(table, (0,))
    return tuple(re.sub(r"\.0+$", "", record[place].strip("' ")) for place in places)


def some_call(chance: random.Random, table: str, function: str) -> Call:
    """As the daemon makes them: each key once."""
    values = KEYS.get(table, VALUES[table][:1]) if function == "delete" else VALUES[table]
    records: dict[tuple[str, ...], list[str]] = {}
    for _ in range(chance.choice((1, 1, 2, 3))):
        record = [chance.choice(choices) for choices in values]
        records[key_of(table, function, record)] = record
    return Call(function, table, list(records.values()))


def some_calls(chance: random.Random, table: str, makes_way: bool) -> list[Call]:
    """Rows that give up unique values make way for all of a batch before it is written."""
    writes = "insert" if table in REPLACED else "upsert"
    call = some_call(chance, table, chance.choice((writes, writes, writes, "insert", "delete")))
    before = []
    if table in REPLACED and call.function == "insert":
        before = [Call("delete", table, [record[:1] for record in call.records])]
    elif makes_way and call.function == "upsert":
        before = [Call("make_way", table, call.records)]
    return [*before, call]


def test_the_module_writes_what_it_can(by_module: Pair, by_sql: Pair) -> None:
    for pair, language in ((by_module, "c"), (by_sql, "plpgsql")):
        with pair.connect() as connection:
            for table in VALUES:
                found = languages(connection, table)
                assert found == {"plpgsql" if table in BY_SQL else language}, table


@pytest.mark.parametrize("table", VALUES)
def test_both_write_the_same(by_module: Pair, by_sql: Pair, table: str) -> None:
    written = 0
    for seed in range(SEEDS):
        with worker(by_module) as one_way, worker(by_sql) as other_way:
            table_id = one(one_way, "SELECT table_id FROM psp.tables WHERE table_name = %s", table)
            makes_way = is_there(one_way, f"psp.apply_make_way_{table_id}")
            chance = random.Random(f"{table} {seed}")
            for call in (call for _ in range(12) for call in some_calls(chance, table, makes_way)):
                found = outcome(one_way, call)
                assert found == outcome(other_way, call), (seed, call)
                assert rows(one_way, table) == rows(other_way, table), (seed, call)
                written += found is None
    assert written > SEEDS


# ---- beside local transactions -----------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """A local transaction, and the worker's."""

    local: psycopg.Connection[Any]
    worker: psycopg.Connection[Any]
    admin: psycopg.Connection[Any]

    def is_blocked(self) -> bool:
        pids = (self.local.info.backend_pid, self.worker.info.backend_pid)
        return bool(one(self.admin, "SELECT %s = ANY (pg_blocking_pids(%s))", *pids))


EMPTY = "DELETE FROM plain; DELETE FROM uniques; DELETE FROM packed"
PACKED = "repeat('abcd', 400)"
# So that the row is too long as it is.
LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 45) i)"


@pytest.fixture
def sides(by_module: Pair) -> Iterator[Sides]:
    """Both may write without capture, the local one first. At the end the tables are empty again."""
    with (
        by_module.connect(autocommit=True) as admin,
        by_module.connect() as local,
        by_module.connect() as worker,
    ):
        become_worker(local)
        local.commit()
        local.execute("SET session_replication_role = replica")
        local.execute(EMPTY)
        local.execute(
            "INSERT INTO plain (id, other, n) VALUES (1, 'a', 1); INSERT INTO uniques VALUES (1, 1);"
            f"INSERT INTO packed VALUES (1, {PACKED}, {LONG}, 1)".encode()
        )
        local.commit()
        yield Sides(local, worker, admin)
        for connection in (worker, local):
            connection.rollback()
        become_worker(local)
        local.execute(EMPTY)
        local.commit()


ROW = ["1", "'a'", "5", "NULL", "NULL"]  # of `plain`


@pytest.mark.parametrize("call", [Call("upsert", "plain", [ROW]), Call("delete", "plain", [["'a'", "1"]])])
@pytest.mark.parametrize(
    ("statement", "end"),
    [
        ("UPDATE plain SET n = 2", "COMMIT"),
        ("UPDATE plain SET n = 2", "ROLLBACK"),
        ("DELETE FROM plain", "COMMIT"),
        ("DELETE FROM plain", "ROLLBACK"),
        ("DELETE FROM plain; INSERT INTO plain (id, other) VALUES (1, 'a')", "COMMIT"),
        ("SELECT FROM plain FOR UPDATE", "COMMIT"),
        ("UPDATE plain SET id = 2", "ROLLBACK"),
    ],
)
def test_who_has_written_the_row_is_waited_for(sides: Sides, statement: str, end: str, call: Call) -> None:
    sides.local.execute(statement.encode())
    become_worker_after(sides)
    with running(lambda: call.run(sides.worker)):
        wait_until("the worker to wait", sides.is_blocked, WAIT_S)
        sides.local.execute(end.encode())
    found = sides.worker.execute("SELECT id, other, n FROM plain").fetchall()
    assert [(row[0], row[1], int(row[2])) for row in found] == (
        [] if call.function == "delete" else [(1, "a", 5)]
    )


def become_worker_after(sides: Sides) -> None:
    """The worker's place in psp.apply_session is committed, so that nobody waits for that row."""
    with sides.admin.transaction():
        sides.admin.execute(
            "UPDATE psp.apply_session SET pid = %s, server_start = pg_postmaster_start_time()",
            (sides.worker.info.backend_pid,),
        )
    sides.worker.execute("SET session_replication_role = replica")


def test_who_inserts_the_same_key_and_gives_up_is_waited_for(sides: Sides) -> None:
    sides.local.execute("INSERT INTO plain (id, other, n) VALUES (2, 'a', 1)")
    become_worker_after(sides)
    row = ["2", *ROW[1:]]
    with running(lambda: Call("upsert", "plain", [ROW, row]).run(sides.worker)):
        wait_until("the worker to wait", sides.is_blocked, WAIT_S)
        sides.local.rollback()
    assert [n for (n,) in sides.worker.execute("SELECT n::int FROM plain")] == [5, 5]


def test_who_refers_to_a_row_whose_keys_stay_is_not_in_the_way(sides: Sides) -> None:
    sides.local.execute("SELECT FROM uniques FOR KEY SHARE")
    become_worker_after(sides)
    sides.worker.execute("SET lock_timeout = '100ms'")
    Call("upsert", "uniques", [["1", "1", "'a'", "7"]]).run(sides.worker)
    assert outcome(sides.worker, Call("upsert", "uniques", [["1", "2", "'a'", "7"]])) == "55P03"


def test_a_compressed_key_that_stays_is_no_other_one(sides: Sides) -> None:
    assert one(sides.local, "SELECT pg_column_size(u) < 100 FROM packed")
    sides.local.execute("SELECT FROM packed FOR KEY SHARE")
    become_worker_after(sides)
    sides.worker.execute("SET lock_timeout = '100ms'")
    Call("upsert", "packed", [["1", PACKED, LONG, "2"]]).run(sides.worker)
    assert outcome(sides.worker, Call("upsert", "packed", [["1", "'other'", LONG, "2"]])) == "55P03"


# ---- who may, and when -------------------------------------------------------------------------


def test_only_the_worker_may_call_them(by_module: Pair) -> None:
    call = Call("upsert", "plain", [ROW])
    with by_module.application() as owner:
        assert outcome(owner, call) == "42501"
        assert outcome(owner, Call("insert", "plain", [])) == "42501"
    with by_module.rolled_back() as connection:
        become_worker(connection)
        connection.execute("SET LOCAL session_replication_role = origin")
        assert outcome(connection, call) == "0A000"
    with by_module.rolled_back() as connection:
        become_worker(connection)
        connection.execute("UPDATE psp.apply_session SET pid = 0")
        assert outcome(connection, call) == "0A000"


def test_they_write_what_their_owner_may_write(by_module: Pair, by_sql: Pair) -> None:
    for pair in (by_module, by_sql):
        with worker(pair) as connection:
            with unguarded(connection):
                connection.execute(f"REVOKE UPDATE ON plain FROM {APPLICATION}".encode())
            assert outcome(connection, Call("upsert", "plain", [ROW])) == "42501"
            assert outcome(connection, Call("insert", "plain", [ROW])) is None


def languages(connection: psycopg.Connection[Any], table: str) -> set[str]:
    found = connection.execute(
        "SELECT l.lanname FROM psp.tables t JOIN pg_language l ON true JOIN pg_proc p ON p.prolang = l.oid "
        "AND p.proname ~ ('^apply_(insert|upsert|make_way|delete)_' || t.table_id || '$') "
        "WHERE t.table_name = %s",
        (table,),
    )
    return {name for (name,) in found}


def test_the_functions_change_with_the_capture(by_module: Pair) -> None:
    with worker(by_module) as connection:
        call = Call("upsert", "plain", [ROW])
        call.run(connection)
        for capture, language in (("sql", "plpgsql"), ("module", "c")):
            connection.execute("SELECT psp.use_capture(%s)", (capture,))
            assert languages(connection, "plain") == {language}
            assert languages(connection, "parted") == {"plpgsql"}
            call.run(connection)


def test_the_functions_change_with_the_triggers(by_module: Pair) -> None:
    with worker(by_module) as connection:
        connection.execute("SET LOCAL session_replication_role = origin")
        for enabled, language in (("REPLICA TRIGGER", "plpgsql"), ("TRIGGER", "c")):
            with unguarded(connection):
                connection.execute("DROP TRIGGER IF EXISTS note ON plain")
                connection.execute(
                    "CREATE TRIGGER note AFTER UPDATE ON plain FOR EACH STATEMENT EXECUTE FUNCTION note()"
                )
                connection.execute(f"ALTER TABLE plain ENABLE {enabled} note".encode())
            connection.execute(
                "SELECT psp.renew_capture('plain', t.table_id, psp.guard_ids_of(t.guards)) FROM psp.tables t "
                "WHERE t.table_name = 'plain'"
            )
            assert languages(connection, "plain") == {language}


def test_an_owners_code_calls_the_function_inside_a_call(by_module: Pair) -> None:
    """And makes PostgreSQL forget what it knows of the table."""
    with worker(by_module) as connection:
        table_id = one(connection, "SELECT table_id FROM psp.tables WHERE table_name = 'nested'")
        with unguarded(connection):
            connection.execute(
                f"""GRANT USAGE ON SCHEMA psp TO {APPLICATION};
                GRANT EXECUTE ON FUNCTION psp.apply_upsert_{table_id} TO {APPLICATION};
                CREATE OR REPLACE FUNCTION public.again(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
                    'BEGIN RETURN public.again_now($1); END';
                CREATE FUNCTION public.again_now(n int) RETURNS boolean LANGUAGE plpgsql AS $$
                BEGIN
                    IF n < 3 THEN
                        ANALYZE nested;
                        PERFORM psp.apply_upsert_{table_id}(ARRAY[ROW(n + 1, n)::psp.apply_rows_{table_id}]);
                    END IF;
                    RETURN n < 10;
                END$$""".encode()
            )
        Call("upsert", "nested", [["1", "0"], ["10", "0"]]).run(connection)
        assert rows(connection, "nested") == ["(1,0,t)", "(10,0,f)", "(2,1,t)", "(3,2,t)"]


def test_checks_were_evaluated_elsewhere(by_module: Pair, by_sql: Pair) -> None:
    """By the module. A statement evaluates them (psp.set_aside)."""
    call = Call("upsert", "fine_ones", [["10", "0", "'no'", "'sad'"]])
    with worker(by_sql) as connection:
        assert outcome(connection, call) == "23514"
    with worker(by_module) as connection:
        call.run(connection)
        assert rows(connection, "fine_ones") == ["(10,0,no,sad)"]
        assert outcome(connection, Call("upsert", "fine_ones", [["1", "2", "'long'", "'glad'"]])) == "22001"
        assert outcome(connection, Call("upsert", "fine_ones", [["1", "2", "'yes'", "'mad'"]])) == "22P02"


def test_values_of_another_type_are_not_taken(by_module: Pair) -> None:
    with worker(by_module) as connection:
        with unguarded(connection):
            connection.execute("ALTER TABLE seen ALTER v TYPE text")
        assert outcome(connection, Call("upsert", "seen", [["1", "1"]])) == "42804"
        with unguarded(connection):
            connection.execute("ALTER TABLE seen ALTER id TYPE text")
        assert outcome(connection, Call("delete", "seen", [["1"]])) == "42804"


def test_subscribers_need_the_keys(by_module: Pair, by_sql: Pair) -> None:
    for pair in (by_module, by_sql):
        with worker(pair) as connection:
            Call("upsert", "plain", [ROW]).run(connection)
            with unguarded(connection):
                connection.execute("SET LOCAL client_min_messages = error")  # wal_level warns
                connection.execute("CREATE PUBLICATION all_of_them FOR TABLE plain")
                connection.execute("SET LOCAL client_min_messages = warning")
                connection.execute("ALTER TABLE plain REPLICA IDENTITY NOTHING")
            for call in (Call("upsert", "plain", [ROW]), Call("delete", "plain", [["'a'", "1"]])):
                assert outcome(connection, call) == "55000"


def test_a_table_that_changes_is_planned_again(by_module: Pair) -> None:
    """In the same session."""
    with worker(by_module) as connection:
        Call("upsert", "seen", [["1", "1"]]).run(connection)
        with unguarded(connection):
            connection.execute("ALTER TABLE seen RENAME COLUMN v TO w")
            connection.execute("ALTER TABLE seen ALTER w SET NOT NULL, ADD UNIQUE (w)")
        connection.execute("UPDATE psp.tables SET columns = replace(columns::text, '\"v\"', '\"w\"')::jsonb")
        assert outcome(connection, Call("upsert", "seen", [["1", "NULL"]])) == "23502"
        Call("upsert", "seen", [["1", "2"]]).run(connection)
        assert outcome(connection, Call("upsert", "seen", [["2", "2"]])) == "23505"
        assert rows(connection, "seen") == ["(1,2)"]
