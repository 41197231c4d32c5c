"""The overhead's arithmetic, and that CPU time is found where it was spent."""

import subprocess
import sys

import pytest
from psp.waiting import wait_until

from benchmarks.overhead import cpu, observed, targets
from benchmarks.overhead.sums import Sum

BURN = "import time\nwhile time.process_time() < {}: pass"


def _sum(transactions: int, seconds: float, **cpu_s: float) -> Sum:
    return Sum(transactions=transactions, seconds=seconds, cpu_s=dict(cpu_s), p50_ms=[1.0], p95_ms=[2.0])


def test_row_and_targets() -> None:
    plain = _sum(1000, 10, postgres=1.0, client=0.5)
    psp = _sum(
        500, 10, sp_postgres=0.5, sp_daemon=0.05, primary_postgres=0.3, primary_daemon=0.05, client=0.3
    )
    views = _sum(
        500, 10, sp_postgres=0.9, sp_daemon=0.1, primary_postgres=0.2, primary_daemon=0.05, client=0.3
    )
    row = targets.row(4, "standard", {"plain": plain, "psp": psp, "psp_sql": views, "views": views})
    assert row["throughput_ratio"] == pytest.approx(0.5)
    assert row["sp_cpu_ratio"] == pytest.approx(1.1)
    assert row["total_cpu_ratio"] == pytest.approx(1.8)
    assert row["views_sp_cpu_ratio"] == row["sql_sp_cpu_ratio"] == pytest.approx(2.0)
    found = targets.targets([row], [row])
    assert found["views_sp_cpu_ratio"]["holds"] is True
    plain_fk = _sum(1000, 10, postgres=1.1)
    psp_fk = _sum(500, 10, sp_postgres=0.6, sp_daemon=0.06, primary_postgres=0.3, primary_daemon=0.05)
    keys = targets.row(4, "standard", {"plain": plain, "psp": psp, "plain_fk": plain_fk, "psp_fk": psp_fk})
    assert keys["foreign_keys_plain_ratio"] == pytest.approx(1.1)
    assert keys["foreign_keys_sp_ratio"] == pytest.approx(0.66 / 0.55 / 1.1)
    assert keys["foreign_keys_primary_ratio"] == pytest.approx(1.0)
    assert targets.targets([keys], [keys])["foreign_keys_sp_ratio"]["holds"] is True
    without = targets.row(4, "standard", {"plain": plain, "psp": psp})
    assert "views_sp_cpu_ratio" not in targets.targets([without], [without])
    assert found["sp_cpu_ratio"]["holds"] is True
    assert found["total_cpu_ratio"]["holds"] is False
    assert found["throughput_ratio"]["holds"] is False
    assert found["read_ratio"] == {
        "measured": pytest.approx(0.5), "target": 0.98, "kind": "at least", "holds": False,
        "by_threads": {"4": pytest.approx(0.5)},
    }  # fmt: skip


def test_cpu_of_living_and_ended_children_is_counted() -> None:
    ended = BURN.format(0.3)
    living = ended + "\ninput()"
    script = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {ended!r}])\n"
        f"child = subprocess.Popen([sys.executable, '-c', {living!r}], stdin=subprocess.PIPE)\n"
        "sys.stdin.read()\n"
        "child.communicate(b'x')\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        # 0.3 s each, less what the kernel rounds away: it counts in ticks of 10 ms.
        wait_until("the children to have worked", lambda: cpu.group_s(parent.pid) >= 0.55, 60)
        parent.communicate(b"")


def test_turns_are_compared_within_their_round() -> None:
    """A round in which the machine was slow for all changes no ratio."""
    cpu_ms = {"alone": [1.0, 2.0, 1.0, 4.0], "seen": [1.1, 2.2, 1.0, 4.0], "again": [1.0, 2.0, 1.0, 4.0]}
    found = observed.ratios(cpu_ms)
    assert found["seen"] == {"ratio": pytest.approx(1.05), "quartiles": [1.0, pytest.approx(1.1)]}
    assert found["again"] == {"ratio": 1.0, "quartiles": [1.0, 1.0]}
