"""The primary judges keys and images by the forms of tables: it refuses none that PostgreSQL has accepted."""

from collections.abc import Iterator

import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster

from tests.cluster.schema_changes.statements import changing_pair, ddl
from tests.cluster.support import connect, execute, wait_streaming

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE DOMAIN padded AS bpchar;
CREATE DOMAIN short AS varchar(5);
CREATE DOMAIN amount AS numeric;
CREATE TABLE valued (
    id int PRIMARY KEY, b bool, c "char", i2 smallint, i8 bigint, f4 real, f8 float8, m money,
    n numeric, n2 numeric(10,2),
    n3 numeric(3,-2), t text, v varchar(5), k char(5), p bpchar, y bytea, u uuid, d date, ti time(2),
    tz timetz, ts timestamp(3),
    tt timestamptz, iv interval(2), ip inet, net cidr, mac macaddr, b3 bit(3), vb varbit(5), po point,
    lsn pg_lsn, x xid8,
    j json, jb jsonb, r int4range, nm nummultirange, tr tstzrange, e mood, a int[], o pair, s span,
    dp padded, ds short,
    da amount, xm xml, tq tsquery, tv tsvector, ci circle, pa path);
CREATE TABLE keyed (
    p bpchar, dp padded, ds short, da amount, f float8, n numeric, e mood, k char(4),
    w int GENERATED ALWAYS AS (1) STORED,
    v text, PRIMARY KEY (p, dp, ds, da, f, n, e, k, w));
"""
ROW = """
INSERT INTO valued VALUES (%s, true, 'c', -1, 2, 'NaN', '-0', 1.5,
    'Infinity', 1, 99900, E'ä\\u20ac', 'äöü  ', 'ä', 'p ', '\\x00ff',
    gen_random_uuid(), 'infinity', '24:00', '12:34:56.789+15:59', '294276-12-31 23:59:59.999',
    '-infinity', '1 month 1.234 s',
    '10.1.2.3/8', '10.0.0.0/8', '08:00:2b:01:02:03', B'101', B'10', '(1,2)', '16/B374D848', '7',
    '{"a": "\\ud834", "b": 1e999999}', (repeat('[', 3000) || repeat(']', 3000))::jsonb, '[1,5)',
    '{[1,2),[3,4)}',
    '[2026-01-01,)', 'glad', '{1,NULL}', '(1,b)', '[1.5,2.5]', 'dp  ', 'abc', 1.50, '<a/>', 'a & b',
    'a:1 b', '<(0,0),1>',
    '[(0,0),(1,1)]')
"""
KEY = "INSERT INTO keyed VALUES ('p  ', 'dp  ', 'ds', 1.50, '-0', 2.500, 'sad', 'k', DEFAULT, %s)"


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        yield cluster


@pytest.mark.parametrize("change", ["", "ALTER TABLE valued ADD more int; ALTER TABLE keyed ADD more int"])
def test_what_postgresql_accepts_is_applied_everywhere(pair: LocalCluster, change: str) -> None:
    """As adopted, and by the forms that a schema change tells."""
    north, south = pair.sps
    if change:
        with connect(north) as connection:
            connection.execute("SELECT psp.ddl(%s)", (change,))
        wait_streaming(pair)
        verify.wait_drained(pair)
    for number, sp in enumerate(pair.sps, 1 + 2 * len(change)):
        with connect(sp) as connection:
            connection.execute(ROW.replace("%s", str(number)).encode())
            connection.execute("INSERT INTO valued (id) VALUES (%s)", (-number,))
            connection.execute(KEY, (str(number),))
        with connect(sp) as connection:
            connection.execute("UPDATE keyed SET v = 'later', f = 0, n = 2.5, k = 'k  ', dp = 'dp'")
            connection.execute("UPDATE valued SET t = 'later' WHERE id = %s", (number,))
        with connect(sp) as connection:
            connection.execute("DELETE FROM keyed")
        wait_streaming(pair)
        verify.wait_drained(pair)
    assert execute(north, "SELECT valued::text FROM valued ORDER BY id") == execute(
        south, "SELECT valued::text FROM valued ORDER BY id"
    )


def test_what_a_column_may_not_be_follows_its_changes(pair: LocalCluster) -> None:
    north, south = pair.sps
    ddl(north, "CREATE TABLE changing (id int PRIMARY KEY, v varchar(3) NOT NULL, n numeric(3,1))")
    wait_streaming(pair)
    verify.wait_drained(pair)
    execute(south, "INSERT INTO changing VALUES (1, 'abc', 99.9)")
    ddl(
        south,
        "ALTER TABLE changing ALTER v DROP NOT NULL, ALTER v TYPE varchar(4), ALTER n TYPE numeric(4,1)",
    )
    execute(south, "INSERT INTO changing VALUES (2, 'abcd', 999.9), (3, NULL, NULL)")
    with connect(south) as connection:
        connection.execute("INSERT INTO changing VALUES (4, 'abcd', 1)")
        connection.execute("SELECT psp.ddl('ALTER TABLE changing ALTER v TYPE text, ADD w int')")
        connection.execute("INSERT INTO changing VALUES (5, 'abcdef', 1, 2)")
    wait_streaming(pair)
    verify.wait_drained(pair)
    assert execute(north, "SELECT * FROM changing ORDER BY 1") == execute(
        south, "SELECT * FROM changing ORDER BY 1"
    )
