"""Jobs: what PostgreSQL runs in no transaction is run at every SP by its daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.schema.history import read_history
from psp.schema.join import prepare_join
from psp.sql_files import read_sql

from tests.cluster.schema_changes.statements import ddl, exists
from tests.cluster.support import as_admin, connect, execute, raises, wait_for_row
from tests.threads import running

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, v int);
INSERT INTO item SELECT n, n, n FROM generate_series(1, 100) n;
"""


def wait_for_job(sp: SpNode, statement: str, state: str) -> tuple[Any, ...]:
    return wait_for_row(
        as_admin(sp),
        "SELECT last_error, attempts FROM psp.schema_jobs WHERE statement = %s AND state = %s",
        [statement, state],
    )


def is_valid(sp: SpNode, index: str) -> bool:
    rows = execute(sp, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [index])
    return rows == [(True,)]


def column_of(sp: SpNode, index: str) -> list[Any]:
    return execute(sp, "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass", [index])


def autocommit(sp: SpNode, statement: str) -> None:
    with connect(sp, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_an_index_that_is_made_concurrently_comes_everywhere_and_goes(pair: LocalCluster) -> None:
    north, south = pair.sps
    create = "CREATE INDEX CONCURRENTLY item_name ON item (lower(name))"
    autocommit(north, create)
    assert wait_for_job(north, create, "done") == (None, 0)  # it has run in the session
    assert wait_for_job(south, create, "done") == (None, 1)
    assert is_valid(north, "item_name")
    assert is_valid(south, "item_name")
    owners = execute(
        south,
        "SELECT relowner = (SELECT relowner FROM pg_class WHERE relname = 'item') "
        "FROM pg_class WHERE relname = 'item_name'",
    )
    assert owners == [(True,)]
    drop = "DROP INDEX CONCURRENTLY item_name"
    autocommit(south, drop)
    wait_for_job(north, drop, "done")
    assert not exists(north, "item_name")


def test_an_index_without_a_name_gets_the_same_one_everywhere(pair: LocalCluster) -> None:
    north, south = pair.sps
    autocommit(north, "-- new\nCREATE INDEX CONCURRENTLY ON item (id, name);")
    wait_for_job(south, "CREATE INDEX CONCURRENTLY item_id_name_idx ON item (id, name)", "done")
    assert is_valid(north, "item_id_name_idx")
    assert is_valid(south, "item_id_name_idx")
    execute(south, "DROP INDEX item_id_name_idx")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('item_id_name_idx') IS NULL")


def test_its_index_is_dropped_and_made_again_among_other_statements(pair: LocalCluster) -> None:
    """As Django does after AddIndexConcurrently."""
    north, south = pair.sps
    autocommit(north, "CREATE INDEX CONCURRENTLY item_again ON item (name)")
    wait_for_job(south, "CREATE INDEX CONCURRENTLY item_again ON item (name)", "done")
    execute(north, "CREATE INDEX item_id_v ON item (id, v)")
    wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'item_id_v'")
    with raises("0A000"):  # which indexes its text drops is not known
        ddl(south, "DROP INDEX item_again; SELECT 1")
    with connect(south) as connection:
        connection.execute("UPDATE item SET name = 'x' WHERE id = 1")
        connection.execute('DROP INDEX IF EXISTS "item_again", item_id_v CASCADE')
        connection.execute("CREATE INDEX item_again ON item (v)")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('item_id_v') IS NULL")
    assert column_of(north, "item_again") == [("v",)]
    history = execute(
        as_admin(north), "SELECT statement FROM psp.schema_history ORDER BY change, statement_n"
    )
    assert history[-2:] == [
        ("DROP INDEX IF EXISTS public.item_again, public.item_id_v CASCADE",),
        ("CREATE INDEX item_again ON item (v)",),
    ]
    execute(north, "DROP INDEX item_again")


def test_an_index_is_dropped_before_the_job_has_made_it(pair: LocalCluster) -> None:
    """The job is ended where it runs, or has still to begin. There the statement would be refused."""
    north, south = pair.sps
    first = "CREATE INDEX CONCURRENTLY item_first ON item (id, v)"
    second = "CREATE INDEX CONCURRENTLY item_second ON item (v, id)"
    with closing(connect(south)) as writer:
        writer.execute("INSERT INTO item VALUES (1001, 'x', 1)")
        autocommit(north, first)
        autocommit(north, second)
        wait_for_job(south, first, "running")
        wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'item_first'")
        wait_for_job(south, second, "waiting")
        with raises("55006"):
            execute(south, "DROP INDEX IF EXISTS item_second")
        execute(north, "DROP INDEX item_second")
        assert wait_for_job(south, second, "done")[0] == "the index has been dropped"
        with raises("55006"):
            ddl(south, "DROP INDEX item_first")
        ddl(north, "DROP INDEX item_first")
        assert wait_for_job(south, first, "done")[0] == "the index has been dropped"
    wait_for_row(south, "SELECT 1 WHERE to_regclass('item_first') IS NULL")
    execute(north, "CREATE INDEX item_second ON item (name)")
    wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'item_second'")
    assert column_of(south, "item_second") == [("name",)]
    execute(south, "DROP INDEX item_second")
    assert execute(as_admin(south), "SELECT 1 FROM psp.schema_jobs WHERE state <> 'done'") == []
    roles: LiteralString = """
        SELECT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
         WHERE m.member = 'psp_semi_primary'::regrole AND r.rolname !~ '^pg_'
    """
    assert execute(as_admin(south), roles) == []


def test_its_index_gets_another_name_before_and_after_the_job_has_made_it(pair: LocalCluster) -> None:
    """As Rails does with all indexes of a table that gets another name."""
    north, south = pair.sps
    create = "CREATE INDEX CONCURRENTLY item_old ON item (id, v)"
    waiting = 'CREATE INDEX CONCURRENTLY "Waits" ON item (v, id)'
    with closing(connect(south)) as writer:
        writer.execute("INSERT INTO item VALUES (1002, 'x', 1)")
        autocommit(north, create)
        wait_for_job(south, create, "running")
        wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'item_old'")
        autocommit(north, waiting)
        wait_for_job(south, waiting, "waiting")
        with raises("55006"):
            execute(south, "ALTER INDEX item_old RENAME TO item_new")
        with connect(north) as connection:
            connection.execute("ALTER INDEX item_old RENAME TO item_new")
            connection.execute('ALTER INDEX public."Waits" RENAME TO waited')
        wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = 'item_new'")
    for statement, index in ((create, "item_new"), (waiting, "waited")):
        wait_for_job(south, statement, "done")
        assert is_valid(south, index)
        execute(south, f"ALTER INDEX {index} RENAME TO {index}_2")
        wait_for_row(north, "SELECT 1 WHERE to_regclass(%s) IS NOT NULL", [f"{index}_2"])
    with raises("0A000"):
        ddl(south, "ALTER INDEX waited_2 RENAME TO waited")
    execute(south, "DROP INDEX item_new_2, waited_2")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('waited_2') IS NULL")
    for sp in (north, south):
        assert not exists(sp, "item_old")
        assert not exists(sp, '"Waits"')


def test_a_job_by_its_function(pair: LocalCluster) -> None:
    north, south = pair.sps
    for statement in ("REINDEX TABLE CONCURRENTLY item", "VACUUM (ANALYZE) item"):
        execute(north, "SELECT psp.job(%s)", [statement])
        for sp in (north, south):
            assert wait_for_job(sp, statement, "done") == (None, 1)
    for refused in ("DROP TABLE item", "CREATE INDEX CONCURRENTLY ON item (v)", "VACUUM; SELECT 1"):
        with raises("0A000"):
            execute(north, "SELECT psp.job(%s)", [refused])


def test_an_index_of_this_server_only(pair: LocalCluster) -> None:
    north, _ = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX CONCURRENTLY here ON item (v)")
        connection.execute("RESET psp.schema_changes")
        connection.execute("DROP INDEX CONCURRENTLY here")
    assert not exists(north, "here")
    jobs = execute(
        as_admin(north), "SELECT 1 FROM psp.schema_jobs WHERE statement = 'DROP INDEX CONCURRENTLY here'"
    )
    assert jobs == []


def test_an_obstacle_fails_the_job_and_it_can_be_tried_again(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(as_admin(south), "CREATE UNLOGGED TABLE public.item_v (id int)")
    create = "CREATE INDEX CONCURRENTLY item_v ON item (v)"
    autocommit(north, create)
    error, _ = wait_for_job(south, create, "failed")
    assert "42P07" in error
    assert "already exists" in error
    assert any("item_v" in row[0] for row in execute(as_admin(south), "SELECT psp.guard_problems()"))
    execute(as_admin(south), "DROP TABLE public.item_v")
    execute(as_admin(south), "SELECT psp.retry_job(change) FROM psp.schema_jobs WHERE state = 'failed'")
    wait_for_job(south, create, "done")
    assert is_valid(south, "item_v")
    autocommit(north, "DROP INDEX CONCURRENTLY item_v")
    wait_for_job(south, "DROP INDEX CONCURRENTLY item_v", "done")


def jobs_backend(sp: SpNode) -> int:
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'psp job' AND state = 'active'"
    return int(wait_for_row(as_admin(sp), query)[0])  # it is another role's


def wait_until_gone(sp: SpNode, pid: int) -> None:
    wait_for_row(sp, "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)", [pid])


@contextmanager
def job_that_waits(pair: LocalCluster, index: str) -> Iterator[str]:
    """A job at the second SP, in the middle of an index: a writer is in its way in this block."""
    north, south = pair.sps
    create = f"CREATE INDEX CONCURRENTLY {index} ON item (id, v)"
    with closing(connect(south)) as writer:
        writer.execute("INSERT INTO item VALUES (1000, 'x', 1)")
        autocommit(north, create)
        wait_for_job(south, create, "running")
        wait_for_row(south, "SELECT 1 FROM pg_class WHERE relname = %s", [index])
        yield create
    _, attempts = wait_for_job(south, create, "done")
    assert attempts > 1
    assert is_valid(south, index)
    drop = f"DROP INDEX CONCURRENTLY {index}"
    autocommit(north, drop)
    wait_for_job(south, drop, "done")


def test_a_killed_daemons_job_is_ended_before_it_begins_again(pair: LocalCluster) -> None:
    """Its backend waits for a lock, and would go on. What it leaves is dropped."""
    _, south = pair.sps
    with job_that_waits(pair, "item_killed"):
        older = jobs_backend(south)
        pair.kill("south", "daemon")
        pair.resume()
        wait_until_gone(south, older)


def test_a_daemon_that_stops_ends_its_job(pair: LocalCluster) -> None:
    _, south = pair.sps
    with job_that_waits(pair, "item_stopped") as create:
        older = jobs_backend(south)
        pair.stop("south", "daemon")
        wait_until_gone(south, older)
        wait_for_job(south, create, "waiting")
        pair.resume()


def test_postgresql_restarts_in_the_middle_of_a_job(pair: LocalCluster) -> None:
    with job_that_waits(pair, "item_restarted"):
        pair.stop("south", "postgres")
        pair.start("south", "postgres")
        pair.resume()


def test_a_job_that_is_cancelled_is_tried_again(pair: LocalCluster) -> None:
    """As by the blocker watch, where the apply worker waits for it."""
    _, south = pair.sps
    with job_that_waits(pair, "item_cancelled") as create:
        execute(as_admin(south), "SELECT pg_cancel_backend(%s)", [jobs_backend(south)])
        error, _ = wait_for_job(south, create, "waiting")
        assert error.startswith("57014")


def leave_unfinished(sp: SpNode, index: str) -> None:
    """CREATE INDEX CONCURRENTLY that is cancelled leaves an index."""

    def make() -> None:
        with raises("57014"):
            autocommit(sp, f"CREATE INDEX CONCURRENTLY {index} ON item (v)")

    with connect(sp) as older:
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT 1")  # its snapshot is waited for
        with running(make):
            cancel: LiteralString = (
                "SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index "
                "WHERE phase = 'waiting for old snapshots'"
            )
            wait_for_row(as_admin(sp), cancel)
    assert not is_valid(sp, index)


@pytest.mark.parametrize("by_function", [False, True])
def test_what_was_not_made_to_its_end_is_dropped_like_any_index(
    pair: LocalCluster, by_function: bool
) -> None:
    """No other server has it, so DROP INDEX must not fail there."""
    north, south = pair.sps
    leave_unfinished(north, "item_left")
    execute(north, "CREATE INDEX item_made ON item (v)")
    drop = "DROP INDEX item_left, item_made"
    if by_function:
        with raises("0A000"):  # which indexes its text drops is not known
            ddl(north, f"{drop}; SELECT 1")
        ddl(north, drop)
    else:
        execute(north, drop)
    assert not exists(north, "item_left")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('item_made') IS NULL")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER INDEX item_left RENAME TO item_right",
        "ALTER TABLE item_left RENAME TO item_right",
        "ALTER INDEX item_left SET (fillfactor = 50)",
        "ALTER INDEX item_left ALTER COLUMN 1 SET STATISTICS 10",
        "COMMENT ON INDEX item_left IS 'not everywhere'",
        "ALTER TABLE item CLUSTER ON item_left",
    ],
)
def test_what_was_not_made_to_its_end_is_named_by_no_schema_change(
    pair: LocalCluster, statement: str
) -> None:
    """Other servers do not have it."""
    north, _ = pair.sps
    leave_unfinished(north, "item_left")
    with raises("0A000"):
        autocommit(north, statement)
    with raises("0A000"):
        ddl(north, statement)
    autocommit(north, "DROP INDEX item_left")


def test_what_was_not_made_to_its_end_gives_its_name_to_what_arrives(pair: LocalCluster) -> None:
    """The migration is tried again at another server."""
    north, south = pair.sps
    leave_unfinished(north, '"a""B ü"')
    autocommit(south, 'CREATE INDEX "a""B ü" ON item (name)')
    wait_for_row(north, 'SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(\'"a""B ü"\') AND indisvalid')
    autocommit(south, 'DROP INDEX "a""B ü"')
    wait_for_row(north, 'SELECT 1 WHERE to_regclass(\'"a""B ü"\') IS NULL')
    leave_unfinished(north, "item_left")
    autocommit(south, "CREATE INDEX item_left ON item (name)")
    wait_for_row(north, "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('item_left') AND indisvalid")
    assert column_of(north, "item_left") == [("name",)]
    autocommit(south, "DROP INDEX item_left")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('item_left') IS NULL")


def test_what_was_not_made_to_its_end_gives_its_name_to_a_job(pair: LocalCluster) -> None:
    north, south = pair.sps
    leave_unfinished(north, "item_left")
    create = "CREATE INDEX CONCURRENTLY item_left ON item (name)"
    autocommit(south, create)
    assert wait_for_job(north, create, "done") == (None, 1)
    assert column_of(north, "item_left") == [("name",)]
    leave_unfinished(south, "item_left_too")  # a job has had this name once
    autocommit(south, "DROP INDEX item_left, item_left_too")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('item_left') IS NULL")
    leave_unfinished(north, "item_left")
    autocommit(south, "CREATE INDEX item_left ON item (id)")
    wait_for_row(north, "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('item_left') AND indisvalid")
    autocommit(south, "DROP INDEX item_left")


def test_names_that_are_quoted(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, 'CREATE SCHEMA "Own Things"', 'CREATE TABLE "Own Things"."Item" (id int PRIMARY KEY, v int)')
    create = 'CREATE INDEX CONCURRENTLY "By V" ON "Own Things"."Item" (v)'
    autocommit(north, create)
    wait_for_job(south, create, "done")
    autocommit(south, 'ALTER INDEX "Own Things"."By V" RENAME TO "V"')
    wait_for_row(north, 'SELECT 1 WHERE to_regclass(\'"Own Things"."V"\') IS NOT NULL')
    autocommit(north, 'INSERT INTO "Own Things"."Item" VALUES (1, 1)')
    autocommit(north, 'TRUNCATE "Own Things"."Item"')
    autocommit(north, 'DROP INDEX "Own Things"."V"')
    wait_for_row(south, 'SELECT 1 WHERE to_regclass(\'"Own Things"."V"\') IS NULL')
    with connect(north) as connection:
        connection.execute('DROP TABLE "Own Things"."Item"')
        connection.execute('DROP SCHEMA "Own Things"')


def cancel_reindex(sp: SpNode) -> None:
    """Leaves an index that is unique and not valid."""

    def reindex() -> None:
        with raises("57014"):
            autocommit(sp, "REINDEX TABLE CONCURRENTLY item")

    with connect(sp) as older:
        older.execute("UPDATE item SET v = v WHERE id = 1")
        with running(reindex):
            cancel: LiteralString = (
                "SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index "
                "WHERE phase = 'waiting for writers before build'"  # the new index is there
            )
            wait_for_row(as_admin(sp), cancel)
    assert execute(sp, "SELECT 1 FROM pg_class WHERE relname = 'item_pkey_ccnew'") == [(1,)]


def test_what_a_reindex_leaves_does_not_stop_a_change_that_arrives(pair: LocalCluster) -> None:
    """It is unique: the change would count it, here only."""
    north, south = pair.sps
    cancel_reindex(south)
    autocommit(north, "ALTER TABLE item ADD COLUMN w int")
    wait_for_row(south, "SELECT 1 FROM pg_attribute WHERE attrelid = 'item'::regclass AND attname = 'w'")
    assert not exists(south, "item_pkey_ccnew")
    autocommit(north, "ALTER TABLE item DROP COLUMN w")


def test_what_was_not_made_to_its_end_is_not_made_valid_by_a_change_that_arrives(pair: LocalCluster) -> None:
    north, south = pair.sps
    leave_unfinished(south, "item_left")
    autocommit(north, "ALTER TABLE item ALTER v TYPE bigint")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('item_left') IS NULL")
    autocommit(north, "ALTER TABLE item ALTER v TYPE int")


def test_a_copy_of_an_index_that_other_servers_do_not_have(pair: LocalCluster) -> None:
    """It is as local as that one. It takes no name from others."""
    north, south = pair.sps
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX item_here ON item (v)")
        connection.execute("RESET psp.schema_changes")
        connection.execute("CREATE TABLE copied (LIKE item INCLUDING ALL)")
        with raises("42704"):
            connection.execute("DROP INDEX copied_v_idx")
        connection.execute("CREATE INDEX ON copied (v)")
        connection.execute("ALTER INDEX copied_v_idx RENAME TO copied_v")
        connection.execute("SET quote_all_identifiers = on")
        connection.execute("DROP INDEX copied_v")
        connection.execute("DROP TABLE copied")
        connection.execute("SET psp.schema_changes = local")
        connection.execute("DROP INDEX item_here")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('copied') IS NULL")


def test_the_index_of_a_materialized_view(pair: LocalCluster) -> None:
    """It is as local as one of a table."""
    north, south = pair.sps
    autocommit(north, "CREATE MATERIALIZED VIEW seen AS SELECT id, v FROM item")
    with raises("0A000"):
        autocommit(north, "CREATE UNIQUE INDEX CONCURRENTLY seen_id ON seen (id)")
    autocommit(north, "CREATE UNIQUE INDEX seen_id ON seen (id)")
    with connect(north, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX seen_v ON seen (v)")
        connection.execute("RESET psp.schema_changes")
        with raises("0A000"):
            connection.execute("ALTER INDEX seen_v RENAME TO seen_w")
        connection.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY seen")
        connection.execute("DROP MATERIALIZED VIEW seen")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('seen') IS NULL")


def test_a_schema_change_says_nothing_about_the_index_of_a_job(pair: LocalCluster) -> None:
    """The other servers need not have it yet."""
    north, south = pair.sps
    create = "CREATE INDEX CONCURRENTLY item_told ON item (v)"
    autocommit(north, create)
    wait_for_job(south, create, "done")
    for statement in ("COMMENT ON INDEX item_told IS 'x'", "ALTER TABLE item CLUSTER ON item_told"):
        with raises("0A000"):
            autocommit(north, statement)
    autocommit(north, "DROP INDEX item_told")


def test_an_index_of_that_name_in_another_schema_is_another_one(pair: LocalCluster) -> None:
    """Whether an attempt was the last one is told by the index of the job's table."""
    north, south = pair.sps
    ddl(north, "CREATE SCHEMA tenant", "CREATE TABLE tenant.item (id int PRIMARY KEY, v int)")
    other = "CREATE INDEX CONCURRENTLY item_tenant ON tenant.item (v)"
    autocommit(north, other)
    wait_for_job(south, other, "done")
    with job_that_waits(pair, "item_tenant"):
        execute(as_admin(south), "SELECT pg_cancel_backend(%s)", [jobs_backend(south)])
    assert is_valid(south, "tenant.item_tenant")
    ddl(north, "DROP SCHEMA tenant CASCADE")


def test_a_job_of_a_table_that_is_gone_fails_until_it_is_ended(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE TABLE brief (id int PRIMARY KEY)")
    autocommit(north, "CREATE INDEX CONCURRENTLY brief_id ON brief (id)")
    wait_for_job(south, "CREATE INDEX CONCURRENTLY brief_id ON brief (id)", "done")
    vacuum = "VACUUM brief"
    with connect(north) as connection:
        connection.execute("SELECT psp.job(%s)", [vacuum])
        connection.execute("DROP TABLE brief")
    for sp in (north, south):
        error, _ = wait_for_job(sp, vacuum, "failed")
        assert error.startswith("42P01")
        execute(
            as_admin(sp),
            "SELECT psp.end_job(change, 1, 'done', 'dropped') FROM psp.schema_jobs WHERE statement = %s",
            [vacuum],
        )


THING = """
CREATE FUNCTION apart.looked_at(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'psp job'
       AND current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION 'nothing would be captured';
    END IF;
    RETURN v;
END $$;
CREATE TABLE apart.thing (id int PRIMARY KEY, v int);
CREATE INDEX thing_v ON apart.thing (apart.looked_at(v));
"""


def test_the_settings_of_a_job(pair: LocalCluster) -> None:
    """It finds names as its caller did.

    A setting that is none of a statement's has no effect: this one would be a way past the capture.
    """
    north, south = pair.sps
    ddl(north, "CREATE SCHEMA apart", THING)
    execute(north, "INSERT INTO apart.thing VALUES (1, 1)")
    for path, analyze in (("apart", "ANALYZE thing"), ("", "ANALYZE apart.thing")):
        with connect(north) as connection:
            connection.execute("SELECT set_config('search_path', %s, true)", [path])
            connection.execute(
                "INSERT INTO psp.new_statement (settings, statement) VALUES (psp.statement_settings() "
                """|| '{"job": true, "session_replication_role": "replica"}', %s)""",
                [analyze],
            )
        for sp in (north, south):
            assert wait_for_job(sp, analyze, "done") == (None, 1)
    with connect(north) as connection:
        connection.execute("SELECT set_config('search_path', '', true)")
        connection.execute("CREATE VIEW apart.things AS SELECT * FROM apart.thing")
    ddl(north, "DROP SCHEMA apart CASCADE")


def test_the_role_of_a_job(pair: LocalCluster) -> None:
    """Who may not call psp.ddl asks for no job. Where the role is missing, the job fails."""
    north, south = (as_admin(sp) for sp in pair.sps)
    execute(north, "CREATE ROLE passing")
    with connect(north) as connection, raises("42501"):
        connection.execute("SET ROLE passing")
        connection.execute("SELECT psp.job('ANALYZE')")
    execute(north, "GRANT EXECUTE ON FUNCTION psp.ddl(text) TO passing")
    with connect(north) as connection:
        connection.execute("SET ROLE passing")
        connection.execute("SELECT psp.job('ANALYZE')")
    wait_for_job(north, "ANALYZE", "done")
    error, _ = wait_for_job(south, "ANALYZE", "failed")
    assert "passing" in error
    execute(south, "CREATE ROLE passing")
    execute(south, "SELECT psp.retry_job(change) FROM psp.schema_jobs WHERE state = 'failed'")
    wait_for_job(south, "ANALYZE", "done")


@pytest.mark.parametrize(
    "statement",
    [
        "DO $$ BEGIN RESET ROLE; DELETE FROM psp.epochs; END $$",
        "RESET ROLE",
        "VACUUM; DROP TABLE item",
        "/*/* VACUUM */ VACUUM */ DROP TABLE item",
    ],
)
def test_a_forged_job_is_not_run(pair: LocalCluster, statement: str) -> None:
    """It could leave its role, and become the daemon's."""
    north, south = pair.sps
    role = execute(north, "SELECT current_user")[0][0]
    with connect(as_admin(south)) as admin:
        admin.execute(read_sql("semi_primary/daemon/apply_claim.sql"))
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute("SET LOCAL ROLE psp_functions")
        admin.execute(
            """INSERT INTO psp.schema_history VALUES (100000, 1, now(), 'x', %s, '{"job": true}', %s)""",
            [role, statement],
        )
        admin.execute("RESET ROLE")
        assert admin.execute("SELECT statement FROM psp.begin_job()").fetchall() == [(None,)]
        state = admin.execute("SELECT state, last_error FROM psp.jobs WHERE change = 100000").fetchall()
        assert state == [("failed", "the statement cannot be a job")]
        admin.rollback()


def test_the_history_tells_which_statements_are_jobs(pair: LocalCluster) -> None:
    north, _ = pair.sps
    execute(north, "SELECT psp.job('VACUUM (ANALYZE) item')")
    wait_for_job(north, "VACUUM (ANALYZE) item", "done")
    ddl(north, "CREATE VIEW seen AS SELECT 1 AS one")
    ddl(north, "DROP VIEW seen")
    newest = read_history(north.admin_dsn, None)[-3:]
    assert [told["job"] for told in newest] == ["done", None, None]


def test_the_daemons_role_has_no_right_afterwards(pair: LocalCluster) -> None:
    for sp in pair.sps:
        memberships = execute(
            as_admin(sp),
            "SELECT roleid::regrole::text FROM pg_auth_members "
            "WHERE member = 'psp_semi_primary'::regrole ORDER BY 1",
        )
        assert memberships == [("pg_monitor",), ("pg_signal_backend",)]


def test_a_server_that_joins_runs_the_jobs_that_make_indexes(pair: LocalCluster) -> None:
    """It runs all schema changes. (From a member's schema: tests/cluster/join/test_schema_from.py.)"""
    north, _ = pair.sps
    for statement in (
        "CREATE INDEX CONCURRENTLY item_gone ON item (v)",
        "DROP INDEX CONCURRENTLY item_gone",
        "CREATE INDEX CONCURRENTLY item_stays ON item (v)",
    ):
        autocommit(north, statement)
    west = pair.add_zone(Zone("west"), True)
    prepare_join(west.admin_dsn, pair.primary_dsn, west.name)
    pair.mark_adopted(west.name)
    growth.wait_joined(west)
    wait_for_job(west, "CREATE INDEX CONCURRENTLY item_stays ON item (v)", "done")
    assert is_valid(west, "item_stays")
    assert not exists(west, "item_gone")
    older = "SELECT attempts FROM psp.schema_jobs WHERE statement = 'VACUUM (ANALYZE) item'"
    assert set(execute(as_admin(west), older)) == {(0,)}
    gone = "CREATE INDEX CONCURRENTLY brief_id ON brief (id)"
    assert wait_for_job(west, gone, "done") == ("the table has been dropped meanwhile", 0)
