"""Indexes that one semi-primary has alone decide neither whether schema changes run, nor names."""

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
CREATE SCHEMA s1 AUTHORIZATION {APPLICATION};
CREATE SCHEMA s2 AUTHORIZATION {APPLICATION};
CREATE SCHEMA {APPLICATION} AUTHORIZATION {APPLICATION};
SET ROLE {APPLICATION};
SET search_path = public;
CREATE TABLE item (id int PRIMARY KEY, v text);
INSERT INTO item VALUES (1, 'one');
CREATE TABLE other (id int PRIMARY KEY, v text);
CREATE TABLE again (id int PRIMARY KEY, v text UNIQUE);
CREATE TABLE s1.t (a int PRIMARY KEY, b int);
CREATE TABLE s2.t (a int PRIMARY KEY, b int);
CREATE INDEX ix ON s2.t (b);
CREATE TABLE mine (a int PRIMARY KEY, b int);
CREATE TABLE {APPLICATION}.mine (a int PRIMARY KEY, b int);
CREATE TABLE parted (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
"""
OWN_PATH = '"$user", public'


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SCHEMA)
    pair.run(f"ALTER DATABASE {pair.name} SET search_path = public")
    return pair


NAMES = [
    ("item_v_key", "ALTER TABLE item ADD CONSTRAINT item_v_key UNIQUE (v)", {"item_v_key": True}),
    ("item_v_key", "ALTER TABLE item ADD UNIQUE (v)", {"item_v_key": True}),
    ("item_v_key", "SELECT add_unique()", {"item_v_key": True}),
    ("made", "CREATE INDEX made ON item (v, id)", {"made": False}),
    ("made", "CREATE INDEX IF NOT EXISTS made ON item (v, id)", {"made": False}),
    ("made", "CREATE TABLE made (id int PRIMARY KEY)", {}),
    ("made_key", "CREATE TABLE made (id int CONSTRAINT made_key PRIMARY KEY)", {}),
    ("made", "ALTER INDEX s2.ix RENAME TO made; ALTER INDEX item_pkey RENAME TO made", {"made": True}),
    ("made", "ALTER TABLE item RENAME CONSTRAINT item_pkey TO made", {"made": True}),
    ("made", "ALTER TABLE other RENAME TO made", {}),
    ("made", 'CREATE VIEW U&"m\\0061de" AS SELECT 1 AS a', {}),
]


@pytest.mark.parametrize(("name", "statement", "others"), NAMES)
def test_a_local_index_makes_way_for_what_arrives(
    app: Pair, name: str, statement: str, others: dict[str, bool]
) -> None:
    with arriving(app) as connection:
        arrive(
            connection,
            "CREATE FUNCTION add_unique() RETURNS void LANGUAGE sql AS 'ALTER TABLE item ADD UNIQUE (v)'",
        )
        locally(connection, f"CREATE INDEX {name} ON item (v)")
        become_worker(connection)
        arrive(connection, statement)
        assert indexes(connection) == {f"local_{name}": False} | others
        assert one(connection, "SELECT count(*) FROM psp.local_indexes WHERE old_name IS NOT NULL") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE item ADD UNIQUE (id, v)",
        "ALTER TABLE item ALTER COLUMN v TYPE varchar(9)",
        "DROP INDEX IF EXISTS public.v_here",
        "GRANT SELECT ON item TO PUBLIC",
    ],
)
def test_a_local_index_keeps_its_name_where_nothing_wants_it(app: Pair, statement: str) -> None:
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX v_here ON item (v)")
        become_worker(connection)
        dropped: dict[str, Any] = {"dropped": ["public.v_here"]} if statement.startswith("DROP") else {}
        arrive(connection, statement, **dropped)
        assert indexes(connection)["v_here"] is False
        # It is still a local one.
        connection.execute("SET LOCAL session_replication_role = origin")
        with refused("made at this semi-primary only"):
            run(connection, "DROP INDEX v_here")


@pytest.mark.parametrize("keys", ["lower(v)", "v text_pattern_ops", "id) WHERE (v = 'x'"])
def test_a_local_index_that_a_type_cannot_have_is_lost(app: Pair, keys: str) -> None:
    with arriving(app) as connection:
        locally(connection, f"CREATE INDEX v_here ON item ({keys})", "CREATE INDEX stays ON other (v)")
        become_worker(connection)
        arrive(connection, "ALTER TABLE item ALTER COLUMN v TYPE int USING length(v)")
        assert indexes(connection) == {}
        assert indexes(connection, "other") == {"stays": False}
        problems = [problem for (problem,) in connection.execute("SELECT psp.guard_problems()")]
        assert len(problems) == 1
        assert "index v_here of public.item" in problems[0]
        assert "v_here ON public.item" in one(connection, "SELECT definition FROM psp.lost_indexes")
        locally(connection, "CREATE INDEX v_here ON item (v)")
        assert connection.execute("SELECT psp.guard_problems()").fetchall() == []


def test_a_function_that_only_a_local_index_needs_is_dropped(app: Pair) -> None:
    with arriving(app) as connection:
        arrive(connection, "CREATE UNLOGGED TABLE aside (id int)")
        arrive(connection, "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'")
        locally(connection, "CREATE INDEX v_here ON aside (f(id))")
        become_worker(connection)
        arrive(connection, "DROP FUNCTION f")
        assert indexes(connection, "aside") == {}


def test_what_fails_without_local_indexes_too_leaves_them(app: Pair) -> None:
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX v_here ON item (v)")
        become_worker(connection)
        with pytest.raises(psycopg.errors.DuplicateTable), connection.transaction():
            arrive(connection, "CREATE TABLE item (id int PRIMARY KEY)")
        assert indexes(connection) == {"v_here": False}


def test_the_first_error_is_told(app: Pair) -> None:
    with arriving(app) as connection:
        arrive(connection, "CREATE UNLOGGED TABLE aside (id int)")
        # Something needs the local index, so that it cannot be dropped.
        locally(
            connection,
            "CREATE UNIQUE INDEX here ON aside (id)",
            "CREATE UNLOGGED TABLE refers (id int REFERENCES aside (id))",
        )
        become_worker(connection)
        with pytest.raises(psycopg.errors.DuplicateTable, match='"item" already'), connection.transaction():
            arrive(connection, "CREATE TABLE item (id int PRIMARY KEY)")


def test_the_key_of_a_local_table_is_no_local_index(app: Pair) -> None:
    with arriving(app) as connection:
        locally(connection, "CREATE UNLOGGED TABLE staging (id int PRIMARY KEY, v int UNIQUE)")
        become_worker(connection)
        version = "SELECT xmin::text FROM pg_class WHERE oid = 'staging_pkey'::regclass"
        before = one(connection, version)
        arrive(connection, "CREATE VIEW seen AS SELECT 1 AS a")
        assert one(connection, version) == before
        assert one(connection, "SELECT count(*) FROM psp.indexes_alone") == 0


# ---- REINDEX CONCURRENTLY, which gives an index another OID ------------------------------------------------


@contextmanager
def reindexing(app: Pair, index: str) -> Iterator[Callable[[], None]]:
    """The new index is made, and waits for a snapshot. What this yields lets it take the old one's place,
    which then waits for a reader."""
    with (
        app.connect() as older,
        app.connect() as reader,
        app.connect(autocommit=True) as session,
        app.connect(autocommit=True) as observer,
    ):
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT 1")
        reader.execute("SELECT FROM again")
        found = one(observer, "SELECT %s::regclass::oid", index)
        thread = Thread(target=session.execute, args=(f"REINDEX INDEX CONCURRENTLY {index}".encode(),))
        waiting = "SELECT FROM pg_stat_progress_create_index WHERE phase = 'waiting for old snapshots'"

        def go_on() -> None:
            older.rollback()
            while one(observer, "SELECT %s::regclass::oid", index) == found:
                assert thread.is_alive()

        thread.start()
        try:
            while observer.execute(waiting).rowcount == 0:
                assert thread.is_alive()
            yield go_on
        finally:
            older.rollback()
            reader.rollback()
            thread.join()


def test_reindex_holds_up_nothing_and_makes_no_index_a_local_one(app: Pair) -> None:
    with reindexing(app, "again_v_key") as go_on, arriving(app) as connection:
        connection.execute("SET LOCAL lock_timeout = '20s'")
        arrive(connection, "GRANT SELECT ON other TO PUBLIC")
        number = one(connection, "SELECT last_number FROM psp.identity")
        go_on()
        arrive(connection, "CREATE VIEW seen AS SELECT 1 AS a")
        assert one(connection, "SELECT last_number FROM psp.identity") == number
        assert one(connection, "SELECT count(*) FROM psp.indexes_alone") == 0
        assert "again_v_key" in indexes(connection, "again")


def test_reindex_leaves_a_local_index_a_local_one(app: Pair) -> None:
    app.run("CREATE INDEX again_here ON again (v)")
    try:
        with reindexing(app, "again_here") as go_on, arriving(app) as connection:
            connection.execute("SET LOCAL lock_timeout = '20s'")
            arrive(connection, "CREATE VIEW seen AS SELECT 1 AS a")
            go_on()
            arrive(connection, "CREATE VIEW seen_again AS SELECT 1 AS a")
            names = connection.execute("SELECT name FROM psp.indexes_alone").fetchall()
            assert ("again_here",) in names
    finally:
        app.run("DROP INDEX again_here")


HERE = [
    ("item_v_key", "ALTER TABLE item ADD UNIQUE (v)", {"local_item_v_key": False, "item_v_key": True}),
    ("item_w_seq", "ALTER TABLE item ADD COLUMN w serial", {"local_item_w_seq": False}),
    ("item_v_idx", "CREATE INDEX ON item (v)", {"local_item_v_idx": False, "item_v_idx": False}),
    ("v_here", "ALTER TABLE item ADD UNIQUE (v)", {"v_here": False, "item_v_key": True}),
]


@pytest.mark.parametrize("by_function", [False, True])
@pytest.mark.parametrize(("name", "statement", "left"), HERE)
def test_a_local_index_does_not_change_the_names_that_postgresql_chooses_here(
    app: Pair, name: str, statement: str, left: dict[str, bool], by_function: bool
) -> None:
    with app.rolled_back() as connection:
        locally(connection, f"CREATE INDEX {name} ON item (v)")
        run(connection, f"SELECT psp.ddl('{statement}')" if by_function else statement)
        assert indexes(connection) == left


@pytest.mark.parametrize(
    "statement",
    [
        "DROP INDEX v_here", "ALTER INDEX v_here RENAME TO x", "ALTER TABLE item CLUSTER ON v_here",
        "COMMENT ON INDEX v_here IS 'x'", "SELECT psp.ddl('DROP INDEX v_here')",
    ],
)  # fmt: skip
def test_a_schema_change_that_names_a_local_index_is_refused(app: Pair, statement: str) -> None:
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX v_here ON item (v)")
        with refused("made at this semi-primary only"):
            run(connection, statement)


def test_a_temporary_table_lets_local_indexes_be(app: Pair) -> None:
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX item_v_key ON item (v)")
        run(connection, "CREATE TEMP TABLE item (v text)", "ALTER TABLE item ADD UNIQUE (v)")
        assert one(connection, "SELECT count(*) FROM psp.local_indexes WHERE old_name IS NOT NULL") == 0
        assert indexes(connection, "public.item") == {"item_v_key": False}


def test_an_index_that_is_being_made_is_no_leftover(app: Pair) -> None:
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX v_here ON item (v)")
        connection.execute("UPDATE psp.local_indexes SET is_leftover = true")
        become_worker(connection)
        arrive(connection, "CREATE INDEX v_here ON item (id, v)")
        assert indexes(connection) == {"v_here": False, "local_v_here": False}


def test_a_leftover_does_not_change_the_names_that_postgresql_chooses(app: Pair) -> None:
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX item_v_key ON item (v)")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'item_v_key'::regclass")
        run(connection, "ALTER TABLE item ADD UNIQUE (v)")
        assert indexes(connection) == {"local_item_v_key": False, "item_v_key": True}


def test_a_leftover_keeps_its_name(app: Pair) -> None:
    with app.rolled_back() as connection:
        made_by_job(connection, "s1.t", "jx")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 's1.jx'::regclass")
        run(connection, "SELECT psp.ddl('CREATE VIEW seen AS SELECT 1 AS a')")
        assert indexes(connection, "s1.t") == {"jx": False}
        run(connection, "DROP INDEX s1.jx")
        assert recorded(connection)[-1] == "DROP INDEX IF EXISTS s1.jx"


# ---- indexes of jobs --------------------------------------------------------------------------------------


RENAMED = [
    ("ALTER INDEX s2.ix RENAME TO newname", "ALTER INDEX s2.ix RENAME TO newname"),
    ("SET LOCAL search_path = s2, s1; ALTER INDEX ix RENAME TO newname", "ALTER INDEX ix RENAME TO newname"),
    ("ALTER INDEX s1.ix RENAME TO newname", "ALTER INDEX IF EXISTS s1.ix RENAME TO newname"),
    ("SET LOCAL search_path = s1; ALTER INDEX IF EXISTS ix RENAME TO \"New\"",
     "ALTER INDEX IF EXISTS s1.ix RENAME TO \"New\""),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "text"), RENAMED)
def test_another_index_of_that_name_is_another_one(app: Pair, statement: str, text: str) -> None:
    with app.rolled_back() as connection:
        made_by_job(connection, "s1.t", "ix")
        run(connection, *statement.split("; "))
        assert recorded(connection) == [text]


def test_indexes_of_jobs_in_two_schemas(app: Pair) -> None:
    with app.rolled_back() as connection:
        made_by_job(connection, "s1.t", "jx")
        made_by_job(connection, "s2.t", "jx")
        run(connection, "ALTER INDEX s2.jx RENAME TO newname")
        assert recorded(connection) == ["ALTER INDEX IF EXISTS s2.jx RENAME TO newname"]
        names = connection.execute("SELECT relation::regclass::text, index_name FROM psp.jobs ORDER BY 1")
        assert names.fetchall() == [("s1.t", "jx"), ("s2.t", "newname")]


def test_a_local_index_of_a_name_that_a_jobs_index_had(app: Pair) -> None:
    with arriving(app) as connection:
        made_by_job(connection, "s1.t", "jx")
        locally(connection, "DROP INDEX s1.jx", "CREATE INDEX jx ON s1.t (b)")
        become_worker(connection)
        arrive(connection, "CREATE INDEX jx ON s1.t (a, b)")
        assert indexes(connection, "s1.t") == {"jx": False, "local_jx": False}


def test_a_local_index_makes_way_for_that_of_a_job(app: Pair) -> None:
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX v_here ON item (v)")
        become_worker(connection)
        arrive(connection, "CREATE INDEX CONCURRENTLY v_here ON item (v)", job=True)
        assert indexes(connection) == {"local_v_here": False}


def test_a_table_in_the_schema_of_the_statements_role(app: Pair) -> None:
    own = f"{APPLICATION}.mine"
    found = "SELECT relation::regclass::text FROM psp.jobs"
    with app.rolled_back() as connection:
        connection.execute(f"SET LOCAL search_path = {OWN_PATH}".encode())
        run(connection, "SELECT psp.job('CREATE INDEX CONCURRENTLY jx ON mine (b)')")
        connection.execute("SET LOCAL search_path = public")
        assert one(connection, found) == own
    with arriving(app) as connection:
        arrive(
            connection,
            "CREATE INDEX CONCURRENTLY jx ON mine (b)",
            job=True,
            search_path=OWN_PATH,
            schemas=[APPLICATION, "public"],
        )
        assert one(connection, found) == own
        locally(connection, f"CREATE INDEX v_here ON {own} (b)")
        become_worker(connection)
        arrive(
            connection,
            "CREATE INDEX v_here ON mine (a, b)",
            search_path=OWN_PATH,
            schemas=[APPLICATION, "public"],
        )
        assert indexes(connection, own) == {"v_here": False, "local_v_here": False}


def test_a_schema_that_the_statements_role_may_not_use(app: Pair) -> None:
    with app.rolled_back() as connection:
        connection.execute("CREATE SCHEMA closed; CREATE UNLOGGED TABLE closed.mine (b int)")
        connection.execute("SET LOCAL search_path = closed, public")
        run(connection, "SELECT psp.job('CREATE INDEX CONCURRENTLY jx ON mine (b)')")
        assert one(connection, "SELECT relation = 'public.mine'::regclass FROM psp.jobs")


def test_a_view_in_the_schema_of_the_statements_role(app: Pair) -> None:
    failing = "CREATE MATERIALIZED VIEW m AS SELECT 1/(a-1) AS a FROM (VALUES (1)) v(a)"
    with arriving(app) as connection:
        for statement in (failing, "REFRESH MATERIALIZED VIEW m"):
            arrive(connection, statement, search_path=OWN_PATH, schemas=[APPLICATION, "public"])
            unfilled = connection.execute("SELECT relation::regclass::text, error FROM psp.unfilled_views")
            assert unfilled.fetchall() == [(f"{APPLICATION}.m", "division by zero")]


@pytest.mark.parametrize(
    ("statement", "is_cascade"),
    [
        ('DROP INDEX "on cascade"', False),
        ('DROP INDEX "on cascade" -- no cascade', False),
        ('DROP INDEX "on cascade" /* cascade */ RESTRICT', False),
        ('DROP INDEX "a--b", "on cascade" cascade -- so', True),
        ("SELECT psp.ddl('DROP INDEX \"on cascade\" /* not */ CASCADE')", True),
        ("SELECT psp.ddl('DROP INDEX \"on cascade\" -- CASCADE')", False),
    ],
)
def test_drop_index_goes_with_its_own_cascade(app: Pair, statement: str, is_cascade: bool) -> None:
    with app.rolled_back() as connection:
        run(connection, 'CREATE INDEX "on cascade" ON item (v)', 'CREATE INDEX "a--b" ON item (v)', statement)
        text = recorded(connection)[-1]
        assert text.startswith("DROP INDEX IF EXISTS public.")
        assert text.upper().endswith(" CASCADE") is is_cascade


# ---- copies ----------------------------------------------------------------------------------------------

COPY = "CREATE TABLE copy (LIKE item INCLUDING ALL)"


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("local_first", [False, True])
def test_a_copy_of_a_local_index_is_a_local_one(app: Pair, arrives: bool, local_first: bool) -> None:
    with arriving(app) as connection:
        everywhere = ["CREATE UNIQUE INDEX ON item (v)", "CREATE INDEX ON item (v)"]
        if local_first:
            locally(connection, "CREATE INDEX v_here ON item (v)")
        connection.execute("SET LOCAL session_replication_role = origin")
        run(connection, *everywhere)
        if not local_first:
            locally(connection, "CREATE INDEX v_here ON item (v)")
        if arrives:
            become_worker(connection)
            arrive(connection, COPY)
        else:
            run(connection, COPY)
        found = indexes(connection, "copy")
        local = [name for name in found if name.startswith("local_")]
        assert len(local) == 1
        assert {name: found[name] for name in found if name not in local} == {
            "copy_v_idx": True,
            "copy_v_idx1": False,
        }
        connection.execute("SET LOCAL session_replication_role = origin")
        index = one(
            connection,
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'copy'::regclass "
            "AND indexrelid::regclass::text LIKE 'local%%'",
        )
        with refused("made at this semi-primary only"):
            run(connection, f"ALTER INDEX {index} RENAME TO x")


def test_a_new_partition_gets_a_local_index_of_the_whole_as_a_local_one(app: Pair) -> None:
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX here_only ON parted (a)")
        connection.execute("SET LOCAL session_replication_role = origin")
        run(
            connection,
            "CREATE INDEX everywhere ON parted (a)",
            "CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
        )
        assert set(indexes(connection, "part2")) in (
            {"part2_a_idx", "local_part2_a_idx"},
            {"part2_a_idx", "local_part2_a_idx1"},
        )
        become_worker(connection)
        arrive(connection, "ALTER INDEX part2_a_idx RENAME TO renamed")
        parent = (
            "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = 'public.renamed'::regclass"
        )
        assert one(connection, parent) == "everywhere"


def test_a_local_index_of_a_partition_becomes_no_part_of_another(app: Pair) -> None:
    statement = "CREATE INDEX everywhere ON parted (a)"
    with app.rolled_back() as connection:
        locally(connection, "CREATE INDEX here_only ON part (a)")
        with refused("would become a part"):
            run(connection, statement)
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX here_only ON part (a)")
        become_worker(connection)
        arrive(connection, statement)
        assert indexes(connection, "part") == {"part_a_idx": False}
        assert one(connection, "SELECT name FROM psp.lost_indexes") == "here_only"


def test_an_index_of_a_new_partition_becomes_no_part_of_a_local_one(app: Pair) -> None:
    statement = "ALTER TABLE parted ATTACH PARTITION fresh FOR VALUES FROM (20) TO (30)"
    table = "CREATE TABLE fresh (id int PRIMARY KEY, a int)"
    with arriving(app) as connection:
        locally(connection, "CREATE INDEX here_only ON parted (a)")
        connection.execute("SET LOCAL session_replication_role = origin")
        run(connection, table, "CREATE INDEX fresh_ix ON fresh (a)")
        with refused("would become a part"), connection.transaction():
            run(connection, statement)
        connection.execute("RESET ROLE")
        become_worker(connection)
        arrive(connection, statement)
        assert indexes(connection, "fresh") == {"fresh_ix": False}
        assert indexes(connection, "parted") == {}
