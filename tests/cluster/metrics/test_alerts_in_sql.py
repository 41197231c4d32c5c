"""The SQL of docs/alerts.md runs, and finds nothing where all is well."""

import re
from typing import LiteralString, cast

import psycopg
import pytest
from psp import paths
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, execute, settle

_BLOCK = re.compile(r"```sql\n-- at (a semi-primary|the primary): ([^\n]+)\n(.*?);\n```", re.DOTALL)
BLOCKS = cast(
    list[tuple[str, str, LiteralString]], _BLOCK.findall((paths.home() / "docs" / "alerts.md").read_text())
)


def test_there_are_some() -> None:
    assert {place for place, _, _ in BLOCKS} == {"a semi-primary", "the primary"}


@pytest.mark.parametrize(("place", "alerts", "query"), BLOCKS, ids=lambda text: text[:40])
def test_nothing_is_found(cluster: LocalCluster, place: str, alerts: str, query: LiteralString) -> None:
    settle(cluster)
    if place == "the primary":
        with psycopg.connect(cluster.primary_dsn) as primary:
            assert primary.execute(query).fetchall() == [], alerts
    else:
        wait_until(f"{alerts} to be over", lambda: execute(cluster.sps[0], query) == [], WAIT_S)


def test_a_semi_primary_without_its_daemon_is_found(cluster: LocalCluster) -> None:
    query = next(query for _, alerts, query in BLOCKS if "PspSemiPrimaryDown" in alerts)
    cluster.stop("sp1", "daemon")
    wait_until("it to be found", lambda: execute(cluster.sps[0], query), WAIT_S)
