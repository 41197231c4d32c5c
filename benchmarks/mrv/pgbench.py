"""Runs pgbench and reads what it says.

pgbench retries what was aborted (40001, 40P01) itself, at once; each such attempt counts as an abort here.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from psp.paths import postgres_program

from benchmarks.mrv.comparison import Report

SCRIPTS = Path(__file__).parent
START_AND_END_S = 60  # more than a load's seconds that pgbench may take
JOBS = 2
TRIES = 1000


class PgbenchError(RuntimeError):
    """pgbench failed, or said something unexpected; the message holds the end of what it said."""


@dataclass(frozen=True)
class Load:
    """What the clients do: a script of this folder on products 1 to `items`, each time one at random.

    `transactions`: each client ends after so many; 0: only time ends it.
    """

    script: str
    clients: int
    items: int
    seconds: int
    isolation: str = "read committed"
    commit_delay_ms: float = 0
    transactions: int = 0

    def server_options(self) -> str:
        """PGOPTIONS. A commit that waits holds its locks; those that commit meanwhile share the next wait."""
        isolation = self.isolation.replace(" ", r"\ ")
        delay_us = round(1000 * self.commit_delay_ms)
        return (
            f"-c default_transaction_isolation={isolation}"
            f" -c commit_delay={delay_us} -c commit_siblings=0 -c synchronous_commit=on"
        )


def run(dsn: str, load: Load) -> Report:
    """Runs it to its end; raises PgbenchError if a statement failed other than by an abort."""
    end = ["-t", str(load.transactions)] if load.transactions else ["-T", str(load.seconds)]
    command = [
        str(postgres_program("pgbench")), "-n", "-M", "prepared", "-f", str(SCRIPTS / f"{load.script}.sql"),
        "-c", str(load.clients), "-j", str(min(JOBS, load.clients)), *end,
        "-D", f"items={load.items}", f"--max-tries={TRIES}", dsn,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PGOPTIONS": load.server_options()},
            timeout=load.seconds + START_AND_END_S,
        )
    except subprocess.TimeoutExpired:
        raise PgbenchError(f"pgbench did not end {START_AND_END_S} s after its time") from None
    if done.returncode != 0:
        raise PgbenchError(f"pgbench failed: {done.stderr.strip()[-1000:]}")
    return parse(done.stdout)


def parse(output: str) -> Report:
    """pgbench 15's summary. It has no figures of no transactions: a load too short for its distance."""
    retries = re.search(r"^total number of retries: (\d+)", output, re.MULTILINE)
    transactions = int(_find(r"number of transactions actually processed: (\d+)", output))
    return Report(
        transactions=transactions,
        tps=float(_find(r"tps = ([0-9.]+)", output)) if transactions else 0.0,
        latency_ms=float(_find(r"latency average = ([0-9.]+) ms", output)) if transactions else 0.0,
        aborts=int(_find(r"number of failed transactions: (\d+)", output))
        + (int(retries.group(1)) if retries else 0),
    )


def _find(pattern: str, output: str) -> str:
    found = re.search(f"^{pattern}", output, re.MULTILINE)
    if found is None:
        raise PgbenchError(f"pgbench said nothing that fits {pattern!r}: {output.strip()[-1000:]}")
    return found.group(1)
