"""TPC-C with Multi-Record Values inside psp: every SP works in every warehouse."""

from contextlib import ExitStack

from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, Zone

from benchmarks.mrv.tpcc import databases
from benchmarks.tests.conftest import LONG_S, SMALL
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import Client, Load

ZONES = [Zone("near"), Zone("far", 10)]
# A busy machine must not leave a commit in doubt.
OPTIONS = Options(pg_settings={"shared_buffers": "64MB"}, sp_options={"commit_timeout_ms": 60000})


def test_conditions_hold_and_rows_are_the_same_everywhere() -> None:
    load = Load(threads=4, seconds=LONG_S, scale=SMALL, transactions=300)
    with LocalCluster.temporary(ZONES, OPTIONS) as cluster:
        runner.prepare(cluster.sps[0].dsn, SMALL)
        databases.convert(cluster.sps[0].admin_dsn, records_max=64)
        databases.set_records(cluster.sps[0].admin_dsn, SMALL.warehouses, 4)
        growth.adopt(cluster)
        for sp in cluster.sps:
            cluster.start_mrv(sp.name, window_ms=200)
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(sp.dsn, load)) for sp in cluster.sps]
            reports = [client.report() for client in clients]
        assert [report["errors_by_sqlstate"] for report in reports] == [{}, {}]
        assert all(report["by_type"]["payment"]["transactions"] > 0 for report in reports)
        for sp in cluster.sps:
            cluster.stop_mrv(sp.name)
        result = verify.verify(cluster)
        assert result.consistent, result.as_dict()
        for sp in cluster.sps:
            assert [c for c in check.check(sp.admin_dsn) if not c.holds] == []
