"""An adopted database whose schema must not change, and how to look at it."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.sql.databases import APPLICATION, Pair

GUARDED = f"""
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
CREATE TABLE told (id int PRIMARY KEY, j jsonb);
CREATE TABLE lent.t (id int PRIMARY KEY);
CREATE TABLE twin (id int PRIMARY KEY, t int);
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE SEQUENCE free; CREATE VIEW shown AS SELECT id, v FROM t; CREATE SCHEMA other;
CREATE MATERIALIZED VIEW summed AS SELECT sum(v) FROM t;
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY, t int);
CREATE FUNCTION odd(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = 1';
CREATE DOMAIN uneven AS int CHECK (odd(VALUE));
CREATE TYPE part AS ENUM ('a'); CREATE TYPE whole AS (a part, b int);
CREATE UNLOGGED TABLE row_type (id int, v part);
CREATE TABLE reliant (id int PRIMARY KEY, d uneven, w whole[], r row_type);
CREATE SCHEMA code; CREATE FUNCTION code.twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
CREATE TABLE coded (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (code.twice(v)) STORED);
INSERT INTO t (v, s, d) VALUES (1, 'a', 1), (2, 'b', 2); INSERT INTO parted VALUES (1, 1);
"""
"""Tables with everything that must not change. They belong to APPLICATION."""


def run_all(connection: psycopg.Connection[Any], script: str) -> None:
    """Statement for statement, as an application's migration does."""
    for statement in script.split(";\n"):
        connection.execute(statement.encode())


def relations(pair: Pair) -> list[tuple[str, bool]]:
    """All tables and indexes outside of psp, and whether the indexes are valid."""
    with pair.connect() as connection:
        return connection.execute(
            "SELECT c.oid::regclass::text, coalesce(i.indisvalid, true) FROM pg_class c "
            "LEFT JOIN pg_index i ON i.indexrelid = c.oid "
            "WHERE c.relnamespace NOT IN (SELECT oid FROM pg_namespace "
            "WHERE nspname ~ '^pg_' OR nspname IN ('information_schema', 'psp')) ORDER BY 1"
        ).fetchall()
