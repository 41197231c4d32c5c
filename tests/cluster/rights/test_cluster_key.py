"""Daemons that share a key (setting key_file): they work as without one, and nobody else gets in."""

from pathlib import Path

import pytest
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError
from psp.primary.cluster_key import write_cluster_key

from tests.cluster.support import MakeCluster, execute, raises, retry, wait_for_row

SCHEMA = "CREATE TABLE t (id int PRIMARY KEY, v text)"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.key"
    write_cluster_key(path)
    return path


def start_with(cluster: LocalCluster, name: str, key: str) -> None:
    """Starts a semi-primary's daemon again, with another key_file."""
    cluster.kill(name, "daemon")
    cluster.state.sp_options["key_file"] = key
    cluster.start(name, "daemon")


def test_only_daemons_with_the_key_get_in(make_cluster: MakeCluster, key_file: Path, tmp_path: Path) -> None:
    settings = {"key_file": str(key_file)}
    options = Options(primary_options=settings, sp_options={**settings, "commit_timeout_ms": 1000})
    cluster = make_cluster([Zone("a"), Zone("b")], SCHEMA, options)
    a, b = cluster.sps
    execute(a, "INSERT INTO t VALUES (1, 'one')")
    wait_for_row(b, "SELECT 1 FROM t WHERE id = 1")

    another = tmp_path / "another.key"
    write_cluster_key(another)
    for wrong in (str(another), ""):
        start_with(cluster, "b", wrong)
        with raises("08006"):
            execute(b, "INSERT INTO t VALUES (2, 'two')")
    start_with(cluster, "b", str(key_file))
    retry(lambda: execute(b, "INSERT INTO t VALUES (2, 'two')"), ("08006",))
    wait_for_row(a, "SELECT 1 FROM t WHERE id = 2")


def test_a_key_that_others_can_read_is_refused(make_cluster: MakeCluster, key_file: Path) -> None:
    key_file.chmod(0o644)
    with pytest.raises(PspError, match="chmod 600"):
        make_cluster([Zone("a")], SCHEMA, Options(primary_options={"key_file": str(key_file)}))
