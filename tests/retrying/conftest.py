"""A cluster for all tests of this folder, and one in views mode."""

from __future__ import annotations

from collections.abc import Iterator

import psp_client
import pytest
from psp.cluster.local import LocalCluster, Options

from tests.cluster.support import adopted_pair, execute, retry
from tests.retrying.support import wait_for_units

TABLES = """
    CREATE TABLE counter (id int PRIMARY KEY, value int);
    INSERT INTO counter VALUES (1, 0);
    CREATE SEQUENCE unit_id;
    CREATE TABLE unit (id bigint PRIMARY KEY DEFAULT nextval('unit_id'), name text);
"""


@pytest.fixture(scope="session")
def adopted() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def adopted_views() -> Iterator[LocalCluster]:
    with adopted_pair([TABLES], Options(mode="views")) as cluster:
        yield cluster


@pytest.fixture
def pair(adopted: LocalCluster) -> LocalCluster:
    """Two SPs; the counter is 0, there are no units."""
    retry(lambda: execute(adopted.sps[0], "UPDATE counter SET value = 0"))
    execute(adopted.sps[0], "DELETE FROM unit")
    wait_for_units(adopted, [])
    return adopted


@pytest.fixture
def views_pair(adopted_views: LocalCluster) -> LocalCluster:
    """The same in views mode."""
    with psp_client.connect(adopted_views.sps[0].dsn) as client:
        client.run(lambda connection: connection.execute("UPDATE counter SET value = 0"))
        client.run(lambda connection: connection.execute("DELETE FROM unit"))
    wait_for_units(adopted_views, [])
    return adopted_views
