"""Every built-in type a column can have: the bytes captured are those that PostgreSQL itself sends.

Hypothesis makes the values; what record_send makes of the stored row, computed beside the capture, is the
truth. The bytes that adoption copies to the primary must be the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psp.schema.generate import TEXT_SETTINGS
from psp.schema.keys import quote
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair
from tests.sql.write_sets import entries, fields, written

INTEGERS = {"smallint": 15, "integer": 31, "bigint": 63}
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)).map(str)
MOMENTS = st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31)).map(str)
CLOCKS = st.times().map(str)
FLOATS = st.floats().map(str) | st.sampled_from(["-0", "NaN", "Infinity", "-Infinity"])
FLOATS4 = st.floats(width=32, allow_subnormal=False).map(str)
NUMERICS = st.decimals(
    allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12
).map(str) | st.sampled_from(["1.50", "1.5", "0.00", "-0", "NaN", "Infinity", "1e-30", "1e100"])
BYTES = st.binary(max_size=20).map(lambda b: "\\x" + b.hex())
ADDRESSES = st.ip_addresses().map(str)
NUMBERS = st.integers(-1000, 1000)


def joined(template: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: template.format(*values))


def integers(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2**bits), 2**bits - 1).map(str)


RANGE = st.tuples(NUMBERS, NUMBERS).map(sorted).map(lambda pair: f"[{pair[0]},{pair[1]})")
POINT = joined("({},{})", NUMBERS, NUMBERS)

TYPES: dict[str, st.SearchStrategy[str]] = {
    **{name: integers(bits) for name, bits in INTEGERS.items()},
    "real": FLOATS4,
    "double precision": FLOATS,
    "numeric": NUMERICS,
    "numeric(10,2)": st.decimals(places=2, min_value=-(10**7), max_value=10**7).map(str),
    "money": st.decimals(places=2, min_value=-(10**9), max_value=10**9).map(str),
    "boolean": st.sampled_from(["t", "f"]),
    "text": TEXT,
    "character varying(20)": TEXT,
    "character(20)": TEXT,
    "name": TEXT.map(lambda text: text.encode()[:60].decode(errors="ignore")),
    '"char"': st.characters(min_codepoint=1, max_codepoint=127),
    "bytea": BYTES,
    "date": DAYS | st.sampled_from(["infinity", "-infinity", "4713-01-01 BC"]),
    "time": CLOCKS,
    "time with time zone": joined("{}{:+03d}", CLOCKS, st.integers(-15, 15)),
    "timestamp": MOMENTS | st.sampled_from(["infinity", "-infinity"]),
    "timestamp with time zone": joined("{}{:+03d}", MOMENTS, st.integers(-15, 15)),
    "interval": joined("{} months {} days {} us", NUMBERS, NUMBERS, st.integers(-(2**40), 2**40)),
    "uuid": st.uuids().map(str),
    "inet": ADDRESSES,
    "cidr": ADDRESSES,
    "macaddr": st.binary(min_size=6, max_size=6).map(lambda b: b.hex(":")),
    "macaddr8": st.binary(min_size=8, max_size=8).map(lambda b: b.hex(":")),
    "bit(5)": st.text("01", min_size=5, max_size=5),
    "bit varying": st.text("01", max_size=70),
    "json": st.sampled_from(["null", "[]", '{ "a" : 1, "a" : 2}', '"\\u00e9"', "1.50"]),
    "jsonb": st.sampled_from(["null", "[]", '{"b": [1.50, "x"], "a": {}}', "1e400"]),
    "xml": st.sampled_from(["<a/>", '<?xml version="1.0" encoding="UTF-8"?><a/>', "text", "<a b='c'>d</a>"]),
    "tsvector": st.sampled_from(["", "a:1A b:2,3", "'x y'"]),
    "tsquery": st.sampled_from(["", "a", "a & !b", "'x y' <2> z:*"]),
    "point": POINT,
    "lseg": joined("[{},{}]", POINT, POINT),
    "box": joined("{},{}", POINT, POINT),
    "path": joined("[{},{},{}]", POINT, POINT, POINT),
    "polygon": joined("({},{},{})", POINT, POINT, POINT),
    "line": joined("{{{},{},{}}}", st.integers(1, 9), NUMBERS, NUMBERS),
    "circle": joined("<{},{}>", POINT, st.integers(0, 9)),
    "int4range": RANGE | st.just("empty"),
    "int8range": RANGE,
    "numrange": RANGE,
    "daterange": st.sampled_from(["empty", "[2020-01-01,)", "(,2020-01-01]", "(,)"]),
    "tsrange": st.sampled_from(["empty", "[2020-01-01,2021-01-01 12:00]"]),
    "tstzrange": st.sampled_from(["empty", "[2020-01-01 00:00+3,2021-01-01 12:00-5]"]),
    "int4multirange": joined("{{{}}}", RANGE),
    "datemultirange": st.just("{[2020-01-01,2020-02-01),[2020-03-01,)}"),
    "jsonpath": st.sampled_from(["$", "$.a[*] ? (@ > 1)"]),
    "oid": st.integers(0, 2**32 - 1).map(str),
    "pg_lsn": st.just("16/B374D848"),
    "integer[]": st.lists(NUMBERS, max_size=4).map(lambda items: "{" + ",".join(map(str, items)) + "}"),
    "text[]": st.sampled_from(["{}", '{a,"b c",NULL}', '{{"x\\"y"},{z}}']),
    "timestamp with time zone[]": st.just('{"2020-01-01 00:00+3",infinity}'),
    "double precision[]": st.just("{0.1,NaN,-0,1e-310}"),
    "bytea[]": st.just('{"\\\\x00ff"}'),
    "mood": st.sampled_from(["sad", "it's ok"]),
    "pair": joined('({},"{}")', NUMBERS, st.sampled_from(["x", "1.50"])),
    "positive": st.integers(1, 2**31 - 1).map(str),
    "pairs": st.just('{"(1,a)","(2,)"}'),
    "moods": st.just("{sad,NULL}"),
    "blanks": st.sampled_from(["", "a", "a  "]),
}  # fmt: skip
ARRAYS = {name for name in TYPES if name.endswith("[]")}
AS_TEXT = ARRAYS | {
    "xml", "tsvector", "tsquery", "path", "polygon", "line", "circle", "jsonpath",
    "mood", "pair", "positive", "pairs", "moods", "blanks",
}  # fmt: skip

KEYS = [
    *INTEGERS, "real", "double precision", "numeric", "numeric(10,2)", "boolean", "text",
    "character varying(20)", "name", '"char"', "bytea", "date", "time", "timestamp",
    "timestamp with time zone", "uuid", "mood", "positive", "macaddr", "oid", "pg_lsn", "bit(5)",
    "bit varying", "money", "inet", "time with time zone",
]  # fmt: skip
BLANKS = ["bpchar", "blanks"]  # trailing ones do not count  # fmt: skip

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'it''s ok'); CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (value > 0); CREATE DOMAIN pairs AS pair[]; CREATE DOMAIN moods AS mood[];
CREATE DOMAIN blanks AS bpchar;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    """A table with a column of each type, and for each type of a key a table of its own."""
    columns = ", ".join(f"{quote(name)} {name}" for name in TYPES)
    keyed = [*KEYS, *BLANKS]
    tables = "".join(f"CREATE TABLE {quote('key ' + name)} (k {name} PRIMARY KEY);" for name in keyed)
    return adopted_pair(server, f"{SETUP} CREATE TABLE everything (id int PRIMARY KEY, {columns}); {tables}")


@pytest.fixture(scope="module")
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def image_of(name: str) -> str:
    if name == "blanks":
        return "CASE WHEN blanks IS NOT NULL THEN concat(blanks) END"  # a cast would take them off
    return f"{quote(name)}::text" if name in AS_TEXT else quote(name)


def key_of(name: str) -> str:
    """SQL for a key's normalised value, on its own account."""
    if name.startswith("numeric"):
        return "trim_scale(k)"
    if name in ("real", "double precision"):
        return f"CASE WHEN k = 'NaN' THEN 'NaN'::{name} ELSE k + 0::{name} END"
    return {"mood": "k::text", "positive": "k::int"}.get(name, "k")


def one(connection: psycopg.Connection[Any], query: str) -> bytes:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return bytes(row[0])


@pytest.fixture(scope="module")
def copy_query(app: Pair) -> bytes:
    """What adoption copies the table with."""
    with app.connect() as connection:
        return one(
            connection,
            "SELECT convert_to(psp.row_query(psp.capture_facts('everything'::regclass, 1, '{}')), 'UTF8')",
        )


@pytest.mark.parametrize("name", TYPES)
def test_image(connection: psycopg.Connection[Any], copy_query: bytes, name: str) -> None:
    whole_row = f"SELECT record_send(ROW(id, {', '.join(map(image_of, TYPES))})) FROM everything"

    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(TYPES[name])
    def run(value: str) -> None:
        connection.rollback()
        # Settings that the text forms would depend on, if capture did not fix them.
        connection.execute(
            "SET datestyle = 'SQL, DMY'; SET extra_float_digits = -3; SET bytea_output = escape; "
            "SET timezone = 'Asia/Tokyo'"
        )
        insert = f"INSERT INTO everything (id, {quote(name)}) VALUES (1, %s::{name})"
        connection.execute(insert.encode(), (value,))
        (row,) = written(connection)
        (entry,) = entries(row)
        connection.execute(TEXT_SETTINGS.encode())
        connection.execute("SET LOCAL search_path = pg_catalog, public")
        assert entry.image_bytes == one(connection, whole_row)
        assert entry.key == [(1).to_bytes(4, "big")]
        copied = connection.execute(copy_query).fetchone()
        assert copied is not None and bytes(copied[5]) == entry.image_bytes

    run()


@pytest.mark.parametrize("name", KEYS)
def test_key(connection: psycopg.Connection[Any], name: str) -> None:
    target = quote("key " + name)

    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(TYPES[name])
    def run(value: str) -> None:
        connection.rollback()
        connection.execute(f"INSERT INTO public.{target} VALUES (%s::{name})".encode(), (value,))
        connection.execute("SET LOCAL search_path = pg_catalog, public")
        values = one(connection, f"SELECT record_send(ROW({key_of(name)})) FROM {target}")
        connection.execute(f"DELETE FROM {target}".encode())
        inserted, deleted = written(connection)
        assert deleted.op == "d"
        assert entries(deleted)[0].key == entries(inserted)[0].key == fields(values)[0]

    run()


UNREADABLE = [
    ("circle", "circle(point(0, 0), -1)", "22P02"),
    ("xml", "xmlelement(name a, chr(1))", "2200N"),
]


@pytest.mark.parametrize(("name", "value", "sqlstate"), UNREADABLE)
def test_a_value_that_no_server_reads_is_refused_where_it_is_written(
    connection: psycopg.Connection[Any], name: str, value: str, sqlstate: str
) -> None:
    """Functions make them; elsewhere they would stop the stream."""
    connection.rollback()
    connection.execute("SET xmloption = document")
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(f"INSERT INTO everything (id, {quote(name)}) SELECT 1, {value}".encode())
    assert refused.value.sqlstate == sqlstate


EQUAL = [
    ("numeric", ["1.5", "1.500"]),
    ("numeric", ["0", "-0.00"]),
    ("double precision", ["0", "-0"]),
    ("real", ["0", "-0"]),
    *((name, ["a", "a "]) for name in BLANKS),
]


@pytest.mark.parametrize(("name", "values"), EQUAL)
def test_equal_keys_have_equal_bytes(
    connection: psycopg.Connection[Any], name: str, values: list[str]
) -> None:
    keys = set()
    for value in values:
        connection.rollback()
        connection.execute(
            f"INSERT INTO public.{quote('key ' + name)} VALUES (%s::{name})".encode(), (value,)
        )
        (row,) = written(connection)
        keys.add(entries(row)[0].key[0])
    assert len(keys) == 1
