"""Conversion to views mode finishes or leaves the database as it was; release gives the plain tables back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.cli import app as cli
from psp.output import PspError
from psp.problems import RefusedError
from psp.schema.catalog import read_database
from psp.schema.locks import BlockedError
from psp.schema.native.rules import check
from psp.schema.release import release
from psp.schema.server import read_facts
from psp.schema.views.convert import Options, convert
from psp.servers.pgserver import PgServer
from psycopg import errors
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, new_pair
from tests.sql.views.converted import begun, convert_pair, decide, one, quiet, release_pair, write

SCHEMA = """
CREATE SCHEMA "S ""x"; CREATE TYPE mood AS ENUM ('a', 'b');
CREATE DOMAIN pos AS int CHECK (value > 0) DEFAULT 4;
CREATE TABLE t (id serial PRIMARY KEY, x int, s text UNIQUE, m mood DEFAULT 'b', p pos, tg_op text, arr int[],
                g int GENERATED ALWAYS AS (x * 2) STORED, n int GENERATED ALWAYS AS IDENTITY,
                at timestamptz DEFAULT now(), CONSTRAINT "c ' %" CHECK (tg_op <> '%'));
CREATE UNIQUE INDEX t_low ON t (lower(s) COLLATE "C" DESC, m) INCLUDE (x) NULLS NOT DISTINCT WHERE p > 3;
CREATE UNIQUE INDEX "T )(" ON t ((tg_op || ')('''));
CREATE INDEX t_x ON t (x); ALTER TABLE t CLUSTER ON t_s_key;
CREATE TABLE "a USING btree (b" (id int PRIMARY KEY, v int, w int NOT NULL, CONSTRAINT "( USING" UNIQUE (w));
CREATE UNIQUE INDEX ON "a USING btree (b" (v);
ALTER TABLE "a USING btree (b" REPLICA IDENTITY USING INDEX "( USING";
CREATE TABLE "S ""x"."Order %ü" ("Select" mood, "x'y" numeric, "$psp$" text DEFAULT 'it''s',
                                 PRIMARY KEY ("x'y", "Select"));
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES t ON DELETE CASCADE, s text REFERENCES t (s));
CREATE UNLOGGED TABLE scratchpad (id int);
ALTER TABLE child ADD CONSTRAINT up FOREIGN KEY (parent) REFERENCES child DEFERRABLE;
COMMENT ON INDEX t_low IS 'it''s'; COMMENT ON CONSTRAINT t_s_key ON t IS 'unique'; COMMENT ON TABLE t IS 'T';
GRANT SELECT, INSERT (x, s) ON t TO application WITH GRANT OPTION; GRANT UPDATE ON t TO PUBLIC;
INSERT INTO t (x, s, p) SELECT i, 's' || i, i FROM generate_series(1, 50) i;
INSERT INTO "S ""x"."Order %ü" VALUES ('a', 1.00, 'z'); INSERT INTO child VALUES (1, NULL, 's1');
"""


def test_release_gives_back(pair: Pair) -> None:
    pair.run(SCHEMA)
    before = pair.dump()
    convert_pair(pair, drop_foreign_keys=True)
    assert "psp" in pair.dump("--schema-only")
    release_pair(pair)
    assert pair.dump() == before


def test_release_keeps_what_was_committed(pair: Pair) -> None:
    plain = new_pair(pair.server)
    statements = [
        "INSERT INTO t (x, s) VALUES (7, 'seven'), (8, 'eight')",
        "UPDATE t SET x = x + 1, id = 900 WHERE s = 's5'",
        "DELETE FROM t WHERE id > 40 AND id <= 50",
        """UPDATE "S ""x"."Order %ü" SET "x'y" = 2.5, "$psp$" = 'y'""",
        "INSERT INTO t (id, s, at) VALUES (45, 's45', '2020-01-01')",
    ]
    for each in (pair, plain):
        each.run(SCHEMA.replace("now()", "'2020-01-01'"))
    convert_pair(pair, drop_foreign_keys=True)
    for global_t, statement in enumerate(statements, start=1):
        write(pair, global_t, statement)
        plain.run(statement)
    release_pair(pair)
    assert rows_as_text(pair) == rows_as_text(plain)
    assert pair.dump("--schema-only") == plain.dump("--schema-only")


def rows_as_text(pair: Pair) -> list[Any]:
    query = """SELECT t::text FROM t UNION ALL SELECT o::text FROM "S ""x"."Order %ü" o ORDER BY 1"""
    with pair.connect() as connection:
        return connection.execute(query.encode()).fetchall()


def test_defaults_serials_and_generated_columns(pair: Pair) -> None:
    pair.run(SCHEMA)
    convert_pair(pair, drop_foreign_keys=True)
    with begun(pair) as transaction:
        (row,) = transaction.run("INSERT INTO t (x) VALUES (21) RETURNING id, m::text, p, g, n")
        assert row == (51, "b", 4, 42, 51)
        two = "INSERT INTO t (id, s) VALUES (DEFAULT, 'x'), (DEFAULT, 'y') RETURNING id"
        assert transaction.run(two) == [(52,), (53,)]
        assert transaction.run("UPDATE t SET x = 50 WHERE id = 51 RETURNING g, n") == [(100, 51)]
        assert transaction.run("SELECT currval('t_id_seq')") == [(53,)]
        for statement in ("UPDATE t SET p = 0 WHERE id = 1", "UPDATE t SET tg_op = '%' WHERE id = 1"):
            with pytest.raises(errors.CheckViolation), transaction.connection.transaction():
                transaction.run(statement)
        with pytest.raises(errors.UniqueViolation), transaction.connection.transaction():
            transaction.run("INSERT INTO t (s) VALUES ('S9')")  # of t_low, by lower()
        with pytest.raises(errors.UniqueViolation), transaction.connection.transaction():
            transaction.run("UPDATE t SET tg_op = 'x' WHERE id < 3")


def test_the_variants_schemas_are_no_wider_than_the_tables(pair: Pair) -> None:
    pair.run(
        "CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY); GRANT ALL ON s.t TO PUBLIC;"
        f"CREATE SCHEMA mine AUTHORIZATION {APPLICATION}; CREATE TABLE mine.t (id int PRIMARY KEY);"
        "GRANT SELECT ON mine.t TO PUBLIC; CREATE SCHEMA given; CREATE TABLE given.t (id int PRIMARY KEY);"
        f"GRANT USAGE ON SCHEMA given TO PUBLIC; GRANT SELECT ON given.t TO {APPLICATION};"
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO PUBLIC"
    )
    convert_pair(pair)
    with pair.connect_as_application(autocommit=True) as connection:
        for variant in ("", "_fulljoin", "_nryotw"):
            for schema in ("mine", "given"):
                connection.execute(f"SELECT * FROM {schema}{variant}.t".encode())
            for query in (f"SELECT * FROM s{variant}.t", f"CREATE TABLE given{variant}.u (id int)"):
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute(query.encode())


def test_two_unique_values_in_one_transaction(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY, s text UNIQUE); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    convert_pair(pair)
    with begun(pair) as transaction:
        transaction.run("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (3, 'a')")  # free again
        with pytest.raises(errors.UniqueViolation) as caught, transaction.connection.transaction():
            transaction.run("INSERT INTO t VALUES (4, 'b')")
        assert caught.value.diag.constraint_name == "t_s_key"
        with pytest.raises(errors.UniqueViolation), transaction.connection.transaction():
            transaction.run("INSERT INTO t VALUES (4, 'a')")
    decide(pair, transaction.tx_id, 2)
    assert one(pair, "SELECT array_agg(id ORDER BY id) FROM t") == [2, 3]


REFUSED = {
    "CREATE TABLE t (id int)": "no primary key",
    "CREATE TABLE t (id int PRIMARY KEY, deleted bool)": "needs the name",
    "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY LIST (id)": "partitioned",
    "CREATE TABLE t (id int PRIMARY KEY, v int, EXCLUDE (v WITH =))": "exclude deleted rows",
    "CREATE TABLE t (id int PRIMARY KEY REFERENCES t)": "foreign keys",
    "CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t": "go on reading",
    "CREATE TABLE t (id int PRIMARY KEY); CREATE FUNCTION f(t) RETURNS int LANGUAGE sql AS 'SELECT 1'": "go",
    "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY": "row-level",
    "CREATE TABLE t (id int PRIMARY KEY); CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING": "rules",
    "CREATE TABLE t (id int PRIMARY KEY); CREATE UNLOGGED TABLE t_temp (id int)": "there already",
    "CREATE TABLE t (id int PRIMARY KEY); CREATE SCHEMA public_nryotw": "there already",
    "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)": "deferrable",
    "CREATE TABLE t (id int PRIMARY KEY, CHECK (t IS NOT NULL))": "whole row",
    "CREATE TABLE t (k int PRIMARY KEY, e int UNIQUE); CREATE UNLOGGED TABLE z (e int REFERENCES t(e))": "at",
    """CREATE TABLE t (id int PRIMARY KEY); CREATE DOMAIN d AS t; CREATE TYPE c AS (x d[]);
       CREATE UNLOGGED TABLE z (saved c)""": "made of rows",
    """CREATE SCHEMA "S"; CREATE TABLE "S"."T" (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE "S"."T"
    """: "would publish",
    """CREATE TABLE t (id int PRIMARY KEY);
       CREATE TRIGGER a BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
    """: "triggers",
}  # fmt: skip


@pytest.mark.parametrize("script", REFUSED)
def test_what_cannot_be_converted(pair: Pair, script: str) -> None:
    pair.run(script)
    before = pair.dump()
    with pytest.raises(RefusedError) as caught:
        convert_pair(pair)
    assert any(REFUSED[script] in problem.problem for problem in caught.value.problems)
    assert pair.dump() == before


def test_a_failed_conversion_leaves_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.run(SCHEMA)
    before = pair.dump()
    broken = "CREATE TABLE public.x (a int); SELECT 1 / 0"
    monkeypatch.setattr("psp.schema.views.convert.closing_sql", lambda tables, **_: [broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        convert_pair(pair, drop_foreign_keys=True)
    assert pair.dump() == before


def test_conversion_gives_up_on_a_long_transaction(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    before = pair.dump()
    with pair.connect() as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(BlockedError):
            convert(pair.dsn, Options(lock_wait_s=0), lambda text: None)
        writer.rollback()
    assert pair.dump() == before


def test_release_with_unfinished_transactions(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    convert_pair(pair)
    with begun(pair) as transaction:
        transaction.run("INSERT INTO t VALUES (1)")
    with pytest.raises(PspError, match="1 transactions are not finished"):
        release_pair(pair)
    release_pair(pair, force=True)
    assert one(pair, "SELECT count(*) FROM t") == 0


def test_release_says_what_is_in_the_way(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    convert_pair(pair)
    pair.run("CREATE VIEW public.over AS SELECT * FROM t; CREATE FUNCTION f(u) RETURNS int RETURN 1")
    with pytest.raises(PspError, match=r"public.over depends on view public.t.* depends on type public.u"):
        release_pair(pair)
    pair.run("DROP VIEW over; DROP FUNCTION f")
    release_pair(pair)


def test_release_says_who_has_begun(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    convert_pair(pair)
    with begun(pair, application_name="the one"), pytest.raises(BlockedError, match="the one"):
        release(pair.dsn, None, drop_keys=False, force=False, lock_wait_s=0, say=quiet)


def test_converted_once_and_not_adopted(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    convert_pair(pair)
    with pytest.raises(PspError, match="under psp already"):
        convert_pair(pair)
    with pair.connect() as connection:
        problems = check(read_database(connection), read_facts(connection), 1, False)
    assert any("views mode" in problem.problem for problem in problems)


def test_adopted_is_not_converted(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    pair.adopt()
    with pytest.raises(PspError, match="under psp already"):
        convert_pair(pair)


# ---- the command ------------------------------------------------------------------------------------------


def test_file_to_file(server: PgServer, pair: Pair, tmp_path: Path) -> None:
    script = tmp_path / "schema.sql"
    script.write_text(SCHEMA.replace("application", "somebody_else"), encoding="utf-8")
    done = CliRunner().invoke(cli, ["schema", "convert", str(script), "--drop-foreign-keys"])
    assert done.exit_code == 0, done.output
    server_roles = "DO $$ BEGIN CREATE ROLE somebody_else; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
    pair.run(server_roles + done.stdout)
    write(pair, 1, "UPDATE t SET x = 0 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    assert one(pair, "SELECT count(*) FROM t WHERE x = 0") == 1
    direct = new_pair(server)
    direct.run(SCHEMA.replace("application", "somebody_else"))
    plain_schema = direct.dump("--schema-only")
    convert_pair(direct, drop_foreign_keys=True)
    assert direct.dump("--schema-only") == pair.dump("--schema-only")
    release_pair(pair)
    assert pair.dump("--schema-only") == plain_schema


def test_a_file_that_does_not_load(tmp_path: Path) -> None:
    script = tmp_path / "schema.sql"
    script.write_text("CREATE TABEL t (id int)")
    done = CliRunner().invoke(cli, ["schema", "convert", str(script)])
    assert done.exit_code == 1
    assert "TABEL" in done.output


def test_the_command_converts_and_releases(pair: Pair) -> None:
    pair.run(f"CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t OWNER TO {APPLICATION}")
    before = pair.dump()
    for command in ("convert", "release"):
        done = CliRunner().invoke(cli, ["schema", command, pair.dsn], input="y\n")
        assert done.exit_code == 0, done.output
    assert pair.dump() == before
    assert json.loads(CliRunner().invoke(cli, ["schema", "check", "--json", pair.dsn]).stdout)["adoptable"]
