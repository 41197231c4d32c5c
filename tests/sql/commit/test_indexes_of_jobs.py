"""Each server has indexes of jobs at its own time. They decide neither names nor whether statements run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, arriving, become_worker
from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.indexes import indexes, locally, made_by_job, recorded, run
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
CREATE SCHEMA {APPLICATION} AUTHORIZATION {APPLICATION};
SET ROLE {APPLICATION};
SET search_path = public;
CREATE TABLE item (id int PRIMARY KEY, a int, b int, UNIQUE (a), EXCLUDE (b WITH =));
CREATE TABLE parted (id int PRIMARY KEY, b int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE split (id int PRIMARY KEY, b int) PARTITION BY RANGE (id);
CREATE TABLE split_1 PARTITION OF split FOR VALUES FROM (0) TO (10);
CREATE INDEX split_b ON split_1 (b);
CREATE TABLE other (id int PRIMARY KEY, b int);
"""
COPY = "CREATE TABLE copy (LIKE item INCLUDING ALL)"
State = Callable[[psycopg.Connection[Any]], None]


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SCHEMA)
    pair.run(f"ALTER DATABASE {pair.name} SET search_path = public")
    return pair


def definitions(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """Those of the indexes that all servers have."""
    rows = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexname !~ '^local_' ORDER BY 1", [table]
    )
    return [definition for (definition,) in rows]


def last_sent(connection: psycopg.Connection[Any]) -> tuple[str, dict[str, Any]]:
    """The last statement that goes with the stream, and its settings."""
    row = connection.execute(
        "SELECT statement, settings FROM psp.schema_history ORDER BY change DESC, statement_n DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    statement, settings = row
    return statement, settings


def made_and_sent(app: Pair, state: State, statement: str) -> tuple[list[str], str, dict[str, Any]]:
    """The copy's indexes where a statement runs first, and what other servers get of it."""
    with app.rolled_back() as connection:
        state(connection)
        run(connection, statement)
        return definitions(connection, "copy"), *last_sent(connection)


def made_elsewhere(app: Pair, state: State, text: str, settings: dict[str, Any]) -> list[str]:
    with arriving(app) as connection:
        state(connection)
        become_worker(connection)
        arrive(connection, text, **settings)
        return definitions(connection, "copy")


# ---- copies ----------------------------------------------------------------------------------------------


def with_index_of_job(connection: psycopg.Connection[Any]) -> None:
    """The job's comes first, so that its copy gets the first name, too."""
    made_by_job(connection, "item", "item_job")
    without_index_of_job(connection)


def without_index_of_job(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL session_replication_role = origin")
    run(connection, "CREATE UNIQUE INDEX item_unique ON item (b)")


def become_unfinished(connection: psycopg.Connection[Any], index: str) -> None:
    """As it is while it is made, and when that has failed: no event trigger has told psp of it."""
    connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (index,))
    connection.execute("DELETE FROM psp.local_indexes WHERE index = %s::regclass", (index,))


def with_unfinished(connection: psycopg.Connection[Any]) -> None:
    """As if a session were making an index CONCURRENTLY: psp does not know of it yet."""
    locally(connection, "CREATE INDEX unfinished ON item (b)")
    become_unfinished(connection, "unfinished")


def with_nothing(connection: psycopg.Connection[Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (with_index_of_job, without_index_of_job),
        (without_index_of_job, with_index_of_job),
        (with_unfinished, with_nothing),
        (with_nothing, with_unfinished),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        COPY,
        f"CREATE SCHEMA made {COPY}",
        f"SELECT psp.ddl('{COPY}')",
        f"DO $$ BEGIN PERFORM psp.ddl('{COPY}'); END $$",
    ],
)
def test_a_copy_has_the_same_indexes_everywhere(app: Pair, first: State, then: State, statement: str) -> None:
    if "SCHEMA" in statement:
        app.run(f"GRANT CREATE ON DATABASE {app.name} TO {APPLICATION}")
    here, text, settings = made_and_sent(app, first, statement)
    assert here
    assert made_elsewhere(app, then, text, settings) == here


@pytest.mark.parametrize("state", [with_index_of_job, with_unfinished])
def test_a_text_of_several_statements_makes_no_copies_of_them(app: Pair, state: State) -> None:
    """Which indexes it has made is known when it has run, and its text goes before that."""
    text = f"SELECT psp.ddl('{COPY}; CREATE VIEW beside AS SELECT 1 AS one')"
    with app.rolled_back() as connection:
        run(
            connection,
            text.replace("ALL", "DEFAULTS, PRIMARY KEY (id)"),
            "DROP VIEW beside",
            "DROP TABLE copy",
        )
        state(connection)
        with refused("copies no indexes"), connection.transaction():
            run(connection, text)
        run(connection, "DROP INDEX IF EXISTS item_job, unfinished", text)


def test_a_session_begins_an_index_while_such_a_text_runs(app: Pair) -> None:
    """The text itself stands for that session."""
    text = f"{COPY}; SELECT become_unfinished()"
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX unfinished ON item (b)")
        index = one(connection, "SELECT 'unfinished'::regclass::oid")
        connection.execute(
            "CREATE FUNCTION become_unfinished() RETURNS void LANGUAGE sql SECURITY DEFINER AS "
            f"$$ UPDATE pg_index SET indisvalid = false WHERE indexrelid = {index}; "
            f"DELETE FROM psp.local_indexes WHERE index = {index} $$".encode()
        )
        with refused("copies no indexes"):
            run(connection, f"SELECT psp.ddl('{text}')")


@pytest.mark.parametrize("there", [True, False])
def test_a_copy_that_is_made_again_has_its_comment(app: Pair, there: bool) -> None:
    def with_comment(connection: psycopg.Connection[Any]) -> None:
        with_index_of_job(connection)
        locally(connection, "COMMENT ON INDEX item_job IS 'it''s a \\ job''s'")

    _, text, settings = made_and_sent(app, with_comment, COPY)
    with arriving(app) as connection:
        (with_index_of_job if there else without_index_of_job)(connection)
        become_worker(connection)
        arrive(connection, text, **settings)
        comments = connection.execute(
            "SELECT obj_description(indexrelid) FROM pg_index WHERE indrelid = 'copy'::regclass"
        )
        assert [text for (text,) in comments if text is not None] == ["it's a \\ job's"]


def test_a_copy_is_made_as_the_caller_of_psp_ddl(app: Pair) -> None:
    """A function of another role, and a session whose statements stay here, may call it."""
    with app.rolled_back() as connection:
        connection.execute("CREATE ROLE caller")
        connection.execute(
            f"CREATE FUNCTION {APPLICATION}.copies() RETURNS void LANGUAGE plpgsql SECURITY DEFINER "
            f"AS $$ BEGIN PERFORM psp.ddl('{COPY}'); END $$; "
            f"ALTER FUNCTION {APPLICATION}.copies() OWNER TO {APPLICATION}; "
            f"GRANT USAGE ON SCHEMA {APPLICATION} TO caller; SET LOCAL ROLE caller"
        )
        connection.execute(f"SELECT {APPLICATION}.copies()")
        connection.execute("SET LOCAL ROLE NONE")
        assert recorded(connection) == [COPY]
    with app.rolled_back() as connection:
        run(connection, "SET LOCAL psp.schema_changes = local", f"SELECT psp.ddl('{COPY}')")
        assert recorded(connection) == [COPY]


def test_a_schema_without_tables_has_no_copies(app: Pair) -> None:
    statement = "CREATE SCHEMA empty -- including nothing"
    app.run(f"GRANT CREATE ON DATABASE {app.name} TO {APPLICATION}")
    with app.rolled_back() as connection:
        run(connection, statement)
        text, settings = last_sent(connection)
    assert "copied" not in settings
    with arriving(app) as connection:
        arrive(connection, text, **settings)
        assert one(connection, "SELECT to_regnamespace('empty') IS NOT NULL")


def test_a_temporary_copy_stays_as_postgresql_has_made_it(app: Pair) -> None:
    """Of several statements psp does not know at once that they are temporary."""
    with app.rolled_back() as connection:
        made_by_job(connection, "item", "item_job")
        locally(connection, "CREATE INDEX here ON item (a, b)")
        run(connection, f"/* no. 1 */ {COPY.replace('TABLE', 'TEMP TABLE')}")
        assert "copy_a_b_idx" in indexes(connection, "pg_temp.copy")


# ---- parts -----------------------------------------------------------------------------------------------

WHOLE = "CREATE INDEX whole ON parted (b)"


def jobs(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute("SELECT state FROM psp.jobs ORDER BY change, statement_n")
    return [state for (state,) in rows]


@pytest.mark.parametrize(
    ("valid", "before", "after"),
    [
        (True, ["done"], ["waiting"]),
        (True, ["failed", "done", "done"], ["failed", "done", "waiting"]),
        (True, [], []),
        (False, ["waiting"], ["waiting"]),
        (False, ["done", "failed"], ["done", "waiting"]),
        (False, [], []),
    ],
)
def test_an_index_of_a_job_makes_way_for_one_of_the_whole(
    app: Pair, valid: bool, before: list[str], after: list[str]
) -> None:
    with arriving(app) as connection:
        made_by_jobs(connection, "part", "part_job", before)
        if not valid:
            become_unfinished(connection, "part_job")
        become_worker(connection)
        arrive(connection, WHOLE)
        assert indexes(connection, "part") == {"part_b_idx": False}
        assert one(connection, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'whole'::regclass")
        assert jobs(connection) == after
        lost = 1 if valid and not before else 0
        assert one(connection, "SELECT count(*) FROM psp.lost_indexes") == lost


def made_by_jobs(connection: psycopg.Connection[Any], table: str, index: str, states: list[str]) -> None:
    """The jobs have made the index one after the other. Without any: a session that stays here has."""
    if states:
        made_by_job(connection, table, index, states[0])
        for change, state in enumerate(states[1:], 1000):
            connection.execute(
                "INSERT INTO psp.jobs (change, statement_n, state, relation, index_name) "
                "VALUES (%s, 1, %s, %s::regclass, %s)",
                (change, state, table, index),
            )
    else:
        locally(connection, f"CREATE INDEX {index} ON {table} (b)")


@pytest.mark.parametrize("valid", [True, False])
def test_a_job_that_runs_keeps_its_index(app: Pair, valid: bool) -> None:
    """It may just have been made to its end. The statement is tried again."""
    with arriving(app) as connection:
        made_by_jobs(connection, "part", "part_job", ["done", "running"])
        if not valid:
            become_unfinished(connection, "part_job")
        become_worker(connection)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            arrive(connection, WHOLE)


@pytest.mark.parametrize(
    ("states", "valid", "hint"),
    [
        (["done"], True, "DROP INDEX public.part_job. The statement makes an index of its own"),
        (["waiting"], False, "psp.schema_jobs tells its state"),
        (["failed", "running"], True, "psp.schema_jobs tells its state"),
        ([], False, "DROP INDEX public.part_job. The statement makes an index of its own"),
        ([], True, "SET psp.schema_changes = local; DROP INDEX public.part_job"),
    ],
)
def test_where_an_index_of_a_job_is_it_becomes_no_part(
    app: Pair, states: list[str], valid: bool, hint: str
) -> None:
    with app.rolled_back() as connection:
        made_by_jobs(connection, "part", "part_job", states)
        if not valid:
            become_unfinished(connection, "part_job")
        with refused(hint):
            run(connection, WHOLE)


def locally_with_part(connection: psycopg.Connection[Any], whole: str, part: str, at_once: bool) -> None:
    """A local index of the whole, with an index of a partition that is there."""
    if at_once:
        locally(connection, f"CREATE INDEX here ON {whole} (b)")
    else:
        locally(
            connection,
            f"CREATE INDEX here ON ONLY {whole} (b)",
            f"ALTER INDEX here ATTACH PARTITION {part}",
        )


@pytest.mark.parametrize("at_once", [True, False])
def test_a_local_index_of_the_whole_has_no_parts_that_are_not_local(app: Pair, at_once: bool) -> None:
    """They would go with it, and could not be dropped by a schema change."""
    with app.rolled_back() as connection, refused("split_b, of .*, would become a part"):
        locally_with_part(connection, "split", "split_b", at_once)
    with app.rolled_back() as connection:
        made_by_job(connection, "part", "part_b")
        with refused("part_b, of .*, would become a part"):
            locally_with_part(connection, "parted", "part_b", at_once)
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX part_b ON part (b)")
        locally_with_part(connection, "parted", "part_b", at_once)
        whole = "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = 'part_b'::regclass"
        assert one(connection, whole) == "here"


def test_an_index_of_all_servers_has_no_local_parts(app: Pair) -> None:
    with app.rolled_back() as connection:
        run(connection, "CREATE INDEX whole ON ONLY parted (b)")
        locally(connection, "CREATE INDEX part_b ON part (b)")
        with refused("part_b, of .*, would become a part"):
            locally(connection, "ALTER INDEX whole ATTACH PARTITION part_b")


def test_an_index_that_a_session_is_making_is_in_nobodys_way(app: Pair) -> None:
    with making(app, "CREATE INDEX CONCURRENTLY other_b ON other (b)"), arriving(app) as connection:
        connection.execute("SET LOCAL lock_timeout = '5s'")
        with pytest.raises(psycopg.errors.DuplicateTable):
            arrive(connection, "CREATE VIEW item AS SELECT b FROM other")


# ---- names -----------------------------------------------------------------------------------------------


def job_to_do(connection: psycopg.Connection[Any], state: str = "waiting") -> None:
    """Other servers may have its index already."""
    connection.execute(
        "INSERT INTO psp.jobs (change, statement_n, state, relation, index_name) "
        "VALUES (901, 1, %s, 'item'::regclass, 'item_job')",
        (state,),
    )


@pytest.mark.parametrize(
    "text",
    [
        "DROP INDEX IF EXISTS item_job",
        "DROP INDEX IF EXISTS item_job; CREATE VIEW made AS SELECT 1 AS one",
        "CREATE VIEW made AS SELECT 1 AS one; DROP INDEX IF EXISTS item_job;",
        "ALTER INDEX other_pkey RENAME TO renamed; DROP INDEX IF EXISTS item_job",
        "ALTER INDEX IF EXISTS item_job RENAME TO renamed; CREATE VIEW made AS SELECT 1 AS one",
    ],
)
def test_a_text_that_drops_the_index_of_a_job(app: Pair, text: str) -> None:
    with app.rolled_back() as connection:
        job_to_do(connection)
        with pytest.raises(psycopg.errors.ObjectInUse), connection.transaction():
            run(connection, f"SELECT psp.ddl('{text}')")
        connection.execute("UPDATE psp.jobs SET state = 'done'")
        run(connection, f"SELECT psp.ddl('{text}')")


@pytest.mark.parametrize("by_function", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW item_job AS SELECT 1 AS one",
        "CREATE INDEX item_job ON other (b)",
        "CREATE INDEX item_job ON item (b, a)",
        "CREATE SEQUENCE item_job",
        "CREATE TYPE item_job AS (a int)",
        "ALTER TABLE other RENAME TO item_job",
        "ALTER INDEX other_pkey RENAME TO item_job",
        "ALTER TABLE other ADD CONSTRAINT item_job UNIQUE (b)",
    ],
)
def test_the_name_of_an_index_that_a_job_is_to_make_is_taken(
    app: Pair, statement: str, by_function: bool
) -> None:
    """A server that has the index would stop."""
    with app.rolled_back() as connection:
        job_to_do(connection)
        with pytest.raises(psycopg.errors.ObjectInUse):
            run(connection, f"SELECT psp.ddl('{statement}')" if by_function else statement)


@pytest.mark.parametrize("state", ["waiting", "failed"])
def test_a_job_gets_no_name_of_another_one(app: Pair, state: str) -> None:
    """Both would make it here, and one of them would fail."""
    statement = "CREATE INDEX CONCURRENTLY {} ON {} (b)"
    with app.rolled_back() as connection:
        job_to_do(connection, state)
        for name, table, error in (
            ("item_job", "item", psycopg.errors.ObjectInUse),
            ('IF NOT EXISTS "item_job"', "public.other", psycopg.errors.ObjectInUse),
            ("other_job", "item", psycopg.errors.ActiveSqlTransaction),  # PostgreSQL's own, afterwards
        ):
            with pytest.raises(error), connection.transaction():
                run(connection, statement.format(name, table))


@pytest.mark.parametrize("state", ["waiting", "failed"])
def test_what_a_job_has_left_is_no_other_index_of_its_name(app: Pair, state: str) -> None:
    """PostgreSQL makes it again, as another object."""
    with app.rolled_back() as connection:
        made_by_job(connection, "item", "item_job", state)
        become_unfinished(connection, "item_job")
        run(connection, "ALTER TABLE item ALTER COLUMN b TYPE bigint")
        run(connection, f"CREATE VIEW {APPLICATION}.item_job AS SELECT 1 AS one")


# ---- what they cost --------------------------------------------------------------------------------------


def rows_read(app: Pair, number_of_jobs: int) -> int:
    """Rows of pg_class that one schema change reads where it arrives."""
    query = "SELECT pg_stat_get_xact_tuples_returned('pg_class'::regclass)"
    with arriving(app) as connection:
        for number in range(number_of_jobs):
            made_by_job(connection, "other", f"job_{number}")
        become_worker(connection)
        arrive(connection, "CREATE VIEW first AS SELECT 1 AS one")
        before = one(connection, query)
        arrive(connection, "CREATE VIEW second AS SELECT 1 AS one")
        return int(one(connection, query) - before)


def test_indexes_of_jobs_cost_a_later_statement_no_scan_of_the_catalog(app: Pair) -> None:
    with app.connect() as connection:
        relations = one(connection, "SELECT count(*) FROM pg_class")
    # The least of three: PostgreSQL may analyze its catalog in between, and then plans otherwise.
    assert min(rows_read(app, 24) - rows_read(app, 4) for _ in range(3)) < relations


@contextmanager
def making(app: Pair, statement: str) -> Iterator[None]:
    """It has begun, and waits for a snapshot."""
    waiting = "SELECT FROM pg_stat_progress_create_index WHERE phase = 'waiting for old snapshots'"
    with (
        app.connect() as older,
        app.connect(autocommit=True) as session,
        app.connect(autocommit=True) as observer,
    ):
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT 1")
        thread = Thread(target=session.execute, args=(statement.encode(),))
        thread.start()
        try:
            while observer.execute(waiting).rowcount == 0:
                assert thread.is_alive()
            yield
        finally:
            older.rollback()
            thread.join()
