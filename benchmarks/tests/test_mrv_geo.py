"""The microbenchmark on three SPs: the arithmetic, and what each form asks of its sessions."""

from typing import Any

import pytest

from benchmarks.mrv import pgbench
from benchmarks.mrv.comparison import PLAIN, VIEW, Report, Round, row
from benchmarks.mrv.geo import __main__ as command
from benchmarks.mrv.geo.load import SCRIPTS, UNIFORM, FormLoad, together
from benchmarks.mrv.targets import SUB, Point

NOTHING = """number of transactions actually processed: 0
number of failed transactions: 0 (NaN%)
total number of retries: 0
"""


def test_nothing_sold_is_a_report() -> None:
    assert pgbench.parse(NOTHING) == Report(0, 0.0, 0.0, 0)


def test_zones_together() -> None:
    zones = [Report(300, 100.0, 10.0, 3), Report(100, 30.0, 90.0, 1), Report(0, 0.0, 0.0, 0)]
    assert together(zones) == Report(400, 130.0, 30.0, 4)
    assert together([Report(0, 0.0, 0.0, 0)]).latency_ms == 0


def test_each_form_has_its_own_sessions() -> None:
    options = {
        form: FormLoad(script, 8, 1, 1, "repeatable read", form=form).server_options()
        for form, script in SCRIPTS.items()
    }
    assert "search_path=plain_shop" in options[PLAIN]
    assert "ring_count=65536" in options[UNIFORM]
    assert options[VIEW] == options[SUB]
    assert all(r"isolation=repeatable\ read" in each for each in options.values())


def _row(clients: int, items: int, **aborts: int) -> dict[str, Any]:
    tps = {PLAIN: 10.0, VIEW: 120.0, SUB: 150.0, UNIFORM: 60.0}
    rounds = {form: [Round(Report(100, tps[form], 10.0, aborts.get(form, 0)), 0.5, 0.0)] for form in SCRIPTS}
    return row(Point("write", "read committed", clients, items, clients, 0), rounds)


def test_targets_are_those_of_the_most_contended_point() -> None:
    found = {**_row(24, 1), "workers": {"abort_rate": 0.02}}
    grid = [_row(3, 1), _row(24, 1, view=25, uniform=100), _row(24, 16)]
    targets = command.targets(grid, found)
    assert targets["hot_item_read_committed"]["measured"] == 12.0
    own = targets["aborts_own_part_over_uniform_read_committed"]
    assert own["measured"] == pytest.approx(0.2 / 0.5)
    assert own["holds"] is True
    assert targets["hot_item_records_found_by_the_workers"]["holds"] is True
    assert targets["workers_own_aborts"]["holds"] is False


def test_without_aborts_of_uniform_choice_there_is_nothing_to_win() -> None:
    found = {**_row(24, 1), "workers": {"abort_rate": 0.0}}
    own = command.targets([_row(24, 1)], found)["aborts_own_part_over_uniform_read_committed"]
    assert (own["measured"], own["holds"]) == (1.0, False)


def test_options() -> None:
    options = command.parse(["--clients", "4,1", "--zones", "near:5,far:100"])
    assert options.clients == [1, 4]
    assert [(zone.name, zone.rtt_ms) for zone in options.zones] == [("near", 5), ("far", 100)]
