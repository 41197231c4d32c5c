"""Real clusters for tests: PostgreSQL servers and daemons on this machine, ports found at run time.

`cluster`       three SPs without distance, shared by all tests that take it, with the tables of schema.sql.
                After each test every part of it runs again, and its SPs hold the same rows as the primary.
`make_cluster`  a cluster of the test's own: make_cluster(zones, schema_sql, options); removed after the test.
`views_cluster` two SPs in views mode, shared by all tests that take it.
`sites`         for tests of clients: a cluster of the file's own with the tables of its tests (sites.py).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, Zone
from psp.schema.model import Mode
from psp.servers import processes
from psp.servers.processes import ProcessName
from psp.waiting import wait_until

from tests.cluster.sites import Sites, cluster_for
from tests.cluster.support import SCHEMA, WAIT_S, MakeCluster, adopted_pair, settle
from tests.cluster.wire import commits

SHARED_ZONES = (Zone("sp1"), Zone("sp2"), Zone("sp3"))
# A lost primary must be told soon, or tests of it take long.
SHARED_OPTIONS = Options(
    pg_settings={"shared_buffers": "64MB", "max_prepared_transactions": "5"},
    primary_options={"write_set_bytes_max": 64 * 1024 * 1024},
    sp_options={"commit_timeout_ms": 3000, "write_set_bytes_max": 64 * 1024 * 1024},
)

# Of the tests of client libraries, each of which begins with its own rows.
ITEMS = """
CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL CHECK (stock >= 0));
INSERT INTO item SELECT n, 100 FROM generate_series(1, 500) n;
"""
MODES: tuple[Mode, ...] = ("native", "views")


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[LocalCluster]:
    """The cluster behind `cluster`; use that one."""
    with LocalCluster.temporary(SHARED_ZONES, SHARED_OPTIONS) as cluster:
        cluster.load_schema(SCHEMA)
        growth.adopt(cluster)
        yield cluster


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Three SPs, everything running; afterwards they must be equal."""
    yield shared_cluster
    settle(shared_cluster)


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """A function that makes an adopted cluster from SQL text; without SQL the databases stay plain."""
    made: list[LocalCluster] = []

    def make(zones: Sequence[Zone], schema_sql: str = "", options: Options | None = None) -> LocalCluster:
        cluster = LocalCluster.temporary(zones, options or SHARED_OPTIONS)
        made.append(cluster)
        if schema_sql:
            file = tmp_path / f"schema-{len(made)}.sql"
            file.write_text(schema_sql)
            cluster.load_schema(file)
            growth.adopt(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.down()


@pytest.fixture(scope="session")
def shared_views_cluster() -> Iterator[LocalCluster]:
    """The cluster behind `views_cluster`; use that one."""
    # A garbage collector that comes often, so that tests of it need not wait.
    options = Options(
        mode="views",
        pg_settings={"shared_buffers": "32MB"},
        sp_options={"gc_interval_ms": 100},
    )
    with adopted_pair([ITEMS], options) as cluster:
        yield cluster


@pytest.fixture
def views_cluster(shared_views_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Two SPs in views mode with the table `item`, shared by test files, each of which takes other items.

    Afterwards everything runs again, and commits.
    """
    yield shared_views_cluster
    shared_views_cluster.resume()
    for sp in shared_views_cluster.sps:
        wait_until(f"a commit at {sp.name}", partial(commits, sp), WAIT_S)


@pytest.fixture(scope="session")
def native_items_cluster() -> Iterator[LocalCluster]:
    """The cluster behind `items_cluster` in native mode; use that one."""
    with adopted_pair([ITEMS], Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=MODES)
def items_cluster(request: pytest.FixtureRequest) -> LocalCluster:
    """Two SPs with the table `item`, once in each mode; each test file takes other items."""
    behind = "native_items_cluster" if request.param == "native" else "shared_views_cluster"
    found: LocalCluster = request.getfixturevalue(behind)
    return found


@pytest.fixture(scope="module")
def cluster_of_file(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The cluster behind `sites`."""
    with cluster_for(request.module) as made:
        yield made


@pytest.fixture
def sites(cluster_of_file: LocalCluster) -> Iterator[Sites]:
    """Two SPs, `north` and `south`, which hold the same rows after each test."""
    made = Sites(cluster_of_file)
    yield made
    made.close()
    Sites(cluster_of_file).assert_same()


@pytest.fixture
def second_daemon(cluster: LocalCluster, tmp_path: Path) -> Iterator[ProcessName]:
    """The mark of one more SP daemon, which is ended also if the test fails."""
    name = ProcessName(tmp_path, "second", "daemon")
    yield name
    processes.end(name, force=True)
