"""psp.conflicts shows keys, which have values of rows, to those who may read the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psp.sql_files import read_sql
from psycopg.types.json import Jsonb

from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, v text);
CREATE TABLE other (id int PRIMARY KEY, v text);
ALTER TABLE item OWNER TO {APPLICATION};
ALTER TABLE other OWNER TO {APPLICATION};
GRANT ALL ON SCHEMA public TO {APPLICATION};
"""
READER = "psp_reader_of_keys"


def report(connection: psycopg.Connection[Any], table: str, catalog: int | None = None) -> None:
    """As the daemon tells it, whose catalog has this version."""
    catalog = catalog or one(connection, "SELECT catalog_version FROM psp.identity")
    key = {
        "schema_name": "public", "table_name": table, "index_name": "", "key": "(id)=(1)", "kind": "LOSS_ROW",
        "losses": "1", "spent_ms": "1", "winners": [], "changed_columns": [], "remedy": "",
    }  # fmt: skip
    windows = [{"seconds": 86400, "losses": "1", "error_max": "0", "keys": [key]}]
    psycopg.RawCursor(connection).execute(
        read_sql("semi_primary/daemon/write_loss_report.sql"), [Jsonb({"windows": windows}), catalog]
    )


def key_for(connection: psycopg.Connection[Any], role: str) -> str | None:
    connection.execute(f"SET ROLE {role}".encode())
    key: str | None = one(connection, "SELECT key FROM psp.conflicts")
    connection.execute("RESET ROLE")
    return key


def as_application(connection: psycopg.Connection[Any], *statements: str) -> None:
    connection.execute(f"SET ROLE {APPLICATION}".encode())
    connection.execute("SET search_path = public")
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("RESET search_path")
    connection.execute("RESET ROLE")


@pytest.fixture(scope="module")
def pair(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    """What a test does is rolled back, its role too."""
    with pair.connect() as connected:
        connected.execute(f"CREATE ROLE {READER}".encode())
        yield connected
        connected.rollback()


def test_the_name_of_a_table_is_not_the_table(connection: psycopg.Connection[Any]) -> None:
    report(connection, "item")
    assert (key_for(connection, APPLICATION), key_for(connection, READER)) == ("(id)=(1)", None)
    as_application(
        connection,
        "DROP TABLE item",
        "CREATE TABLE item (id int PRIMARY KEY)",
        f"GRANT SELECT ON item TO {READER}",
    )
    assert key_for(connection, READER) is None


def test_a_report_of_an_older_catalog_names_no_table(connection: psycopg.Connection[Any]) -> None:
    older = one(connection, "SELECT catalog_version FROM psp.identity")
    as_application(
        connection,
        "DROP TABLE item",
        "CREATE TABLE item (id int PRIMARY KEY)",
        f"GRANT SELECT ON item TO {READER}",
    )
    report(connection, "item", older)
    assert key_for(connection, READER) is None
    report(connection, "item")
    assert key_for(connection, READER) == "(id)=(1)"


def test_a_renamed_table_is_the_same(connection: psycopg.Connection[Any]) -> None:
    as_application(connection, f"GRANT SELECT ON other TO {READER}")
    report(connection, "item")
    as_application(connection, "ALTER TABLE item RENAME TO was_item", "ALTER TABLE other RENAME TO item")
    assert (key_for(connection, APPLICATION), key_for(connection, READER)) == ("(id)=(1)", None)
    as_application(connection, f"GRANT SELECT ON was_item TO {READER}")
    assert key_for(connection, READER) == "(id)=(1)"
