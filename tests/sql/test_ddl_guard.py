"""Schema changes of an adopted database: what would reach one semi-primary only is refused, the rest is not.

The role is the tables' owner and no superuser, where nothing else is said.
"""

from __future__ import annotations

import pytest
from conftest import APPLICATION, Pair, new_pair
from guard_support import refused, relations, run_all
from psp.cluster.pgserver import PgServer
from psycopg import errors

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO {APPLICATION}', current_database()); END $$;
CREATE SCHEMA lent; GRANT ALL ON SCHEMA lent TO {APPLICATION};
CREATE EXTENSION hstore; CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw; GRANT USAGE ON FOREIGN SERVER far TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION positive(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
CREATE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION same(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = $2';
CREATE OPERATOR ==== (FUNCTION = same, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION choose() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 7';
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TYPE unused AS ENUM ('a');
CREATE DOMAIN small AS int CHECK (positive(VALUE)); CREATE DOMAIN unused_domain AS int;
CREATE TYPE pair AS (a int, b mood);
CREATE TABLE t (id serial PRIMARY KEY, v int CHECK (positive(v)), s text, m mood, d small, w int,
                n int DEFAULT choose(),
                g int GENERATED ALWAYS AS (double(v)) STORED, i int GENERATED ALWAYS AS IDENTITY, p pair);
CREATE UNIQUE INDEX t_s ON t (low(s)); CREATE INDEX t_plain ON t (v); CREATE INDEX t_low ON t (low(s));
CREATE UNIQUE INDEX t_op ON t (n) WHERE n ==== 1;
CREATE TRIGGER noted AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t);
CREATE TABLE lent.t (id int PRIMARY KEY);
CREATE TABLE twin (id int PRIMARY KEY, t int);
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE SEQUENCE free; CREATE VIEW shown AS SELECT id, v FROM t; CREATE SCHEMA other;
CREATE MATERIALIZED VIEW summed AS SELECT sum(v) FROM t;
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY, t int);
INSERT INTO t (v, s, d) VALUES (1, 'a', 1), (2, 'b', 2); INSERT INTO parted VALUES (1, 1);
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    """One database for all tests here: each rolls back, or leaves it as it was."""
    pair = new_pair(server)
    pair.run(SCHEMA)
    pair.adopt()
    return pair


NEW_RELATIONS = [
    "CREATE UNLOGGED TABLE x (a int);\nALTER TABLE x SET LOGGED",
    "CREATE SCHEMA s CREATE TABLE x (a int PRIMARY KEY)",
    "CREATE TEMP TABLE x () INHERITS (t)",
    "CREATE TEMP TABLE x (LIKE child);\nALTER TABLE x INHERIT child",
    "CREATE UNLOGGED TABLE x () INHERITS (t)",
    "CREATE UNLOGGED TABLE x (LIKE t INCLUDING ALL EXCLUDING INDEXES);\nALTER TABLE x INHERIT t",
    "CREATE UNLOGGED TABLE x PARTITION OF parted FOR VALUES FROM (10) TO (20)",
    "CREATE UNLOGGED TABLE x (id int NOT NULL, v int);\n"
    "ALTER TABLE parted ATTACH PARTITION x FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE x PARTITION OF parted DEFAULT",
    "CREATE FOREIGN TABLE x () INHERITS (t) SERVER far",
    "CREATE TABLE x (LIKE t INCLUDING ALL)",
    "CREATE TABLE x AS SELECT * FROM t",
    "SELECT * INTO x FROM t",
    "CREATE TABLE x OF pair",
    "CREATE TABLE x (a int) PARTITION BY RANGE (a)",
    "DO $$ BEGIN CREATE TABLE x (a int); END $$",
    "DO $$ BEGIN EXECUTE 'CREATE UNLOGGED TABLE x (a int)'; EXECUTE 'ALTER TABLE x SET LOGGED'; END $$",
    "CREATE UNLOGGED TABLE x (a int REFERENCES t)",
    "ALTER TABLE scratch ADD FOREIGN KEY (t) REFERENCES t",
    "ALTER TABLE scratch SET LOGGED",
    "ALTER TABLE scratch INHERIT child",
    "CREATE SEQUENCE x",
    "CREATE UNLOGGED SEQUENCE x;\nALTER SEQUENCE x SET LOGGED",
]  # fmt: skip


@pytest.mark.parametrize("script", NEW_RELATIONS)
def test_a_relation_that_is_not_captured(app: Pair, script: str) -> None:
    before = relations(app)
    with app.connect_as_application() as connection, refused():
        run_all(connection, script)
    assert relations(app) == before


CHANGES = [
    "ALTER TABLE t DISABLE TRIGGER USER",
    "ALTER TABLE t ENABLE REPLICA TRIGGER psp_capture_insert",
    "ALTER TABLE t ENABLE ALWAYS TRIGGER psp_capture_insert",
    "ALTER TABLE t DISABLE TRIGGER noted",
    "ALTER TABLE ONLY t DISABLE TRIGGER psp_refuse_replica",
    "ALTER TABLE t FORCE ROW LEVEL SECURITY",
    f"REVOKE UPDATE ON t FROM {APPLICATION}",
    "ALTER TABLE t RENAME TO x",
    "ALTER TABLE t RENAME v TO x",
    "ALTER TABLE t SET SCHEMA other",
    "ALTER TABLE t ALTER v SET DEFAULT 3",
    "ALTER TABLE t ALTER s SET NOT NULL",
    "ALTER TABLE t ALTER w TYPE int USING w + 1",
    "ALTER TABLE t ALTER w TYPE bigint",
    "ALTER TABLE t ADD CHECK (v < 100)",
    "ALTER TABLE t DROP CONSTRAINT t_v_check",
    "ALTER TABLE t DROP COLUMN n",
    "ALTER TABLE t ADD x int, DROP w",
    "ALTER TABLE child DROP CONSTRAINT child_t_fkey",
    "ALTER TABLE child ALTER CONSTRAINT child_t_fkey DEFERRABLE",
    "ALTER TABLE twin INHERIT child",
    "ALTER TABLE parted DETACH PARTITION parted_1",
    "ALTER TABLE t ALTER i RESTART WITH 5",
    "ALTER TABLE t ALTER i DROP IDENTITY",
    "ALTER TABLE t ALTER i SET GENERATED BY DEFAULT",
    "ALTER TABLE t ALTER i SET INCREMENT BY 1",
    "CREATE RULE x AS ON DELETE TO t DO INSTEAD NOTHING",
    "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
    "CREATE OR REPLACE TRIGGER noted AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION note()",
    "DROP TRIGGER noted ON t",
    "ALTER TRIGGER noted ON t RENAME TO x",
    "CREATE UNIQUE INDEX ON t (v)",
    "CREATE UNIQUE INDEX ON parted_1 (v)",
    "CREATE INDEX ON t ((100 / v))",
    "CREATE INDEX ON t (v) WHERE positive(v)",
    "CREATE INDEX ON t ((i::text::int))",
    "CREATE INDEX ON t ((v::text::small))",
    "ALTER INDEX t_s RENAME TO x",
    "DROP INDEX t_s",
    "CREATE OR REPLACE FUNCTION positive(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 1'",
    "CREATE OR REPLACE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'",
    "CREATE OR REPLACE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 3'",
    "CREATE OR REPLACE FUNCTION same(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'",
    "ALTER FUNCTION positive(int) SET search_path = other",
    "ALTER FUNCTION positive(int) RENAME TO x",
    "ALTER FUNCTION low(text) SET SCHEMA other",
    "DROP FUNCTION positive(int) CASCADE",
    "DROP FUNCTION choose() CASCADE",
    "ALTER TYPE mood ADD VALUE 'c'",
    "ALTER TYPE mood RENAME VALUE 'a' TO 'x'",
    "ALTER TYPE pair ADD ATTRIBUTE x int",
    "ALTER TYPE mood RENAME TO x",
    "DROP TYPE mood CASCADE",
    "ALTER DOMAIN small ADD CHECK (VALUE < 100)",
    "ALTER DOMAIN small SET NOT NULL",
    "ALTER SEQUENCE t_id_seq RESTART",
    "ALTER SEQUENCE t_id_seq INCREMENT BY 1",
    "ALTER SEQUENCE t_id_seq OWNED BY scratch.id",
    "ALTER SEQUENCE free MAXVALUE 1000",
    "ALTER SEQUENCE free CYCLE",
    "ALTER SEQUENCE free RENAME TO x",
    "ALTER SEQUENCE free SET SCHEMA other",
    "DROP SEQUENCE free",
    "REVOKE UPDATE ON t FROM CURRENT_ROLE",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM CURRENT_ROLE",
    "ALTER SCHEMA public RENAME TO x",
    "DROP SCHEMA public CASCADE",
    "DROP TABLE parted_1",
    "DROP TABLE child",
    "DROP OWNED BY CURRENT_ROLE CASCADE",
]


@pytest.mark.parametrize("script", CHANGES)
def test_a_change_of_what_is_captured(app: Pair, script: str) -> None:
    before = relations(app)
    not_allowed = pytest.raises((errors.FeatureNotSupported, errors.InsufficientPrivilege))
    with app.connect_as_application() as connection, not_allowed:
        run_all(connection, script)
    with app.connect() as connection, refused():  # a superuser
        run_all(connection, script.replace("CURRENT_ROLE", APPLICATION))
    assert relations(app) == before


SUPERUSERS = [
    "ALTER TABLE t OWNER TO CURRENT_ROLE",
    f"REVOKE USAGE ON SCHEMA lent FROM {APPLICATION}",
    "ALTER TABLE t DISABLE TRIGGER ALL",
    "ALTER FUNCTION psp.on_ddl() RENAME TO x",
    "ALTER TABLE psp.tables ADD COLUMN x int",
    "DROP TABLE psp.write_set",
    "SET LOCAL session_replication_role = replica;\nCREATE TABLE x (a int)",
    "DROP EXTENSION dblink CASCADE",
    "ALTER EXTENSION dblink SET SCHEMA other",
    "CREATE SUBSCRIPTION x CONNECTION 'host=127.0.0.1 port=1' PUBLICATION p WITH (connect = false)",
]


@pytest.mark.parametrize("script", SUPERUSERS)
def test_a_superuser_is_told_the_same(app: Pair, script: str) -> None:
    with app.connect() as connection, refused():
        run_all(connection, script)


ALLOWED = [
    "CREATE TEMP TABLE x (a int PRIMARY KEY, b serial, c text UNIQUE);\nALTER TABLE x ADD d int",
    "CREATE TEMP TABLE x (LIKE t INCLUDING ALL)",
    "CREATE TEMP TABLE x ON COMMIT DROP AS SELECT * FROM t",
    "CREATE TEMP TABLE x (a int) PARTITION BY RANGE (a);\nCREATE TEMP TABLE x1 PARTITION OF x DEFAULT",
    "CREATE UNLOGGED TABLE x (a serial, b int REFERENCES scratch);\nALTER TABLE x ADD c int;\nDROP TABLE x",
    "ALTER TABLE scratch SET SCHEMA other",
    "CREATE FOREIGN TABLE x (a int) SERVER far",
    "CREATE INDEX x ON t (s, v);\nALTER INDEX x RENAME TO y;\nDROP INDEX y",
    "CREATE INDEX ON t (lower(s)) WHERE v IS NOT NULL AND s <> 'x' AND m = 'a' AND id > 5",
    "DROP INDEX t_plain",
    "DROP INDEX t_low",
    "CREATE INDEX ON parted (v)",
    "CREATE STATISTICS x ON v, n FROM t",
    "ALTER TABLE t SET (fillfactor = 80);\nALTER TABLE t ALTER v SET STATISTICS 500",
    "ALTER TABLE t CLUSTER ON t_plain",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY;\nCREATE POLICY x ON t USING (true);\nDROP POLICY x ON t",
    "CREATE TABLE IF NOT EXISTS t (a int)",
    "GRANT SELECT ON t TO PUBLIC;\nREVOKE SELECT ON t FROM PUBLIC",
    "REVOKE TRUNCATE ON t FROM CURRENT_ROLE;\nREVOKE ALL ON t FROM PUBLIC",
    "COMMENT ON TABLE t IS 'x';\nCOMMENT ON SCHEMA public IS 'x'",
    "CREATE VIEW x AS SELECT * FROM t;\nCREATE OR REPLACE VIEW shown AS SELECT id, v, 1 AS one FROM t",
    "CREATE MATERIALIZED VIEW x AS SELECT id FROM t;\nCREATE UNIQUE INDEX ON x (id)",
    "REFRESH MATERIALIZED VIEW summed",
    "CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1';\nALTER FUNCTION x() RENAME TO y",
    "CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE OR REPLACE FUNCTION choose() RETURNS int LANGUAGE sql AS 'SELECT 8'",
    "ALTER TYPE unused ADD VALUE 'b'",
    "ALTER DOMAIN unused_domain SET NOT NULL",
    "CREATE SCHEMA x;\nALTER SCHEMA x RENAME TO y;\nDROP SCHEMA y",
    "CREATE SCHEMA x CREATE VIEW shown AS SELECT 1",
    "CREATE TEMP SEQUENCE x;\nCREATE UNLOGGED SEQUENCE y",
    "ALTER SEQUENCE t_id_seq CACHE 10",
    "CREATE TYPE x AS (a int);\nALTER TYPE x ADD ATTRIBUTE b int",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    "CREATE EXTENSION pg_trgm;\nDROP EXTENSION pg_trgm",
]  # fmt: skip


@pytest.mark.parametrize("script", ALLOWED)
def test_what_stays_local_is_allowed(app: Pair, script: str) -> None:
    with app.connect_as_application() as connection:
        run_all(connection, script)
        connection.rollback()


def test_a_new_owner_of_everything_blocks_nothing_else(app: Pair) -> None:
    """REASSIGN OWNED fires no event trigger. It does no harm to what is captured."""
    with app.connect() as connection:
        run_all(
            connection,
            f"REASSIGN OWNED BY {APPLICATION} TO CURRENT_ROLE;\nCREATE VIEW other.x AS SELECT * FROM t",
        )
        connection.rollback()


CONCURRENT_DAMAGE = [
    "CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)",
    "create/* */unique --\n index CONCURRENTLY x ON t (v)",
    "/* a /* nested */ comment */ CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)",
    "/* */;; -- x\n CREATE UNIQUE INDEX CONCURRENTLY ON t (v)",
    "CREATE INDEX CONCURRENTLY x ON t ((100 / v))",
    "CREATE INDEX CONCURRENTLY x ON t (positive(v))",
    "CREATE INDEX CONCURRENTLY x ON t (v) WHERE positive(v)",
    "CREATE INDEX CONCURRENTLY x ON t (v) WHERE 100 / v > 1",
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
]


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("statement", CONCURRENT_DAMAGE)
def test_concurrently_does_no_damage_before_it_is_refused(app: Pair, statement: str, prepare: bool) -> None:
    before = relations(app)
    for connect in (app.connect, app.connect_as_application):
        with connect(autocommit=True) as connection, refused():
            connection.execute(statement.encode(), prepare=prepare)
    assert relations(app) == before


CONCURRENT_ALLOWED = [
    "CREATE INDEX CONCURRENTLY x ON t (v)",
    'create index concurrently "x" on only public.t using btree (lower(s) desc nulls last, "v") include(m) '
    "where v is not null and m = 'a' /*application:shop,path:/a*/;",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS x ON public.t USING hash (s text_ops) WITH (fillfactor=50) --x",
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
        connection.rollback()


@pytest.mark.parametrize("what", ["INDEX CONCURRENTLY t_s", "TABLE CONCURRENTLY t", "INDEX t_s"])
def test_the_guard_sees_after_reindex(app: Pair, what: str) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute(f"REINDEX {what}".encode())
        for statement in ("DROP INDEX t_s", "ALTER INDEX t_s RENAME TO x", "DROP INDEX CONCURRENTLY t_s"):
            with refused():
                connection.execute(statement.encode())
        connection.execute("ALTER TABLE t SET (fillfactor = 90)")
        connection.execute("ALTER TABLE t RESET (fillfactor)")


TEMPORARY_REFERENCES = [
    "CREATE TEMP TABLE p (a int UNIQUE) ON COMMIT DELETE ROWS;\nCREATE TEMP TABLE c (a int REFERENCES p (a))",
    "CREATE TEMP TABLE p (a int PRIMARY KEY);\nCREATE TEMP TABLE c (a int);\n"
    "ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p",
    "CREATE TEMP TABLE p (a int PRIMARY KEY, b int REFERENCES p) ON COMMIT DELETE ROWS",
]


@pytest.mark.parametrize("script", TEMPORARY_REFERENCES)
def test_no_foreign_keys_between_temporary_tables(app: Pair, script: str) -> None:
    with app.connect_as_application() as connection, refused("ON COMMIT DELETE ROWS"):
        run_all(connection, script)


SETTINGS = [
    "SET standard_conforming_strings = off; SET quote_all_identifiers = on; SET backslash_quote = off",
    "SET search_path = other, public; SET DateStyle = German; SET TIME ZONE 'Asia/Tokyo'",
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET jit_above_cost = 0",
    "SET default_transaction_read_only = off; SET transform_null_equals = on; SET row_security = off",
]
NOT_BLINDED = [
    "CREATE INDEX ON t ((100 / v))",
    "DROP INDEX t_s",
    "ALTER TABLE t DISABLE TRIGGER USER",
    "CREATE TABLE x (a int)",
    "ALTER TYPE mood ADD VALUE 'c'",
    "CREATE TEMP TABLE x () INHERITS (t)",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_no_setting_blinds_the_guard(app: Pair, settings: str) -> None:
    with app.connect_as_application(autocommit=True) as connection:
        connection.execute(settings.encode())
        for statement in NOT_BLINDED:
            with refused():
                connection.execute(statement.encode())
        for statement in (
            "CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)",
            "DROP INDEX CONCURRENTLY public.t_s",
        ):
            with refused():
                connection.execute(statement.encode())
        connection.execute("ALTER TABLE t SET (fillfactor = 70)")  # nothing seems to have changed
        connection.execute("ALTER TABLE t RESET (fillfactor)")
    with app.connect() as connection:
        connection.execute("SET quote_all_identifiers = on")
        with refused():
            connection.execute("DROP EXTENSION dblink CASCADE")
