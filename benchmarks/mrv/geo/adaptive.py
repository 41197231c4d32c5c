"""The workers by themselves: from a cold value on, a psp-mrv beside each SP, fed by the SP's daemon."""

from typing import Any

import psycopg
from psp.cluster import verify
from psp.cluster.local import LocalCluster
from psycopg.rows import dict_row

from benchmarks.mrv import comparison
from benchmarks.mrv.comparison import PLAIN, VIEW
from benchmarks.mrv.geo import shop
from benchmarks.mrv.geo.bench import Bench
from benchmarks.mrv.pgbench import Load


def measure(bench: Bench) -> dict[str, Any]:
    """One product, the most clients, READ COMMITTED: what the workers come to, and what they cost."""
    cluster, options = bench.cluster, bench.options
    clients = max(options.clients)
    load = Load("update", clients, 1, options.seconds)
    with bench.steps.step(f"The workers find the number of records in {options.adapt_seconds} s"):
        shop.merge(cluster, 1)
        rounds = bench.in_turns([PLAIN], load, options.rounds)
        for sp in cluster.sps:
            cluster.start_mrv(sp.name)
        try:
            bench.run(VIEW, Load("update", clients, 1, options.adapt_seconds))
            before = worker_counts(cluster)
            rounds |= bench.in_turns([VIEW], load, options.rounds)
            after = worker_counts(cluster)
            records = {sp.name: shop.own_records(sp) for sp in cluster.sps}
        finally:
            for sp in cluster.sps:
                cluster.stop_mrv(sp.name)
    verify.wait_drained(cluster)
    workers = {name: after[name] - before[name] for name in after}
    transactions = sum(each.report.transactions for each in rounds[VIEW])
    return {
        **comparison.row(bench.point(load, sum(records.values())), rounds),
        "records_in_each_part": records,
        "workers": {
            **workers,
            "abort_rate": workers["aborts"] / max(workers["aborts"] + transactions, 1),
        },
    }


def worker_counts(cluster: LocalCluster) -> dict[str, int]:
    """Changes of values, and transactions of the workers' own that were aborted, of all SPs."""
    counts = {"actions": 0, "aborts": 0}
    for sp in cluster.sps:
        with psycopg.connect(sp.admin_dsn, row_factory=dict_row) as connection:
            rows = connection.execute("SELECT actions, aborts FROM psp_mrv.workers").fetchall()
        for name in counts:
            counts[name] += sum(int(row[name]) for row in rows)
    return counts
