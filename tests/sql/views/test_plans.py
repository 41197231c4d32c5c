"""Plans under views mode: where plain tables are read by an index, so are T_persistent and T_temp."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.paths import home
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, new_pair
from tests.sql.views.converted import begin, convert_pair

TPCC = home() / "benchmarks" / "tpcc"
# Two warehouses as small as lets PostgreSQL prefer indexes.
LOAD = """
INSERT INTO warehouse SELECT w, 'w', 's', 's', 'c', 'ST', '123456789', 0.1, 0 FROM generate_series(1, 400) w;
INSERT INTO district SELECT d, w, 'd', 's', 's', 'c', 'ST', '123456789', 0.1, 0, 300
  FROM generate_series(1, 40) w, generate_series(1, 10) d;
INSERT INTO customer SELECT c, d, w, 'first' || c, 'OE', 'last' || c % 100, 's', 's', 'c', 'ST', '123456789',
       repeat('1', 16), now(), 'GC', 50000, 0.1, 0, 0, 0, 0, repeat('x', 200)
  FROM generate_series(1, 2) w, generate_series(1, 10) d, generate_series(1, 300) c;
INSERT INTO history SELECT i, 1, 1, 1, 1, 1, now(), 1, 'data' FROM generate_series(1, 2000) i;
INSERT INTO orders SELECT o, d, w, o, now(), NULL, 10, 1
  FROM generate_series(1, 2) w, generate_series(1, 10) d, generate_series(1, 300) o;
INSERT INTO new_order SELECT o, d, w
  FROM generate_series(1, 2) w, generate_series(1, 10) d, generate_series(1, 300) o;
INSERT INTO order_line SELECT o, d, w, l, (o * 7 + l * 131) % 5000 + 1, w, NULL, 5, 1, repeat('x', 24)
  FROM generate_series(1, 2) w, generate_series(1, 10) d, generate_series(1, 300) o, generate_series(1, 5) l;
INSERT INTO item SELECT i, 1, 'item', 1, 'data' FROM generate_series(1, 5000) i;
INSERT INTO stock SELECT i, w, 50, 'd', 'd', 'd', 'd', 'd', 'd', 'd', 'd', 'd', 'd', 0, 0, 0, 'data'
  FROM generate_series(1, 2) w, generate_series(1, 5000) i;
"""
VALUES = {"int": "1", "numeric": "1", "text": "'last7'", "int[]": "'{1,2}'", "numeric[]": "'{1,2}'",
          "text[]": "'{a,b}'"}  # fmt: skip
SCANS = re.compile(r"Seq Scan on (\w+)")


def statements() -> dict[str, tuple[list[str], str]]:
    """The statements of benchmarks/tpcc/transactions.sql: name to types and text."""
    text = (TPCC / "transactions.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\(([^)]*)\)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: (types.split(", "), body.split(";")[0])
        for name, types, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


@pytest.fixture(scope="module")
def plain(server: PgServer) -> Pair:
    return loaded(server)


@pytest.fixture(scope="module")
def views(server: PgServer) -> Pair:
    """Converted; with temporary rows of a transaction that has long ended in every T_temp."""
    pair = loaded(server)
    convert_pair(pair)
    tables = re.findall(r"CREATE TABLE (\w+)", (TPCC / "schema.sql").read_text())
    for table in tables:
        pair.run(
            f"""INSERT INTO {table}_temp SELECT x.* FROM {table}_persistent r, jsonb_populate_record(
                       NULL::{table}_temp, to_jsonb(r) || '{{"tx_id": "4"}}') x LIMIT 2000"""
        )
    analyze(pair)
    return pair


def loaded(server: PgServer) -> Pair:
    pair = new_pair(server)
    pair.run((TPCC / "schema.sql").read_text() + LOAD + (TPCC / "keys.sql").read_text())
    analyze(pair)
    return pair


def analyze(pair: Pair) -> None:
    with pair.connect(autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


@pytest.fixture
def session(views: Pair) -> Iterator[psycopg.Connection[Any]]:
    """One in which a transaction has begun."""
    with views.rolled_back() as connection:
        begin(connection)
        yield connection


def plan(connection: psycopg.Connection[Any], name: str, how: str) -> str:
    types, body = statements()[name]
    connection.execute(f"SET LOCAL plan_cache_mode = {how}".encode())
    connection.execute(f"PREPARE {name} ({', '.join(types)}) AS {body}".encode())
    values = ", ".join(VALUES[t] for t in types)
    rows = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE {name} ({values})".encode()).fetchall()
    connection.execute(f"DEALLOCATE {name}".encode())
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("how", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("variant", ["union", "nryotw"])
@pytest.mark.parametrize("name", statements())
def test_tpcc_reads_by_index(
    plain: Pair, session: psycopg.Connection[Any], name: str, variant: str, how: str
) -> None:
    with plain.connect() as connection:
        expected = set(SCANS.findall(plan(connection, name, how)))
    session.execute("SELECT psp.select_variant(%s, true)", (variant,))
    found = plan(session, name, how)
    scanned = set(SCANS.findall(found))
    assert {table.removesuffix("_persistent") for table in scanned} <= expected, found


@pytest.mark.parametrize("variant", ["union", "fulljoin", "nryotw"])
def test_a_key_is_looked_up_by_index(session: psycopg.Connection[Any], variant: str) -> None:
    session.execute("SELECT psp.select_variant(%s, true)", (variant,))
    rows = session.execute(
        "EXPLAIN (COSTS OFF) SELECT * FROM customer WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3"
    ).fetchall()
    text = "\n".join(row[0] for row in rows)
    assert not SCANS.findall(text), text
    assert re.search(r"Index (Only )?Scan using customer_pkey on customer_persistent", text), text
    assert variant == "nryotw" or "Index Scan using customer_temp_pkey on customer_temp" in text, text


def test_a_join_reaches_both_tables_by_index(session: psycopg.Connection[Any]) -> None:
    """What made the stock-level query of the thesis's prototype so slow: a join that scanned the view."""
    text = plan(session, "stock_level_count", "force_custom_plan")
    for table in ("stock_persistent", "stock_temp", "order_line_persistent", "order_line_temp"):
        assert re.search(rf"(Index|Bitmap)[\w ]* on {table}", text), text


def test_only_the_first_order_is_read(session: psycopg.Connection[Any]) -> None:
    """ORDER BY … LIMIT 1 merges two indexes instead of sorting."""
    text = plan(session, "order_status_order", "force_generic_plan")
    assert "Merge Append" in text and "Sort\n" not in text, text


def test_statements_are_all_looked_at() -> None:
    assert len(statements()) == Path(TPCC / "transactions.sql").read_text().count("-- name:") - 1
