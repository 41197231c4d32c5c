"""CONCURRENTLY: refused before its first transaction, or not at all. REINDEX changes OIDs, blinds nobody."""

from __future__ import annotations

import pytest

from tests.sql.databases import Pair
from tests.sql.guard.guarded import relations
from tests.sql.refusals import explained

CONCURRENT_DAMAGE = [
    "CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)",
    "create/* */unique --\n index CONCURRENTLY x ON t (v)",
    "/* a /* nested */ comment */ CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)",
    "/* */;; -- x\n CREATE UNIQUE INDEX CONCURRENTLY ON t (v)",
    "CREATE INDEX CONCURRENTLY x ON t ((100 / v))",
    "CREATE INDEX CONCURRENTLY x ON t (positive(v))",
    "CREATE INDEX CONCURRENTLY x ON told (cast(j as int))",
    "CREATE INDEX CONCURRENTLY x ON told (((j->>'a')::int))",
    "CREATE INDEX CONCURRENTLY x ON t (v) WHERE positive(v)",
    "CREATE INDEX CONCURRENTLY x ON t (v) WHERE 100 / v > 1",
    "CREATE INDEX CONCURRENTLY x ON t ((coalesce(v, positive(v)::int)))",
    "CREATE INDEX CONCURRENTLY x ON t ((coalesce(v, 1) / v))",
    "CREATE INDEX CONCURRENTLY x ON t (v /* ), (positive(v) */)",
    'CREATE INDEX CONCURRENTLY x ON U&"\\0074" (v)',
    "DROP INDEX CONCURRENTLY t_s",
    'DROP INDEX CONCURRENTLY IF EXISTS public . "t_s"',
    'DROP INDEX CONCURRENTLY IF EXISTS public."t_s"',
    "Drop Index/**/Concurrently T_S",
    'DROP INDEX CONCURRENTLY U&"t\\005fs"',
    "DROP INDEX CONCURRENTLY T_s RESTRICT",
    "ALTER TABLE parted DETACH PARTITION parted_1 CONCURRENTLY",
    "ALTER/**/TABLE parted DETACH/**/PARTITION parted_1/**/CONCURRENTLY;",
    "ALTER TABLE IF EXISTS public . parted -- a\n DETACH PARTITION parted_1 CONCURRENTLY",
    'ALTER TABLE ONLY parted DETACH PARTITION "parted_1" CONCURRENTLY -- a\n',
    'ALTER TABLE "parted"DETACH PARTITION parted_1 CONCURRENTLY',
    "ALTER TABLE parted* DETACH PARTITION parted_1 CONCURRENTLY",
    "DROP INDEX /* a /* nested */ comment */ CONCURRENTLY t_s",
    "CREATE INDEX -- a\r\n/**/CONCURRENTLY ON t ((100 / v))",
]


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("statement", CONCURRENT_DAMAGE)
def test_concurrently_does_no_damage_before_it_is_refused(app: Pair, statement: str, prepare: bool) -> None:
    before = relations(app)
    for connect in (app.connect, app.connect_as_application):
        with connect(autocommit=True) as connection, explained():
            connection.execute(statement.encode(), prepare=prepare)
    assert relations(app) == before


CONCURRENT_ALLOWED = [
    "CREATE INDEX CONCURRENTLY x ON t (v)",
    'create index concurrently "x" on only public.t using btree (lower(s) desc nulls last, "v") include(m) '
    "where v is not null and m = 'a' /*application:shop,path:/a*/;",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS x ON public.t USING hash (s text_ops) WITH (fillfactor=50) --x",
    "CREATE INDEX CONCURRENTLY x ON t (coalesce(v, w, -1) DESC, (coalesce (s, 'a')), (lower(s)) text_ops)",
    "CREATE INDEX CONCURRENTLY x ON told ((j->>'id'), (j -> 'name')) WHERE id > 1",
    "CREATE INDEX CONCURRENTLY x ON told USING GIN ((j->'a'->'b') jsonb_path_ops)\nWHERE j->>'s'='done'",
    "CREATE INDEX CONCURRENTLY x ON told ((j -> 'a' ->> 'b')) WHERE id IN (1, 2)",
    "create index concurrently x on told using hash (upper(cast(j as text)));",
    "create index concurrently x on told (id, cast(j as text) text_pattern_ops)",
    "CREATE INDEX CONCURRENTLY x ON told (id, octet_length(j::text) DESC) INCLUDE (id);",
    "CREATE INDEX CONCURRENTLY x ON told ((j->>'a') DESC) WHERE (j ->> 's') IN ('a') AND j -> 'd' IS NULL",
    '-- leading\nCREATE INDEX CONCURRENTLY x ON t (s COLLATE "C" text_pattern_ops) WHERE (v > 5)',
]


@pytest.mark.parametrize("statement", CONCURRENT_ALLOWED)
def test_plain_indexes_may_be_made_concurrently(app: Pair, statement: str) -> None:
    before = relations(app)
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute(statement.encode())
        assert ("x", True) in relations(app)
        connection.execute("REINDEX INDEX CONCURRENTLY x")
        connection.execute("DROP INDEX CONCURRENTLY IF EXISTS public.x")
    assert relations(app) == before


def test_a_unique_index_that_is_there_is_passed_over(app: Pair) -> None:
    before = relations(app)
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS child_pkey ON child (t)")
        with explained("Leave out CONCURRENTLY"):
            connection.execute("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS child_other ON child (t)")
    assert relations(app) == before


ELSEWHERE = [
    "CREATE UNIQUE INDEX CONCURRENTLY ON summed (sum)",
    'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS x ON public."summed"(sum)',
    "CREATE UNIQUE INDEX CONCURRENTLY x ON ONLY scratch ((100 / t)) WHERE positive(t)",
]


@pytest.mark.parametrize("statement", ELSEWHERE)
def test_indexes_of_what_is_not_captured_may_be_made_concurrently(app: Pair, statement: str) -> None:
    before = relations(app)
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute(statement.encode())
        (made,) = set(relations(app)) - set(before)
        if "summed" in statement:
            connection.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY summed")
        connection.execute(f"DROP INDEX CONCURRENTLY {made[0]}".encode())
    assert relations(app) == before


def test_the_word_concurrently_does_no_harm(app: Pair) -> None:
    with app.connect_as_application() as connection:
        connection.execute("DO $$ BEGIN /* not concurrently */ CREATE INDEX ON t ((v IS NULL)); END $$")
        connection.execute("SELECT 'concurrently'; CREATE INDEX ON t ((v IS NOT NULL))")
        connection.execute("CREATE INDEX /* not concurrently */ ON t ((v IS NULL))")
        connection.execute("CREATE INDEX concurrently_v ON t (v) WHERE s <> 'index concurrently'")
        connection.execute("DROP INDEX -- not concurrently\n concurrently_v")
        connection.execute("ALTER TABLE t SET (fillfactor = 90) -- do not detach concurrently")
        connection.rollback()


@pytest.mark.parametrize("what", ["INDEX CONCURRENTLY t_s", "TABLE CONCURRENTLY t", "INDEX t_s"])
def test_the_guard_sees_after_reindex(app: Pair, what: str) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute(f"REINDEX {what}".encode())
        for statement in ("DROP INDEX t_s", "ALTER INDEX t_s RENAME TO x", "DROP INDEX CONCURRENTLY t_s"):
            with explained():
                connection.execute(statement.encode())
        connection.execute("ALTER TABLE t SET (fillfactor = 90)")
        connection.execute("ALTER TABLE t RESET (fillfactor)")
