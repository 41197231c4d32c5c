"""psp-mrv daemons of a test, and what they have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psp import paths
from psp.cluster.daemons import MRV_BINARY
from psp.servers import processes
from psp.servers.processes import ProcessName

from tests.sql.databases import one

WAIT_S = 60
ITEMS = "CREATE TABLE item (id integer PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0));"
# Quick windows, so that the tests are quick.
QUICK = {"window_ms": 50, "lock_sample_interval_ms": 10, "balance_interval_ms": 10, "split_refresh_ms": 50}
FULL_SPEED = {**QUICK, "window_ms": 10, "balance_interval_ms": 0, "split_refresh_ms": 0, "balance_runners": 2}


@dataclass(frozen=True)
class Daemon:
    """A psp-mrv of the test's own."""

    name: ProcessName
    config: Path

    @property
    def log(self) -> Path:
        return self.config.with_suffix(".log")

    def start(self) -> None:
        command = [str(paths.binary(MRV_BINARY)), "--config", str(self.config)]
        processes.start(self.name, command, self.log, WAIT_S)

    def kill(self) -> None:
        processes.end(self.name, force=True)

    def stop(self) -> None:
        assert processes.end(self.name)


MakeDaemon = Callable[..., Daemon]


def records(connection: psycopg.Connection[Any], item: int, mrv: int = 1) -> int:
    return int(one(connection, f"SELECT records FROM psp_mrv.value_state({mrv}, '{{{item}}}')"))


def report(connection: psycopg.Connection[Any], item: int, commits: int, aborts: int) -> None:
    connection.execute("SELECT psp_mrv.report('item.stock', %s, %s, %s)", ([str(item)], commits, aborts))


def actions(connection: psycopg.Connection[Any], worker: str) -> int:
    query = f"SELECT coalesce(sum(actions), 0) FROM psp_mrv.workers WHERE worker = '{worker}'"
    return int(one(connection, query))
