"""Values and names of every kind arrive as they were written: compared by PostgreSQL and by checksums."""

import hashlib
import os

import psycopg
import pytest

from tests.cluster.sites import Sites, needs

ALL_TYPES = """
    CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'happy');
    CREATE DOMAIN percent AS numeric(5, 2) CHECK (VALUE BETWEEN 0 AND 100);
    CREATE TYPE point3 AS (x float8, y float8, label text);
    CREATE TABLE all_types (
        id int PRIMARY KEY, b boolean, s smallint, i int, l bigint, n numeric, r real, d double precision,
        t text, c char(5), v varchar(20), by bytea, da date, ti time, tz timetz, ts timestamp,
        tsz timestamptz, iv interval, u uuid, j json, jb jsonb, ip inet, net cidr, mac macaddr, p point,
        bits bit varying, m mood,
        pct percent, p3 point3, ai int[], at text[], am mood[], ap point3[], r1 int4range, mr int4multirange,
        money money, tsv tsvector, x xml, ui oid, nm name,
        tsq tsquery, ci circle, ln line, ls lseg, bx box, pa path, po polygon, jp jsonpath, lsn pg_lsn,
        mac8 macaddr8, cis circle[], tsqs tsquery[], xs xml[], dr daterange, dm datemultirange,
        tszs timestamptz[]
    );
"""


@needs(ALL_TYPES)
def test_every_kind_of_value(sites: Sites) -> None:
    sites.run(
        "north",
        "SET datestyle = 'German, DMY'",  # a session's settings must not reach another site
        "SET intervalstyle = 'sql_standard'",
        "SET extra_float_digits = 0",
        "SET timezone = 'Asia/Tokyo'",
        r"""
        INSERT INTO all_types VALUES (
            1, true, -32768, 2147483647, -9223372036854775808, 123456789012345678901234567890.000000000123,
            1.1, 0.1::float8 + 0.2::float8, E'tab\t"quote" ''x'' \\ \U0001F600 äß€', 'ab', 'varchar',
            '\x00ff5c27',
            '4713-01-01 BC', '24:00:00', '12:00+05:30', '294276-12-31 23:59:59.999999', 'infinity',
            '1 year 2 mons -3 days 04:05:06.789', '11111111-2222-3333-4444-555555555555',
            '{"a" :  1, "a": 2}', '{"b": [1, null, "x"], "a": 1.10}', '::1/64', '10.0.0.0/8',
            '08:00:2b:01:02:03',
            '(1.5,-0)', B'10110', 'it''s ok', 99.99, ROW(1, 'NaN', 'a,"b"')::point3,
            '[2:3]={1,NULL}', ARRAY['a,b', NULL, '', 'NULL', '{}'], ARRAY['sad', 'happy']::mood[],
            ARRAY[ROW(1, 2, 'p')::point3, NULL], '[1,5)', '{[1,3),[7,9)}', 12.34, 'a fat cat'::tsvector,
            '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><a>b</a>', 4294967295, 'a_name',
            '', '<(1.5,-0),0.1>', '{1,2,3}', '[(0,0),(1,0.1)]', '(0,0),(1,1)', '[(0,0),(1,1)]',
            '((0,0),(1,1),(0,0.1))', '$.a[*] ? (@ > 1)', '16/B374D848', '08:00:2b:01:02:03:04:05',
            '{"<(0,0),1>",NULL}', '{"","a & !b"}', '{"<a/>","text <!-- x -->"}', '[2020-01-01,)',
            '{[2020-01-01,2020-02-01),[2021-01-01,)}', '{2020-01-01 00:00+05:30}')
        """,
        "INSERT INTO all_types (id) VALUES (2)",
        "INSERT INTO all_types (id, n, r, d, da, ts, tsz, t, by, ai, jb)"
        " VALUES (3, 'NaN', '-Infinity', 'NaN', 'infinity', '-infinity', '-infinity', '', '', '{}', 'null')",
        "INSERT INTO all_types (id, n, r, d)"
        " VALUES (4, 'Infinity', '-0', '4.9e-324'), (5, -0.00, 1e-45, 1e308)",
    )
    # A record's text shows xml without its declaration.
    query = "SELECT t::text, x::text FROM all_types t ORDER BY id"
    assert sites.rows("south", query) == sites.rows("north", query)
    sites.run(
        "south", "UPDATE all_types SET t = t || '!', m = 'sad', ai = ai || 7, p3.label = 'x' WHERE id < 3"
    )
    assert sites.rows("south", query) == sites.rows("north", query)


@needs("CREATE TABLE big (id int PRIMARY KEY, t text, b bytea, j jsonb)")
def test_values_of_ten_megabytes(sites: Sites) -> None:
    noise = os.urandom(10_000_000)
    text = noise[:5_000_000].hex()
    with sites.connect("north") as db:
        db.execute("INSERT INTO big VALUES (1, %s, %s, to_jsonb(%s::text))", (text, noise, text))
        db.execute("INSERT INTO big VALUES (2, repeat('same ', 2000000), NULL, NULL)")
    digest = hashlib.md5(noise).hexdigest()
    query = "SELECT id, length(t), md5(t), length(b), md5(b), md5(j::text) FROM big ORDER BY id"
    arrived = sites.rows("south", query)
    assert arrived == sites.rows("north", query)
    assert arrived[0][3:5] == (10_000_000, digest)
    # An update of another column leaves the big values where they are, and they must not be lost by that.
    sites.run("south", "UPDATE big SET j = '1' WHERE id = 1")
    assert sites.rows("north", query)[0][3:5] == (10_000_000, digest)


@needs("CREATE TABLE many (id int PRIMARY KEY, v int, t text, UNIQUE (v))")
def test_transaction_of_200_000_rows(sites: Sites) -> None:
    sites.run("north", "INSERT INTO many SELECT n, -n, 'row ' || n FROM generate_series(1, 200000) n")
    query = "SELECT count(*), sum(v), min(t), max(t) FROM many"
    assert sites.rows("south", query) == sites.rows("north", query)
    assert sites.rows("south", query)[0][0] == 200_000
    sites.run(
        "south", "UPDATE many SET v = v - 1000000 WHERE id % 2 = 0", "DELETE FROM many WHERE id % 5 = 1"
    )
    assert sites.rows("north", query)[0][0] == 160_000


NAMES = r'''
    CREATE SCHEMA "Sales Dept"; CREATE SCHEMA "select";
    CREATE TABLE "Sales Dept"."Order" (
        "Id" int PRIMARY KEY, "where" text UNIQUE, "ünï\cödé ""q""" int, "a.b" int);
    CREATE TABLE "select"."table" ("from" int, "to" text, PRIMARY KEY ("from", "to"));
    CREATE TABLE "名前" ("鍵" text PRIMARY KEY, "値" text);
    CREATE TABLE "it's $$ %s {0}" ("%" int PRIMARY KEY, "'" text);
    CREATE TABLE "Sales Dept".same_name (id int PRIMARY KEY, v int);
    CREATE TABLE "select".same_name (v int, id int PRIMARY KEY);
'''


@needs(NAMES)
def test_names_of_every_kind(sites: Sites) -> None:
    sites.run(
        "north",
        """INSERT INTO "Sales Dept"."Order" VALUES (1, 'here', 2, 3), (2, 'there', NULL, NULL)""",
        r'''UPDATE "Sales Dept"."Order" SET "ünï\cödé ""q""" = 9, "where" = 'x' WHERE "Id" = 1''',
        """INSERT INTO "select"."table" VALUES (1, 'a'), (1, 'b')""",
        """DELETE FROM "select"."table" WHERE "to" = 'a' """,
        """INSERT INTO "名前" VALUES ('東京', 'ß')""",
        """INSERT INTO "it's $$ %s {0}" VALUES (1, E'\\'')""",
        """INSERT INTO "Sales Dept".same_name VALUES (1, 2)""",
        """INSERT INTO "select".same_name VALUES (3, 4)""",
    )
    read = {
        'SELECT * FROM "Sales Dept"."Order" ORDER BY 1': [(1, "x", 9, 3), (2, "there", None, None)],
        'TABLE "select"."table"': [(1, "b")],
        'TABLE "名前"': [("東京", "ß")],
        'TABLE "it\'s $$ %s {0}"': [(1, "'")],
        'TABLE "Sales Dept".same_name': [(1, 2)],
        'TABLE "select".same_name': [(3, 4)],
    }
    for query, expected in read.items():
        assert sites.rows("south", query) == expected


PARTITIONS = """
    CREATE TABLE event (at date, id int, v text, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
    CREATE TABLE event_old PARTITION OF event FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
    CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2026-01-01') TO (MAXVALUE)
        PARTITION BY HASH (id);
    CREATE TABLE event_new_0 PARTITION OF event_new FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE event_new_1 PARTITION OF event_new FOR VALUES WITH (MODULUS 2, REMAINDER 1);
"""


@needs(PARTITIONS)
def test_partitioned_tables(sites: Sites) -> None:
    sites.run(
        "north",
        "INSERT INTO event SELECT '2025-12-01'::date + n, n, 'v' || n FROM generate_series(1, 60) n",
        "UPDATE event SET at = at + 100 WHERE id <= 10",  # rows that move to another partition
        "DELETE FROM event WHERE id > 50",
        "UPDATE event_new SET v = 'direct'",
    )
    for table in ("event", "event_old", "event_new_0", "event_new_1"):
        query = f"SELECT * FROM {table} ORDER BY id"
        assert sites.rows("south", query) == sites.rows("north", query)
    sites.run(
        "south",
        "UPDATE event SET v = 'back' WHERE id = 1",
        "INSERT INTO event_old VALUES ('2020-01-01', 1, 'x')",
    )
    assert sites.rows("north", "SELECT count(*) FROM event") == [(51,)]


@needs(
    "CREATE DOMAIN blanks AS bpchar;"
    "CREATE TABLE odd_keys (a numeric, f float8, t text, b bytea, c blanks, PRIMARY KEY (a, f, t, b, c))"
)
def test_keys_that_are_equal_but_not_identical(sites: Sites) -> None:
    sites.run("north", "INSERT INTO odd_keys VALUES (1.0, 0, 'k', '\\x00', 'c')")
    assert sites.rows("south", "SELECT count(*) FROM odd_keys") == [(1,)]
    north, south = sites.connect("north"), sites.connect("south")
    north.execute("UPDATE odd_keys SET a = 1.000, f = '-0'::float8, c = 'c '")
    south.execute("DELETE FROM odd_keys WHERE a = 1")
    north.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        south.commit()
    assert sites.rows("south", "SELECT a::text, octet_length(c::bpchar) FROM odd_keys") == [("1.000", 2)]
