"""A join that starts from a semi-primary's schema as it is: only what comes after runs there."""

import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.paths import client_program
from psp.schema import member_schema
from psp.schema.dump import dump_schema_without
from psp.schema.join import prepare_join

from tests.cluster.schema_changes.statements import allow_ddl, changes, ddl
from tests.cluster.support import as_admin, connect, execute, retry, settle, wait_for_row

SCHEMA = """
CREATE TABLE item (gone int, id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE counter (id serial PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
CREATE TABLE part (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
INSERT INTO item SELECT 0, n, 'item ' || n FROM generate_series(1, 300) n;
INSERT INTO counter (n) SELECT 0 FROM generate_series(1, 5);
"""
CHANGES = (
    "ALTER TABLE item DROP COLUMN gone",
    "ALTER TABLE item ADD price numeric DEFAULT 1.50",
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "ALTER TABLE item ADD mood mood DEFAULT 'sad'",
    "CREATE FUNCTION twice(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT n * 2'",
    "CREATE TABLE added (id bigserial PRIMARY KEY, v int DEFAULT twice(2), w text UNIQUE)",
    'CREATE SCHEMA "Other"',
    'CREATE TABLE "Other"."Odd one" (id int GENERATED ALWAYS AS IDENTITY (INCREMENT 5) PRIMARY KEY)',
    "ALTER TABLE added ADD CONSTRAINT of_item FOREIGN KEY (v) REFERENCES item",
    "CREATE INDEX added_v ON added (v)",
    "CREATE VIEW dear AS SELECT * FROM item WHERE price > 1",
    "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE doomed (id int PRIMARY KEY)",
    "DROP TABLE doomed",
    "CREATE TABLE before (id int PRIMARY KEY)",
    "ALTER TABLE before RENAME TO after",
    "COMMENT ON VIEW dear IS 'What costs more'",
    "GRANT SELECT ON item TO PUBLIC",
    "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
    "ALTER TABLE added ADD s small",
    "CREATE SEQUENCE free INCREMENT -3",
    "CREATE STATISTICS of_two ON id, name FROM item",
)


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    """Two semi-primaries that have had all these schema changes, with rows of before, between and after."""
    with LocalCluster.temporary([Zone("a"), Zone("b")]) as cluster:
        execute(cluster.sps[0], SCHEMA)
        growth.adopt(cluster)
        for sp in cluster.sps:
            allow_ddl(sp)
        a = cluster.sps[0]
        for n, statement in enumerate(CHANGES):
            execute(a, "UPDATE item SET name = 'between' WHERE id = %s", [n + 1])
            ddl(a, statement)
        execute(a, "INSERT INTO added (v, w) SELECT n, n FROM generate_series(1, 50) n")
        yield cluster


@pytest.fixture
def changed(shared: LocalCluster) -> Iterator[LocalCluster]:
    """These two, with the same schema and rows; who joins is gone after the test."""
    settle(shared)
    yield shared
    for sp in shared.sps[2:]:
        shared.remove_zone(sp.name)
        with psycopg.connect(shared.primary_dsn) as connection:
            connection.execute(
                "UPDATE psp.semi_primaries SET released_at = now() WHERE name = %s AND released_at IS NULL",
                [sp.name],
            )


def pg_dump(sp: SpNode) -> str:
    """The schema, without what differs from server to server."""
    with psycopg.connect(sp.admin_dsn) as connection:
        version = connection.info.server_version // 10000
    command = [str(client_program("pg_dump", version)), "--schema-only", "--exclude-schema=psp", "-d"]
    text = subprocess.run([*command, sp.admin_dsn], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^\\(un)?restrict .*$|pg_attver=\d+(, )?", "", text, flags=re.MULTILINE)


def join_from(cluster: LocalCluster, name: str, member: SpNode) -> tuple[SpNode, list[str]]:
    """The new semi-primary's daemon runs; and what the command has told."""
    sp = cluster.add_zone(Zone(name), True)
    told: list[str] = []
    prepare_join(sp.admin_dsn, cluster.primary_dsn, name, name, schema_from=member.admin_dsn, say=told.append)
    cluster.mark_adopted(name)
    return sp, told


def test_the_newcomer_is_as_the_member_and_goes_on_with_it(changed: LocalCluster) -> None:
    a, b = changed.sps
    c, told = join_from(changed, "c", b)
    growth.wait_joined(c)
    allow_ddl(c)
    assert not [line for line in told if "alone" in line], told
    assert pg_dump(c) == pg_dump(b)
    for query in (
        "SELECT * FROM psp.schema_history ORDER BY change, statement_n",
        "SELECT table_id, schema_name, table_name, columns, key_columns, guards FROM psp.tables ORDER BY 1",
        "SELECT * FROM psp.older_images ORDER BY table_id, until_version",
        "SELECT catalog_version, last_number FROM psp.identity",
        "SELECT schema_name, sequence_name, base, increment, stride FROM psp.sequences ORDER BY 1, 2",
    ):
        assert execute(as_admin(c), query) == execute(as_admin(b), query)
    assert execute(as_admin(c), "SELECT count(*) FROM psp.statements_of_older_copy") == [(0,)]
    # Rows of each version of a table, and values that each draws from its own class.
    assert execute(c, "SELECT count(*), sum(price), min(mood) FROM item WHERE id <= 300") == [
        (300, 450, "sad")
    ]
    drawn = {sp.name: execute(sp, "INSERT INTO added (v) VALUES (1) RETURNING id")[0][0] for sp in (a, c)}
    assert drawn["a"] != drawn["c"]
    ddl(c, "ALTER TABLE added ADD of_c int DEFAULT 3")
    wait_for_row(a, "SELECT 1 FROM pg_attribute WHERE attrelid = 'added'::regclass AND attname = 'of_c'")
    ddl(a, "CREATE TABLE newest (id serial PRIMARY KEY)")
    settle(changed)
    assert verify.verify(changed).consistent


def test_changes_and_rows_of_others_meanwhile(changed: LocalCluster) -> None:
    """None is lost and none runs twice: they come before, while and after the member's schema is read."""
    a, b = changed.sps
    before = changes(a)
    done = threading.Event()
    failed: list[BaseException] = []

    def change() -> None:
        try:
            for n in range(10):
                retry(partial(ddl, a, f"CREATE TABLE meanwhile_{n} (id serial PRIMARY KEY, v int)"))
                retry(partial(ddl, a, f"ALTER TABLE item ADD c{n} int DEFAULT {n}"))
                retry(partial(execute, a, "INSERT INTO item (id, name) VALUES (%s, 'new')", [1000 + n]))
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    def write() -> None:
        try:
            while not done.is_set():
                retry(lambda: execute(b, "UPDATE counter SET n = n + 1"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=change), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    try:
        c, _ = join_from(changed, "c", b)
    finally:
        for thread in threads:
            thread.join()
    assert not failed, failed
    growth.wait_joined(c)
    settle(changed)
    assert changes(c) == changes(a) == before + 20
    assert execute(c, "SELECT count(*), sum(c9) FROM item") == [(310, 310 * 9)]
    assert pg_dump(c) == pg_dump(a)
    assert verify.verify(changed).consistent


@pytest.mark.parametrize("ended", [False, True])
def test_a_change_that_comes_while_the_schema_is_read(
    changed: LocalCluster, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """pg_dump reads some of it as it was, and some as it is; or the daemon has ended pg_dump."""
    a = changed.sps[0]
    name = f"while_reading_{ended}".lower()
    calls: list[str] = []

    def dump(*arguments: Any) -> str:
        calls.append("")
        if len(calls) == 1:
            ddl(a, f"CREATE TABLE {name} (id int PRIMARY KEY)")
            if ended:
                raise PspError("pg_dump failed: terminating connection")
        return dump_schema_without(*arguments)

    monkeypatch.setattr(member_schema, "dump_schema_without", dump)
    c, told = join_from(changed, "c", a)
    assert len(calls) == 2
    assert any("meanwhile: reading again" in line for line in told)
    growth.wait_joined(c)
    settle(changed)
    assert changes(c) == changes(a)
    assert pg_dump(c) == pg_dump(a)


def test_what_a_change_needed_may_be_gone(changed: LocalCluster) -> None:
    """A replay of these stops for ever: the role is gone, and so is what the function was for."""
    a, b = changed.sps
    for sp in (a, b):
        execute(as_admin(sp), "CREATE ROLE gone")
        execute(as_admin(sp), "CREATE SCHEMA by_hand; GRANT ALL ON SCHEMA by_hand TO PUBLIC")
        execute(as_admin(sp), "CREATE FUNCTION by_hand.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    ddl(a, "GRANT SELECT ON item TO gone", "CREATE VIEW by_hand_view AS SELECT by_hand.f()")
    ddl(a, "REVOKE SELECT ON item FROM gone", "DROP VIEW by_hand_view")
    settle(changed)
    for sp in (a, b):
        execute(as_admin(sp), "DROP SCHEMA by_hand CASCADE; DROP ROLE gone")
    refused = changed.add_zone(Zone("refused"), True)
    with pytest.raises(PspError, match="roles that schema changes name do not exist here: gone"):
        prepare_join(refused.admin_dsn, changed.primary_dsn, "refused")
    changed.remove_zone("refused")
    c, _ = join_from(changed, "c", a)
    growth.wait_joined(c)
    settle(changed)
    assert pg_dump(c) == pg_dump(a)


def test_what_the_member_has_alone_stays_there_and_is_told(changed: LocalCluster) -> None:
    a = changed.sps[0]
    with connect(as_admin(a)) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("CREATE INDEX hers_alone ON public.item (name)")
        connection.execute("CREATE VIEW public.seen_here AS SELECT id FROM public.item")
        connection.execute(
            "COMMENT ON VIEW public.seen_here IS 'here'; GRANT SELECT ON public.seen_here TO PUBLIC"
        )
        connection.execute("COMMENT ON COLUMN public.seen_here.id IS 'of it'")
        connection.execute(
            "CREATE FUNCTION public.fn_here(a text, int[]) RETURNS int LANGUAGE sql AS 'SELECT 1'"
        )
        connection.execute("REVOKE ALL ON FUNCTION public.fn_here FROM PUBLIC")
        connection.execute("CREATE SCHEMA schema_here; GRANT USAGE ON SCHEMA schema_here TO PUBLIC")
        connection.execute("CREATE UNLOGGED TABLE schema_here.scratch (id serial PRIMARY KEY, v int UNIQUE)")
        # It looks like what pg_dump writes above an object that is left out, and above one that is not.
        connection.execute(
            "CREATE OR REPLACE FUNCTION public.twice(n int) RETURNS int IMMUTABLE LANGUAGE sql AS $$\n"
            "--\n-- Name: seen_here; Type: VIEW; Schema: public; Owner: psp\n--\n\nSELECT n * 2 $$"
        )
    c, told = join_from(changed, "c", a)
    growth.wait_joined(c)
    alone = [line.split(": ", 1)[1] for line in told if "has it alone" in line]
    assert alone == [
        "function public.fn_here(pg_catalog.text,integer[])",
        "index public.hers_alone",
        "schema schema_here",
        "table schema_here.scratch",
        "view public.seen_here",
    ]
    found = execute(
        as_admin(c),
        "SELECT to_regclass('hers_alone'), to_regclass('seen_here'), to_regproc('fn_here'), "
        "to_regnamespace('schema_here'), twice(2)",
    )
    assert found == [(None, None, None, None, 4)]
    with connect(as_admin(a)) as connection:
        connection.execute("SET psp.schema_changes = local")
        connection.execute("DROP SCHEMA schema_here CASCADE; DROP VIEW public.seen_here")
        connection.execute("DROP FUNCTION public.fn_here; DROP INDEX public.hers_alone")


JOBS_ARE_DONE: LiteralString = (
    "SELECT 1 FROM psp.schema_jobs HAVING count(*) FILTER (WHERE state = 'done') = count(*) AND count(*) = 2"
)


def test_jobs_that_were_done_are_done(changed: LocalCluster) -> None:
    a, b = changed.sps
    with connect(a) as connection:
        connection.execute("SELECT psp.job('CREATE INDEX CONCURRENTLY by_job ON item (name)')")
        connection.execute("SELECT psp.job('ANALYZE item')")  # of no table that psp could name
    for sp in (a, b):
        wait_for_row(as_admin(sp), JOBS_ARE_DONE)
    # At the member of the join this one is not done, and its index is half made.
    execute(
        as_admin(b),
        "UPDATE psp.jobs SET state = 'failed', last_error = 'of the test' WHERE index_name = 'by_job'",
    )
    for member, state in ((a, "done"), (b, "waiting")):
        name = f"from_{member.name}"
        sp = changed.add_zone(Zone(name), True)
        prepare_join(sp.admin_dsn, changed.primary_dsn, name, schema_from=member.admin_dsn)
        jobs = execute(as_admin(sp), "SELECT state, index_name FROM psp.jobs")
        assert sorted(jobs, key=str) == sorted([(state, "by_job"), ("done", None)], key=str)
        has_index = execute(as_admin(sp), "SELECT to_regclass('by_job') IS NOT NULL")[0][0]
        assert has_index == (state == "done")
        changed.mark_adopted(name)
        growth.wait_joined(sp)
        wait_for_row(as_admin(sp), JOBS_ARE_DONE)
        assert execute(as_admin(sp), "SELECT to_regclass('by_job') IS NOT NULL") == [(True,)]
    execute(as_admin(b), "UPDATE psp.jobs SET state = 'done', last_error = NULL")


def test_from_whom_a_schema_is_taken(changed: LocalCluster) -> None:
    a = changed.sps[0]
    c = changed.add_zone(Zone("c"), True)
    with pytest.raises(PspError, match="no semi-primary"):
        prepare_join(c.admin_dsn, changed.primary_dsn, "c", schema_from=c.admin_dsn)
    prepare_join(c.admin_dsn, changed.primary_dsn, "c", schema_from=a.admin_dsn)
    d = changed.add_zone(Zone("d"), True)
    with pytest.raises(PspError, match="c joins itself"):
        prepare_join(d.admin_dsn, changed.primary_dsn, "d", schema_from=c.admin_dsn)
    with LocalCluster.temporary([Zone("x")]) as other:
        execute(other.sps[0], "CREATE TABLE t (id int PRIMARY KEY)")
        growth.adopt(other)
        with pytest.raises(PspError, match="belongs to another cluster"):
            prepare_join(d.admin_dsn, changed.primary_dsn, "d", schema_from=other.sps[0].admin_dsn)
    changed.remove_zone("d")
