"""psp primary verify: the primary's images against an SP's tables, also of older definitions, and schemas.

There are no daemons: what they would write into the primary's database is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cli import app
from psp.cluster import schemas
from psp.cluster.older_images import Field, as_of_today
from psp.cluster.sums import Sums, TableSum, primary_sums, read_sp
from psp.schema.join import prepare_join
from psp.servers.pgserver import PgServer
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, adopted_pair, changing_pair, one

FIRST_T = 100  # the number of the first schema change

ROWS = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE t (id int PRIMARY KEY, v int, s varchar(9), n numeric);
CREATE TABLE other (id int PRIMARY KEY);
INSERT INTO t SELECT n, n, 'adopted', n * 1.50 FROM generate_series(1, 600) n;
INSERT INTO other VALUES (1);
"""


# ---- images of older definitions


def image(connection: psycopg.Connection[Any], row: str) -> bytes:
    found: bytes = one(connection, f"SELECT record_send(ROW({row}))")
    return found


def oids(connection: psycopg.Connection[Any], *types: str) -> list[int]:
    return [one(connection, f"SELECT '{name}'::regtype::oid::int8") for name in types]


def test_an_older_image_becomes_one_of_today(server: PgServer) -> None:
    with psycopg.connect(server.dsn("postgres")) as connection:
        older = image(connection, "1, 'a'::varchar, NULL::date, ''::bytea, 2.50")
        fields: list[Field] = [
            {"place": 4}, {"place": 2}, {"value": "0000000000000007"}, {"value": None}, {"place": 1},
            {"value": ""}, {"place": 3},
        ]  # fmt: skip
        types = oids(connection, "numeric", "date", "bigint", "int", "text", "text", "bytea")
        today = image(
            connection,
            "2.50, NULL::date, 7::bigint, NULL::int, 'a'::text, ''::text, ''::bytea",
        )
        assert as_of_today(older, fields, types) == today


@pytest.mark.parametrize("cut", [0, 3, 7, 11])
def test_an_image_that_does_not_fit_stays_as_it_is(server: PgServer, cut: int) -> None:
    with psycopg.connect(server.dsn("postgres")) as connection:
        older = image(connection, "1")
        int4 = oids(connection, "int")
    assert as_of_today(older[:cut], [{"place": 0}], int4) == older[:cut]
    assert as_of_today(older, [{"place": 1}], int4) == older
    assert as_of_today(older, [{"place": 0}, {"place": 0}], int4) == older


# ---- rows


@pytest.fixture
def app_pair(server: PgServer) -> Pair:
    return changing_pair(server, ROWS)


@pytest.fixture
def primary(app_pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(app_pair.primary_dsn, autocommit=True) as connection:
        yield connection


class Cluster:
    """One transaction at the SP, and what the primary would have of it if each part were a transaction."""

    def __init__(self, pair: Pair, sp: psycopg.Connection[Any], primary: psycopg.Connection[Any]) -> None:
        self.pair, self.sp, self.primary = pair, sp, primary
        self.last_t = FIRST_T - 1

    def ddl(self, *statements: str) -> None:
        """A schema change."""
        self.last_t += 1
        self.sp.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
        for statement in statements:
            self.sp.execute("SELECT psp.ddl(%s)", [statement])
        self.sp.execute("RESET ROLE")
        version = one(self.sp, "SELECT catalog_version FROM psp.identity")
        self.primary.execute("INSERT INTO psp.catalog_versions VALUES (%s, %s)", [version, self.last_t])
        for table_id, payload in self.taken("c"):
            self.primary.execute(
                "INSERT INTO psp.table_versions VALUES (%s, %s, %s) "
                "ON CONFLICT (table_id) DO UPDATE SET dropped = EXCLUDED.dropped",
                [table_id, version, payload[0] == 1],
            )

    def write(self, statement: str) -> None:
        """A transaction with rows of tables with one key column, which stand in their images (op i)."""
        self.last_t += 1
        self.sp.execute(statement.encode())
        for table_id, payload in self.taken("i"):
            self.primary.execute(
                "INSERT INTO psp.data (table_id, key, global_t, sp_id, image) VALUES (%s, %s, %s, 1, %s)",
                [table_id, str(self.last_t).encode(), self.last_t, payload[3:]],
            )

    def taken(self, op: str) -> list[Any]:
        """What has been captured since. Without it the next statement begins another change."""
        rows = self.sp.execute("SELECT table_id, op::text, payload FROM psp.write_set").fetchall()
        self.sp.execute("DELETE FROM psp.write_set")
        return [(table_id, payload) for table_id, found, payload in rows if found == op]

    def sums(self) -> tuple[Sums, Sums]:
        """The SP's and the primary's, without the history of schema changes, which is not written there."""
        with self.sp.transaction(force_rollback=True):  # it has settings of its own
            definitions, here = read_sp(self.sp, self.pair.primary_dsn)
        here.pop(0, None)
        return here, primary_sums(self.pair.primary_dsn, definitions)


@pytest.fixture
def cluster(app_pair: Pair, primary: psycopg.Connection[Any]) -> Iterator[Cluster]:
    with app_pair.rolled_back() as sp:
        yield Cluster(app_pair, sp, primary)


def test_rows_of_every_definition_are_compared(cluster: Cluster) -> None:
    cluster.ddl(
        "ALTER TABLE t ADD a int DEFAULT 7, ADD tags text[] DEFAULT '{x,NULL}', DROP v, ALTER s TYPE text"
    )
    cluster.write("INSERT INTO t VALUES (1001, 'second', 2, 8, '{y}')")
    cluster.ddl(
        "ALTER TABLE t RENAME TO thing; ALTER TABLE thing RENAME n TO number",
        "CREATE TABLE t (id int PRIMARY KEY)",
    )
    cluster.write("INSERT INTO t VALUES (1)")
    cluster.ddl("ALTER TABLE thing DROP a, ADD c interval DEFAULT '1 day', ADD d date")
    cluster.write("INSERT INTO thing VALUES (1002, 'third', 3, '{z}', NULL, '2026-01-01')")
    here, there = cluster.sums()
    assert here == there
    assert sorted(found.rows for found in here.values()) == [1, 1, 602]


def test_a_difference_in_an_older_row_is_seen(cluster: Cluster) -> None:
    cluster.ddl("ALTER TABLE t ADD a int DEFAULT 7, DROP v")
    here, there = cluster.sums()
    assert here == there
    cluster.primary.execute(
        "UPDATE psp.data SET image = overlay(image PLACING '\\x01' FROM 16) WHERE octet_length(image) > 20"
    )
    there = cluster.sums()[1]
    assert [found.rows for table_id, found in here.items() if there[table_id] != found] == [600]


def test_a_change_that_the_primary_lacks_is_no_reason_to_fail(cluster: Cluster) -> None:
    cluster.ddl("ALTER TABLE t ADD a int DEFAULT 7")
    cluster.primary.execute("DELETE FROM psp.catalog_versions")
    here, there = cluster.sums()
    assert here == there


def test_tables_that_come_and_go(cluster: Cluster) -> None:
    before = set(cluster.sums()[0])
    cluster.ddl("DROP TABLE other")  # its rows at the primary are removed later
    cluster.ddl("CREATE TABLE fresh (id int PRIMARY KEY, name text UNIQUE)")
    here, there = cluster.sums()
    assert here == there
    fresh = (set(here) - before).pop()
    assert here[fresh] == TableSum(0, 0)
    assert len(before - set(here)) == 1
    cluster.primary.execute("DELETE FROM psp.table_versions")
    here, there = cluster.sums()
    assert fresh not in there
    assert before - set(here) == set(there) - set(here)


# ---- schemas

AWKWARD = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE unused AS ENUM ('a');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION even(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = 0';
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE a (gone int, id serial PRIMARY KEY, s varchar(9) CHECK (s IN ('a', 'it''s')), gone_too int,
                m mood, p positive, e int CHECK (even(e)), g text GENERATED ALWAYS AS (s || 'x') STORED);
ALTER TABLE a DROP gone, DROP gone_too;
CREATE UNIQUE INDEX a_s ON a (lower(s)) WHERE s IN ('a', 'b');
CREATE TRIGGER stamp BEFORE UPDATE ON a FOR EACH ROW WHEN (NEW.s IN ('a', 'b')) EXECUTE FUNCTION stamp();
CREATE TABLE parted (id int, day date, a int REFERENCES a, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE parted_b PARTITION OF parted FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE refers (id int PRIMARY KEY, p int, day date, FOREIGN KEY (p, day) REFERENCES parted);
CREATE TABLE parted_c PARTITION OF parted DEFAULT;
CREATE RULE nothing AS ON DELETE TO refers WHERE OLD.id IN (1, 2) DO ALSO NOTHING;
"""

LOCAL = """
SET search_path = public;
CREATE INDEX ON a (e); CREATE VIEW v AS TABLE a; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
ALTER TYPE unused ADD VALUE 'b'; CREATE UNLOGGED TABLE scratch (x int); CREATE POLICY p ON a USING (true);
COMMENT ON TABLE a IS 'here'; GRANT SELECT ON a TO PUBLIC; CREATE STATISTICS st ON s, e FROM a;
ALTER TABLE a SET (fillfactor = 50);
"""


@pytest.fixture
def two_sps(server: PgServer) -> tuple[Pair, Pair]:
    """One was adopted, the other has joined, both without rows; clients may connect."""
    first = adopted_pair(server, AWKWARD)
    second = Pair(f"{first.name}_two", server)
    server.create_database(second.name)
    prepare_join(second.dsn, first.primary_dsn, "two")
    second.run("SELECT psp.let_clients_in()")
    return first, second


def verified(sps: tuple[Pair, Pair], *options: str) -> Any:
    return CliRunner().invoke(
        app,
        [
            "primary",
            "verify",
            sps[0].primary_dsn,
            *(sp.dsn for sp in sps),
            "--timeout-s",
            "0",
            *options,
        ],
    )


def unguarded(sp: Pair, statements: str) -> None:
    """As it must not be: past the guard."""
    off = "SELECT format('ALTER EVENT TRIGGER %I DISABLE', evtname) FROM pg_event_trigger"
    with sp.connect(autocommit=True) as connection:
        for (statement,) in connection.execute(off.encode()).fetchall():
            connection.execute(statement.encode())
        connection.execute(b"SET search_path = public")
        connection.execute(statements.encode())


def test_a_server_that_has_joined_has_the_same_schema(
    two_sps: tuple[Pair, Pair],
) -> None:
    found = json.loads(verified(two_sps, "--json").stdout)
    assert found["schema_differences"] == []
    assert found["differing"] == []


def test_what_is_local_is_no_difference_but_told(two_sps: tuple[Pair, Pair]) -> None:
    assert json.loads(verified(two_sps, "--json").stdout)["obstacles"] == []
    two_sps[0].run(LOCAL)
    found = json.loads(verified(two_sps, "--json").stdout)
    assert found["schema_differences"] == []
    assert sorted((o["object"], o["problem"]) for o in found["obstacles"]) == [
        ("function public.f()", "it is only at one"),
        ("function public.stamp()", "it is not the same everywhere"),
        ("index public.a_e_idx", "it is only at one"),
        ("local table public.scratch", "it is only at one"),
        ("policy public.a: p", "it is only at one"),
        ("rights on public.a", "it is not the same everywhere"),
        ("statistics object public.st", "it is only at one"),
        ("type public.unused", "it is not the same everywhere"),
        ("view public.v", "it is only at one"),
    ]
    assert "view public.v " in verified(two_sps).stdout


def test_a_database_that_is_to_join_is_compared_with_the_cluster(
    server: PgServer, two_sps: tuple[Pair, Pair]
) -> None:
    """Its server, and what belongs to the database; not its objects, which it does not have yet."""
    server.create_database("to_join")
    two_sps[0].run("CREATE VIEW public.here AS SELECT 1")
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("ALTER DATABASE to_join SET work_mem = '5MB'")
        connection.execute(
            "REVOKE CONNECT ON DATABASE to_join FROM PUBLIC; "
            f"GRANT CREATE ON DATABASE to_join TO {APPLICATION}"
        )
    command = ["schema", "check", server.dsn("to_join"), two_sps[0].dsn, "host=/nowhere dbname=x", "--json"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    found = {p["object"]: p for p in json.loads(told.stdout)["problems"]}
    assert found["settings of the database"]["problem"] == "it is only at this server"
    rights = found["rights on the database"]["problem"]
    assert "this server: PUBLIC: TEMPORARY" in rights
    assert f"{APPLICATION}: CREATE" in rights
    assert "extension dblink" in found
    assert "view public.here" not in found
    assert "it is not compared" in found["another semi-primary"]["problem"]


def test_an_sp_that_lacks_a_schema_change_is_not_compared(two_sps: tuple[Pair, Pair]) -> None:
    unguarded(two_sps[1], "ALTER TABLE a ADD x int")
    command = ["schema", "check", two_sps[0].dsn, two_sps[1].dsn, "--json"]

    def errors() -> set[str]:
        told = json.loads(CliRunner().invoke(app, command).stdout)["problems"]
        return {p["object"] for p in told if p["severity"] == "error"}

    assert errors() == {"column public.a.x"}
    unguarded(two_sps[1], "UPDATE psp.identity SET catalog_version = 2")
    assert errors() == set()


DIFFERENT = [
    ("ALTER TABLE a ADD x int; CREATE TABLE b (id int PRIMARY KEY)", ["column public.a.x"]),
    ("ALTER TABLE a ALTER e SET DEFAULT 2", ["column public.a.e"]),
    ("ALTER TABLE a DROP CONSTRAINT a_s_check", ["constraint public.a: a_s_check"]),
    ("DROP INDEX a_s", ["unique index public.a: a_s"]),
    ("ALTER TABLE a DISABLE TRIGGER stamp", ["trigger public.a: stamp"]),
    ("DROP RULE nothing ON refers", ["rule public.refers: nothing"]),
    (f"ALTER TABLE refers OWNER TO {APPLICATION}", ["owner public.refers"]),
    ("ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'glad'", ["type public.mood"]),
    ("ALTER DOMAIN positive SET NOT NULL", ["domain public.positive"]),
    ("CREATE OR REPLACE FUNCTION even(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true'",
     ["function public.even(integer)"]),
    ("ALTER SEQUENCE a_id_seq MAXVALUE 1000", ["sequence public.a_id_seq"]),
    ("UPDATE psp.identity SET catalog_version = 2", ["catalog version"]),
    ("UPDATE psp.tables SET guards = '[]' WHERE table_name = 'a'", ["captured table public.a"]),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "objects"), DIFFERENT, ids=[objects[0] for _, objects in DIFFERENT])
def test_what_must_be_the_same_is_told_by_name_and_server(
    two_sps: tuple[Pair, Pair], statements: str, objects: list[str]
) -> None:
    unguarded(two_sps[1], statements)
    told = verified(two_sps, "--json")
    assert told.exit_code == 1
    found = json.loads(told.stdout)["schema_differences"]
    assert [f"{d['kind']} {d['name']}" for d in found] == objects
    assert set(found[0]["definitions"]) == {"one", "two"}
    shown = verified(two_sps).stdout
    assert all(name in shown for name in objects)


def test_long_definitions_are_shown_where_they_differ() -> None:
    difference = schemas.Difference("function", "f", {"a": "x" * 99 + "1", "b": "x" * 99 + "2", "c": None})
    assert difference.shown() == [f"…{'x' * 20}1", f"…{'x' * 20}2", None]
    assert schemas.Difference("table", "t", {"a": "x" * 99, "b": "x" * 100}).shown() == [
        f"…{'x' * 20}",
        f"…{'x' * 21}",
    ]
    assert schemas.Difference("table", "t", {"a": "x" * 99, "b": None}).shown() == ["x" * 90 + "…", None]
