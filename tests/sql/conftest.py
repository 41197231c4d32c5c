"""One throw-away PostgreSQL server for all tests here; a fresh pair of databases for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.ports import PortAllocator
from psp.servers.temporary import TemporaryFolder

from tests.sql.databases import APPLICATION, Pair, new_pair


@pytest.fixture(scope="session")
def server() -> Iterator[PgServer]:
    settings = {"fsync": "off", "max_prepared_transactions": "5", "shared_buffers": "32MB"}
    with TemporaryFolder() as folder:
        give_to_server(folder.path)
        found = PgServer(folder.path / "pg", PortAllocator().take(), folder.path, settings)
        found.create()
        found.start()
        found.create_role(APPLICATION)
        yield found


@pytest.fixture
def pair(server: PgServer) -> Pair:
    """A fresh one."""
    return new_pair(server)
