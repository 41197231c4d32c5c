"""What a New-Order of ten lines costs when it is written the thesis's way, with nothing of psp, and plain.

Every row is written to an unlogged table, read as a write-set, written to the real table and deleted again.
No views, no triggers, no certification, no daemon, statements prepared: no implementation of views mode on a
stock PostgreSQL can cost less. CPU of the backends only, by the kernel's account (/proc/PID/schedstat).
"""

import argparse
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError, console, table

from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Scale

SCRIPT = Path(__file__).with_name("double_write.sql")
DISTRICTS = 10
LINES = 10
COLLECT_EVERY = 50  # transactions

# All sessions are alike: flushes are another matter, and the same for both.
SETTINGS = "SET synchronous_commit = off; SET plan_cache_mode = force_generic_plan; SET jit = off"


T = TypeVar("T")


class Session:
    """A connection whose prepared statements are told apart by what they cost its backend."""

    def __init__(self, dsn: str, costs_us: dict[str, list[float]]) -> None:
        # EXECUTE takes no parameters of the protocol, so the client puts the values into the text.
        self._connection = psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor)
        self._connection.execute(SETTINGS)
        self._connection.commit()
        self._schedstat = Path(f"/proc/{self._connection.info.backend_pid}/schedstat")
        self._costs_us = costs_us

    def prepare(self, statements: str) -> None:
        """Runs a script that prepares statements."""
        self._connection.execute(statements.encode())
        self._connection.commit()

    def call(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        """One prepared statement."""
        parameters = f" ({', '.join(['%s'] * len(values))})" if values else ""
        cursor = self._connection.execute(f"EXECUTE {name}{parameters}".encode(), values)
        return cursor.fetchall() if cursor.description else []

    def transaction(self, what: str, work: Callable[[], T], share: int = 1) -> T:
        """`work` and its COMMIT; notes the `share`-th part of what they have cost under `what`."""
        before = self._on_cpu_ns()
        result = work()
        self._connection.commit()
        self._costs_us[what].append((self._on_cpu_ns() - before) / 1000 / share)
        return result

    def _on_cpu_ns(self) -> int:
        return int(self._schedstat.read_text().split()[0])


def one_round(client: Session, worker: Session, order: int, scale: Scale) -> None:
    """One plain transaction, and one that is written twice."""
    district = random.randint(1, DISTRICTS)
    items = sorted(random.sample(range(1, scale.items + 1), LINES))

    def plain() -> None:
        client.call("plain_stock_read", items)
        client.call("plain_district", district)
        client.call("plain_stock", items)
        client.call("plain_orders", district, order)
        client.call("plain_new_order", district, order)
        client.call("plain_lines", district, order, items)

    def to_unlogged() -> str:
        xid = str(client.call("temp_begin")[0][0])
        client.call("plain_stock_read", items)
        client.call("temp_district", district)
        client.call("temp_district_next", district)
        client.call("temp_stock", items)
        client.call("temp_orders", district, order + 1)
        client.call("temp_new_order", district, order + 1)
        client.call("temp_lines", district, order + 1, items)
        return xid

    def take() -> int:
        worker.call("take_status", xid)
        return len(worker.call("take_rows", xid))

    def apply() -> None:
        for name in ("status", "district", "stock", "orders", "new_order", "lines"):
            worker.call(f"apply_{name}", xid)

    client.transaction("plain", plain)
    xid = client.transaction("client", to_unlogged)
    assert worker.transaction("take", take) == 2 * LINES + 3
    worker.transaction("apply", apply)


def collect(worker: Session) -> None:
    """Deletes the temporary rows of the last transactions."""
    names = ("stock", "district", "orders", "new_order", "lines")
    worker.transaction("collect", lambda: [worker.call(f"collect_{name}") for name in names], COLLECT_EVERY)


def measure(rounds: int, scale: Scale) -> dict[str, float]:
    """Medians of each part, in microseconds; the first quarter warms up."""
    costs_us: dict[str, list[float]] = defaultdict(list)
    with LocalCluster.temporary([Zone("here")], Options(database="tpcc", relay=False)) as cluster:
        node = cluster.sps[0]
        runner.prepare(node.dsn, scale)
        setup, statements = SCRIPT.read_text().split("-- plain:", 1)
        dsn = cluster.server(node.name).dsn("tpcc")
        client, worker = Session(dsn, costs_us), Session(dsn, costs_us)
        client.prepare(setup)
        for session in (client, worker):
            session.prepare("-- plain:" + statements)
        for number in range(rounds):
            one_round(client, worker, order=1_000_000 + 2 * number, scale=scale)
            if number % COLLECT_EVERY == COLLECT_EVERY - 1:
                collect(worker)
    return {what: statistics.median(costs[len(costs) // 4 :]) for what, costs in costs_us.items()}


def report(medians_us: dict[str, float], folder: Path) -> None:
    """Prints and writes double_write.json."""
    parts = {
        "client": "the client's statements, into unlogged tables; begin, COMMIT",
        "take": "a local worker: status, write-set",
        "apply": "a local worker: status, the real tables",
        "collect": "the garbage collector's share",
    }
    rows = [(text, f"{medians_us[part]:.0f}", f"{medians_us[part] / medians_us['plain']:.2f}")
            for part, text in parts.items()]  # fmt: skip
    ratio = sum(medians_us[part] for part in parts) / medians_us["plain"]
    rows += [("together", "", f"{ratio:.2f}"), ("plain", f"{medians_us['plain']:.0f}", "1")]
    console.print(table("A New-Order of ten lines", ("what", "CPU µs", "of plain"), rows))
    result = {"benchmark": "double_write", "cpu_us": medians_us, "ratio": ratio}
    write_json(result, folder / "double_write.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.double_write", description=__doc__)
    parser.add_argument("--rounds", type=int, default=800, help="transactions of each kind (800)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for double_write.json")
    options = parser.parse_args(arguments)

    def work() -> int:
        with Steps().step("Writing once and twice"):
            medians_us = measure(options.rounds, Scale())
        report(medians_us, options.results)
        return 0

    return exit_code(work, PspError, psycopg.Error)


if __name__ == "__main__":
    sys.exit(main())
