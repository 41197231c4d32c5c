"""A throw-away PostgreSQL server, and small TPC-C databases in it."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server
from psycopg import sql

from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Scale

LONG_S = 120  # loads end after their transactions; this long only if something is wrong
SMALL = Scale(warehouses=2, items=1000, customers=100)


@pytest.fixture(scope="session")
def server() -> Iterator[PgServer]:
    with temporary_server({"fsync": "off"}) as running:
        yield running


@pytest.fixture(scope="session")
def template(server: PgServer) -> str:
    """A loaded database that no test changes."""
    server.create_database("loaded")
    runner.prepare(server.dsn("loaded"), SMALL, threads=2)
    return "loaded"


@pytest.fixture
def tpcc(server: PgServer, template: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The connection string of a loaded database of the test's own."""
    name = request.node.name[:50]
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        yield server.dsn(name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def value() -> Callable[[str, str], object]:
    """Runs a query and returns its one value."""

    def ask(dsn: str, query: str) -> object:
        with psycopg.connect(dsn) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    return ask
