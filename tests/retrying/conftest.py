"""One cluster for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psp.cluster.local import LocalCluster

from tests.cluster.support import adopted_pair, execute
from tests.retrying.support import wait_for

TABLES = """
    CREATE TABLE counter (id int PRIMARY KEY, value int);
    INSERT INTO counter VALUES (1, 0);
    CREATE TABLE unit (id bigserial PRIMARY KEY, name text);
"""


@pytest.fixture(scope="session")
def adopted() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES]) as cluster:
        yield cluster


@pytest.fixture
def pair(adopted: LocalCluster) -> LocalCluster:
    """Two SPs; the counter is 0, there are no units."""
    execute(adopted.sps[0], "UPDATE counter SET value = 0")
    execute(adopted.sps[0], "DELETE FROM unit")
    wait_for(adopted, "SELECT (SELECT value FROM counter) + count(*) FROM unit", [(0,)])
    return adopted
