"""psp's commands, run by a superuser, read tables of others without running their owners' code."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.cluster import sums
from psp.cluster.verify import verify_servers
from psp.problems import RefusedError
from psp.schema import adopt as adopt_module
from psp.schema import locks, reading
from psp.schema.generate import TEXT_SETTINGS
from psp.schema.plain_dump import dump_plain
from psp.schema.release import release
from psp.servers.pgserver import PgServer
from psp.waiting import wait_until

from tests.sql.databases import APPLICATION, Pair, adopted_pair, new_pair, one
from tests.sql.mrv.columns import make, unmake
from tests.threads import running

TRAP = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE 'trapped: %', current_user;
    END IF;
    RETURN $1;
END $$;
CREATE FUNCTION bare(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + trap(1)';
CREATE OPERATOR @@@@ (FUNCTION = trap, RIGHTARG = int);
"""
TABLE = "CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) SELECT generate_series(1, 9);"
PARTED = """
CREATE TABLE t (id serial PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (5) PARTITION BY RANGE (id);
CREATE TABLE t_1_1 PARTITION OF t_1 FOR VALUES FROM (0) TO (3); CREATE TABLE t_1_2 PARTITION OF t_1 DEFAULT;
CREATE TABLE t_2 PARTITION OF t DEFAULT; INSERT INTO t (v) SELECT generate_series(1, 9);
"""
TRAPS = {
    "predicate": f"{TABLE} CREATE INDEX ON t (v) WHERE v > trap(1)",
    "expression": f"{TABLE} CREATE INDEX ON t ((v + trap(1)))",
    "function in SQL": f"{TABLE} CREATE INDEX ON t (bare(v))",
    "operator": f"{TABLE} CREATE INDEX ON t (v) WHERE v > @@@@ 1",
    "statistics": f"{TABLE} CREATE STATISTICS t_s ON (v + trap(1)), id FROM t",
    "partition": f"{PARTED} CREATE INDEX ON t_1_2 (v) WHERE v > trap(1)",
    "partition's statistics": f"{PARTED} CREATE STATISTICS t_s ON (v + trap(1)), id FROM t_2",
    "CHECK": f"{TABLE} ALTER TABLE t ADD CHECK (v > trap(0))",
    "CHECK of a partition": f"{PARTED} ALTER TABLE t_1_2 ADD CHECK (v > trap(0))",
}  # fmt: skip
COUNTED = {name for name in TRAPS if "CHECK" not in name}


@pytest.fixture(params=TRAPS)
def trapped(request: pytest.FixtureRequest, pair: Pair) -> Pair:
    pair.run(TRAP + TRAPS[request.param])
    # The worst that a superuser's session may have.
    pair.run(f"ALTER DATABASE {pair.name} SET constraint_exclusion = on")
    return pair


def test_the_traps_are_traps(trapped: Pair, request: pytest.FixtureRequest) -> None:
    """A superuser's SELECT runs the code, where reading.py says so."""
    is_counted = request.node.callspec.params["trapped"] in COUNTED
    with trapped.connect() as connection:
        assert reading.tables_with_code(connection, ["public.t"]) == ({"public.t"} if is_counted else set())
        if is_counted:
            with pytest.raises(psycopg.Error, match="trapped"):
                connection.execute("SELECT count(*) FROM t WHERE id <> 0")


@pytest.mark.parametrize("is_small", [True, False], ids=["small", "large"])
def test_no_command_runs_code_of_owners(
    trapped: Pair, is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_small:
        monkeypatch.setattr(adopt_module, "SMALL_BYTES", -1)
    assert trapped.adopt() == 1
    assert trapped.primary_rows("SELECT count(*) FROM psp.data WHERE NOT deleted") == [(9,)]
    found = verify_servers(trapped.primary_dsn, {"one": trapped.dsn})
    assert found.consistent
    assert found.nodes["one"]["public.t"].rows == 9
    with (tmp_path / "dump.sql").open("wb") as out:
        dump_plain(trapped.dsn, out)
    assert 'setval(\'"public"."t_id_seq"\', 9, true)' in (tmp_path / "dump.sql").read_text()
    release(
        trapped.dsn,
        trapped.primary_dsn,
        drop_keys=False,
        force=False,
        lock_wait_s=5,
        say=print,
    )
    with trapped.connect() as connection:
        assert one(connection, "SELECT nextval('t_id_seq')") == 10


NEARER = f"""
{TRAP}
CREATE FUNCTION same(oid, regclass) RETURNS bool LANGUAGE sql AS 'SELECT trap(1) = 1';
CREATE FUNCTION same(oid, regnamespace) RETURNS bool LANGUAGE sql AS 'SELECT trap(1) = 1';
CREATE FUNCTION same(oid, regproc) RETURNS bool LANGUAGE sql AS 'SELECT trap(1) = 1';
CREATE FUNCTION same(oid, regtype) RETURNS bool LANGUAGE sql AS 'SELECT trap(1) = 1';
CREATE OPERATOR = (FUNCTION = same, LEFTARG = oid, RIGHTARG = regclass);
CREATE OPERATOR = (FUNCTION = same, LEFTARG = oid, RIGHTARG = regnamespace);
CREATE OPERATOR = (FUNCTION = same, LEFTARG = oid, RIGHTARG = regproc);
CREATE OPERATOR = (FUNCTION = same, LEFTARG = oid, RIGHTARG = regtype);
CREATE DOMAIN d AS int;
CREATE FUNCTION larger(d, d) RETURNS d LANGUAGE sql AS 'SELECT greatest($1, trap($2)::d)';
CREATE AGGREGATE max(d) (SFUNC = larger, STYPE = d);
CREATE TABLE t (id serial PRIMARY KEY, v int);
ALTER TABLE t ALTER id TYPE d;
INSERT INTO t (v) SELECT generate_series(1, 9);
"""


def test_names_of_owners_that_fit_better(pair: Pair, tmp_path: Path) -> None:
    """An operator of exactly these types, an aggregate of a domain: nothing looks there."""
    pair.run(NEARER)
    with pair.connect() as connection, pytest.raises(psycopg.Error, match="trapped"):
        connection.execute("SELECT FROM pg_class WHERE oid = 'pg_class'::regclass")
    with pair.connect() as connection, pytest.raises(psycopg.Error, match="trapped"):
        connection.execute("SELECT max(id) FROM t")
    assert pair.adopt() == 1
    assert verify_servers(pair.primary_dsn, {"one": pair.dsn}).consistent
    with (tmp_path / "dump.sql").open("wb") as out:
        dump_plain(pair.dsn, out)
    assert 'setval(\'"public"."t_id_seq"\', 9, true)' in (tmp_path / "dump.sql").read_text()
    release(pair.dsn, pair.primary_dsn, drop_keys=True, force=False, lock_wait_s=5, say=print)


WRITTEN = {
    "generated": "ALTER TABLE t ADD g int GENERATED ALWAYS AS (v + trap(1)) STORED",
    "unique": "CREATE UNIQUE INDEX ON t ((v + trap(1))) WHERE v > trap(0)",
    "CHECK": "ALTER TABLE t ADD CHECK (v > trap(0))",
    "domain": "CREATE DOMAIN d AS int DEFAULT trap(1) CHECK (VALUE > trap(0)); ALTER TABLE t ADD d d",
}


@pytest.mark.parametrize("statement", WRITTEN.values(), ids=WRITTEN)
def test_keys_that_are_added_and_dropped(pair: Pair, statement: str) -> None:
    """PostgreSQL writes the table again; it makes indexes as the owner."""
    pair.run(f"{TRAP} CREATE TABLE t (v int); INSERT INTO t SELECT generate_series(1, 9); {statement}")
    pair.adopt(add_keys=True)
    release(pair.dsn, pair.primary_dsn, drop_keys=True, force=False, lock_wait_s=5, say=print)


@pytest.mark.parametrize("statement", [TRAPS["predicate"], *(f"{TABLE} {sql}" for sql in WRITTEN.values())])
def test_views_mode(pair: Pair, statement: str) -> None:
    pair.run(TRAP + statement)
    assert pair.adopt(mode="views") == 1
    assert pair.primary_rows("SELECT count(*) FROM psp.data WHERE NOT deleted") == [(9,)]


def test_whose_functions_are_trusted(pair: Pair) -> None:
    pair.run(f"""
        CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gist;
        CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
        CREATE FUNCTION with_path(int) RETURNS int LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
            AS 'SELECT $1';
        CREATE FUNCTION parsed(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 + 1;
        CREATE FUNCTION bare(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
        CREATE FUNCTION given(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 + 1;
        ALTER FUNCTION given OWNER TO {APPLICATION};
        CREATE TYPE span AS RANGE (SUBTYPE = int);
        CREATE TABLE plain (id int PRIMARY KEY, v int, w text, m mood, p positive);
        CREATE INDEX ON plain (lower(w), with_path(v), parsed(v)) WHERE m = 'good' AND p > 1;
        CREATE INDEX ON plain USING gist (w gist_trgm_ops, v);
        CREATE INDEX ON plain (show_trgm(w), similarity(w, 'a'));
        CREATE INDEX ON plain (v) WHERE v <@ span(1, 9);
        CREATE STATISTICS s ON (with_path(v)), id FROM plain;
        CREATE TABLE fuzzy (id int PRIMARY KEY, v int); CREATE INDEX ON fuzzy (bare(v));
        CREATE TABLE others (id int PRIMARY KEY, v int); CREATE INDEX ON others (given(v));
        CREATE TABLE keyed (id int) PARTITION BY RANGE (given(id));
    """)
    with pair.connect() as connection:
        names = ["public.plain", "public.fuzzy", "public.others", "public.keyed"]
        assert reading.tables_with_code(connection, names) == set(names[1:])


def test_an_index_that_is_made_meanwhile(pair: Pair) -> None:
    pair.run(TRAP + TABLE)
    with pair.connect() as connection, pair.connect_as_application() as owner:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        with reading.gate_of_snapshot(connection) as gate:
            with gate("public.t") as may_select:
                assert may_select
                owner.execute("SET lock_timeout = '100ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    owner.execute("CREATE INDEX ON t (v) WHERE v > trap(1)")
            owner.rollback()
            owner.execute("CREATE INDEX ON t (v) WHERE v > trap(1)")
            owner.commit()
            with gate("public.t") as may_select:
                assert not may_select
            assert one(connection, "SELECT current_setting('lock_timeout')") == "0"


def test_who_cannot_have_the_lock_plans_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOCK_WAIT_MS", 50)
    pair.run(TABLE)
    with pair.connect() as connection, pair.connect() as other:
        other.execute("LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE")
        connection.execute("SELECT count(*) FROM pg_class")
        with (
            reading.gate_of_snapshot(connection) as gate,
            gate("public.t") as may_select,
        ):
            assert not may_select
            assert sorted(reading.column_values(connection, "public.t", "id")) == [
                str(n) for n in range(1, 10)
            ]


def test_a_role_that_may_only_select_dumps(pair: Pair, tmp_path: Path) -> None:
    """As the hint of its refusal says. The right to lock is the writers'."""
    pair.run(TABLE)
    pair.adopt()
    pair.run("""
        DROP ROLE IF EXISTS only_reads; CREATE ROLE only_reads LOGIN IN ROLE pg_read_all_data;
        GRANT SELECT (mode, joining) ON psp.identity TO only_reads;
        GRANT SELECT ON psp.sequences TO only_reads
    """)
    with (tmp_path / "dump.sql").open("wb") as out:
        dump_plain(f"{pair.dsn} user=only_reads", out)
    assert 'setval(\'"public"."t_id_seq"\', 9, true)' in (tmp_path / "dump.sql").read_text()


def test_autovacuum_is_left_alone() -> None:
    """PostgreSQL cancels it for who waits longer than deadlock_timeout, one second."""
    assert reading.LOCK_WAIT_MS < 1000


KINDS = Path(__file__).with_name("kinds_to_copy.sql").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def kinds(server: PgServer) -> Pair:
    return adopted_pair(server, KINDS)


def test_what_copy_reads_is_what_select_reads(kinds: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each type, and in several parts."""
    monkeypatch.setattr(reading, "PART_BYTES", 1000)
    with kinds.connect() as connection:
        _, selected = sums.read_sp(connection, kinds.primary_dsn)
    monkeypatch.setattr(reading, "tables_with_code", lambda _, tables: set(tables))
    with kinds.connect() as connection:
        _, copied = sums.read_sp(connection, kinds.primary_dsn)
    assert any(found.rows > 1 for found in selected.values())
    assert copied == selected


def test_adoption_by_copy_has_the_same_rows(server: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT table_id, key, image FROM psp.data ORDER BY 1, 2"
    rows: list[list[Any]] = []
    for is_copied in (False, True):
        if is_copied:
            monkeypatch.setattr(reading, "tables_with_code", lambda _, tables: set(tables))
        pair = new_pair(server)
        pair.run(KINDS)
        pair.adopt()
        rows.append(pair.primary_rows(query))
    assert rows[0] == rows[1]


def test_a_large_table_goes_in_parts(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PART_BYTES", 1 << 10)
    pair.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text);"
        "INSERT INTO t SELECT n, repeat('v', 90) FROM generate_series(1, 99) n"
    )
    pair.adopt()
    with pair.connect() as source, psycopg.connect(pair.primary_dsn) as scratch:
        source.execute(TEXT_SETTINGS.encode())
        counts = [
            one(scratch, "SELECT count(*) FROM pg_temp.psp_rows")
            for _ in reading.copied_parts(source, scratch, "public.t")
        ]
    assert sum(counts) == 99
    assert max(counts) <= 12


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("x xml, PRIMARY KEY (id)", "whose text says less"),
        ("w int GENERATED ALWAYS AS (v) STORED, PRIMARY KEY (w)", "in the primary key"),
        ("g int GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (id)", ""),
    ],
)
def test_what_copy_cannot_read_is_refused(pair: Pair, columns: str, why: str) -> None:
    """A generated column is in no image, so it does no harm unless it is in the key."""
    pair.run(f"{TRAP} CREATE TABLE t (id int, v int, {columns}); CREATE INDEX ON t (v) WHERE v > trap(1)")
    if not why:
        assert pair.adopt() == 1
        return
    with pytest.raises(Exception, match=why):
        pair.adopt()


def test_the_databases_isolation_does_not_matter(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What commits while adoption waits for its locks is in no older snapshot of it."""
    monkeypatch.setattr(locks, "ATTEMPT_MS", 60_000)
    pair.run(TABLE + f"ALTER DATABASE {pair.name} SET default_transaction_isolation = 'repeatable read'")
    with (
        closing(pair.connect()) as writer,
        psycopg.connect(pair.dsn, autocommit=True) as observer,
    ):
        writer.execute("INSERT INTO t (v) VALUES (10)")

        def commit() -> None:
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND NOT granted"
            wait_until(
                "adoption waits",
                lambda: observer.execute(waiting).fetchone() == (1,),
                60,
            )
            writer.commit()

        with running(commit):
            pair.adopt()
    assert pair.primary_rows("SELECT count(*) FROM psp.data") == [(10,)]


MRV_TRAPS = {
    "index": "CREATE INDEX ON item (id) WHERE name > name(1)",
    "CHECK": "ALTER TABLE item ADD CHECK (name > name(1))",
    "generated": "ALTER TABLE item ADD up int GENERATED ALWAYS AS (name(id)::int) STORED",
    "domain": "CREATE DOMAIN odd AS int CHECK (VALUE > trap(0)); ALTER TABLE item ADD o odd",
}  # fmt: skip


ITEM = """
CREATE FUNCTION name(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN trap($1); END';
CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM trap(1); RETURN NULL; END';
CREATE TABLE item (id int PRIMARY KEY, name text, stock int NOT NULL);
INSERT INTO item VALUES (1, 'z', 100);
"""


@pytest.mark.parametrize("statement", MRV_TRAPS.values(), ids=MRV_TRAPS)
def test_mrvs_of_tables_with_such_code(pair: Pair, statement: str) -> None:
    pair.run(f"{TRAP} {ITEM} {statement}")
    with pytest.raises(RefusedError, match="code of ordinary roles") as refused:
        make(pair, "item.stock", records=4)
    assert "--records 1" in json.dumps([problem.as_dict() for problem in refused.value.problems])
    make(pair, "item.stock", records=1)
    with pytest.raises(RefusedError, match="code of ordinary roles"):
        unmake(pair, "item.stock")


def test_triggers_of_tables_of_mrvs(pair: Pair) -> None:
    """One that fires for other columns is none of its business."""
    pair.run(
        f"{TRAP} {ITEM} CREATE TRIGGER n AFTER UPDATE OF name ON item FOR EACH ROW EXECUTE FUNCTION touched()"
    )
    make(pair, "item.stock", records=4)
    late = "CREATE CONSTRAINT TRIGGER t AFTER UPDATE OF stock ON item_orig DEFERRABLE INITIALLY DEFERRED"
    pair.run(f"SET ROLE {APPLICATION}; {late} FOR EACH ROW EXECUTE FUNCTION touched()")
    with pytest.raises(RefusedError, match="code of ordinary roles"):
        unmake(pair, "item.stock")
    pair.run("DROP TRIGGER t ON item_orig")
    unmake(pair, "item.stock")
