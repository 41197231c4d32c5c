"""Vacation: the tasks do what they say on plain tables and on Multi-Record Values."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from benchmarks.mrv import server as mrv_server
from benchmarks.tests.conftest import LONG_S
from benchmarks.vacation import __main__ as command
from benchmarks.vacation import databases, runner
from benchmarks.vacation.runner import Load

ROWS = 5  # so few that clients meet


@pytest.mark.parametrize(
    ("form", "isolation"),
    [("plain", "repeatable read"), ("view", "repeatable read"), ("functions", "read committed")],
)
def test_free_units_are_the_total_less_the_reservations(
    server: PgServer, value: Callable[[str, str], object], form: str, isolation: str
) -> None:
    name = f"vacation_{form}_{isolation[:4]}"
    dsn = databases.make(server, name, ROWS, None if form == "plain" else 3)
    assert databases.violations(dsn) == 0
    before = value(dsn, "SELECT count(*) FROM reservation_info")
    found = runner.run(
        dsn, Load(4, LONG_S, ROWS, isolation=isolation, functions=form == "functions", transactions=200)
    )
    assert command.report(found).transactions + found["gave_up"] == 200
    done = {task: told["transactions"] for task, told in found["by_type"].items()}
    assert done["make_reservation"] > done["delete_customer"], found
    assert value(dsn, "SELECT count(*) FROM reservation_info") != before
    assert databases.violations(dsn) == 0
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE car_reservation SET numfree = numfree + 1 WHERE id = 1")
    assert databases.violations(dsn) == 1


def test_nobody_reserves_what_is_sold_out(server: PgServer, value: Callable[[str, str], object]) -> None:
    dsn = databases.make(server, "vacation_sold_out", 1, 2)
    with psycopg.connect(dsn) as connection:
        for kind in databases.KINDS:
            connection.execute(f"UPDATE {kind}_reservation SET numtotal = 3 + numtotal - numfree".encode())
            connection.execute(f"UPDATE {kind}_reservation SET numfree = 3".encode())
        connection.execute("DELETE FROM customer")
    found = runner.run(dsn, Load(4, LONG_S, 1, user_percent=100, transactions=100))
    assert found["errors"] == 0
    assert value(dsn, "SELECT sum(numfree)::int FROM car_reservation") == 0
    assert databases.violations(dsn) == 0


def test_the_whole_grid_without_its_load(
    server: PgServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Load] = []

    @contextmanager
    def this_server(_: int) -> Iterator[PgServer]:
        yield server

    def pretend(_: str, load: Load) -> dict[str, Any]:
        seen.append(load)
        return {"errors": 0, "transactions": 9, "tps": 9.0, "p50_ms": 1.0, "aborts": 0}

    monkeypatch.setattr(mrv_server, "throw_away_server", this_server)
    monkeypatch.setattr(runner, "run", pretend)
    assert command.main(["--clients", "4", "--rows", "3", "--results", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "vacation.json").read_text())
    assert [(row["isolation"], row["clients"]) for row in result["grid"]] == [("repeatable read", 4)]
    assert [(row["isolation"], row["commit_delay_ms"]) for row in result["beside_the_grid"]] == [
        ("read committed", 100),
        ("repeatable read", 500),
        ("read committed", 500),
    ]
    assert [load.commit_wait_ms for load in seen] == [0] * 6 + [500] * 6
    assert [target["clients"] for target in result["targets"].values()] == [4] * 4
    assert set(result["targets"]["most_contended"]["limited_by"]) == {"plain", "view", "functions"}
    assert [load.functions for load in seen[:3]] == [False, False, True]
    assert (tmp_path / "vacation.png").stat().st_size > 0
