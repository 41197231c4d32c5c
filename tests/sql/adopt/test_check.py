"""Each thing that stands in the way of adoption is found, with the severity it deserves."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from psp.output import PspError
from psp.paths import server_version
from psp.primary.database import init_primary
from psp.problems import Problem, RefusedError, Severity, has_errors, problem_table
from psp.schema import server as server_facts
from psp.schema.adopt import Options, adopt
from psp.schema.catalog import read_database
from psp.schema.cli import app
from psp.schema.native.rules import check
from psp.schema.server import read_facts
from psp.schema.views.convert import Options as ConvertOptions
from psp.schema.views.convert import convert
from psp.servers.pgserver import PgServer
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, Quiet, needs_icu, new_pair, without_case


def problems(pair: Pair, add_keys: bool = False) -> list[Problem]:
    with pair.connect() as connection:
        return check(read_database(connection), read_facts(connection), 64, add_keys)


CASES = [
    ("error", "no primary key", "CREATE TABLE t (a int)"),
    ("error", "psp can add none", "CREATE TABLE t (a int) PARTITION BY RANGE ((a + 1))"),
    ("error", "different bytes", "CREATE TABLE t (a interval PRIMARY KEY)"),
    ("error", "different bytes", "CREATE TABLE t (a int[] PRIMARY KEY)"),
    ("error", "no binary send", "CREATE TABLE t (a int PRIMARY KEY, b aclitem)"),
    ("error", "holds OIDs", "CREATE TABLE t (a int PRIMARY KEY, b regclass[])"),
    ("warning", "compares no column by the equality",
     "CREATE TABLE t (a int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&))"),
    ("warning", "compares no column by the equality",
     "CREATE TABLE t (a int PRIMARY KEY, r int4range) PARTITION BY RANGE (a);"
     "CREATE TABLE t1 PARTITION OF t DEFAULT; ALTER TABLE t1 ADD EXCLUDE USING gist (r WITH &&)"),
    ("error", "inherits",
     "CREATE TABLE p (a int PRIMARY KEY); CREATE TABLE t (PRIMARY KEY (a)) INHERITS (p)"),
    ("error", "no right",
     f"CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t OWNER TO {APPLICATION};"
     f"REVOKE DELETE ON t FROM {APPLICATION}"),
    ("error", "hides rows",
     f"CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t OWNER TO {APPLICATION}, FORCE ROW LEVEL SECURITY"),
    ("error", "one partition",
     "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY RANGE (a);"
     "CREATE TABLE t1 PARTITION OF t DEFAULT; CREATE UNIQUE INDEX ON t1 (b);"
     "CREATE TABLE u (a int PRIMARY KEY REFERENCES t1 (b))"),
    ("error", "CYCLE", "CREATE SEQUENCE s CYCLE"),
    ("error", "too small", "CREATE SEQUENCE s MAXVALUE 60"),
    ("warning", "are left", "CREATE SEQUENCE s AS smallint"),
    ("note", "draws every 64th number: of its about 33.6 million", "CREATE TABLE t (a serial PRIMARY KEY)"),
    ("warning", "ENABLE ALWAYS",
     "CREATE TABLE t (a int PRIMARY KEY);"
     "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
     "CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f(); ALTER TABLE t ENABLE ALWAYS TRIGGER g"),
    ("warning", "calls pg_notify",
     "CREATE TABLE t (a int PRIMARY KEY); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
     "$$ BEGIN PERFORM pg_notify('a', 'b'); RETURN NULL; END $$;"
     "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"),
    ("warning", "large objects", "SELECT lo_create(0)"),
    ("warning", "more than the row", "CREATE TABLE t (a int PRIMARY KEY, b timestamptz CHECK (b <= now()))"),
    ("warning", "more than the row",
     "CREATE TABLE t (a int PRIMARY KEY, b date CHECK (b > '2000-01-01'), c name CHECK (c = current_user))"),
    ("warning", "not valid", "CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t ADD CHECK (a > 0) NOT VALID"),
    ("error", "whole row",
     "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE UNIQUE INDEX ON t (hash_record(t))"),
    ("error", "whole row",
     "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE UNIQUE INDEX ON t (b) WHERE t IS NOT NULL"),
    ("warning", "f(integer) runs as the owner",
     "CREATE FUNCTION public.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';"
     "ALTER FUNCTION public.f(int) OWNER TO application;"
     "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE UNIQUE INDEX ON t (f(b))"),
    ("warning", "eq(integer,integer) runs as the owner",
     "CREATE FUNCTION eq(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';"
     "ALTER FUNCTION eq(int, int) OWNER TO application;"
     "CREATE OPERATOR ==== (FUNCTION = eq, LEFTARG = int, RIGHTARG = int);"
     "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE UNIQUE INDEX ON t (b) WHERE b ==== 1"),
    ("error", "unique and not valid",
     "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY HASH (a);"
     "CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
     "CREATE UNIQUE INDEX ON ONLY t (a, b)"),
    ("error", "dblink", "CREATE EXTENSION dblink"),
    ("warning", "unlogged", "CREATE UNLOGGED TABLE t (a int)"),
    ("warning", "leave their references",
     "CREATE TABLE t (a int PRIMARY KEY); CREATE UNLOGGED TABLE u (a int REFERENCES t)"),
    ("warning", "have other types",
     "CREATE TABLE p (a float8 PRIMARY KEY); CREATE TABLE c (a int PRIMARY KEY REFERENCES p)"),
    ("note", "none of its rows", "CREATE MATERIALIZED VIEW m AS SELECT 1"),
    ("error", "no other server would get",
     "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1' PUBLICATION p "
     "WITH (connect = false, slot_name = NONE)"),
    ("warning", "3,281,250 values are left",
     "CREATE TABLE t (id serial PRIMARY KEY); SELECT setval('t_id_seq', 2147483647 - 210000000)"),
    ("warning", "are left", "CREATE SEQUENCE s MINVALUE -1000000 INCREMENT -1; SELECT setval('s', -950000)"),
    ("warning", "are left",
     "CREATE TABLE t (id int PRIMARY KEY); CREATE SEQUENCE s OWNED BY t.id; SELECT setval('s', 2000000000)"),
]  # fmt: skip


@pytest.mark.parametrize(("severity", "words", "script"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_finds(pair: Pair, severity: str, words: str, script: str) -> None:
    assert not has_errors(problems(pair))
    pair.run(script)
    assert any(p.severity == severity and words in p.problem for p in problems(pair)), problems(pair)


@needs_icu
def test_finds_a_nondeterministic_collation(pair: Pair) -> None:
    script = f"{without_case(pair.server, 'c')} CREATE TABLE t (a text COLLATE c PRIMARY KEY)"
    test_finds(pair, "error", "nondeterministic", script)


def test_all_at_once(pair: Pair) -> None:
    pair.run("CREATE TABLE a (x int); CREATE TABLE b (x regtype); CREATE SEQUENCE s CYCLE")
    assert len([p for p in problems(pair) if p.severity == "error"]) == 4


def test_add_keys_removes_the_error(pair: Pair) -> None:
    pair.run("CREATE TABLE a (x int)")
    assert has_errors(problems(pair))
    assert not has_errors(problems(pair, add_keys=True))


def test_functions_of_superusers_are_trusted(pair: Pair) -> None:
    pair.run(
        "CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';"
        "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE UNIQUE INDEX ON t (f(b))"
    )
    assert not [p for p in problems(pair) if "runs as the owner" in p.problem]


def test_dblink_that_is_not_public_is_no_problem(pair: Pair) -> None:
    pair.run("CREATE EXTENSION dblink; REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC")
    assert not [p for p in problems(pair) if "dblink" in p.problem]


def test_prepared_transaction(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a int PRIMARY KEY)")
    with psycopg.connect(pair.dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'left'")
        found = problems(pair)
        connection.execute("ROLLBACK PREPARED 'left'")
    assert any("left" in p.object and p.severity == "error" for p in found)


@pytest.mark.parametrize("script", [
    "CREATE TEMP TABLE p (a int PRIMARY KEY); CREATE TEMP TABLE c (a int REFERENCES p)",
    "CREATE TEMP TABLE c () INHERITS (t)",
])  # fmt: skip
def test_temporary_tables_that_are_there_already(pair: Pair, script: str) -> None:
    pair.run("CREATE TABLE t (a int PRIMARY KEY)")
    with pair.connect(autocommit=True) as connection:
        connection.execute(script.encode())
        assert any(p.severity == "error" and p.object.startswith("temporary table") for p in problems(pair))


def test_database_setting(pair: Pair) -> None:
    pair.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', "
        "current_database()); END $$"
    )
    assert any("serializable" in p.problem for p in problems(pair))


def test_adopted_already(pair: Pair) -> None:
    pair.adopt()
    assert any("already" in p.problem and p.severity == "error" for p in problems(pair))


def test_command_of_a_role_that_may_not_read_everything(pair: Pair) -> None:
    """A sequence that it may not read is no reason to fail with anything but its own lack of rights."""
    pair.run("CREATE TABLE t (a serial PRIMARY KEY)")
    dsn = psycopg.conninfo.make_conninfo(pair.dsn, user=APPLICATION)
    shown = CliRunner().invoke(app, ["check", dsn, "--json"])
    assert shown.exit_code == 1
    told = json.loads(shown.stdout)
    assert not told["adoptable"]
    errors = [p["problem"] for p in told["problems"] if p["severity"] == "error"]
    assert "it has no dblink, and only superusers may install it" in errors
    with pytest.raises(RefusedError, match=r"[1-9] error"):
        adopt(dsn, pair.primary_dsn, Options(name="one"), Quiet())


def test_command_tells_programs(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a int)")
    shown = CliRunner().invoke(app, ["check", pair.dsn, "--json"])
    assert (shown.exit_code, json.loads(shown.stdout)["adoptable"]) == (1, False)
    shown = CliRunner().invoke(app, ["check", pair.dsn, "--json", "--add-keys"])
    assert (shown.exit_code, json.loads(shown.stdout)["adoptable"]) == (0, True)


def test_notes_of_one_kind_are_one_row() -> None:
    """Warnings and errors are never put together."""
    problems = [
        Problem(severity, f"table c{n}", "the same", "and its hint")
        for severity, count in SEVERITIES
        for n in range(count)
    ]
    shown = problem_table(problems)
    assert shown.row_count == 2 + 3 + 1
    objects = [str(cell) for cell in shown.columns[1].cells]
    assert objects[-1] == "table c0, table c1, table c2 and 7 more"


SEVERITIES: list[tuple[Severity, int]] = [("error", 2), ("warning", 3), ("note", 10)]


def test_the_guard_of_an_adopted_database_is_asked(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a serial PRIMARY KEY)")
    pair.adopt()
    assert len([p for p in problems(pair) if p.severity == "error"]) == 1
    pair.run("ALTER EVENT TRIGGER psp_on_ddl DISABLE; CREATE TABLE public.x (a int)")
    told = [p.problem for p in problems(pair) if p.severity == "error"]
    assert any("psp_on_ddl is missing or not" in p for p in told)
    assert any("x exists here only" in p for p in told)


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def encoded_dsn(server: PgServer, encoding: str) -> Iterator[str]:
    """A database that is not in UTF8 with a table. In SQL_ASCII psycopg gives its names as bytes."""
    name = "encoded"
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE encoded ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
            "TEMPLATE template0".encode()
        )
        with psycopg.connect(server.dsn(name)) as inside:
            inside.execute("CREATE TABLE t (a int PRIMARY KEY)")
        yield server.dsn(name)
        connection.execute("DROP DATABASE encoded WITH (FORCE)")


@pytest.mark.parametrize("mode", ["native", "views"])
def test_another_encoding_is_refused(encoded_dsn: str, encoding: str, pair: Pair, mode: str) -> None:
    shown = CliRunner().invoke(app, ["check", encoded_dsn, "--mode", mode, "--json"])
    assert shown.exit_code == 1
    (told,) = json.loads(shown.stdout)["problems"]
    assert (told["severity"], told["object"]) == ("error", "database encoded")
    assert encoding in told["problem"]
    assert "UTF8" in told["hint"]
    for command in (
        ["adopt", encoded_dsn, "--primary-dsn", pair.primary_dsn, "--name", "one", "--mode", mode, "--yes"],
        ["convert", encoded_dsn],
        ["release", encoded_dsn],
    ):
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, SystemExit), command
        assert refused.exit_code == 1
        assert encoding in refused.output
        assert "encoding UTF8" in refused.output
    with psycopg.connect(encoded_dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('psp') IS NULL").fetchone() == (True,)
    with pytest.raises(PspError, match=encoding):
        init_primary(encoded_dsn)


def test_a_newer_version_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether all rows that it writes would be captured. What is under psp can be released."""
    pair.run("CREATE TABLE t (a int PRIMARY KEY)")
    other = new_pair(pair.server)
    other.adopt()
    primary_dsn = pair.primary_dsn
    monkeypatch.setattr(server_facts, "POSTGRES_MAX_VERSION", 14)
    told = f"PostgreSQL {server_version()} is newer than this psp, which knows PostgreSQL 15 to 14"
    for command in (
        ["check", pair.dsn],
        ["adopt", pair.dsn, "--primary-dsn", primary_dsn, "--name", "one", "--yes"],
        ["convert", pair.dsn],
        ["join", pair.dsn, "--primary-dsn", other.primary_dsn, "--name", "two"],
    ):
        refused = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
        assert refused.exit_code == 1, command
    with pytest.raises(PspError, match=told):
        init_primary(pair.dsn)
    with pytest.raises(PspError, match=told):
        convert(pair.dsn, ConvertOptions(), print)
    assert told in [p.problem for p in problems(pair) if p.severity == "error"]
    assert CliRunner().invoke(app, ["release", other.dsn, "--yes", "--force"]).exit_code == 0


@pytest.mark.skipif(server_version() < 18, reason="it needs PostgreSQL 18")
def test_constraints_of_postgresql_18(pair: Pair) -> None:
    """What is not enforced breaks nothing; a primary key needs equal values."""
    pair.run(
        "CREATE EXTENSION btree_gist;"
        "CREATE TABLE kept (id int PRIMARY KEY, a int CHECK (a > 0) NOT ENFORCED,"
        "                   b timestamptz CHECK (b <= now()) NOT ENFORCED, p int4range,"
        "                   UNIQUE (id, p WITHOUT OVERLAPS))"
    )
    before = problems(pair)
    assert not [p for p in before if "kept" in p.object]
    pair.run("CREATE TABLE t (id int, p int4range, PRIMARY KEY (id, p WITHOUT OVERLAPS))")
    (found,) = [p for p in problems(pair) if p.severity == "error"]
    assert (found.severity, found.object) == ("error", "table public.t")
    assert found.problem.startswith("its primary key has WITHOUT OVERLAPS")
