"""The same load at all SPs at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from psp.cluster.local import SpNode

from benchmarks.mrv import pgbench
from benchmarks.mrv.comparison import PLAIN, VIEW, Report
from benchmarks.mrv.geo.shop import PLAIN_SCHEMA
from benchmarks.mrv.pgbench import Load
from benchmarks.mrv.targets import SUB

UNIFORM = "uniform"  # the view's UPDATE, records chosen from the whole ring
SCRIPTS = {PLAIN: "update", VIEW: "update", SUB: "sub", UNIFORM: "update"}
_WHOLE_RING = "-c psp_mrv.ring_first=0 -c psp_mrv.ring_count=65536"
_MORE_OPTIONS = {PLAIN: f"-c search_path={PLAIN_SCHEMA}", UNIFORM: _WHOLE_RING}


@dataclass(frozen=True)
class FormLoad(Load):
    """With the options of a form. It is distance that commits wait for, not the server's commit_delay."""

    form: str = PLAIN

    def server_options(self) -> str:
        isolation = self.isolation.replace(" ", r"\ ")
        return f"-c default_transaction_isolation={isolation} {_MORE_OPTIONS.get(self.form, '')}"


def run_everywhere(sps: Sequence[SpNode], form: str, load: Load) -> list[Report]:
    """One report for each SP; `load` is what the clients of one SP do."""
    mine = FormLoad(SCRIPTS[form], load.clients, load.items, load.seconds, load.isolation, form=form)
    with ThreadPoolExecutor(len(sps)) as pool:
        return list(pool.map(lambda sp: pgbench.run(sp.admin_dsn, mine), sps))


def together(reports: Sequence[Report]) -> Report:
    """Of all SPs; the response time is that of all transactions."""
    transactions = sum(report.transactions for report in reports)
    waited_ms = sum(report.latency_ms * report.transactions for report in reports)
    return Report(
        transactions=transactions,
        tps=sum(report.tps for report in reports),
        latency_ms=waited_ms / transactions if transactions else 0.0,
        aborts=sum(report.aborts for report in reports),
    )
