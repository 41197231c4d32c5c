"""TPC-C with its hot columns as Multi-Record Values: it runs, and its consistency conditions hold."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.output import PspError
from psp.servers.pgserver import PgServer

from benchmarks.mrv import comparison
from benchmarks.mrv import server as mrv_server
from benchmarks.mrv.comparison import PLAIN, VIEW, Report, Round
from benchmarks.mrv.tpcc import __main__ as command
from benchmarks.mrv.tpcc import databases
from benchmarks.tests.conftest import LONG_S, SMALL
from benchmarks.tpcc import check, runner
from benchmarks.tpcc.runner import Load


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_conditions_hold_with_mrvs(tpcc: str, value: Callable[[str, str], object], isolation: str) -> None:
    databases.convert(tpcc, records_max=4)
    databases.set_records(tpcc, warehouses=1, records=4)
    assert value(tpcc, "SELECT count(*) FROM psp_mrv.district_d_ytd WHERE d_w_id = 1") == 40
    mrv_server.set_commit_delay(tpcc, 1)
    load = Load(3, LONG_S, SMALL, home_last=1, isolation=isolation, prepared=True, transactions=200)
    found = runner.run(tpcc, load)
    assert command.report(found).transactions + found["gave_up"] == 200
    assert check.all_hold(tpcc)
    databases.set_records(tpcc, warehouses=1, records=1)
    databases.vacuum(tpcc)
    assert value(tpcc, "SELECT count(*) FROM psp_mrv.warehouse_w_ytd") == 0
    assert value(tpcc, "SHOW commit_delay") == "1000"


def test_a_failed_transaction_is_an_error() -> None:
    with pytest.raises(PspError, match="23505"):
        command.report({"errors": 1, "errors_by_sqlstate": {"23505": 1}})


def _row(isolation: str, warehouses: int, clients: int, view_tps: float) -> dict[str, Any]:
    rounds = {
        form: [Round(Report(100, tps, 1, 0), cpu_busy=0.9, lock_waiters=5)]
        for form, tps in ((PLAIN, 100), (VIEW, view_tps))
    }
    return comparison.row(command.Point(isolation, clients, warehouses, clients, 10), rounds)


def test_the_target_is_one_warehouse_and_the_most_clients() -> None:
    grid = [
        _row("read committed", 1, 8, 900),
        _row("read committed", 1, 64, 310),
        _row("read committed", 4, 64, 200),
        _row("repeatable read", 1, 64, 290),
    ]
    found = command.targets(grid, grid[:1])
    assert {name: target["holds"] for name, target in found.items()} == {
        "one_warehouse_read_committed": True,
        "one_warehouse_repeatable_read": False,
        "one_warehouse_no_commit_delay_read_committed": True,
    }
    assert found["one_warehouse_read_committed"]["cpu_busy"] == {PLAIN: 0.9, VIEW: 0.9}


def test_the_whole_grid_without_its_load(
    server: PgServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tpcc: str
) -> None:
    """On one small database in place of both."""
    databases.convert(tpcc, records_max=8)

    @contextmanager
    def this_server(_: int) -> Iterator[PgServer]:
        yield server

    def pretend(_: str, load: Load) -> dict[str, Any]:
        return {"errors": 0, "transactions": 9, "tps": 9.0, "p50_ms": 1.0, "aborts": 0}

    monkeypatch.setattr(mrv_server, "throw_away_server", this_server)
    monkeypatch.setattr(databases, "make", lambda *_: {PLAIN: tpcc, VIEW: tpcc})
    monkeypatch.setattr(runner, "run", pretend)
    arguments: Sequence[str] = ["--clients", "1,8", "--warehouses", "1,2", "--results", str(tmp_path)]
    assert command.main(arguments) == 0
    result = json.loads((tmp_path / "mrv_tpcc.json").read_text())
    assert len(result["grid"]) == 8
    assert result["targets"]["one_warehouse_read_committed"]["holds"] is False  # and that is no error
    assert (tmp_path / "mrv_tpcc.png").stat().st_size > 0
    with psycopg.connect(tpcc, autocommit=True) as connection:
        connection.execute("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1")
    assert command.main(arguments) == 2  # inconsistent
