"""The database that the tests of the guard share."""

from __future__ import annotations

import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair
from tests.sql.guard.guarded import GUARDED


@pytest.fixture(scope="package")
def app(server: PgServer) -> Pair:
    """One database for all tests here: each rolls back, or leaves it as it was."""
    return adopted_pair(server, GUARDED)
