"""What one server accepted is applied everywhere: nothing that comes meanwhile may refuse its rows."""

from typing import LiteralString

import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options, SpNode
from psp.paths import server_version

from tests.cluster.schema_changes.statements import ddl
from tests.cluster.support import (
    OUTCOME_UNKNOWN,
    SERIALIZATION_FAILURE,
    as_admin,
    connect,
    execute,
    needs_module,
    raises,
    retry,
    wait_for_row,
    wait_streaming,
)

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, v int, s text);
INSERT INTO item VALUES (1, 1, 'one');
CREATE TABLE visit (
    id int PRIMARY KEY, at timestamptz, day date, CONSTRAINT same_day CHECK (at::date = day));
CREATE TABLE "Parts" (LIKE visit INCLUDING CONSTRAINTS, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF "Parts" FOR VALUES FROM (0) TO (100);
CREATE DOMAIN near_utc AS int
    CONSTRAINT "Near" CHECK (VALUE < 10 OR current_setting('TimeZone') = 'Asia/Tokyo');
CREATE TABLE zone (id int PRIMARY KEY, v near_utc) PARTITION BY RANGE (id);
CREATE TABLE zone_1 PARTITION OF zone FOR VALUES FROM (0) TO (100);
CREATE FUNCTION called(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE TABLE caller (id int PRIMARY KEY, v int);
CREATE INDEX ON caller (called(v));
CREATE FUNCTION made(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + 1; END';
CREATE TABLE generated (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (made(v)) STORED);
"""
OPTIONS = Options(pg_settings={"max_notify_queue_pages": "64"}) if server_version() >= 17 else None
LONG: LiteralString = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"
"""More than an index or a page can take, also compressed."""


@pytest.mark.parametrize(
    ("change", "write", "undo"),
    [
        ("CREATE INDEX item_s ON item (s)", f"UPDATE item SET s = {LONG} WHERE id = 1", "DROP INDEX item_s"),
        (
            "CREATE INDEX item_s ON item USING gin (string_to_array(s, ' '))",
            f"INSERT INTO item VALUES (2, 2, {LONG})",
            "DROP INDEX item_s",
        ),
        (
            "ALTER TABLE item ALTER s SET STORAGE PLAIN",
            f"INSERT INTO item VALUES (2, 2, {LONG})",
            "ALTER TABLE item ALTER s SET STORAGE EXTENDED",
        ),
        (
            "CREATE PUBLICATION published FOR TABLE item WHERE (v > 0)",
            "UPDATE item SET v = 3 WHERE id = 1",
            "DROP PUBLICATION published",
        ),
        (
            "CREATE PUBLICATION published FOR TABLE item; ALTER TABLE item REPLICA IDENTITY NOTHING",
            "UPDATE item SET v = 3 WHERE id = 1",
            "DROP PUBLICATION published; ALTER TABLE item REPLICA IDENTITY DEFAULT",
        ),
    ],
)
def test_writers_under_the_older_definition_lose(
    pair: LocalCluster, change: LiteralString, write: LiteralString, undo: LiteralString
) -> None:
    """Elsewhere their rows would come behind the change, which refuses them."""
    north, south = pair.sps
    with connect(south) as writer:
        writer.execute(write)
        ddl(north, change)
        with raises(SERIALIZATION_FAILURE, "57P01"):
            writer.commit()
    wait_streaming(pair)
    verify.wait_drained(pair)
    retry(lambda: ddl(north, undo))


def test_writers_lose_nothing_to_an_index_that_takes_every_row(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(south) as writer:
        writer.execute("INSERT INTO item VALUES (3, 3)")
        execute(north, "CREATE INDEX item_v ON item (v)")
        writer.commit()


# ---- what is here only, or is so here ---------------------------------------------------------------


def locally(sp: SpNode, *statements: LiteralString) -> None:
    with connect(as_admin(sp), autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        for statement in statements:
            connection.execute(statement)


def wait_for_warning(sp: SpNode, text: str) -> None:
    wait_for_row(sp, "SELECT 1 FROM psp.status WHERE position(%s IN warnings) > 0", (text,))


def wait_applied(pair: LocalCluster) -> None:
    wait_streaming(pair)
    verify.wait_drained(pair)


@pytest.mark.parametrize("table", ["visit", '"Parts"'])
def test_a_check_that_depends_on_the_session_judges_where_rows_are_written(
    pair: LocalCluster, table: LiteralString
) -> None:
    """The module evaluates none of others' rows. Statements, which write partitions, find theirs lifted."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'Pacific/Kiritimati'")
        connection.execute(f"INSERT INTO {table} VALUES (1, '2026-01-01 20:00Z', '2026-01-02')")
    wait_applied(pair)
    assert execute(south, f"SELECT id FROM {table}") == [(1,)]
    with connect(south) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        with raises("23514"):
            connection.execute(f"INSERT INTO {table} VALUES (2, '2026-01-01 20:00Z', '2026-01-02')")
    ddl(south, f"ALTER TABLE {table} DROP CONSTRAINT same_day")
    wait_applied(pair)


def test_a_check_whose_function_cannot_be_planned_elsewhere(pair: LocalCluster) -> None:
    """It calls another one by a bare name, in a schema of the writer's search_path only."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA aside")
        connection.execute("SET search_path = aside, public")
        sql: LiteralString = "RETURNS int IMMUTABLE LANGUAGE sql AS"
        connection.execute(f"CREATE FUNCTION inner_one(int) {sql} 'SELECT $1'")
        connection.execute(f"CREATE FUNCTION outer_one(int) {sql} 'SELECT inner_one($1)'")
        connection.execute('ALTER TABLE "Parts" ADD CONSTRAINT planned CHECK (outer_one(id) > 0)')
        connection.execute("INSERT INTO \"Parts\" VALUES (50, '2026-01-01 12:00Z', '2026-01-01')")
    wait_applied(pair)
    assert execute(south, 'SELECT id FROM "Parts" WHERE id = 50') == [(50,)]
    wait_for_warning(south, "CHECK planned of table public.")
    execute(north, 'ALTER TABLE "Parts" DROP CONSTRAINT planned')
    execute(north, "DROP SCHEMA aside CASCADE")
    wait_applied(pair)


def test_a_domain_that_depends_on_the_session(pair: LocalCluster) -> None:
    north, south = pair.sps
    for number in (10, 20):
        with connect(north, autocommit=True) as connection:
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            connection.execute("INSERT INTO zone VALUES (%s, %s)", (number, number))
        wait_applied(pair)
    assert execute(south, "SELECT count(*) FROM zone") == [(2,)]
    wait_for_warning(south, 'CHECK "Near" of domain public.near_utc judges only what is written here')
    with connect(south) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        with raises("23514"):
            connection.execute("INSERT INTO zone VALUES (11, 11)")
    ddl(north, 'ALTER DOMAIN near_utc DROP CONSTRAINT "Near"')
    wait_applied(pair)
    assert execute(south, "SELECT warnings FROM psp.status") == [(None,)]


def test_a_local_index_that_refuses_a_row_is_dropped(pair: LocalCluster) -> None:
    north, south = pair.sps
    index: LiteralString = "CREATE INDEX here ON item (s)"
    locally(south, index)
    execute(north, f"INSERT INTO item VALUES (5, 5, {LONG})")
    wait_applied(pair)
    assert execute(south, "SELECT length(s) FROM item WHERE id = 5") == [(12800,)]
    wait_for_warning(south, "index here of public.item is dropped here")
    execute(north, "DELETE FROM item WHERE id = 5")
    wait_applied(pair)
    locally(south, index, "DROP INDEX here")
    assert execute(south, "SELECT warnings FROM psp.status") == [(None,)]


def test_an_index_of_a_job_that_refuses_a_row_is_dropped(pair: LocalCluster) -> None:
    """One server has made it, and the other one waits for a writer."""
    north, south = pair.sps
    with connect(north) as writer:
        writer.execute(f"INSERT INTO item VALUES (6, 6, {LONG})")
        execute(north, "SELECT psp.job('CREATE INDEX CONCURRENTLY item_later ON item (s)')")
        wait_for_row(
            south, "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('item_later') AND indisvalid"
        )
        writer.commit()
    wait_applied(pair)
    failed: LiteralString = "SELECT 1 FROM psp.schema_jobs WHERE state = 'failed'"
    for sp in pair.sps:
        assert execute(sp, "SELECT length(s) FROM item WHERE id = 6") == [(12800,)]
        wait_for_row(as_admin(sp), failed)
    execute(north, "DELETE FROM item WHERE id = 6")
    wait_applied(pair)
    for sp in pair.sps:
        execute(as_admin(sp), "DELETE FROM psp.jobs")
        repair(sp, "DROP INDEX IF EXISTS public.item_later")


def test_a_local_publication_loses_a_table_of_which_it_refuses_changes(pair: LocalCluster) -> None:
    north, south = pair.sps
    locally(south, "CREATE PUBLICATION here FOR TABLE item WHERE (v > 0), zone")
    execute(north, "UPDATE item SET v = v + 1 WHERE id = 1")
    wait_applied(pair)
    wait_for_warning(south, "publication here has lost table public.item")
    assert execute(south, "SELECT tablename FROM pg_publication_tables") == [("zone_1",)]
    locally(south, "DROP PUBLICATION here")


@pytest.mark.parametrize(
    "here", ["CREATE PUBLICATION here FOR TABLE item WHERE (v > 0)", "CREATE INDEX here ON item (s)"]
)
def test_what_refuses_rows_behind_a_statement_of_their_transaction(
    pair: LocalCluster, here: LiteralString
) -> None:
    north, south = pair.sps
    execute(north, "INSERT INTO item VALUES (7, 7)")
    wait_applied(pair)
    locally(south, here)
    with connect(north) as connection:
        connection.execute("CREATE TABLE beside (id int PRIMARY KEY)")
        connection.execute("DELETE FROM item WHERE id = 7")
        connection.execute(f"INSERT INTO item VALUES (8, 8, {LONG})")
    wait_applied(pair)
    assert execute(south, "SELECT id FROM item WHERE id IN (7, 8)") == [(8,)]
    execute(north, "DELETE FROM item WHERE id = 8")
    execute(north, "DROP TABLE beside")
    wait_applied(pair)
    locally(south, "DROP PUBLICATION IF EXISTS here")
    execute(as_admin(south), "DELETE FROM psp.lost_indexes")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE item ALTER s SET STORAGE PLAIN",
        "ALTER TABLE item REPLICA IDENTITY NOTHING",
        "REVOKE EXECUTE ON FUNCTION called(int) FROM PUBLIC, current_user",
    ],
)
def test_what_would_refuse_rows_is_not_made_here_only(pair: LocalCluster, statement: LiteralString) -> None:
    with connect(pair.sps[1]) as connection:
        connection.execute("SET psp.schema_changes = local")
        with raises("0A000"):
            connection.execute(statement)


def repair(sp: SpNode, statement: str) -> None:
    execute(as_admin(sp), "SELECT psp.repair(%s)", (statement,))


def test_the_owner_of_a_table_may_call_its_functions_again(pair: LocalCluster) -> None:
    """No event trigger tells of memberships of roles."""
    north, south = pair.sps
    (owner,) = execute(south, "SELECT current_user::text")[0]
    repair(south, f"REVOKE EXECUTE ON FUNCTION public.called(int) FROM PUBLIC, {owner}")
    execute(north, "INSERT INTO caller VALUES (1, 1)")
    wait_applied(pair)
    assert execute(south, "SELECT count(*) FROM caller") == [(1,)]
    wait_for_warning(south, f"the owner of a table, {owner}, may call public.called(integer) again")
    repair(south, "GRANT EXECUTE ON FUNCTION public.called(int) TO PUBLIC")
    execute(as_admin(south), "DELETE FROM psp.set_aside_objects")


NOTES: LiteralString = """
    CREATE FUNCTION public.notes(int) RETURNS int LANGUAGE plpgsql AS
        'BEGIN INSERT INTO public.item VALUES (1000 + nextval(''public.numbers''), $1); RETURN $1; END';
    CREATE FUNCTION public.calls_notes(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
        'BEGIN RETURN public.notes($1); END'"""


def test_code_of_expressions_that_writes_captured_tables(pair: LocalCluster) -> None:
    """What it writes where the row is written first goes to all servers. Elsewhere it would be one more."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute(NOTES)
        connection.execute("CREATE TABLE noting (id int PRIMARY KEY, v int)")
        connection.execute("CREATE INDEX noting_v ON noting (calls_notes(v))")
        connection.execute(
            "CREATE TABLE noted (id int PRIMARY KEY, v int CHECK (notes(v) > 0)) PARTITION BY RANGE (id)"
        )
        connection.execute("CREATE TABLE noted_1 PARTITION OF noted DEFAULT")
        connection.execute("INSERT INTO noting VALUES (1, 1)")
        connection.execute("INSERT INTO noted VALUES (1, 1)")
        connection.execute("UPDATE noting SET v = 2")
    wait_applied(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT count(*) FROM item WHERE id > 1000") == [(3,)]
    wait_for_warning(south, "index noting_v of public.noting is dropped here")
    wait_for_warning(south, "CHECK noted_v_check of table public.noted judges only what is written here")
    with connect(north, autocommit=True) as connection:
        connection.execute("DROP TABLE noting, noted")
        connection.execute("DROP FUNCTION calls_notes, notes")
        connection.execute("DROP SEQUENCE numbers")
        connection.execute("DELETE FROM item WHERE id > 1000")
    wait_applied(pair)


def test_a_generated_column_that_writes_a_captured_table_is_told(pair: LocalCluster) -> None:
    """It stays, as what certification relies on does, until its function is another one."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute(NOTES)
        connection.execute(
            "CREATE TABLE noting (id int PRIMARY KEY, v int, "
            "w int GENERATED ALWAYS AS (calls_notes(v)) STORED)"
        )
        connection.execute("INSERT INTO noting (id, v) VALUES (1, 1)")
    (error,) = wait_for_row(as_admin(south), "SELECT last_error FROM psp.status WHERE state = 'failed'")
    assert "INSERT of public.item by a function that an index, a CHECK or a generated column calls" in error
    assert "PL/pgSQL function" in error
    assert "notes(integer)" in error
    body: LiteralString = (
        "CREATE OR REPLACE FUNCTION public.calls_notes(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN RETURN $1; END'"
    )
    repair(south, body)
    execute(north, body)
    wait_applied(pair)
    assert execute(south, "SELECT w FROM noting") == [(1,)]
    with connect(north, autocommit=True) as connection:
        connection.execute("DROP TABLE noting")
        connection.execute("DROP FUNCTION calls_notes, notes")
        connection.execute("DROP SEQUENCE numbers")
        connection.execute("DELETE FROM item WHERE id > 1000")
    wait_applied(pair)


def test_an_administrator_repairs_what_nothing_sets_aside(pair: LocalCluster) -> None:
    """A function that is another one here."""
    north, south = pair.sps
    body: LiteralString = (
        "CREATE OR REPLACE FUNCTION public.made(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    )
    repair(south, body + "'BEGIN RAISE ''not here''; END'")
    execute(north, "INSERT INTO generated VALUES (1, 1)")
    (error,) = wait_for_row(as_admin(south), "SELECT last_error FROM psp.status WHERE state = 'failed'")
    assert "not here" in error
    assert 'docs/operating.md, "When applying has stopped"' in error
    repair(south, body + "'BEGIN RETURN $1 + 1; END'")
    wait_applied(pair)
    assert execute(south, "SELECT * FROM generated") == [(1, 1, 2)]


def test_a_repair_changes_a_table_here_only(pair: LocalCluster) -> None:
    north, south = pair.sps
    repair(south, "ALTER TABLE item ADD CONSTRAINT here CHECK (v < 1000)")
    assert execute(as_admin(south), "SELECT psp.guard_problems()") == []
    execute(north, "INSERT INTO item VALUES (1000, 1000)")
    wait_applied(pair)
    assert execute(south, "SELECT v FROM item WHERE id = 1000") == [(1000,)]
    repair(south, "ALTER TABLE item DROP CONSTRAINT here")
    with raises("0A000"):
        repair(south, "ALTER TABLE item ADD UNIQUE (v)")
    with raises("0A000"):
        repair(south, "ALTER TABLE item DROP COLUMN v")
    with raises("42501"):
        execute(south, "SELECT psp.repair('SELECT 1')")


@pytest.mark.skipif(server_version() < 17, reason="the queue of older versions has 8 GB")
def test_who_listens_and_sleeps_in_a_transaction_does_not_stop_the_stream(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(
        north,
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN PERFORM pg_notify('told', repeat('x', 7000) || NEW.id); RETURN NULL; END$$",
        "CREATE TRIGGER tell AFTER INSERT ON caller FOR EACH ROW EXECUTE FUNCTION tell()",
        "ALTER TABLE caller ENABLE ALWAYS TRIGGER tell",
    )
    wait_applied(pair)
    with connect(south) as sleeper:
        sleeper.execute("LISTEN told")
        sleeper.commit()
        sleeper.execute("SELECT 1")
        for number in range(100, 300, 20):
            execute(
                north,
                "INSERT INTO caller SELECT i, i FROM generate_series(%s::int, %s) i",
                (number, number + 19),
            )
        wait_applied(pair)
        with raises("57P01"):
            sleeper.execute("SELECT 1")
    assert execute(south, "SELECT count(*) FROM caller WHERE id >= 100") == [(200,)]
    ddl(north, "DROP TRIGGER tell ON caller", "DROP FUNCTION tell()")
    wait_applied(pair)


@needs_module()
@pytest.mark.skipif(server_version() < 17, reason="the queue of older versions has 8 GB")
def test_a_full_queue_of_notifications_leaves_a_commit_in_doubt(pair: LocalCluster) -> None:
    """PostgreSQL fills it when the transaction is decided."""
    north, south = pair.sps
    with connect(north) as connection:
        connection.execute("INSERT INTO caller VALUES (400, 1)")
        connection.execute("SELECT pg_notify('told', repeat('x', 7000) || i) FROM generate_series(1, 200) i")
        with raises(OUTCOME_UNKNOWN) as errors:
            connection.commit()
        with raises("22012"):  # which is not in doubt
            connection.execute("SELECT 1 / 0")
    assert "notifications" in str(errors[0])
    for sp in (north, south):
        wait_for_row(sp, "SELECT 1 FROM caller WHERE id = %s", (400,))
