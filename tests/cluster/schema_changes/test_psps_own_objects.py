"""Schema changes that name psp's own triggers stop nobody: another kind of capture has other ones."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, SpNode
from psp.schema.native.capture import use

from tests.cluster.schema_changes.statements import changing_pair
from tests.cluster.support import (
    as_admin,
    connect,
    execute,
    needs_module,
    raises,
    settle,
    wait_streaming,
)

pytestmark = needs_module()

SCHEMA = """
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE TABLE part (id int PRIMARY KEY, doc int REFERENCES doc) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER tell AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION tell();
CREATE FUNCTION enable_in_plpgsql() RETURNS void LANGUAGE plpgsql AS $$
    DECLARE one record;
    BEGIN
        FOR one IN SELECT tgrelid::regclass AS relation, tgname FROM pg_trigger
                    WHERE NOT tgisinternal AND tgrelid = 'doc'::regclass ORDER BY tgname = 'tell', tgname LOOP
            EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', one.relation, one.tgname);
        END LOOP;
    END $$;
CREATE FUNCTION enable_module() RETURNS void LANGUAGE sql AS 'ALTER TABLE doc ENABLE TRIGGER psp_capture';
CREATE FUNCTION enable_sql() RETURNS void LANGUAGE sql AS 'ALTER TABLE doc ENABLE TRIGGER psp_capture_insert';
"""
REFUSED: dict[str, list[LiteralString]] = {
    "north": [
        "ALTER TABLE doc ENABLE TRIGGER psp_capture",
        'ALTER TABLE doc ALTER v SET DEFAULT 1, ENABLE TRIGGER/**/"psp_capture"',
        'ALTER TABLE doc ENABLE TRIGGER U&"psp\\005fcapture"',
        "ALTER TABLE doc DISABLE TRIGGER psp_capture, ENABLE TRIGGER psp_capture",
        "SELECT psp.ddl('SET LOCAL work_mem = ''4MB''; SELECT enable_module()')",
    ],
    "south": [
        "ALTER TABLE doc ENABLE TRIGGER psp_capture_insert",
        "SELECT 1; ALTER TABLE public.doc enable -- it\n trigger\tPSP_CAPTURE_UPDATE; SELECT 2",
        "SELECT psp.ddl('ALTER TABLE doc ENABLE TRIGGER psp_capture_delete')",
        "SELECT psp.ddl('CREATE VIEW w AS SELECT 1; SELECT enable_sql()')",
    ],
}
EVERYWHERE: list[LiteralString] = [
    "ALTER TABLE doc ENABLE ALWAYS TRIGGER psp_truncate",
    "ALTER TABLE doc ENABLE TRIGGER psp_truncate",
    "SELECT enable_in_plpgsql()",
    "DO 'BEGIN PERFORM enable_in_plpgsql(); END'",
    "SELECT psp.ddl('SELECT enable_in_plpgsql()')",
    "SELECT psp.ddl('CREATE VIEW w AS SELECT 1; SELECT enable_in_plpgsql()')",
    "SELECT psp.ddl('DROP TRIGGER IF EXISTS psp_capture ON doc')",
    "SELECT psp.ddl('DROP TRIGGER IF EXISTS psp_capture_insert ON doc')",
    "DROP FUNCTION IF EXISTS psp.capture_1_row(), psp.capture_1_insert(), enable_in_plpgsql()",
    "SELECT psp.ddl('DROP FUNCTION IF EXISTS enable_sql(), psp.capture_1_insert()')",
    "SELECT psp.ddl('DROP FUNCTION IF EXISTS enable_sql(), \"psp\" . on_sql_capture()')",
]
HARMLESS: list[LiteralString] = [
    "ALTER TABLE doc ENABLE TRIGGER USER",
    "ALTER TABLE doc ENABLE TRIGGER tell",
    "ALTER TABLE part_1 ENABLE TRIGGER USER",
    "SET psp.add_keys = off; DROP VIEW IF EXISTS w",
    "SELECT psp.ddl('DROP VIEW IF EXISTS w; CREATE TABLE psp_capture (id int PRIMARY KEY)')",
    "DROP TABLE IF EXISTS psp_capture",
]


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        with psycopg.connect(cluster.sps[1].admin_dsn) as admin:
            use(admin, "sql")
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_pair
    settle(shared_pair)


def run(sp: SpNode, statement: LiteralString) -> None:
    with connect(sp, autocommit=True) as connection:
        connection.execute(statement)


def wait_applied(cluster: LocalCluster) -> None:
    wait_streaming(cluster)
    verify.wait_drained(cluster)


@pytest.mark.parametrize(
    ("name", "statement"), [(name, statement) for name, refused in REFUSED.items() for statement in refused]
)
def test_one_that_exists_here_only(pair: LocalCluster, name: str, statement: LiteralString) -> None:
    with raises("0A000") as caught:
        run(pair.sp(name), statement)
    assert "psp" in str(caught[0].diag.message_primary) and caught[0].diag.message_hint
    wait_applied(pair)


@pytest.mark.parametrize("name", ["north", "south"])
@pytest.mark.parametrize("statement", EVERYWHERE)
def test_one_of_either_kind(pair: LocalCluster, name: str, statement: LiteralString) -> None:
    with raises("0A000", "42501"):
        run(pair.sp(name), statement)
    wait_applied(pair)


@pytest.mark.parametrize("name", ["north", "south"])
def test_what_names_none_of_them(pair: LocalCluster, name: str) -> None:
    for statement in HARMLESS:
        run(pair.sp(name), statement)
    wait_applied(pair)
    for sp in pair.sps:
        assert execute(as_admin(sp), "SELECT psp.guard_problems()") == []
