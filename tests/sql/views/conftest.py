"""The database that tests of transactions begin with."""

from __future__ import annotations

import pytest

from tests.sql.databases import Pair
from tests.sql.views.converted import convert_pair


@pytest.fixture
def app(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text, email text UNIQUE);INSERT INTO t VALUES (1, 'one', 'e1')"
    )
    convert_pair(pair)
    return pair
