"""The clusters of the tests here."""

from collections.abc import Iterator

import pytest
from psp.cluster.local import LocalCluster

from tests.cluster.schema_changes.statements import changing_pair, settle_unchanged


@pytest.fixture(scope="module")
def shared_pair(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The cluster behind `pair`; use that one. The test file has its SCHEMA, and may have OPTIONS."""
    with changing_pair(request.module.SCHEMA, getattr(request.module, "OPTIONS", None)) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Two SPs, which hold the same rows after the test, the history of schema changes among them."""
    yield shared_pair
    settle_unchanged(shared_pair)
