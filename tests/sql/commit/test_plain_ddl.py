"""DDL without psp.ddl becomes a schema change of the cluster. Nothing is committed; no daemon is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.refusals import refused

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY, v text);
INSERT INTO item VALUES (1, 'one');
CREATE UNLOGGED TABLE aside (id int);
CREATE INDEX aside_id ON aside (id);
CREATE TABLE parted (id int, day date, price numeric, PRIMARY KEY (id, day, price)) PARTITION BY RANGE (id);
CREATE FUNCTION makes_view() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN CREATE VIEW by_function AS SELECT 1; RETURN 1; END $$;
CREATE FUNCTION writes_row() RETURNS int LANGUAGE sql AS
    $$ INSERT INTO item VALUES (9, 'nine') RETURNING id $$;
CREATE FUNCTION alters_table() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN ALTER TABLE item ADD COLUMN w int; RETURN 1; END $$;
CREATE FUNCTION makes_view_in_sql() RETURNS int LANGUAGE sql AS
    $$ CREATE VIEW by_function AS SELECT 1; SELECT 1 $$;
CREATE FUNCTION alters_table_in_sql() RETURNS int LANGUAGE sql AS
    $$ ALTER TABLE item ADD COLUMN w int; SELECT 1 $$;
CREATE FUNCTION makes_partitions() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT id FROM item LOOP
        EXECUTE format('CREATE TABLE part%1$s PARTITION OF parted FOR VALUES FROM (%1$s) TO (%1$s + 1)',
                       found.id);
        EXECUTE format('CREATE UNLOGGED TABLE aside%s AS SELECT 1 AS a', found.id);
    END LOOP;
    RETURN 1;
END $$;
CREATE PROCEDURE calls(statement text) LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE statement; CREATE TEMP TABLE gone AS SELECT statement; DROP TABLE gone; END $$;
CREATE FUNCTION with_path() RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog AS
    $$ BEGIN CREATE VIEW public.with_path AS SELECT 1; RETURN 1; END $$;
CREATE FUNCTION makes_temporary() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN CREATE TEMP TABLE gone (id serial); DROP TABLE gone; RETURN 1; END $$;
RESET ROLE;
CREATE ROLE bystander;
CREATE FUNCTION of_superuser() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN CREATE VIEW public.by_function AS SELECT 1; RETURN 1; END $$;
GRANT ALL ON SCHEMA public TO bystander;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = changing_pair(server, SCHEMA)
    pair.run(f"GRANT CREATE ON DATABASE {pair.name} TO {APPLICATION}")
    return pair


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """As the role that may change the schema."""
    with app.rolled_back() as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.commit()
        yield connection


def recorded(connection: psycopg.Connection[Any]) -> list[str]:
    """The texts that go with the stream. The guard has nothing to say then, and nothing is left half-way."""
    connection.execute("RESET ROLE")
    connection.execute("RESET SESSION AUTHORIZATION")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    assert connection.execute("SELECT FROM psp.own_commands").fetchall() == []
    rows = connection.execute("SELECT statement FROM psp.schema_history ORDER BY change, statement_n")
    return [statement for (statement,) in rows]


GOES = [
    "CREATE VIEW seen AS SELECT * FROM item",
    "create table fresh (id serial primary key, name text UNIQUE)",
    "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (9)",
    "ALTER TABLE item ADD COLUMN w int DEFAULT 7",
    "ALTER TABLE item RENAME TO thing",
    "ALTER TABLE item RENAME CONSTRAINT item_pkey TO item_key",
    "ALTER TABLE item ADD CONSTRAINT v_given CHECK (v <> '')",
    "DROP TABLE item",
    "DROP TABLE item, aside",
    "CREATE UNIQUE INDEX item_v ON item (v)",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = pg_catalog, pg_temp AS 'SELECT 1'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql set search_path/**/to 'public' , \"pg_temp\" RETURN 1",
    "ALTER FUNCTION makes_temporary() SET search_path TO pg_temp",
    "CREATE INDEX item_v ON item (v) /* not concurrently */",
    "CREATE INDEX /* not concurrently */ item_v ON item (v)",
    "CREATE INDEX -- not concurrently\n item_v ON item (v)",
    "CREATE INDEX \"index concurrently \" ON item (v)",
    "CREATE INDEX item_v ON item (v) WHERE v <> 'an index concurrently '",
    "CREATE UNIQUE INDEX concurrently_ ON item (v)",
    "ALTER TABLE item ADD COLUMN w text DEFAULT 'detach it concurrently '",
    "ALTER TABLE IF EXISTS ONLY public . item -- detach concurrently\n RENAME TO \"detach concurrently\"",
    "COMMENT ON TABLE item IS 'a large object'",
    "GRANT SELECT ON item TO PUBLIC -- no large object",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE PROCEDURE p(a int) LANGUAGE sql AS 'SELECT a'",
    "CREATE SCHEMA s CREATE TABLE inside (id int PRIMARY KEY) CREATE VIEW v AS SELECT 1 AS a",
    "CREATE TYPE mood AS ENUM ('sad')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE SEQUENCE numbers",
    "CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM item",
    "CREATE UNLOGGED TABLE copied AS SELECT * FROM item",
    "CREATE POLICY mine ON item USING (true)",
    "CREATE TRIGGER t BEFORE UPDATE ON item EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE r AS ON INSERT TO aside DO ALSO NOTIFY x",
    "COMMENT ON TABLE item IS 'things'",
    "COMMENT ON COLUMN item.v IS 'a value'",
    "GRANT SELECT ON item TO PUBLIC",
    "REVOKE ALL ON aside FROM PUBLIC",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    "CREATE STATISTICS both_columns ON id, v FROM item",
    "CREATE COLLATION plain FROM \"C\"",
    "CREATE CAST (item AS text) WITH INOUT",
    "CREATE AGGREGATE total (int) (sfunc = int4pl, stype = int)",
    "CREATE OPERATOR #+# (leftarg = int, rightarg = int, function = int4pl)",
    "CREATE TEXT SEARCH CONFIGURATION english_too (copy = english)",
    "ALTER FUNCTION makes_view() COST 10",
    "DROP FUNCTION makes_view() CASCADE",
    "  CREATE\tOR REPLACE\nVIEW spaced AS SELECT 1 ; \n",
    "CREATE TABLE at_once (id int PRIMARY KEY) -- and a comment",
]  # fmt: skip


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("statement", GOES, ids=[" ".join(text.split()[:3]) for text in GOES])
def test_a_statement_goes_with_the_stream(
    connection: psycopg.Connection[Any], statement: str, prepare: bool
) -> None:
    connection.execute(statement.encode(), prepare=prepare)
    assert recorded(connection) == [statement]


# An index has one name everywhere, and need not be everywhere when it is dropped.
OTHER_TEXTS = [
    ("CREATE INDEX ON item (v)", "CREATE INDEX item_v_idx ON item (v)"),
    ("CREATE INDEX ON item (v) /* not concurrently */",
     "CREATE INDEX item_v_idx ON item (v) /* not concurrently */"),
    ("create unique/* a */ index --\non only public.item (v)",
     "create unique/* a */ index --\nitem_v_idx on only public.item (v)"),
    ("CREATE INDEX ON item (upper(v)) WHERE v <> ' on '",
     "CREATE INDEX item_upper_idx ON item (upper(v)) WHERE v <> ' on '"),
    ('CREATE INDEX ON "Odd \\1" (v)', 'CREATE INDEX "Odd \\1_v_idx" ON "Odd \\1" (v)'),
    ("DROP INDEX /* not concurrently */ aside_id", "DROP INDEX IF EXISTS public.aside_id"),
    ("SELECT psp.ddl('DROP INDEX aside_id CASCADE; -- so')", "DROP INDEX IF EXISTS public.aside_id CASCADE"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "text"), OTHER_TEXTS)
def test_a_statement_of_an_index_goes_with_names(
    connection: psycopg.Connection[Any], statement: str, text: str
) -> None:
    connection.execute("SET LOCAL psp.schema_changes = local")
    connection.execute('CREATE UNLOGGED TABLE "Odd \\1" (v int)')
    connection.execute("SET LOCAL psp.schema_changes = on")
    connection.execute(statement.encode())
    assert recorded(connection) == [text]


def test_an_index_of_partitions_goes_with_the_name_of_the_whole(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (9)")
    connection.execute("CREATE INDEX ON parted (price)")
    assert recorded(connection)[1:] == ["CREATE INDEX parted_price_idx ON parted (price)"]


WITHOUT_CONCURRENTLY = [
    ("CREATE UNIQUE INDEX CONCURRENTLY item_v ON item (v)", "CREATE UNIQUE INDEX item_v ON item (v)"),
    ("-- a\ncreate unique /* b */ index\tconcurrently if not exists item_v on item (v); -- c",
     "create unique /* b */ index if not exists item_v on item (v)"),
    ("CREATE INDEX CONCURRENTLY item_v ON item (v)", "CREATE INDEX item_v ON item (v)"),
    ("DROP INDEX CONCURRENTLY aside_id", "DROP INDEX IF EXISTS public.aside_id"),
    ("ALTER TABLE parted DETACH PARTITION part CONCURRENTLY;", "ALTER TABLE parted DETACH PARTITION part"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "text"), WITHOUT_CONCURRENTLY)
def test_psp_ddl_leaves_concurrently_out(
    connection: psycopg.Connection[Any], statement: str, text: str
) -> None:
    connection.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (9)")
    told: list[str | None] = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    connection.execute("SELECT psp.ddl(%s)", [statement])
    assert told == ["psp: the statement runs without CONCURRENTLY, and writers of the table wait for it"]
    assert recorded(connection)[1:] == [text]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX CONCURRENTLY item_v ON item (v)",
        "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS item_v ON item (v)",
        "DROP INDEX CONCURRENTLY item_pkey",
        "ALTER TABLE parted DETACH PARTITION part CONCURRENTLY",
    ],
)
def test_a_refused_concurrently_has_another_way(app: Pair, statement: str) -> None:
    with app.connect_as_application(autocommit=True) as connection, refused("as psp.ddl does"):
        connection.execute(statement.encode())


def test_a_unique_index_that_is_there_is_passed_over(app: Pair) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS item_pkey ON public.item (v)")
        assert one(connection, "SELECT count(*) FROM pg_index WHERE indrelid = 'item'::regclass") == 1


BLOCKS = [
    ("BEGIN ALTER TABLE item ADD COLUMN w int; END", ["ALTER TABLE item ADD COLUMN w int"]),
    (
        "BEGIN IF NOT EXISTS (SELECT FROM pg_views WHERE viewname = 'seen')"
        "\nTHEN CREATE VIEW seen AS\n  SELECT '\"\' AS a; END IF; END",
        ["CREATE VIEW seen AS\n  SELECT '\"\' AS a"],
    ),
    (
        "DECLARE n int; BEGIN FOR n IN 1..2 LOOP EXECUTE format('CREATE VIEW v%s AS SELECT 1', n); END LOOP;"
        "\nBEGIN CREATE VIEW gone AS SELECT 1; RAISE no_data_found;"
        "\nEXCEPTION WHEN no_data_found THEN DROP VIEW v1; END; END",
        ["CREATE VIEW v1 AS SELECT 1", "CREATE VIEW v2 AS SELECT 1", "DROP VIEW v1"],
    ),
    ("BEGIN EXECUTE 'CREATE UNLOGGED TABLE y AS SELECT 1 AS a'; END",
     ["CREATE UNLOGGED TABLE y AS SELECT 1 AS a"]),
    ("BEGIN PERFORM psp.ddl('CREATE VIEW v AS SELECT 1'); END", ["CREATE VIEW v AS SELECT 1"]),
    ("BEGIN CREATE TEMP TABLE x (id int); ALTER TABLE x ADD w int; CREATE TEMP TABLE y AS TABLE x; END", []),
]  # fmt: skip


@pytest.mark.parametrize(("block", "texts"), BLOCKS)
def test_statements_of_a_block_go_with_the_stream(
    connection: psycopg.Connection[Any], block: str, texts: list[str]
) -> None:
    connection.execute("CREATE VIEW first AS SELECT 1")
    connection.execute(f"DO $block$ {block} $block$".encode())
    connection.execute("CREATE VIEW last AS SELECT 1")
    assert recorded(connection) == ["CREATE VIEW first AS SELECT 1", *texts, "CREATE VIEW last AS SELECT 1"]


PARTITION = "CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (1) TO (1 + 1)"
ASIDE = "CREATE UNLOGGED TABLE aside1 AS SELECT 1 AS a"
FUNCTIONS = [
    ("SELECT makes_view()", ["CREATE VIEW by_function AS SELECT 1"]),
    ("SELECT alters_table()", ["ALTER TABLE item ADD COLUMN w int"]),
    ("SELECT makes_partitions()", [PARTITION, ASIDE]),
    ("CALL calls('DROP TABLE aside')", ["DROP TABLE aside"]),
    ("CALL calls('SELECT makes_view()')", ["CREATE VIEW by_function AS SELECT 1"]),
    ("DO $$ BEGIN PERFORM makes_view(); END $$", ["CREATE VIEW by_function AS SELECT 1"]),
    ("DO $$ BEGIN DO 'BEGIN DROP TABLE aside; END'; END $$", ["DROP TABLE aside"]),
    ("SELECT with_path()", ["CREATE VIEW public.with_path AS SELECT 1"]),
    ("SELECT psp.ddl('SELECT makes_view()')", ["CREATE VIEW by_function AS SELECT 1"]),
    ("SELECT psp.ddl('SELECT makes_partitions()')", [PARTITION, ASIDE]),
    ("SELECT psp.ddl('SELECT 1')", ["SELECT 1"]),
    ("SELECT psp.ddl($$DO 'BEGIN END'$$)", ["DO 'BEGIN END'"]),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "texts"), FUNCTIONS)
def test_statements_of_a_function_go_with_the_stream(
    connection: psycopg.Connection[Any], statement: str, texts: list[str]
) -> None:
    connection.execute("CREATE VIEW first AS SELECT 1")
    connection.execute(statement.encode())
    connection.execute("CREATE VIEW last AS SELECT 1")
    assert recorded(connection) == ["CREATE VIEW first AS SELECT 1", *texts, "CREATE VIEW last AS SELECT 1"]


def test_a_function_has_its_own_settings(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT with_path()")
    connection.execute("RESET ROLE")
    row = connection.execute(
        "SELECT settings ->> 'search_path', settings -> 'schemas' FROM psp.schema_history"
    )
    assert row.fetchall() == [("pg_catalog", ["pg_catalog"])]


def test_what_an_event_trigger_does_is_no_statement_of_the_stream(
    connection: psycopg.Connection[Any],
) -> None:
    """It runs where it is there."""
    connection.execute("RESET ROLE")
    for name, tag in (("a", "CREATE VIEW"), ("z", "CREATE SEQUENCE")):  # before and after psp's
        connection.execute(
            f"CREATE FUNCTION public.{name}_grants() RETURNS event_trigger LANGUAGE plpgsql AS "
            "$$ BEGIN GRANT SELECT ON item TO bystander; END $$; "
            f"CREATE EVENT TRIGGER {name} ON ddl_command_end WHEN TAG IN ('{tag}') "
            f"EXECUTE FUNCTION public.{name}_grants()".encode()
        )
    connection.execute(f"SET ROLE {APPLICATION}".encode())
    connection.execute("CREATE VIEW v AS SELECT 1")
    connection.execute("SELECT psp.ddl('CREATE VIEW w AS SELECT 1')")
    with refused("the text of this GRANT is not known"), connection.transaction():
        connection.execute("CREATE SEQUENCE s")
    assert recorded(connection) == ["CREATE VIEW v AS SELECT 1", "CREATE VIEW w AS SELECT 1"]


def test_role_settings_and_numbers(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE SCHEMA one")
    connection.execute('SET LOCAL search_path = one, "$user", public')
    connection.execute("SET LOCAL timezone = 'Asia/Tokyo'")
    connection.execute("CREATE VIEW v AS SELECT 1")
    connection.execute("SELECT psp.ddl('CREATE VIEW w AS SELECT 2')")
    connection.execute("DROP VIEW v")
    assert recorded(connection) == [
        "CREATE SCHEMA one", "CREATE VIEW v AS SELECT 1", "CREATE VIEW w AS SELECT 2", "DROP VIEW v",
    ]  # fmt: skip
    rows = connection.execute(
        "SELECT change, statement_n, role, settings ->> 'search_path', settings ->> 'timezone' "
        "FROM psp.schema_history ORDER BY statement_n"
    ).fetchall()
    assert rows[0][:3] == (1, 1, APPLICATION)
    for n, row in enumerate(rows[1:], 2):
        assert row == (1, n, APPLICATION, 'one, "$user", public', "Asia/Tokyo")


def test_a_new_table_is_captured(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE fresh (id serial PRIMARY KEY)")
    connection.execute("ALTER TABLE fresh ADD COLUMN v text")
    connection.execute("ALTER TABLE fresh ALTER COLUMN id TYPE bigint")
    connection.execute("INSERT INTO fresh (v) VALUES ('x')")
    assert len(recorded(connection)) == 3
    number = one(connection, "SELECT table_id FROM psp.tables WHERE table_name = 'fresh'")
    assert one(connection, "SELECT count(*) FROM psp.write_set WHERE table_id = %s AND op = 'i'", number) == 1


TEMPORARY = [
    ["CREATE TEMP TABLE x (id int)", "DROP TABLE x"],
    ["CREATE LOCAL TEMPORARY TABLE x (id serial PRIMARY KEY)"],
    [
        "CREATE TABLE pg_temp.x (id serial)", "CREATE INDEX ON x (id)", "ALTER TABLE x ADD y int",
        "COMMENT ON COLUMN x.y IS 'y'", "ALTER TABLE x DROP y", "ALTER TABLE x RENAME TO z", "DROP TABLE z",
    ],
    ["CREATE TEMP TABLE x AS SELECT * FROM item", "CREATE VIEW of_temporary AS SELECT * FROM x"],
    ["CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION pg_temp.f"],
    ["CREATE TYPE pg_temp.e AS ENUM ('a')", "DROP TYPE pg_temp.e"],
    ["SELECT makes_temporary()"],
    ["DO 'BEGIN CREATE TEMP TABLE x (id int); END'", "SELECT 1 AS one INTO TEMP y"],
    [
        "CREATE TEMP TABLE x (id int)", "GRANT SELECT ON x TO PUBLIC",
        "REVOKE ALL ON TABLE pg_temp.x FROM PUBLIC",
        'CREATE TEMP TABLE "x y" (id int)', 'GRANT SELECT (id), UPDATE ON x, "x y" TO bystander',
    ],
    [
        "CREATE TEMP TABLE x (id int)", "CREATE POLICY p ON x USING (true)",
        "ALTER POLICY p ON x RENAME TO q", "DROP POLICY q ON x",
    ],
    ["CREATE TABLE IF NOT EXISTS item (id int)", "DROP VIEW IF EXISTS nothing"],
    ["ALTER TABLE IF EXISTS nothing ADD FOREIGN KEY (id) REFERENCES parted"],
    ["CREATE TABLE IF NOT EXISTS item PARTITION OF parted FOR VALUES FROM (1) TO (2)"],
]  # fmt: skip


LARGE_OBJECTS = [
    "COMMENT ON LARGE OBJECT 4711 IS 'x'",
    "GRANT SELECT ON /* a */ LARGE OBJECT 4711 TO PUBLIC",
    "REVOKE ALL ON LARGE OBJECT 4711 FROM PUBLIC; SELECT 1",
    "ALTER LARGE OBJECT 4711 OWNER TO CURRENT_ROLE",
]


@pytest.mark.parametrize("statement", LARGE_OBJECTS)
def test_what_is_of_a_large_object_stays(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute("SELECT lo_create(4711)")
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    connection.execute(statement.encode())
    assert recorded(connection) == []
    assert len(told) == 1
    assert "stays at this semi-primary" in told[0]


@pytest.mark.parametrize("statements", TEMPORARY, ids=[statements[0] for statements in TEMPORARY])
def test_what_is_temporary_stays(connection: psycopg.Connection[Any], statements: list[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())
    assert recorded(connection) == []


REFUSED = [
    ["SELECT makes_view_in_sql()"],
    ["SELECT alters_table_in_sql()"],
    ["DO $$ BEGIN PERFORM makes_view_in_sql(); END $$"],
    ["SELECT of_superuser()"],
    ["SELECT psp.ddl('SELECT makes_view_in_sql()')"],
    ["CREATE UNLOGGED TABLE y AS SELECT makes_view()"],
    ["CREATE TEMP TABLE x AS SELECT makes_view()"],
    ["SELECT psp.ddl('CREATE UNLOGGED TABLE y AS SELECT makes_view()')"],
    ["SELECT psp.ddl('CREATE UNLOGGED TABLE y AS SELECT makes_view_in_sql()')"],
    ["IMPORT FOREIGN SCHEMA public FROM SERVER none INTO public"],
    ["SELECT psp.ddl('IMPORT FOREIGN SCHEMA public FROM SERVER none INTO public')"],
    ["DO $$ DECLARE v int = 7; BEGIN CREATE UNLOGGED TABLE y AS SELECT v; END $$"],
    ["DO $$ BEGIN EXECUTE 'CREATE UNLOGGED TABLE y AS SELECT $1' USING 1; END $$"],
    ["CREATE TEMP TABLE x (id int)", "CREATE UNLOGGED TABLE y (LIKE x)"],
    ["CREATE TEMP TABLE x (id int)", "CREATE UNLOGGED TABLE y AS SELECT * FROM X"],
    ["CREATE TEMP TABLE x (id int)", "GRANT SELECT ON x, item TO PUBLIC"],
    ["CREATE TEMP TABLE item (id int)", "GRANT SELECT ON item TO PUBLIC"],  # which one?
    ['CREATE TEMP TABLE "x y" (id int)', 'CREATE UNLOGGED TABLE y (LIKE "x y")'],
    ["CREATE TEMP TABLE tmpx (id int)", 'CREATE UNLOGGED TABLE y AS SELECT * FROM U&"tmp\\0078"'],
    [
        "CREATE TEMP TABLE tmpx (id int)",
        "CREATE UNLOGGED TABLE y AS SELECT id FROM item JOIN u&\"tmp!0078\" UESCAPE '!' USING (id)",
    ],
    ["CREATE TEMP TABLE x (id int)", "DROP TABLE x, aside"],
    ["CREATE TYPE pg_temp.e AS ENUM ('a')", "CREATE UNLOGGED TABLE y (e pg_temp.e)"],
    [
        "CREATE TYPE pg_temp.e AS ENUM ('a')",
        "CREATE FUNCTION f(pg_temp.e) RETURNS int SET search_path = a, pg_temp RETURN 1",
    ],
    ["PREPARE p AS SELECT 1", "CREATE UNLOGGED TABLE y AS EXECUTE p"],
    ["CREATE UNLOGGED TABLE y AS SELECT psp.ddl('CREATE VIEW inside AS SELECT 1')::text"],
    ["INSERT INTO psp.new_statement (settings) VALUES (psp.statement_settings())"],
    ["CREATE UNLOGGED TABLE y AS SELECT writes_row()"],
]


@pytest.mark.parametrize("statements", REFUSED, ids=[statements[-1] for statements in REFUSED])
def test_refused(connection: psycopg.Connection[Any], statements: list[str]) -> None:
    for statement in statements[:-1]:
        connection.execute(statement.encode())
    with refused():
        connection.execute(statements[-1].encode())


FORGED = [
    "{at},1,1,ALTER TABLE,t,f,t,f,0,f,,,t,,,,",  # as if it ran inside another statement
    "{at},1,0,ALTER TABLE,t,f,t,f,0,t,,,t,,,,",  # as if one had ended
    "{at},1,0,ALTER TABLE,f,t,t,f,0,t,,,t,,,,",  # as if it were a job
]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("forged", FORGED)
def test_who_forges_the_setting_changes_no_captured_table(
    connection: psycopg.Connection[Any], forged: str, allowed: bool
) -> None:
    if not allowed:
        connection.execute("RESET ROLE")
        connection.execute(f"REVOKE EXECUTE ON FUNCTION psp.ddl(text) FROM {APPLICATION}".encode())
        connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    value = f"format('({forged})', extract(epoch FROM statement_timestamp()))".replace("{at}", "%s")
    with refused():
        connection.execute(
            f"SELECT set_config('psp.running_ddl', {value}, false); SELECT alters_table_in_sql()".encode()
        )


def test_parameters_are_refused(connection: psycopg.Connection[Any]) -> None:
    with refused():
        connection.execute("CREATE UNLOGGED TABLE y AS SELECT %s::int AS a", [1])


def test_what_stays_here_by_its_setting(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL psp.schema_changes = local")
    connection.execute("CREATE INDEX ON item (v)")
    connection.execute("SELECT makes_view()")
    assert recorded(connection) == []
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    with refused():
        connection.execute("ALTER TABLE item ADD COLUMN w int")


@pytest.mark.parametrize("role", ["NONE", "bystander"])
@pytest.mark.parametrize("where", ["{}", "{}; SELECT 1", "DO $$ BEGIN {}; END $$"])
def test_what_stays_here_by_its_role(connection: psycopg.Connection[Any], where: str, role: str) -> None:
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    connection.execute(f"SET LOCAL ROLE {role}".encode())
    for statement in ("CREATE VIEW public.local AS SELECT 1", "DROP VIEW public.local"):
        connection.execute(where.format(statement).encode())
    assert recorded(connection) == []
    assert told == [f"psp: this {word} VIEW stays at this semi-primary" for word in ("CREATE", "DROP")]


def test_statements_of_an_extension_are_not_told(connection: psycopg.Connection[Any]) -> None:
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    connection.execute("RESET ROLE")
    connection.execute("CREATE EXTENSION intarray SCHEMA public")
    assert told == ["psp: this CREATE EXTENSION stays at this semi-primary"]


def test_a_trusted_extension_is_one_statement(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE EXTENSION citext SCHEMA public")
    assert recorded(connection) == ["CREATE EXTENSION citext SCHEMA public"]


def test_a_rolled_back_statement_goes_nowhere(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE VIEW kept AS SELECT 1")
    connection.execute("SAVEPOINT s")
    connection.execute("CREATE VIEW undone AS SELECT 1")
    connection.execute("ROLLBACK TO s")
    with pytest.raises(psycopg.errors.DuplicateTable), connection.transaction():
        connection.execute("CREATE VIEW kept AS SELECT 1")
    connection.execute("CREATE VIEW last AS SELECT 1")
    assert recorded(connection) == ["CREATE VIEW kept AS SELECT 1", "CREATE VIEW last AS SELECT 1"]


SAMPLES = Path(__file__).resolve().parents[3] / "semi_primary" / "hook_server" / "statement_kinds.json"


def test_the_tag_of_a_statement_fits_its_text(app: Pair, connection: psycopg.Connection[Any]) -> None:
    """For every kind of statement that there is."""
    connection.execute("RESET ROLE")
    connection.execute("SET LOCAL psp.schema_changes = local")
    connection.execute(
        "CREATE FUNCTION public.tell() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE INFO '%', psp.is_statement_of(tg_tag, current_query()); END $$;"
        "CREATE EVENT TRIGGER tell ON ddl_command_end EXECUTE FUNCTION public.tell()"
    )
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(f"{notice.severity} {notice.message_primary}"))
    checked = 0
    for sample in json.loads(SAMPLES.read_text())["run"]:
        if sample["kind"] in ("transaction", "rollback"):
            continue
        told.clear()
        try:
            with connection.transaction():
                connection.execute(sample["statement"].encode())
        except psycopg.Error:  # PostgreSQL or the guard refuses it here
            continue
        if sample["kind"] == "ddl":
            assert "INFO f" not in told[-1:], sample
            checked += told[-1:] == ["INFO t"]
    assert checked > 70


def test_the_context_is_read_in_one_language(app: Pair) -> None:
    with app.connect() as connection:
        found = connection.execute(
            "SELECT proname, 'lc_messages=C' = ANY (proconfig) FROM pg_proc "
            "WHERE pronamespace = 'psp'::regnamespace AND prosrc LIKE '%PG_CONTEXT%'"
        ).fetchall()
    assert dict(found) == {
        "on_statement_start": True,
        "on_statement_drop": True,
        "on_statement_end": True,
        "set_triggers_aside": True,
        "refuse_replica": None,  # for each statement of the worker; psp.is_of_rows looks for no words
    }


def test_literals_in_one_statement(app: Pair) -> None:
    """It was read under the setting under which it runs.

    Messages of several statements: tests/cluster/schema_changes/test_settings_of_statements.py.
    """
    with app.connect_as_application(options="-c standard_conforming_strings=off") as connection:
        connection.execute(r"CREATE VIEW v AS SELECT 'C:\\dir'")
        connection.rollback()
        with refused("standard_conforming_strings"):
            connection.execute(r"SELECT 1; CREATE VIEW v AS SELECT 'C:/dir'")


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("BEGIN", True),
        ("SET LOCAL search_path = public", True),
        ("SET standard_conforming_strings = on", False),
        (r'SET U&"standard\005fconforming_strings" = on', False),
        ("COMMIT", False),
        ("END", False),
        ("RESET ALL", False),
        ("SELECT f()", False),
        ("WITH a AS (SELECT f()) SELECT", False),
        ("CREATE TABLE t (id int PRIMARY KEY, as_of date)", True),
        (
            "CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY, n int GENERATED ALWAYS AS (1) STORED)",
            True,
        ),
        ("create unlogged table t as select f()", False),
        ("CREATE MATERIALIZED VIEW m AS SELECT f()", False),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$", True),
        ("CREATE EXTENSION e", False),
        ("ALTER TABLE t OWNER TO me", True),
        ("ALTER TABLE t\nADD COLUMN c int\nDEFAULT f()", False),
        ("ALTER TYPE t RENAME TO u", True),
        ("REFRESH MATERIALIZED VIEW m", False),
        ("EXECUTE p", False),
    ],
)
def test_what_may_change_how_literals_are_read(app: Pair, statement: str, answer: bool) -> None:
    with app.connect() as connection:
        assert one(connection, "SELECT psp.leaves_strings(%s)", statement) is answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (r"SELECT 'a'; SELECT 'C:\dir'", True),
        (r"SELECT E'C:\\dir', e'it\'s', 'it''s'", False),
        (r"SELECT typE'\d'", True),
        (r"CREATE FUNCTION f() AS $x$ SELECT '\d' $$ $x$; SELECT $$\d$$", False),
        (r"CREATE FUNCTION f() AS $x$ SELECT '\d' $x$; SELECT '\d'", True),
        (r"SELECT a$x$, '\d' AS b$x$", True),
        (r"-- it's '\d'" + "\n" + r'SELECT 1 AS "\d' '", 2', False),
        (r"/* it's '\d' */ SELECT 1", False),
        (r"/* it's /* '\d' */ */ SELECT 1", True),
        (r"SELECT U&'\0061'", True),
        ("SELECT 'a'", False),
    ],
)
def test_backslashes_that_mean_something_else(app: Pair, message: str, answer: bool) -> None:
    with app.connect() as connection:
        assert one(connection, "SELECT psp.has_plain_backslash(%s)", message) is answer
