"""One throw-away PostgreSQL server for all tests here; a fresh pair of databases for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server

from tests.sql.databases import APPLICATION, Pair, new_pair


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
