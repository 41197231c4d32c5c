"""Adoption either finishes or leaves the database as it was; release gives it back."""

import threading
from typing import Any

import jinja2
import psycopg
import pytest
from psp.output import PspError
from psp.schema import adopt as adopt_module
from psp.schema import templates
from psp.schema.cli import app
from psp.schema.release import release
from typer.testing import CliRunner

from tests.sql.databases import Pair

SCHEMA = """
CREATE SCHEMA "S ""x"; CREATE TYPE mood AS ENUM ('a', 'b'); CREATE DOMAIN pos AS int CHECK (value > 0);
CREATE TABLE t (id serial PRIMARY KEY, x int, s text UNIQUE, m mood, p pos, tg_op text, arr int[], j json,
                g int GENERATED ALWAYS AS (x * 2) STORED, n int GENERATED ALWAYS AS IDENTITY);
CREATE UNIQUE INDEX t_low ON t (lower(s), m) WHERE p > 3;
CREATE UNIQUE INDEX t_json ON t ((j ->> 'a'));
CREATE TABLE "S ""x"."Order ü" ("Select" mood, "x'y" numeric, "$psp$" text, PRIMARY KEY ("x'y", "Select"));
CREATE TABLE pt (id int, d int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);
CREATE TABLE pt21 PARTITION OF pt2 DEFAULT;
INSERT INTO t (x, s, m, p, j)
SELECT i, 's' || i, 'a', i, json_build_object('a', i) FROM generate_series(1, 500) i;
INSERT INTO "S ""x"."Order ü" VALUES ('a', 1.00, 'z'); INSERT INTO pt VALUES (1, 1), (2, 11);
"""


def release_pair(pair: Pair, drop_keys: bool = False) -> None:
    release(pair.dsn, pair.primary_dsn, drop_keys=drop_keys, force=False, lock_wait_s=5, say=print)


def test_release_gives_back(pair: Pair) -> None:
    pair.run(SCHEMA + "CREATE TABLE nokey (a int)")
    pair.run("CREATE TABLE refers (id int PRIMARY KEY, up int REFERENCES refers)")
    before = pair.dump()
    pair.adopt(add_keys=True)
    assert "psp" in pair.dump("--schema-only")
    release_pair(pair, drop_keys=True)
    assert pair.dump() == before


def test_rows_are_at_the_primary(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    counts = dict(pair.primary_rows(
        "SELECT table_name, count(*) FROM psp.data JOIN psp.tables USING (table_id) "
        "WHERE image IS NOT NULL GROUP BY 1"
    ))  # fmt: skip
    assert counts == {"t": 500, "Order ü": 1, "pt": 2}
    assert pair.primary_rows("SELECT state FROM psp.cluster") == [("adopted",)]


@pytest.mark.parametrize("small_bytes", [adopt_module.SMALL_BYTES, -1])
def test_the_primarys_table_is_as_it_was_made(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, small_bytes: int
) -> None:
    monkeypatch.setattr(adopt_module, "SMALL_BYTES", small_bytes)
    made = (
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'data' UNION ALL SELECT pg_get_constraintdef(oid) "
        "FROM pg_constraint WHERE conrelid = 'psp.data'::regclass ORDER BY 1"
    )
    before = pair.primary_rows(made)
    assert ("PRIMARY KEY (table_id, key)",) in before
    pair.run(SCHEMA)
    pair.adopt()
    assert pair.primary_rows(made) == before


@pytest.mark.parametrize("step", ["copy_snapshot", "copy_rest"])
def test_failure_leaves_everything(pair: Pair, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    pair.run(SCHEMA)
    before = pair.dump()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(adopt_module, "SMALL_BYTES", -1)
        patched.setattr(adopt_module, step, fail)
        with pytest.raises(KeyboardInterrupt):
            pair.adopt()
    assert pair.dump() == before
    assert pair.primary_rows("SELECT state FROM psp.cluster") == [("empty",)]
    assert pair.adopt() == 1


def test_second_adoption_is_refused(pair: Pair) -> None:
    pair.adopt()
    with pytest.raises(PspError, match="already"):
        pair.adopt()


def test_interrupted_before_the_last_step(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    with psycopg.connect(pair.primary_dsn) as connection:
        connection.execute("UPDATE psp.cluster SET state = 'adopting'")
    assert pair.adopt() == 1
    assert pair.primary_rows("SELECT state FROM psp.cluster") == [("adopted",)]


def test_waits_for_writers(pair: Pair) -> None:
    pair.run(SCHEMA)
    with pair.connect() as writer:
        writer.execute("INSERT INTO pt VALUES (7, 7)")
        with pytest.raises(PspError, match="held by pid"):
            pair.adopt(lock_wait_s=0.1)
        thread = threading.Thread(target=pair.adopt)
        thread.start()
        writer.commit()
        thread.join(60)
    rows = pair.primary_rows(
        "SELECT count(*) FROM psp.data JOIN psp.tables USING (table_id) "
        "WHERE table_name = 'pt' AND image IS NOT NULL"
    )
    assert rows == [(3,)]


def test_join_restores_the_schema(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    pair.server.create_database(f"{pair.name}_two")
    dsn = pair.server.dsn(f"{pair.name}_two")
    joined = CliRunner().invoke(app, ["join", dsn, "--primary-dsn", pair.primary_dsn, "--name", "two"])
    assert "two is semi-primary 2" in joined.stdout
    with psycopg.connect(dsn) as two, pair.connect() as one:
        columns = "table_id, schema_name, table_name, columns, key_columns, guards"
        query = f"SELECT {columns} FROM psp.tables ORDER BY 1".encode()
        assert two.execute(query).fetchall() == one.execute(query).fetchall()
        assert two.execute("SELECT watermark FROM psp.watermark").fetchone() == (-1,)
        draws = [
            c.execute("SELECT nextval('t_id_seq') FROM generate_series(1, 50)").fetchall() for c in (one, two)
        ]
    assert not set(draws[0]) & set(draws[1])


def test_a_template_is_compiled_once_however_many_tables_there_are(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers wait meanwhile, and compiling takes longer than everything else that is done for a table."""
    pair.run("".join(f"CREATE TABLE t{n} (id int PRIMARY KEY, s text UNIQUE);" for n in range(20)))
    compiled: list[object] = []
    original: Any = jinja2.Environment.compile  # overloaded

    def count(environment: jinja2.Environment, source: str, *more: object, **named: object) -> object:
        compiled.append(more)
        return original(environment, source, *more, **named)

    templates.sql_templates.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(jinja2.Environment, "compile", count)
        pair.adopt()
    assert len(compiled) == len(set(map(str, compiled)))
