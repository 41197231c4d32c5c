"""TPC-C on a cluster in views mode, through the Lua client library: the same consistency conditions."""

from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, Zone
from psp.cluster.verify import verify

from benchmarks.tests.conftest import LONG_S, SMALL
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import Load

MIX = "35,30,10,15,10"  # enough of every transaction


def test_all_transactions_and_conditions() -> None:
    with LocalCluster.temporary([Zone("north"), Zone("south")], Options(mode="views")) as cluster:
        runner.prepare(cluster.sps[0].dsn, SMALL)
        growth.adopt(cluster)
        for prepared, sp in ((False, cluster.sps[0]), (True, cluster.sps[1])):
            load = Load(2, LONG_S, SMALL, mix=MIX, prepared=prepared, transactions=300)
            report = runner.run(sp.dsn, load.in_mode("views"))
            assert report["errors"] == report["gave_up"] == 0, report["errors_by_sqlstate"]
            assert all(found["transactions"] for found in report["by_type"].values()), report["by_type"]
        verification = verify(cluster)
        assert verification.consistent, verification.as_dict()
        for sp in cluster.sps:
            assert check.all_hold(sp.admin_dsn)
