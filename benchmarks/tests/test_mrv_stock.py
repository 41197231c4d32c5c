"""The stock microbenchmark: what pgbench says, the arithmetic, and that every form takes what it counts."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psp.servers.pgserver import PgServer

from benchmarks.mrv import __main__ as command
from benchmarks.mrv import adaptive, comparison, cpu_busy, heatmap, pgbench, shop, targets
from benchmarks.mrv import server as mrv_server
from benchmarks.mrv.comparison import PLAIN, VIEW, Report, Round
from benchmarks.mrv.pgbench import Load, PgbenchError
from benchmarks.mrv.targets import SUB, Point
from benchmarks.tests.conftest import LONG_S

SUMMARY = """pgbench (15.14 (Debian 15.14-0+deb12u1))
transaction type: update.sql
scaling factor: 1
query mode: prepared
number of clients: 32
number of threads: 2
maximum number of tries: 1000
duration: 3 s
number of transactions actually processed: 369
number of failed transactions: 2 (0.539%)
number of transactions retried: 340 (91.644%)
total number of retries: 4100
latency average = 260.160 ms (including failures)
initial connection time = 30.151 ms
tps = 121.500000 (without initial connection time)
"""


def test_summary_is_read() -> None:
    assert pgbench.parse(SUMMARY) == Report(transactions=369, tps=121.5, latency_ms=260.16, aborts=4102)


def test_no_retries_are_no_aborts() -> None:
    lines = [line for line in SUMMARY.splitlines() if "retr" not in line]
    text = "\n".join(lines).replace("2 (0.539%)", "0 (0.000%)")
    assert pgbench.parse(text).aborts == 0


def test_an_unknown_summary_is_an_error() -> None:
    with pytest.raises(PgbenchError, match="tps"):
        pgbench.parse(SUMMARY.replace("tps = ", "rate: "))


def _round(report: Report) -> Round:
    return Round(report, cpu_busy=0.5, lock_waiters=0)


def _row(
    isolation: str, clients: int, items: int, plain: float, delay_ms: float = 5, **forms: float
) -> dict[str, Any]:
    rounds = {
        form: [_round(Report(int(tps), tps, 1000 * clients / tps, aborts=0))]
        for form, tps in {PLAIN: plain, **forms}.items()
    }
    return comparison.row(Point("write", isolation, clients, items, clients, delay_ms), rounds)


def test_rounds_are_combined() -> None:
    reports = [Report(100, 50.0, 2.0, 0), Report(200, 100.0, 9.0, 60), Report(300, 150.0, 4.0, 90)]
    found = comparison.combine([_round(report) for report in reports])
    assert (found["tps"], found["latency_ms"], found["transactions"]) == (100.0, 4.0, 600)
    assert found["abort_rate"] == pytest.approx(0.2)


def test_what_limits_is_said_in_a_word() -> None:
    seen = {"busy": (0.95, 20.0), "locks": (0.5, 8.0), "commits": (0.5, 7.0)}
    forms = {form: {"cpu_busy": busy, "lock_waiters": waiters} for form, (busy, waiters) in seen.items()}
    found = comparison.limits({"forms": forms, "clients": 32})
    assert found["limited_by"] == {"busy": "processors", "locks": "locks", "commits": "commits"}
    assert found["lock_waiters"] == {"busy": 20.0, "locks": 8.0, "commits": 7.0}


def test_ratios_and_targets() -> None:
    grid = [
        _row("read committed", 32, 1, 100, view=1500, sub=2000),
        _row("read committed", 32, 16, 100, view=100, sub=100),
        _row("read committed", 1, 1, 100, view=90, sub=95),
        _row("repeatable read", 32, 1, 100, view=1200, sub=900),
    ]
    cold = [
        _row("read committed", 1, 1000, 100, delay_ms=0, view=60, sub=80),
        _row("read committed", 1, 1000, 100, view=96, sub=99),
    ]
    found = targets.targets(grid, cold, grid[2])
    assert found["hot_item_read_committed"]["by_form"] == {VIEW: 15.0, SUB: 20.0}
    assert found["hot_item_read_committed"]["holds"] is True
    assert found["hot_item_repeatable_read"]["measured"] == 9.0
    assert found["hot_item_repeatable_read"]["holds"] is False
    assert (found["cold_ratio"]["measured"], found["cold_ratio"]["holds"]) == (pytest.approx(0.6), False)
    assert found["cold_ratio_commits_wait"]["holds"] is True
    assert {"measured", "target", "kind", "holds"} <= set(found["read_ratio_64"])


def test_without_the_hot_point_there_is_no_hot_target() -> None:
    grid = [_row("read committed", 32, 16, 100, view=100, sub=100)]
    assert set(targets.targets(grid, grid, grid[0])) == {"cold_ratio_commits_wait", "read_ratio_64"}


def test_of_no_aborts_there_is_no_ratio(tmp_path: Path) -> None:
    none = [_round(Report(10, 10.0, 1.0, 0))]
    point = Point("write", "read committed", 1, 1, 1, 0)
    row = comparison.row(point, {PLAIN: none, VIEW: none, SUB: none})
    assert row["ratios"][VIEW] == {"throughput": 1.0, "aborts": None, "response_time": 1.0}
    heatmap.draw([row], tmp_path / "mrv.png", "items", "products")
    assert (tmp_path / "mrv.png").stat().st_size > 0


def test_options() -> None:
    options = command.parse(["--clients", "8,1,8", "--commit-delay-ms", "0.5"])
    assert (options.clients, options.items, options.commit_delay_ms) == ([1, 8], [1, 16], 0.5)
    for wrong in (["--commit-delay-ms", "101"], ["--clients", "0"], ["--items", "x"]):
        with pytest.raises(SystemExit):
            command.parse(wrong)


def test_the_delay_reaches_the_server_in_microseconds() -> None:
    load = Load("update", 1, 1, 1, "repeatable read", 1.5)
    assert "commit_delay=1500 -c commit_siblings=0" in load.server_options()
    assert r"isolation=repeatable\ read" in load.server_options()


def test_busy_share() -> None:
    assert cpu_busy.share((10, 100), (60, 200)) == 0.5
    assert cpu_busy.share((10, 100), (10, 100)) == 0.0
    busy, everything = cpu_busy.read()
    assert 0 < busy < everything


def test_each_form_takes_what_it_counts(server: PgServer, value: Callable[[str, str], object]) -> None:
    dsn = shop.make(server, "mrv_stock", items=2, records=3)
    taken = sum(
        pgbench.run(
            dsn,
            Load(script, clients=2, items=2, seconds=LONG_S, isolation="repeatable read", transactions=50),
        ).transactions
        for script in (command.SCRIPTS["write"][form] for form in (VIEW, SUB))
    )
    assert taken == 2 * 2 * 50
    assert value(dsn, "SELECT sum(stock)::bigint FROM product") == 2 * shop.STOCK - taken


def test_the_whole_grid_without_its_load(
    server: PgServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    def pretend(dsn: str, load: Load) -> Report:
        seen.append((load.script, load.clients, load.items, load.commit_delay_ms))
        return Report(100, 100.0, 1.0, 0)

    @contextmanager
    def this_server(_: int) -> Iterator[PgServer]:
        yield server

    monkeypatch.setattr(pgbench, "run", pretend)
    monkeypatch.setattr(mrv_server, "throw_away_server", this_server)
    monkeypatch.setattr(command, "COLD_ITEMS", 10)
    arguments = ["--clients", "2,32", "--items", "1", "--rounds", "2", "--results", str(tmp_path)]
    assert command.main(arguments) == 0
    result = json.loads((tmp_path / "mrv.json").read_text())
    assert [found["clients"] for found in result["grid"]] == [2, 2, 32, 32]
    assert set(result["targets"]) == {
        "hot_item_read_committed", "hot_item_repeatable_read", "cold_ratio", "cold_ratio_commits_wait",
        "read_ratio_64", "hot_item_adaptive_read_committed", "hot_item_adaptive_repeatable_read",
        "worker_aborts_read_committed", "worker_aborts_repeatable_read",
    }  # fmt: skip
    assert result["targets"]["hot_item_read_committed"]["holds"] is False  # and that is no error
    assert seen[:6] == [("update", 2, 1, 5), ("update", 2, 1, 5), ("sub", 2, 1, 5)] * 2
    assert ("read", 1, 32, 0) in seen
    assert (tmp_path / "mrv.png").stat().st_size > 0


def _adaptive_row(more_aborts: int, own_aborts: int) -> dict[str, Any]:
    reports = {
        form: Report(900, 100.0, 1.0, 0) for form in (PLAIN, VIEW, adaptive.WORKERS, adaptive.ADAPTIVE)
    }
    reports[adaptive.WORKERS] = Report(1000 - more_aborts, 100.0, 1.0, more_aborts)
    point = Point("both", "repeatable read", 32, 1, 32, 5)
    row = comparison.row(point, {form: [_round(report)] for form, report in reports.items()})
    return {**row, "workers": {adaptive.WORKERS: {"actions": 50, "aborts": own_aborts}}}


def test_aborts_of_the_workers_are_their_own_and_what_clients_have_more() -> None:
    found = adaptive.targets(_adaptive_row(more_aborts=4, own_aborts=5))["worker_aborts_repeatable_read"]
    assert (found["measured"], found["holds"]) == (pytest.approx(0.009), True)
    assert not adaptive.targets(_adaptive_row(7, 5))["worker_aborts_repeatable_read"]["holds"]


def test_a_failing_statement_is_an_error(server: PgServer) -> None:
    server.create_database("mrv_empty")
    with pytest.raises(PgbenchError, match="product"):
        pgbench.run(server.dsn("mrv_empty"), Load("read", clients=1, items=1, seconds=1))
