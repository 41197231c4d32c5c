"""A table's capture is made again in the transaction that changes the table (psp.create_capture).

The application's own statement is run with the guard off: it would refuse it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.schema.keys import quote
from psp.servers.pgserver import PgServer
from psycopg.types.json import Jsonb

from tests.sql.arriving import become_worker
from tests.sql.databases import APPLICATION, Pair, adopted_pair, new_pair, one, unguarded
from tests.sql.write_sets import Entry, Written, entries, written

HOSTILE = "SET standard_conforming_strings = off; SET quote_all_identifiers = on"
ODD = "o'dd \"$$ %s %I {key}\\n\n$psp$ \\"
ODD_COLUMN = "c'\"{image} %L \\"
SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE {quote(ODD)} (id int PRIMARY KEY, {quote(ODD_COLUMN)} text);
CREATE UNIQUE INDEX {quote("i" + ODD)} ON {quote(ODD)} (low({quote(ODD_COLUMN)}));
CREATE TABLE t (id int PRIMARY KEY, v int, s text, n int UNIQUE DEFERRABLE);
CREATE UNIQUE INDEX t_s ON t (low(s));
INSERT INTO t VALUES (1, 1, 'a', 1);
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return adopted_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    """With settings that would change what the made functions say, if psp did not fix them."""
    with app.rolled_back() as connection:
        connection.execute(HOSTILE.encode())
        yield connection


def number(connection: psycopg.Connection[Any], table: str) -> int:
    return int(one(connection, "SELECT table_id FROM psp.tables WHERE table_name = %s", table))


def remake(connection: psycopg.Connection[Any], table_id: int, table: str) -> None:
    """Guards keep their numbers; new ones get the next that are free, as adoption would number them."""
    guards = one(connection, "SELECT guards FROM psp.tables WHERE table_id = %s", table_id)
    kept = {guard["index"]: guard["guard_id"] for guard in guards}
    name = f"public.{quote(table)}"
    names = [
        index
        for (index,) in connection.execute(
            "SELECT name FROM psp.index_facts WHERE relation = %s::regclass AND guarded ORDER BY name",
            (name,),
        )
    ]
    free = itertools.count(table_id + 1 + len(kept))
    guard_ids = {index: kept[index] if index in kept else next(free) for index in names}
    connection.execute("SELECT psp.create_capture(%s, %s, %s)", (name, table_id, Jsonb(guard_ids)))


def change(connection: psycopg.Connection[Any], statement: str, table: str = "t", named: str = "") -> int:
    """Runs a change of the table and makes its capture again; `named`: its name afterwards."""
    table_id = number(connection, table)
    connection.execute("SET LOCAL search_path = public, pg_temp")
    with unguarded(connection):
        connection.execute(statement.encode())
    remake(connection, table_id, named or table)
    return table_id


def capture(connection: psycopg.Connection[Any], statement: str) -> list[Written]:
    """What the statement captures, after what the transaction has captured before."""
    before = len(written(connection))
    connection.execute("SET LOCAL search_path = public, pg_temp")
    connection.execute(statement.encode())
    return written(connection)[before:]


def only_entry(rows: list[Written]) -> Entry:
    (entry,) = entries(next(row for row in rows if row.op in "iu"))
    return entry


def int4(value: int) -> bytes:
    return value.to_bytes(4, "big")


def accepts(connection: psycopg.Connection[Any], table: str = "t") -> None:
    """The guard knows the table as it is, and refuses other changes."""
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    connection.execute(f"CREATE INDEX local_one ON public.{quote(table)} (id)".encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported), connection.transaction():
        connection.execute(f"ALTER TABLE public.{quote(table)} ADD COLUMN unknown int".encode())


CHANGES = [
    ("ALTER TABLE t ADD COLUMN w int DEFAULT 7", "(9, 2, 'x', 3)", [9],
     [int4(9), int4(2), b"x", int4(3), int4(7)]),
    ("ALTER TABLE t DROP COLUMN v", "(9, 'x', 3)", [9], [int4(9), b"x", int4(3)]),
    ("ALTER TABLE t ALTER v TYPE text", "(9, '2', 'x', 3)", [9], [int4(9), b"2", b"x", int4(3)]),
    ("ALTER TABLE t ALTER v TYPE int[] USING ARRAY[v]", "(9, '{2}', 'x', 3)", [9],
     [int4(9), b"{2}", b"x", int4(3)]),
    ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (v, id)", "(9, 2, 'x', 3)", [2, 9],
     [int4(9), int4(2), b"x", int4(3)]),
    ("ALTER TABLE t RENAME v TO renamed", "(9, 2, 'x', 3)", [9], [int4(9), int4(2), b"x", int4(3)]),
    ("ALTER TABLE t ADD g int GENERATED ALWAYS AS (v + 1) STORED", "(9, 2, 'x', 3)", [9],
     [int4(9), int4(2), b"x", int4(3)]),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "row", "key", "image"), CHANGES)
def test_a_changed_table_is_captured_as_it_is_now(
    connection: psycopg.Connection[Any], statement: str, row: str, key: list[int], image: list[bytes]
) -> None:
    """Rows before the change, in the same transaction, stay as they were captured."""
    first = only_entry(capture(connection, "INSERT INTO t VALUES (8, 1, 'first', 2)"))
    assert first.image == [int4(8), int4(1), b"first", int4(2)]
    change(connection, statement)
    second = only_entry(capture(connection, f"INSERT INTO t VALUES {row}"))
    assert (second.key, second.image) == ([int4(part) for part in key], image)
    assert [row.op for row in capture(connection, "DELETE FROM t WHERE id = 9")] == ["d"]
    accepts(connection)


def test_a_key_of_another_type(connection: psycopg.Connection[Any]) -> None:
    """PostgreSQL changes no column that a trigger names: the capture goes first."""
    table_id = number(connection, "t")
    guards = one(connection, "SELECT guards FROM psp.tables WHERE table_id = %s", table_id)
    connection.execute("SELECT psp.drop_capture(%s)", (table_id,))
    with unguarded(connection):
        connection.execute("ALTER TABLE t ALTER id TYPE numeric")
    connection.execute(
        "SELECT psp.create_capture('t', %s, (SELECT jsonb_object_agg(g ->> 'index', g -> 'guard_id')"
        " FROM jsonb_array_elements(%s) g))",
        (table_id, Jsonb(guards)),
    )
    rows = capture(connection, "INSERT INTO t VALUES (9.50, 2, 'x', 3)")
    key = one(connection, "SELECT numeric_send(9.5)")
    assert rows[0].op == "u" and only_entry(rows).key == [key]
    assert [row.op for row in capture(connection, "UPDATE t SET id = 10 WHERE id = 9.5")][:2] == ["d", "u"]
    accepts(connection)


def test_a_unique_index_is_added(connection: psycopg.Connection[Any]) -> None:
    table_id = change(connection, "CREATE UNIQUE INDEX t_v ON t (v)")
    rows = capture(connection, "INSERT INTO t VALUES (9, 2, 'X', 3)")
    captured = sorted((row.op, row.name) for row in rows)
    assert captured == [("g", "t_n_key"), ("g", "t_s"), ("g", "t_v"), ("i", "t")]
    functions = (
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'psp'::regnamespace AND proname ~ '^guard_[0-9]'"
    )
    assert one(connection, functions) == 2  # t_s, and that of the table with the odd name
    with unguarded(connection):
        connection.execute("DROP INDEX public.t_s")
    remake(connection, table_id, "t")
    assert one(connection, functions) == 1
    accepts(connection)


def test_a_renamed_table(connection: psycopg.Connection[Any]) -> None:
    change(connection, "ALTER TABLE t RENAME TO other", named="other")
    assert only_entry(capture(connection, "INSERT INTO other VALUES (9, 2, 'x', 3)")).key == [int4(9)]
    accepts(connection, "other")


def test_partitions_come_and_go(connection: psycopg.Connection[Any]) -> None:
    change(connection, "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)", "parted")
    assert only_entry(capture(connection, "INSERT INTO parted VALUES (12, 1)")).key == [int4(12)]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="TRUNCATE"), connection.transaction():
        connection.execute("TRUNCATE public.parted_2")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    change(connection, "DROP TABLE public.parted_2", "parted")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []


def test_odd_names(connection: psycopg.Connection[Any]) -> None:
    change(connection, f"ALTER TABLE {quote(ODD)} ADD {quote('new ' + ODD_COLUMN)} int DEFAULT 5", ODD)
    rows = capture(connection, f"INSERT INTO {quote(ODD)} VALUES (9, 'Text')")
    assert only_entry(rows).image == [int4(9), b"Text", int4(5)]
    assert [row.name for row in rows] == [ODD, "i" + ODD]
    rows = capture(connection, f"UPDATE {quote(ODD)} SET {quote(ODD_COLUMN)} = 'TEXT', id = 7")
    assert [row.op for row in rows] == ["d", "i", "g"]
    accepts(connection, ODD)


def test_rows_are_looked_up_and_applied_in_the_new_form(connection: psycopg.Connection[Any]) -> None:
    table_id = change(connection, "ALTER TABLE t ADD COLUMN w int DEFAULT 7")
    image = only_entry(capture(connection, "INSERT INTO t VALUES (9, 2, 'x', 3)")).image_bytes
    key = one(connection, "SELECT record_send(ROW(9))")
    found = one(connection, f"SELECT psp.look_{table_id}(ARRAY[%s::bytea], ARRAY[ARRAY['9']])", key)
    assert image is not None and found.endswith(image)
    become_worker(connection)
    row = "ROW(9, 4, 'y', 5, 6)"
    connection.execute(
        f"SELECT psp.apply_upsert_{table_id}(ARRAY[{row}::psp.apply_rows_{table_id}])".encode()
    )
    assert connection.execute("SELECT * FROM public.t WHERE id = 9").fetchall() == [(9, 4, "y", 5, 6)]


MADE = """
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proowner::regrole::text,
       (SELECT string_agg(a.grantee::regrole::text, ',' ORDER BY a.grantee) FROM aclexplode(p.proacl) a)
  FROM pg_proc p WHERE p.pronamespace = 'psp'::regnamespace AND p.prokind = 'f'
UNION ALL
SELECT 'trigger', t.tgrelid::regclass::text, regexp_replace(pg_get_triggerdef(t.oid), 'Trigger_[0-9]+', ''),
       t.tgenabled::text, ''
  FROM pg_trigger t WHERE NOT t.tgisinternal OR t.tgfoid = 'unique_key_recheck'::regproc
UNION ALL
SELECT 'type', c.relname,
       string_agg(format('%s %s', a.attname, a.atttypid::regtype), ',' ORDER BY a.attnum), '', ''
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'psp'::regnamespace AND c.relkind = 'c' GROUP BY c.relname
UNION ALL
SELECT 'table', table_id::text, schema_name || table_name, columns::text, concat(key_columns, guards)
  FROM psp.tables
UNION ALL
SELECT 'relation', schema_name, relation_name, concat(kind, table_id), definition FROM psp.guarded_relations
UNION ALL  -- numbers of columns tell which have been dropped
SELECT 'object', schema_name || relation_name, kind, name,
       CASE kind WHEN 'column' THEN regexp_replace(definition, '^[0-9]+ ', '') ELSE definition END
  FROM psp.guarded_objects
UNION ALL
SELECT 'own function', name, for_daemon::text, '', '' FROM psp.own_functions
ORDER BY 1, 2, 3, 4
"""


def test_it_is_what_adoption_makes(server: PgServer) -> None:
    """All changes, one after the other, and the same changes before adoption."""
    changes = [
        "ALTER TABLE t ADD COLUMN w text[]", "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ALTER s TYPE varchar(9)",
        "CREATE UNIQUE INDEX t_z ON t (w, lower(s)) WHERE w IS NOT NULL",
        "CREATE UNIQUE INDEX t_zz ON t (low(s), n) NULLS NOT DISTINCT",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD g int GENERATED ALWAYS AS (id + 1) STORED, "
        "ADD PRIMARY KEY (g)",
    ]  # fmt: skip
    later, before = adopted_pair(server, SCHEMA), new_pair(server)
    with later.connect() as connection:
        connection.execute(HOSTILE.encode())
        for statement in changes:
            change(connection, statement)
        connection.commit()
    before.run(";".join([SCHEMA, *changes]))
    # A generated key beside an ordinary role's function cannot be adopted (decision 76).
    before.run("ALTER FUNCTION low(text) OWNER TO CURRENT_USER")
    before.run("ALTER FUNCTION low(text) SET search_path = pg_catalog")
    before.run(f"ALTER DATABASE {before.name} SET standard_conforming_strings = off")
    before.adopt()
    found = []
    for pair in (later, before):
        with pair.connect() as connection:
            connection.execute("SET search_path = pg_catalog; SET standard_conforming_strings = on")
            found.append(connection.execute(MADE.encode()).fetchall())
    assert found[0] == found[1]


def test_an_event_trigger_calls_it(app: Pair) -> None:
    """In the transaction of an application's role, which owns the table and nothing else."""
    with app.connect() as connection:
        table_id = number(connection, "t")
        guards = one(connection, "SELECT guards FROM psp.tables WHERE table_id = %s", table_id)
        guard_ids = {guard["index"]: guard["guard_id"] for guard in guards}
        with unguarded(connection):
            connection.execute(
                f"""
                CREATE FUNCTION psp.test_remake() RETURNS event_trigger
                LANGUAGE plpgsql SECURITY DEFINER AS $$
                BEGIN
                    IF NOT psp.is_own_command() THEN
                        PERFORM psp.create_capture('public.t', {table_id}, '{json.dumps(guard_ids)}');
                    END IF;
                END $$;
                CREATE EVENT TRIGGER a_first_one ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
                    EXECUTE FUNCTION psp.test_remake();
                """.encode()
            )
        connection.execute(f"SET SESSION AUTHORIZATION {APPLICATION}; SET search_path = public".encode())
        connection.execute("INSERT INTO t VALUES (8, 1, 'first', 2)")
        connection.execute("ALTER TABLE t ADD COLUMN w int DEFAULT 7")
        connection.execute("UPDATE t SET w = 8 WHERE id = 8")
        images = [entries(row)[0].image for row in written(connection) if row.op == "i"]
        assert images == [
            [int4(8), int4(1), b"first", int4(2)],
            [int4(8), int4(1), b"first", int4(2), int4(8)],
        ]
        assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
        connection.rollback()


def left_behind(connection: psycopg.Connection[Any], table_id: int) -> list[Any]:
    return connection.execute(
        r"""
        SELECT p.proname FROM pg_proc p
         WHERE p.pronamespace = 'psp'::regnamespace AND p.proname ~ ('_' || %(id)s || '(_|$)')
        UNION ALL SELECT c.relname FROM pg_class c
         WHERE c.relnamespace = 'psp'::regnamespace AND c.relname ~ ('_' || %(id)s || '$')
        UNION ALL SELECT o.name FROM psp.own_functions o WHERE o.name ~ ('_' || %(id)s || '(_|$)')
        UNION ALL SELECT g.relation_name FROM psp.guarded_relations g WHERE g.table_id = %(id)s
        UNION ALL SELECT g.name FROM psp.guarded_objects g WHERE g.relation_name = 't'
        UNION ALL SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
         WHERE c.relname = 't' AND (t.tgname ~ '^psp_' OR t.tgenabled <> 'O')
        UNION ALL SELECT t.table_name::name FROM psp.tables t WHERE t.table_id = %(id)s
        """,
        {"id": table_id},
    ).fetchall()


@pytest.mark.parametrize("statement", ["", "DROP TABLE public.t", "ALTER TABLE public.t RENAME TO other"])
def test_drop_capture_leaves_nothing_behind(connection: psycopg.Connection[Any], statement: str) -> None:
    """Also when the table is gone already, or has another name."""
    table_id = number(connection, "t")
    guards = one(
        connection,
        "SELECT array_agg((g ->> 'guard_id')::int) FROM psp.tables, jsonb_array_elements(guards) g"
        " WHERE table_id = %s",
        table_id,
    )
    if statement:
        with unguarded(connection):
            connection.execute(statement.encode())
    connection.execute("SELECT psp.drop_capture(%s)", (table_id,))
    assert [left_behind(connection, one_id) for one_id in (table_id, *guards)] == [[], [], []]
    if not statement:
        assert capture(connection, "INSERT INTO t VALUES (9, 2, 'x', 3)") == []
        connection.execute("DROP TABLE public.t")


REFUSED = [
    ("ALTER TABLE t DROP CONSTRAINT t_pkey", "no primary key"),
    ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD p interval DEFAULT '1', ADD PRIMARY KEY (p)",
     "cannot be in a primary key"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_what_cannot_be_captured_is_refused(
    connection: psycopg.Connection[Any], statement: str, message: str
) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=message) as refused:
        change(connection, statement)
    assert refused.value.diag.message_hint


@pytest.mark.parametrize(
    "attack",
    [
        "SELECT psp.create_capture('public.t', 1, '{}')",
        "SELECT psp.drop_capture(1)",
        "SELECT psp.begin_own_commands()",
        "INSERT INTO psp.own_commands VALUES (pg_current_xact_id())",
    ],
)
def test_the_application_cannot_call_it(app: Pair, attack: str) -> None:
    with app.application() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(attack.encode())
