"""The primary's server module goes and comes back while the daemon runs."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.primary.members import gather
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, adopted_pair, execute, needs_module, retry

pytestmark = needs_module()
EXECUTORS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE application_name LIKE 'psp-primary executor%'"
)


@pytest.fixture
def pair() -> Iterator[LocalCluster]:
    with adopted_pair(["CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)"]) as cluster:
        yield cluster


def wait_certified_by(cluster: LocalCluster, form: str) -> None:
    def look() -> bool:
        return bool(gather(cluster.primary_dsn)["certified_by"] == form)

    wait_until(f"the primary to certify by {form}", look, WAIT_S)


def commit_everywhere(cluster: LocalCluster) -> None:
    for sp in cluster.sps:
        retry(lambda sp=sp: execute(sp, "UPDATE t SET n = n + 1"))  # type: ignore[misc]


def test_commits_go_on_without_it(pair: LocalCluster) -> None:
    wait_certified_by(pair, "module")
    commit_everywhere(pair)
    file = pair.server(PRIMARY).folder / "lib" / "psp_certify.so"
    away = file.with_suffix(".away")
    for source, target, form in ((file, away, "sql"), (away, file, "module")):
        source.rename(target)
        if not file.exists():
            file.write_text(
                "no library"
            )  # it is found before a module that is installed in the server's own folder
        with psycopg.connect(pair.primary_dsn, autocommit=True) as connection:
            connection.execute(EXECUTORS.encode())
        commit_everywhere(pair)
        wait_certified_by(pair, form)
    commit_everywhere(pair)
    verify.wait_drained(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT n FROM t") == [(8,)]
