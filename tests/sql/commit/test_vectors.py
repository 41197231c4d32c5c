"""The encoders in SQL against the golden vectors: capture, adoption, the look-up at COMMIT, views mode.

The decoder reads the same file (writeset/vectors_test.cc). What the bytes mean is said in writeset/FORMAT.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.schema.generate import TEXT_SETTINGS
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair, new_pair, one
from tests.sql.vectors import VECTORS, cases, script
from tests.sql.views.converted import begun, convert_pair

CASES = [pytest.param(case, id=case["name"]) for case in cases()]
DOUBTFUL = [pytest.param(case, id=case["name"]) for case in cases() if "doubts" in case]


@pytest.fixture(scope="module")
def native(server: PgServer) -> Pair:
    return adopted_pair(server, script())


@pytest.fixture(scope="module")
def views(server: PgServer) -> Pair:
    pair = new_pair(server)
    pair.run(script())
    convert_pair(pair)
    return pair


@pytest.fixture
def plain(native: Pair) -> Iterator[psycopg.Connection[Any]]:
    with native.rolled_back() as connection:
        connection.execute(TEXT_SETTINGS.encode())
        yield connection


def captured(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    rows = connection.execute(
        """SELECT w.table_id, w.op::text, w.payload
             FROM (SELECT *, row_number() OVER () AS place FROM psp.captured) w
            WHERE w.xid = pg_current_xact_id_if_assigned() ORDER BY w.cmin::text::int4, w.place"""
    )
    return [
        {"table_id": table_id, "op": op, "payload": payload.hex()}
        for table_id, op, payload in rows.fetchall()
    ]


def row_of(table_id: int, key: bytes, deleted: bool, image: bytes | None) -> dict[str, Any]:
    """A row of a write-set in the form of the vectors. A guard is neither deleted nor has it an image."""
    row: dict[str, Any] = {
        "table_id": table_id,
        "access": "write" if deleted or image is not None else "guard",
        "key": key.hex(),
    }
    if deleted:
        row["deleted"] = True
    if image is not None:
        row["image"] = image.hex()
    return row


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["table_id"], row["key"]))


@pytest.mark.parametrize("case", CASES)
def test_capture(native: Pair, case: dict[str, Any]) -> None:
    with native.connect() as connection:
        for statement in case["statements"]:
            connection.execute(statement.encode())
        assert captured(connection) == case["captured"]
        connection.rollback()


@pytest.mark.parametrize("case", DOUBTFUL)
def test_look_up_of_doubts(native: Pair, case: dict[str, Any]) -> None:
    """The rows under the keys that the daemon asks for, as the commit hook sends them."""
    with native.connect() as connection:
        for statement in case["statements"]:
            connection.execute(statement.encode())
        found = b""
        for line in case["doubts"]:
            table_id, key, *texts = line.split(" ")
            values = [None if text == "-" else bytes.fromhex(text[1:]).decode() for text in texts]
            entries = one(
                connection,
                f"SELECT psp.look_{table_id}(%s::bytea[], %s::text[])",
                [bytes.fromhex(key)],
                [values],
            )
            found += one(
                connection, "SELECT record_send(ROW(%s::int4, %s::bytea))", int(table_id), entries or b""
            )
        assert found.hex() == case["found"]
        connection.rollback()


@pytest.mark.parametrize("case", CASES)
def test_views_mode(views: Pair, case: dict[str, Any]) -> None:
    with begun(views) as transaction:
        for statement in case["statements"]:
            transaction.run(statement)
    with views.connect() as connection:
        connection.execute(TEXT_SETTINGS.encode())
        rows = connection.execute(
            "SELECT w.table_id, w.key, w.deleted, w.image"
            " FROM psp.transactions t, psp.gather_write_set(t.xid) w"
            " WHERE t.tx_id = %s",
            (transaction.tx_id,),
        ).fetchall()
    expected = case.get("views_write_set", case["write_set"])
    assert in_order([row_of(*row) for row in rows]) == in_order(expected)


def test_adopted_rows(native: Pair) -> None:
    rows = native.primary_rows("SELECT table_id, key, deleted, image FROM psp.data ORDER BY table_id, key")
    assert [row_of(*row) for row in rows] == VECTORS["adopted"]


@pytest.mark.parametrize("mode", ["native", "views"])
def test_catalog(request: pytest.FixtureRequest, mode: str) -> None:
    """Both modes number the tables in the same way, and say the same of them."""
    pair: Pair = request.getfixturevalue(mode)
    with pair.connect() as connection:
        rows = connection.execute(
            "SELECT table_id, schema_name, table_name, columns, key_columns, guards FROM psp.tables"
            " WHERE schema_name <> 'psp' ORDER BY table_id"
        )
        names = [column.name for column in rows.description or []]
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    assert found == VECTORS["catalog"]


def test_chunk(plain: psycopg.Connection[Any]) -> None:
    chunk = VECTORS["chunk"]
    made = one(
        plain,
        """SELECT record_send(ROW(%s::text::cid, %s::int4, %s::"char", %s::bytea))""",
        chunk["command"],
        chunk["table_id"],
        chunk["op"],
        bytes.fromhex(chunk["payload"]),
    )
    assert made.hex() == chunk["bytes"]


@pytest.mark.parametrize("request_of", VECTORS["requests"]["lines"])
def test_proof_of_a_request(native: Pair, request_of: dict[str, str]) -> None:
    """`proven` and the hash of the bytes are proved; the daemon's parser reads `line`."""
    token = VECTORS["requests"]["token"]
    with native.connect() as connection:
        connection.execute("SET LOCAL search_path = pg_catalog")
        proof = one(
            connection,
            "SELECT psp.proof(%s::text, %s::text, sha256(%s::bytea))"
            if "bytes" in request_of
            else "SELECT psp.proof(%s::text, %s::text)",
            token,
            request_of["proven"],
            *([bytes.fromhex(request_of["bytes"])] if "bytes" in request_of else []),
        )
    assert proof in request_of["line"].split(" ")


@pytest.mark.parametrize(
    "vector", VECTORS["key_texts"], ids=lambda vector: f"{vector['type']} {vector['value']}"
)
def test_key_texts(plain: psycopg.Connection[Any], vector: dict[str, str]) -> None:
    """PostgreSQL reads the daemon's text of a key value as the same value."""
    how = {"numeric": "numeric", "real": "float", "double precision": "float"}
    type_name = vector["type"]
    value = one(
        plain, "SELECT psp.normalised(%s, %s, %s)", how.get(type_name, "none"), f"v.v::{type_name}", type_name
    )
    query = f"SELECT record_send(ROW({value})) FROM (SELECT %s::text) AS v (v)"
    assert one(plain, query, vector["value"]).hex() == vector["key"]
    assert one(plain, query, vector["text"]).hex() == vector["key"]


def test_each_type_with_a_text_has_a_vector(plain: psycopg.Connection[Any]) -> None:
    """Key values that are looked up by their text are of the types that the daemon can write as text."""
    plain.execute("""
        DO $$ DECLARE t regtype; BEGIN
            FOR t IN SELECT o.oid FROM pg_type o WHERE o.typtype = 'b' AND o.typcategory <> 'A' AND (
                         o.oid = 'varchar'::regtype
                         OR EXISTS (SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
                                     WHERE c.opcintype = o.oid AND c.opcdefault AND a.amname = 'btree')) LOOP
                EXECUTE format('CREATE TEMPORARY TABLE %I (k %s PRIMARY KEY)', 'key ' || t, t);
            END LOOP;
        END $$
    """)
    rows = plain.execute("""
        SELECT f.plain_name FROM psp.index_column_facts f JOIN pg_index i ON i.indexrelid = f.index
         WHERE i.indrelid::regclass::text LIKE '"key %' AND f.has_text
    """)
    # "character" is bpchar with a length.
    assert {vector["type"] for vector in VECTORS["key_texts"]} == {name for (name,) in rows} | {"character"}
