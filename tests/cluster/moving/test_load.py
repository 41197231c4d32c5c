"""What pg_dump writes of a plain database goes into a running cluster, in each way that people would try."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psp.cluster.local import LocalCluster, SpNode
from psp.output import PspError
from psp.paths import client_program
from psp.schema.load import load
from psp.schema.plain_dump import dump_plain
from psycopg.conninfo import make_conninfo

from tests.cluster.schema_changes.statements import changing_pair, settle_unchanged
from tests.cluster.support import connect, execute, raises, retry, settle

SOURCE = """
CREATE SCHEMA "Other things";
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v = NEW.v || '!'; RETURN NEW; END $$;
CREATE TABLE parent (id serial PRIMARY KEY, name text UNIQUE, mood mood, p positive);
CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT 5) PRIMARY KEY,
                    parent int REFERENCES parent ON DELETE CASCADE, v text,
                    up text GENERATED ALWAYS AS (upper(v)) STORED);
CREATE UNIQUE INDEX child_v ON child (lower(v)) WHERE v <> '';
CREATE INDEX child_parent ON child (parent);
CREATE TRIGGER marks BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TABLE "Other things"."Odd one" (id bigserial PRIMARY KEY, down int);
CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE untouched;
ALTER TABLE "Other things"."Odd one" ALTER down SET DEFAULT nextval('down');
CREATE TABLE event (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE INDEX event_by_day ON event (day);
ALTER TABLE event ADD UNIQUE (day, id);
CREATE UNIQUE INDEX event_once ON event (id, day);
CREATE VIEW glad AS SELECT * FROM parent WHERE mood = 'glad';
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM parent;
COMMENT ON TABLE child IS 'Of parents';
GRANT SELECT ON parent TO PUBLIC;
ALTER TABLE child ENABLE ROW LEVEL SECURITY; CREATE POLICY all_of_it ON child USING (true);
INSERT INTO parent (name, mood, p) VALUES ('a', 'sad', 1), ('b', 'glad', 2);
INSERT INTO child (parent, v) VALUES (1, 'x'), (2, E'tab\\t\\\\.\\n');
INSERT INTO "Other things"."Odd one" DEFAULT VALUES;
INSERT INTO event VALUES (1, '2026-01-02');
"""
SCHEMA = "CREATE TABLE was_here (id int PRIMARY KEY);"


TABLES = ("parent", "child", '"Other things"."Odd one"', "event")
CLEAR = """
DROP MATERIALIZED VIEW IF EXISTS total; DROP VIEW IF EXISTS glad;
DROP TABLE IF EXISTS parent, child, event, "Other things"."Odd one" CASCADE;
DROP SEQUENCE IF EXISTS down, untouched; DROP SCHEMA IF EXISTS "Other things" CASCADE;
DROP FUNCTION IF EXISTS touch; DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS positive
"""


@dataclass(frozen=True)
class World:
    """A cluster of two, and what pg_dump has written of a plain database."""

    cluster: LocalCluster
    source: str  # its connection string
    text: Path
    custom: Path

    @property
    def north(self) -> SpNode:
        return self.cluster.sps[0]


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("dumps")
    with changing_pair(SCHEMA) as cluster:
        role = execute(cluster.sps[0], "SELECT current_user")[0][0]
        for sp in cluster.sps:
            with psycopg.connect(sp.admin_dsn, autocommit=True) as admin:
                admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}".encode())
        with psycopg.connect(cluster.sps[0].admin_dsn, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE source OWNER {role}".encode())
        source = make_conninfo(cluster.sps[0].admin_dsn, dbname="source")
        with psycopg.connect(source) as connection:
            connection.execute(f"SET ROLE {role}".encode())
            connection.execute(SOURCE.encode())
        world = World(cluster, source, folder / "dump.sql", folder / "dump")
        for form, file in (("plain", world.text), ("custom", world.custom)):
            run("pg_dump", f"--format={form}", "--file", str(file), "--dbname", source)
        yield world


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """The servers are as they were before each test."""
    yield shared_world
    with connect(shared_world.north, autocommit=True) as connection:
        for statement in CLEAR.split(";"):
            connection.execute(statement.encode())
    settle_unchanged(shared_world.cluster)


def run(program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, which has nothing to complain of."""
    done = subprocess.run(
        [str(client_program(program, 15)), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def rows(dsn: str) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(dsn) as connection:
        return [connection.execute(f"SELECT * FROM {t} ORDER BY 1".encode()).fetchall() for t in TABLES]


def check_loaded(world: World) -> None:
    """Both servers have it all and check it, and draw numbers that nobody has."""
    settle(world.cluster)
    for sp in world.cluster.sps:
        assert rows(sp.dsn) == rows(world.source)
        with connect(sp) as connection, pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO parent (name) VALUES ('a')")
        with connect(sp) as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("INSERT INTO child (id, parent) OVERRIDING SYSTEM VALUE VALUES (1, 77)")
    for sp in world.cluster.sps:  # the other one's sequences follow the numbers of the dump soon
        add = "INSERT INTO child (parent, v) VALUES (1, %s)"
        retry(partial(execute, sp, add, [sp.name]), ("23505", "40001"))
    settle(world.cluster)
    assert execute(world.north, "SELECT count(*) FROM child WHERE up ~ '!$'") == [(4,)]


@pytest.mark.parametrize("program", ["psql", "pg_restore"])
def test_in_one_transaction(world: World, program: str) -> None:
    where = ("--single-transaction", "--dbname", world.north.dsn)
    if program == "psql":
        run("psql", *where, "-X", "-q", "-o", "/dev/null", "-f", str(world.text))
    else:
        run("pg_restore", *where, str(world.custom))
    check_loaded(world)


def test_who_loads_statement_by_statement_is_told_how(world: World) -> None:
    with connect(world.north) as connection, raises("0A000") as errors:
        connection.execute("CREATE TABLE keyless (id int)")
        connection.commit()
    assert "psp schema load" in str(errors[0].diag.message_hint)


def test_psp_schema_load(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psp.schema.load.CHUNK_BYTES", 1)
    assert load(world.north.dsn, world.text, lambda what, at: None) == 6
    check_loaded(world)


def test_tables_without_rows(world: World, tmp_path: Path) -> None:
    """Foreign keys come after the keys to which they refer, also where no rows are between them."""
    file = tmp_path / "schema.sql"
    run("pg_dump", "--schema-only", "--file", str(file), "--dbname", world.source)
    assert load(world.north.dsn, file, lambda what, at: None) == 0
    settle(world.cluster)
    for sp in world.cluster.sps:
        assert rows(sp.dsn) == [[], [], [], []]


@pytest.mark.parametrize("end", ["1\t", "PostgreSQL database dump complete"])
def test_a_file_that_is_cut_off(world: World, tmp_path: Path, end: str) -> None:
    """Nothing of it is loaded: what is there could be taken for all."""
    whole = world.text.read_text()
    file = tmp_path / "cut.sql"
    file.write_text(whole[: whole.index(end, whole.index("COPY ")) + 1])
    with pytest.raises(PspError, match="cut off"):
        load(world.north.dsn, file, lambda what, at: None, add_keys=True)
    assert execute(world.north, "SELECT to_regclass('parent') IS NULL") == [(True,)]


def test_from_one_cluster_to_another(world: World, tmp_path: Path) -> None:
    load(world.north.dsn, world.text, lambda what, at: None)
    settle(world.cluster)
    with (tmp_path / "dump.sql").open("wb") as out:
        dump_plain(world.north.admin_dsn, out)
    with connect(world.north, autocommit=True) as connection:
        for statement in (*CLEAR.split(";"), "DROP TABLE was_here"):
            connection.execute(statement.encode())
    load(world.north.dsn, tmp_path / "dump.sql", lambda what, at: None)
    check_loaded(world)
