"""Runs Vacation's client on a database."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tpcc import runner

SCRIPT = Path(__file__).with_name("vacation.lua")
USER_PERCENT = 80  # the thesis's U


@dataclass(frozen=True)
class Load:
    """What the clients do. `n`: how many items a task looks at. `functions`: for databases with MRVs only.

    `warmup_s` is part of `seconds` and not measured. `commit_wait_ms`: before each COMMIT.
    `transactions`: all threads together end after so many, though `seconds` are not over; 0: time ends them.
    """

    threads: int
    seconds: int
    rows: int
    n: int = 10
    isolation: str = "repeatable read"
    functions: bool = False
    user_percent: int = USER_PERCENT
    warmup_s: int = 0
    commit_wait_ms: int = 0
    transactions: int = 0

    def arguments(self) -> list[str]:
        rest = 100 - self.user_percent
        return [
            f"--threads={self.threads}",
            f"--time={self.seconds}",
            f"--events={self.transactions}",
            f"--rows={self.rows}",
            f"--n={self.n}",
            f"--warmup={self.warmup_s}",
            f"--commit-wait-ms={self.commit_wait_ms}",
            f"--isolation={self.isolation}",
            f"--functions={'on' if self.functions else 'off'}",
            f"--mix={self.user_percent},{rest // 2},{rest // 4},{rest // 4}",
            "--prepared=on",
        ]


def run(dsn: str, load: Load) -> dict[str, Any]:
    """Runs the clients to their end and returns their report (benchmarks/tpcc/README.md)."""
    return runner.run(dsn, load, SCRIPT)
