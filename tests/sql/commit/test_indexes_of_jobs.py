"""Each server has indexes of jobs at its own time. They decide neither names nor whether statements run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.arriving import arrive, arriving, become_worker
from tests.sql.databases import APPLICATION, Pair, changing_pair, one
from tests.sql.indexes import indexes, locally, made_by_job, run

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE TABLE item (id int PRIMARY KEY, a int, b int, UNIQUE (a), EXCLUDE (b WITH =));
"""
COPY = "CREATE TABLE copy (LIKE item INCLUDING ALL)"
State = Callable[[psycopg.Connection[Any]], None]


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


def definitions(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """Those of the indexes that all servers have."""
    rows = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND indexname !~ '^local_' ORDER BY 1", [table]
    )
    return [definition for (definition,) in rows]


def last_sent(connection: psycopg.Connection[Any]) -> tuple[str, dict[str, Any]]:
    """The last statement that goes with the stream, and its settings."""
    row = connection.execute(
        "SELECT statement, settings FROM psp.schema_history ORDER BY change DESC, statement_n DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    statement, settings = row
    return statement, settings


def made_and_sent(
    app: Pair, state: State, statement: str, table: str
) -> tuple[list[str], str, dict[str, Any]]:
    """The table's indexes where a statement runs first, and what other servers get of it."""
    with app.rolled_back() as connection:
        state(connection)
        run(connection, statement)
        return definitions(connection, table), *last_sent(connection)


def made_elsewhere(app: Pair, state: State, text: str, settings: dict[str, Any], table: str) -> list[str]:
    with arriving(app) as connection:
        state(connection)
        become_worker(connection)
        arrive(connection, text, **settings)
        return definitions(connection, table)


# ---- copies ----------------------------------------------------------------------------------------------


def with_index_of_job(connection: psycopg.Connection[Any]) -> None:
    """The job's comes first, so that its copy gets the first name, too."""
    made_by_job(connection, "item", "item_job")
    without_index_of_job(connection)


def without_index_of_job(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET LOCAL session_replication_role = origin")
    run(connection, "CREATE UNIQUE INDEX item_unique ON item (b)")


def with_unfinished(connection: psycopg.Connection[Any]) -> None:
    """As if a session were making an index CONCURRENTLY: psp does not know of it yet."""
    locally(connection, "CREATE INDEX unfinished ON item (b)")
    connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'unfinished'::regclass")
    connection.execute("DELETE FROM psp.local_indexes")


def with_nothing(connection: psycopg.Connection[Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (with_index_of_job, without_index_of_job),
        (without_index_of_job, with_index_of_job),
        (with_unfinished, with_nothing),
        (with_nothing, with_unfinished),
    ],
)
@pytest.mark.parametrize(
    ("statement", "table"),
    [(COPY, "copy"), (f"CREATE SCHEMA AUTHORIZATION {APPLICATION} {COPY}", "copy")],
)
def test_a_copy_has_the_same_indexes_everywhere(
    app: Pair, first: State, then: State, statement: str, table: str
) -> None:
    if "SCHEMA" in statement:
        app.run(f"GRANT CREATE ON DATABASE {app.name} TO {APPLICATION}")
    here, text, settings = made_and_sent(app, first, statement, table)
    assert made_elsewhere(app, then, text, settings, table) == here


def test_a_schema_without_tables_has_no_copies(app: Pair) -> None:
    statement = "CREATE SCHEMA empty -- including nothing"
    app.run(f"GRANT CREATE ON DATABASE {app.name} TO {APPLICATION}")
    with app.rolled_back() as connection:
        run(connection, statement)
        text, settings = last_sent(connection)
    assert "copied" not in settings
    with arriving(app) as connection:
        arrive(connection, text, **settings)
        assert one(connection, "SELECT to_regnamespace('empty') IS NOT NULL")


def test_a_temporary_copy_stays_as_postgresql_has_made_it(app: Pair) -> None:
    """Of several statements psp does not know at once that they are temporary."""
    with app.rolled_back() as connection:
        made_by_job(connection, "item", "item_job")
        locally(connection, "CREATE INDEX here ON item (a, b)")
        run(connection, f"/* no. 1 */ {COPY.replace('TABLE', 'TEMP TABLE')}")
        assert "copy_a_b_idx" in indexes(connection, "pg_temp.copy")
