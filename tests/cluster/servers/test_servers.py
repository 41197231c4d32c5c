"""Throw-away servers and the life of a cluster's folder, before any database comes under psp."""

import os
from pathlib import Path

import psycopg
import pytest
from psp.cluster import state
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError
from psp.servers import processes
from psp.servers.pgserver import DEFAULT_SETTINGS

from tests.cluster.support import MakeCluster, needs_module


def test_servers_run_with_the_settings_asked_for(make_cluster: MakeCluster) -> None:
    assert DEFAULT_SETTINGS["fsync"] == "on"
    options = Options(pg_settings={"shared_buffers": "32MB", "work_mem": "7MB", "fsync": "on"})
    cluster = make_cluster([Zone("a")], "", options)
    for dsn, synchronous_commit in ((cluster.primary_dsn, "on"), (cluster.sps[0].dsn, "off")):
        with psycopg.connect(dsn) as connection:
            shown = [
                connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                for name in ("work_mem", "synchronous_commit", "fsync", "listen_addresses")
            ]
        assert shown == [("7MB",), (synchronous_commit,), ("on",), ("127.0.0.1",)]


@needs_module()
def test_servers_find_the_modules_that_were_built_first(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("a")], "", None)
    for name, dsn in ((PRIMARY, cluster.primary_dsn), ("a", cluster.sps[0].admin_dsn)):
        with psycopg.connect(dsn) as connection:
            shown = connection.execute("SHOW dynamic_library_path").fetchone()
        assert shown == (f"{cluster.server(name).folder / 'lib'}:$libdir",)


def test_servers_reach_their_folders_whatever_the_umask(tmp_path: Path) -> None:
    directory = state.default_directory(f"tmp-{tmp_path.name}")
    umask = os.umask(0o077)
    try:
        with LocalCluster.create([Zone("a")], Options(directory=directory)) as cluster:
            assert cluster.is_running("a", "postgres")
    finally:
        os.umask(umask)


def test_down_leaves_nothing(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("a"), Zone("b", rtt_ms=10)], "", None)
    directory, sockets = cluster.state.directory, cluster.state.socket_dir
    servers = [cluster.server(node.name) for node in cluster.state.nodes]
    assert all(server.is_running() for server in servers)
    cluster.down()
    assert not directory.exists()
    assert not sockets.exists()
    assert not any(server.is_running() for server in servers)
    assert processes.find_all(directory) == {}


def test_kept_data_comes_back(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("a")], "", None)
    with psycopg.connect(cluster.sps[0].dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    cluster.down(keep_data=True)
    again = LocalCluster.open(cluster.state.directory)
    again.resume()
    with psycopg.connect(again.sps[0].dsn) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_a_crashed_server_starts_again(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("a")], "", None)
    cluster.stop("a", "postgres", "immediate")
    assert not cluster.is_running("a", "postgres")
    cluster.start("a", "postgres")
    assert cluster.is_running("a", "postgres")


def test_an_interrupted_up_is_removed_by_the_next(tmp_path: Path) -> None:
    directory = state.default_directory(f"tmp-{tmp_path.name}")
    first = LocalCluster.create([Zone("a")], Options(directory=directory))
    first.state.complete = False  # as if it had been killed before its end
    first.state.save()
    with LocalCluster.create([Zone("b")], Options(directory=directory)) as second:
        assert [node.name for node in second.state.nodes] == [PRIMARY, "b"]
        assert not (directory / "a").exists()


def test_a_complete_cluster_is_not_overwritten(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("a")], "", None)
    with pytest.raises(PspError, match="already"):
        LocalCluster.create([Zone("a")], Options(directory=cluster.state.directory))


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(PspError, match="not empty"):
        LocalCluster.create([Zone("a")], Options(directory=tmp_path))
    assert (tmp_path / "thesis.txt").read_text() == "irreplaceable"


@pytest.mark.parametrize("names", [["primary"], ["a", "a"], ["a b"], [""], [], ["../x"]])
def test_bad_names_are_refused(names: list[str]) -> None:
    with pytest.raises(PspError):
        LocalCluster.temporary([Zone(name) for name in names])


def test_a_failed_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    directory = state.default_directory(f"tmp-{tmp_path.name}")
    monkeypatch.setenv("PSP_BIN", str(tmp_path))
    with pytest.raises(Exception, match="psp-primary"):
        LocalCluster.create([Zone("a")], Options(directory=directory))
    assert not directory.exists()
