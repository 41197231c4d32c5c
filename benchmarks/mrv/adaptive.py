"""The microbenchmark with the workers: one hot product, to which is added as often as is taken from it.

Four forms in turns: the plain table; as many records as clients, and no workers; the same with psp-mrv,
which balances; and a value that is cold when the load begins, whose records psp-mrv finds. It is told nothing
by the clients: it sees who waits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psp.cluster.daemons import MRV_BINARY, daemon_name, start_daemon
from psp.servers import processes
from psp.servers.pgserver import PgServer

from benchmarks.mrv import comparison, pgbench, shop
from benchmarks.mrv.comparison import PLAIN, VIEW, Report
from benchmarks.mrv.pgbench import Load
from benchmarks.mrv.targets import Point

WORKERS = "view, workers"
ADAPTIVE = "view, adaptive"
STOCK = 8192  # the thesis's, table 6
ITEMS = 1
WORKER_ABORTS_MAX = 0.01


@dataclass
class Counts:
    """What the workers of one database have done."""

    actions: int = 0
    aborts: int = 0


class Databases:
    """All four, with a psp-mrv at each of the last two until the context is left."""

    def __init__(self, server: PgServer, clients: int) -> None:
        self._server = server
        self.dsns = {
            PLAIN: shop.make(server, "adaptive_plain", ITEMS, None, STOCK),
            VIEW: shop.make(server, "adaptive_fixed", ITEMS, clients, STOCK),
            WORKERS: shop.make(server, "adaptive_workers", ITEMS, clients, STOCK),
            ADAPTIVE: shop.make(server, "adaptive_adaptive", ITEMS, 1, STOCK),
        }
        with psycopg.connect(self.dsns[WORKERS]) as connection:
            connection.execute("UPDATE psp_mrv.columns SET strategy = 'none'")

    @contextmanager
    def served(self) -> Iterator[None]:
        """While psp-mrv runs."""
        folder = self._server.folder.parent
        nodes = {"mrv-workers": WORKERS, "mrv-adaptive": ADAPTIVE}
        try:
            for node, form in nodes.items():
                (folder / node).mkdir(exist_ok=True)
                start_daemon(folder, node, MRV_BINARY, {"database": self.dsns[form]})
            yield
        finally:
            for node in nodes:
                processes.end(daemon_name(folder, node))

    def counts(self, form: str) -> Counts:
        """Of adjust and balance, as they have told last (about once a second)."""
        row = _row(
            self.dsns[form],
            "SELECT coalesce(sum(actions), 0)::bigint, coalesce(sum(aborts), 0)::bigint FROM psp_mrv.workers"
            " WHERE worker IN ('adjust', 'balance')",
        )
        return Counts(int(row[0]), int(row[1]))

    def records(self, form: str) -> int:
        """Of the hot product, now."""
        return int(_row(self.dsns[form], "SELECT records FROM psp_mrv.value_state(1, '{1}')")[0])


def _row(dsn: str, query: str) -> tuple[Any, ...]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def measure(databases: Databases, point: Point, seconds: int, rounds: int, warm_up_s: int) -> dict[str, Any]:
    """One point. The adaptive form's load runs for `warm_up_s` before it is measured."""

    def load(form: str, load_seconds: int) -> Report:
        dsn = databases.dsns[form]
        return pgbench.run(
            dsn,
            Load("restock", point.clients, ITEMS, load_seconds, point.isolation, point.commit_delay_ms),
        )

    records: list[int] = []

    def run(form: str, dsn: str) -> Report:
        shop.vacuum(dsn)
        if form == ADAPTIVE:
            load(form, warm_up_s)
        found = load(form, seconds)
        if form == ADAPTIVE:
            records.append(databases.records(form))
        return found

    before = {form: databases.counts(form) for form in (WORKERS, ADAPTIVE)}
    found = comparison.row(point, comparison.in_turns(databases.dsns, run, rounds))
    after = {form: databases.counts(form) for form in (WORKERS, ADAPTIVE)}
    found["adaptive_records"] = records
    found["workers"] = {
        form: {
            "actions": after[form].actions - before[form].actions,
            "aborts": after[form].aborts - before[form].aborts,
        }
        for form in before
    }
    return found


def targets(row: dict[str, Any]) -> dict[str, Any]:
    """Of one row. The workers cause their own aborts, and what clients abort more where they balance."""
    name = row["isolation"].replace(" ", "_")
    adaptive = {**row, "ratios": {ADAPTIVE: row["ratios"][ADAPTIVE]}}
    forms = row["forms"]
    attempts = forms[WORKERS]["transactions"] + forms[WORKERS]["aborts"]
    own = row["workers"][WORKERS]["aborts"] / attempts if attempts else 0.0
    more = max(0.0, forms[WORKERS]["abort_rate"] - forms[VIEW]["abort_rate"])
    return {
        f"hot_item_adaptive_{name}": comparison.target(adaptive, 10),
        f"worker_aborts_{name}": {
            "measured": own + more,
            "target": WORKER_ABORTS_MAX,
            "kind": "at most",
            "holds": own + more <= WORKER_ABORTS_MAX,
            "of_the_workers": own,
            "more_of_the_clients": more,
            "worker_actions": row["workers"][WORKERS]["actions"],
        },
    }
