"""An SP joins a running cluster from the primary while the others commit."""

from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.local import Zone
from psp.output import PspError
from psp.schema.join import prepare_join

from tests.cluster.support import SCHEMA, MakeCluster, execute, wait_for_row, wait_streaming
from tests.cluster.workload import Workload


def test_join_while_others_commit(make_cluster: MakeCluster) -> None:
    rows = "INSERT INTO document (note) SELECT 'row ' || n FROM generate_series(1, 20000) n;"
    cluster = make_cluster([Zone("one"), Zone("two")], SCHEMA.read_text() + rows, None)
    progress: list[tuple[str, int, int]] = []
    with Workload(cluster) as load:
        load.wait_commits(100)
        joined = growth.join(cluster, Zone("three"), lambda *seen: progress.append(seen))
        load.wait_commits(50)
    load.check()
    assert execute(joined, "SELECT count(*) FROM document") == [(20000,)]
    assert progress and all(name == "three" for name, _, _ in progress)
    # It is an SP like any other.
    key = execute(joined, "INSERT INTO document (note) VALUES ('from the newcomer') RETURNING id")[0][0]
    wait_for_row(cluster.sps[0], "SELECT 1 FROM document WHERE id = %s", (key,))
    result = verify.verify(cluster)
    assert result.consistent, result.as_dict()


def test_clients_wait_for_the_whole_copy(make_cluster: MakeCluster) -> None:
    """Nobody reads before the daemon has copied the rows. With the last row it lets clients in."""
    cluster = make_cluster([Zone("one")], SCHEMA.read_text(), None)
    execute(cluster.sps[0], "INSERT INTO account VALUES (1, 'before', NULL)")
    two = cluster.add_zone(Zone("two"), True)
    prepare_join(two.admin_dsn, cluster.primary_dsn, "two", "two")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        execute(two, "SELECT count(*) FROM account")
    cluster.mark_adopted("two")
    growth.wait_joined(two)
    assert execute(two, "SELECT count(*) FROM account") == [(1,)]


def test_rows_of_the_adopted_database_are_everywhere(make_cluster: MakeCluster) -> None:
    schema = """
        CREATE TABLE pair (a integer, b text, v numeric, PRIMARY KEY (a, b));
        INSERT INTO pair SELECT n, 'b' || n, n / 7.0 FROM generate_series(1, 1000) n;
        CREATE MATERIALIZED VIEW summed AS SELECT sum(a) AS total FROM pair;
        CREATE MATERIALIZED VIEW twice AS SELECT total * 2 AS total FROM summed;
    """
    cluster = make_cluster([Zone("one"), Zone("two", rtt_ms=10)], schema, None)
    for sp in cluster.sps:
        assert execute(sp, "SELECT count(*), sum(a) FROM pair") == [(1000, 500500)]
        assert execute(sp, "SELECT total FROM twice") == [(1001000,)]
    assert verify.verify(cluster).consistent


def test_a_stopped_sp_catches_up(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one"), Zone("two")], SCHEMA.read_text(), None)
    cluster.stop("two")
    for n in range(300):
        execute(cluster.sp("one"), "INSERT INTO account VALUES (%s, 'while away', NULL)", (n,))
    cluster.start("two")
    wait_streaming(cluster)
    verify.wait_drained(cluster)
    assert execute(cluster.sp("two"), "SELECT count(*) FROM account") == [(300,)]
    assert verify.verify(cluster).consistent


def test_a_name_is_taken_once(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one")], SCHEMA.read_text(), None)
    with pytest.raises(PspError, match="must differ"):
        growth.join(cluster, Zone("one"))
    assert [sp.name for sp in cluster.sps] == ["one"]


def test_a_failed_join_leaves_nothing(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = make_cluster([Zone("one")], SCHEMA.read_text(), None)
    with monkeypatch.context() as broken, pytest.raises(PspError, match="psp-semi-primary"):
        broken.setenv("PSP_BIN", str(tmp_path))
        growth.join(cluster, Zone("two"))
    assert [sp.name for sp in cluster.sps] == ["one"]
    assert not (cluster.state.directory / "two").exists()
    # The name is free again, its number is not.
    joined = growth.join(cluster, Zone("two", zone_name="elsewhere"))
    assert execute(joined, "SELECT sp_id FROM psp.status") == [(3,)]
    assert joined.zone == "elsewhere"
    execute(joined, "INSERT INTO account VALUES (1, 'second try', NULL)")
    wait_for_row(cluster.sps[0], "SELECT 1 FROM account WHERE id = 1")


def test_a_plain_cluster_cannot_be_joined(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one")], "", None)
    with pytest.raises(PspError, match="no adopted database"):
        growth.join(cluster, Zone("two"))


def test_the_joined_tables_belong_to_the_application(make_cluster: MakeCluster) -> None:
    cluster = make_cluster([Zone("one"), Zone("two")], SCHEMA.read_text(), None)
    owners: LiteralString = (
        "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    )
    shown = []
    for sp in cluster.sps:
        with psycopg.connect(sp.admin_dsn) as connection:
            shown.append(connection.execute(owners).fetchall())
    assert shown[0] == shown[1]
