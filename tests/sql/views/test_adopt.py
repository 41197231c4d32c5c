"""A cluster in views mode: adoption converts and seeds, joining gives the same, release gives it back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psp.output import PspError
from psp.problems import RefusedError
from psp.schema.join import prepare_join
from psp.schema.release import release

from tests.sql.databases import Pair, new_pair
from tests.sql.views.converted import WAIT_S, quiet, write

SCHEMA = """
CREATE SCHEMA "S x"; CREATE TYPE mood AS ENUM ('a', 'b');
CREATE TABLE t (id serial PRIMARY KEY, x int NOT NULL DEFAULT 1, s text UNIQUE, m mood DEFAULT 'b');
CREATE TABLE "S x"."Order" (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t int REFERENCES t, at date);
INSERT INTO t (x, s) SELECT i, 's' || i FROM generate_series(1, 50) i;
INSERT INTO "S x"."Order" (t) VALUES (1), (2);
"""


def adopt(pair: Pair, **more: Any) -> int:
    return pair.adopt(mode="views", drop_foreign_keys=True, **more)


def release_pair(pair: Pair) -> None:
    release(pair.dsn, pair.primary_dsn, drop_keys=True, force=False, lock_wait_s=WAIT_S, say=quiet)


def joined(pair: Pair) -> Pair:
    other = new_pair(pair.server)
    assert prepare_join(other.dsn, pair.primary_dsn, "two") == 2
    return other


def test_rows_are_at_the_primary(pair: Pair) -> None:
    pair.run(SCHEMA)
    assert adopt(pair) == 1
    assert pair.primary_rows("SELECT state, mode FROM psp.cluster") == [("adopted", "views")]
    counts = pair.primary_rows(
        "SELECT table_name, count(*), max(global_t) FROM psp.data JOIN psp.tables USING (table_id) "
        "WHERE image IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    assert counts == [("Order", 2, 0), ("t", 50, 0)]
    with pair.connect() as connection:
        identity = connection.execute(
            "SELECT sp_id, mode, joining, watermark FROM psp.identity, psp.watermark"
        )
        assert identity.fetchall() == [(1, "views", False, 0)]
        assert connection.execute("SELECT psp.client_endpoint(), count(*) FROM t").fetchall() == [(None, 50)]


def test_release_gives_back(pair: Pair) -> None:
    pair.run(SCHEMA + "CREATE TABLE nokey (a int); INSERT INTO nokey VALUES (1), (1)")
    before = pair.dump()
    adopt(pair, add_keys=True)
    assert "psp" in pair.dump("--schema-only")
    release_pair(pair)
    assert pair.dump() == before
    assert pair.primary_rows("SELECT released_at IS NOT NULL FROM psp.semi_primaries") == [(True,)]


def test_release_after_draws(pair: Pair) -> None:
    """The sequence goes on beyond what was drawn in its stride."""
    pair.run(SCHEMA)
    adopt(pair)
    write(pair, 1, "INSERT INTO t (x) VALUES (7)")
    release_pair(pair)
    with pair.connect() as connection:
        (drawn,) = connection.execute("SELECT max(id) FROM t").fetchall()[0]
        assert connection.execute("INSERT INTO t (x) VALUES (8) RETURNING id").fetchall() == [(drawn + 1,)]


def test_join_gets_the_converted_schema(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    two = joined(pair)
    with two.connect() as joining, pair.connect() as first:
        query = b"SELECT to_jsonb(t) FROM psp.tables t ORDER BY table_id"
        assert joining.execute(query).fetchall() == first.execute(query).fetchall()
        query = b"SELECT table_id, persistent, temp FROM psp.converted_tables ORDER BY 1"
        assert joining.execute(query).fetchall() == first.execute(query).fetchall()
        state = joining.execute("SELECT sp_id, joining, watermark FROM psp.identity, psp.watermark")
        assert state.fetchall() == [(2, True, -1)]
        draws = [
            c.execute("SELECT nextval('t_id_seq') FROM generate_series(1, 50)").fetchall()
            for c in (joining, first)
        ]
    assert not set(draws[0]) & set(draws[1])
    release_pair(pair)
    release(two.dsn, None, drop_keys=False, force=False, lock_wait_s=WAIT_S, say=quiet)
    assert two.dump("--schema-only") == pair.dump("--schema-only")


def test_transactions_tell_their_semi_primary(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    with joined(pair).connect() as two, pair.connect() as first:
        two.execute("UPDATE psp.identity SET joining = false")  # as the daemon does when the copy is complete
        ids = [c.execute("SELECT psp.begin()::text").fetchall()[0][0] for c in (first, two)]
    assert [tx[-8:] for tx in ids] == ["00000001", "00000002"]


def test_sequences_are_advanced_by_persistent_rows(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    with pair.connect() as connection:
        connection.execute("INSERT INTO t_persistent (id, x) VALUES (1051, 1)")
        assert connection.execute("SELECT psp.advance_sequences()").fetchall() == [(1,)]
        assert connection.execute("SELECT nextval('t_id_seq') > 1051").fetchall() == [(True,)]


CHANGES = [
    "ALTER TABLE t_persistent ADD y int", "DROP TABLE t_temp CASCADE", "CREATE TABLE more (id int)",
    "DROP VIEW t", "DROP VIEW public_nryotw.t", "CREATE RULE r AS ON UPDATE TO t DO ALSO NOTHING",
    "ALTER VIEW t RENAME TO u", "ALTER TABLE t RENAME TO u", "ALTER VIEW t SET SCHEMA psp",
    "CREATE OR REPLACE VIEW public.t AS SELECT 1 AS id, 2 AS x, 'a' AS s, mood 'a' AS m",
    "ALTER VIEW t OWNER TO application", "ALTER VIEW t ALTER x SET DEFAULT 7",
    "ALTER VIEW t SET (security_barrier)", "ALTER TABLE t_temp RENAME TO u",
    "ALTER SCHEMA public_fulljoin RENAME TO z", "DROP INDEX t_s_key", "ALTER INDEX t_s_key RENAME TO u",
    "ALTER FUNCTION psp.insert_1() RENAME TO f", "ALTER ROUTINE psp.insert_1() SECURITY INVOKER",
    "DROP FUNCTION psp.insert_1() CASCADE", "DROP SEQUENCE t_id_seq CASCADE", "DROP TYPE mood CASCADE",
]  # fmt: skip


def test_schema_changes_are_refused(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    for change in CHANGES:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="part of a cluster"):
            pair.run(change)
            pytest.fail(f"{change} passes")
    pair.run("CREATE TEMP TABLE mine (id int); CREATE VIEW public.seen AS SELECT * FROM t; DROP VIEW seen")
    pair.run("CREATE UNLOGGED TABLE public.l (id int UNIQUE); ALTER TABLE l RENAME TO mine; DROP TABLE mine")
    pair.run("CREATE INDEX i ON t_persistent (x); ALTER INDEX i RENAME TO j; DROP INDEX j")


def test_what_cannot_be_converted_stays(pair: Pair) -> None:
    pair.run(SCHEMA + "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    before = pair.dump()
    with pytest.raises(RefusedError) as refused:
        pair.adopt(mode="views")
    problems = {p.problem for p in refused.value.problems if p.severity == "error"}
    assert problems == {"it is partitioned", "foreign keys are not checked in views mode"}
    assert pair.dump() == before
    assert pair.primary_rows("SELECT state, mode FROM psp.cluster") == [("empty", "native")]


def test_converted_database_is_not_adopted(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    with pytest.raises(PspError, match="already"):
        adopt(pair)


def test_clients_stay_out_of_one_that_joins(pair: Pair) -> None:
    pair.run(SCHEMA)
    adopt(pair)
    two = joined(pair)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        two.connect_as_application()
    two.run("UPDATE psp.identity SET joining = false")
    two.connect_as_application().close()
