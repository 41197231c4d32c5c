"""One throw-away PostgreSQL server for all tests here; a fresh pair of databases for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server

from tests.sql.databases import APPLICATION, Pair, has_icu, needs_icu, new_pair


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{needs_icu.name}: the server must have been built with ICU")


@pytest.fixture(autouse=True)
def _server_can_run_it(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker(needs_icu.name) and not has_icu(request.getfixturevalue("server")):
        pytest.skip("this PostgreSQL is built without ICU")


@pytest.fixture(scope="session")
def server() -> Iterator[PgServer]:
    settings = {"fsync": "off", "max_prepared_transactions": "5", "shared_buffers": "32MB"}
    with temporary_server(settings) as found:
        found.create_role(APPLICATION)
        yield found


@pytest.fixture
def pair(server: PgServer) -> Pair:
    """A fresh one."""
    return new_pair(server)
