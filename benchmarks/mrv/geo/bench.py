"""The measurement on one cluster: rounds of each form, and how many pieces they sold."""

import argparse
from collections.abc import Sequence
from typing import Any

from psp.cluster.local import LocalCluster

from benchmarks.mrv import comparison
from benchmarks.mrv.comparison import PLAIN, Report
from benchmarks.mrv.geo import shop
from benchmarks.mrv.geo.load import SCRIPTS, run_everywhere, together
from benchmarks.mrv.pgbench import Load
from benchmarks.mrv.program import ISOLATIONS
from benchmarks.mrv.targets import Point
from benchmarks.steps import Steps


class Bench:
    """The measurement on one cluster; counts what was sold."""

    def __init__(self, cluster: LocalCluster, options: argparse.Namespace, steps: Steps) -> None:
        self.cluster = cluster
        self.options = options
        self.steps = steps
        self.sold = {shop.MRV_SCHEMA: 0, shop.PLAIN_SCHEMA: 0}
        self._near = cluster.sps[0].admin_dsn

    def run(self, form: str, load: Load) -> Report:
        """One round of one form, at all SPs."""
        report = together(run_everywhere(self.cluster.sps, form, load))
        self.sold[shop.PLAIN_SCHEMA if form == PLAIN else shop.MRV_SCHEMA] += report.transactions
        return report

    def in_turns(self, forms: Sequence[str], load: Load, rounds: int) -> dict[str, list[comparison.Round]]:
        """Rounds of each; what waits for locks is seen at the first SP."""

        def run(form: str, _: str) -> Report:
            shop.vacuum(self.cluster)
            return self.run(form, load)

        return comparison.in_turns(dict.fromkeys(forms, self._near), run, rounds)

    def point(self, load: Load, records: int) -> Point:
        """`load` is what the clients of one SP do."""
        return Point("write", load.isolation, len(self.cluster.sps) * load.clients, load.items, records, 0)

    def grid(self) -> list[dict[str, Any]]:
        """All points."""
        rows = []
        for clients in self.options.clients:
            with self.steps.step(f"{clients} records for each value in each SP's part"):
                shop.set_records(self.cluster, max(self.options.items), clients)
            for isolation in ISOLATIONS:
                for items in self.options.items:
                    load = Load("update", clients, items, self.options.seconds, isolation)
                    with self.steps.step(f"{isolation}, {clients} clients in each zone, {items} products"):
                        rounds = self.in_turns(list(SCRIPTS), load, self.options.rounds)
                    rows.append(comparison.row(self.point(load, len(self.cluster.sps) * clients), rounds))
        return rows
