"""GET /metrics and GET /health of psp-mrv."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster.daemons import MRV
from psp.cluster.local import LocalCluster, Options, Zone
from psp.mrv.create import Options as MrvOptions
from psp.mrv.create import create
from psp.servers.ports import PortAllocator
from psp.waiting import wait_until

from tests.cluster.metrics.reading import documented, get_from, samples_in, types_in
from tests.cluster.support import WAIT_S

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, stock int CHECK (stock >= 0));
INSERT INTO item SELECT i, 100 FROM generate_series(1, 9) i;
"""


@pytest.fixture(scope="module")
def plain() -> Iterator[LocalCluster]:
    """One server, whose database is not under psp: psp-mrv needs nothing of it."""
    options = Options(pg_settings={"shared_buffers": "32MB"})
    with LocalCluster.temporary([Zone("north")], options) as cluster:
        with psycopg.connect(cluster.sps[0].dsn) as connection:
            connection.execute(SCHEMA)
        yield cluster


@pytest.fixture
def port(plain: LocalCluster) -> Iterator[int]:
    """Of a psp-mrv beside north."""
    free = PortAllocator().take()
    plain.start_mrv("north", window_ms=100, metrics_listen=f"127.0.0.1:{free}")
    yield free
    plain.stop_mrv("north")


def value(port: int, name: str) -> float:
    return samples_in(get_from(port, "/metrics")[1])[name]


def test_it_is_well_while_it_serves(plain: LocalCluster, port: int) -> None:
    status, why = get_from(port, "/health")
    assert (status, "adapts nothing" in why) == (503, True)  # there is no Multi-Record Value yet
    assert value(port, "psp_mrv_serving") == 0

    create(plain.sp("north").admin_dsn, "item.stock", MrvOptions(records=2), print)
    wait_until("psp-mrv to serve", lambda: get_from(port, "/health") == (200, "ok\n"), WAIT_S)
    before = value(port, 'psp_mrv_rounds_total{worker="status"}')
    wait_until("rounds", lambda: value(port, 'psp_mrv_rounds_total{worker="status"}') > before, WAIT_S)
    assert value(port, "psp_mrv_serving") == 1
    assert value(port, 'psp_mrv_failures_total{worker="status"}') == 0


def test_the_page_names_what_it_has(port: int) -> None:
    assert types_in(get_from(port, "/metrics")[1]) == documented(MRV)
