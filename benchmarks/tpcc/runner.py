"""Runs the TPC-C of this folder: loads a database, starts a client, reads its report.

A client ends with the thread that started it, at the latest.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from psp.schema.model import Mode
from psp.servers.temporary import TemporaryFolder
from psycopg.conninfo import conninfo_to_dict

SCRIPT = Path(__file__).with_name("tpcc.lua")
STANDARD_MIX = "45,43,4,4,4"
READ_ONLY_MIX = "0,0,50,0,50"
END_TIMEOUT_S = 60  # transactions that began in time may end after it


Server = str | Sequence[str]
"""Where a load goes to: a libpq connection string, or sysbench's own options of any driver."""


class LoadError(RuntimeError):
    """sysbench failed; the message holds the end of what it said."""


class Runnable(Protocol):
    """What a client of a script made with tpcc_driver.lua does, and for how long."""

    @property
    def seconds(self) -> int: ...
    def arguments(self) -> list[str]: ...


@dataclass(frozen=True)
class Scale:
    """The size of the database. With fewer items or customers it is not TPC-C any more, only faster."""

    warehouses: int = 1
    items: int = 100_000
    customers: int = 3_000

    def arguments(self) -> list[str]:
        return [f"--warehouses={self.warehouses}", f"--items={self.items}", f"--customers={self.customers}"]


@dataclass(frozen=True)
class Load:
    """What one client does. `warmup_s` is part of `seconds` and not measured.

    `transactions`: all threads together end after so many, though `seconds` are not over; 0: time ends them.
    """

    threads: int
    seconds: int
    scale: Scale
    home_first: int = 1
    home_last: int = 0
    warmup_s: int = 0
    isolation: str = "read committed"
    mix: str = STANDARD_MIX
    prepared: bool = False
    psp_mode: Literal["", "views"] = ""
    by_second: bool = False
    transactions: int = 0

    def in_mode(self, mode: Mode) -> Self:
        """The same load for psp in that mode; views mode stands on REPEATABLE READ (thesis, 3.4.1)."""
        if mode == "native":
            return self
        return replace(self, psp_mode="views", isolation="repeatable read")

    def arguments(self) -> list[str]:
        return [
            *self.scale.arguments(),
            f"--threads={self.threads}",
            f"--time={self.seconds}",
            f"--events={self.transactions}",
            f"--home_first={self.home_first}",
            f"--home_last={self.home_last}",
            f"--warmup={self.warmup_s}",
            f"--isolation={self.isolation}",
            f"--mix={self.mix}",
            f"--prepared={'on' if self.prepared else 'off'}",
            f"--psp-mode={self.psp_mode}",
            f"--by-second={'on' if self.by_second else 'off'}",
        ]


def prepare(dsn: str, scale: Scale, threads: int = 2, foreign_keys: bool = False) -> None:
    """Loads a database."""
    keys = f"--foreign_keys={'on' if foreign_keys else 'off'}"
    _command(dsn, *scale.arguments(), f"--threads={threads}", keys, "prepare")


def cleanup(dsn: str) -> None:
    """Drops the tables."""
    _command(dsn, "cleanup")


def _command(dsn: str, *arguments: str) -> None:
    command = [*_sysbench(dsn), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise LoadError(f"sysbench {arguments[-1]} failed:\n{_tail(done.stdout)}")


class Client:
    """One running sysbench. Use it as a context: the process is gone afterwards, also after an error."""

    def __init__(self, server: Server, load: Runnable, script: Path = SCRIPT) -> None:
        self._folder = TemporaryFolder()
        self._timeout_s = load.seconds + END_TIMEOUT_S
        self._report = self._folder.path / "report.json"
        self._log = self._folder.path / "sysbench.log"
        command = [*_sysbench(server, script), *load.arguments(), f"--report_json={self._report}", "run"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """The process, so that its CPU time can be asked."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it still works."""
        return self._process.poll() is None

    def report(self) -> dict[str, Any]:
        """Waits for the end and returns the report (README.md names its fields). Raises LoadError."""
        try:
            code = self._process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            raise LoadError(f"sysbench does not end:\n{_tail(self._log.read_text())}") from None
        if code != 0 or not self._report.exists():
            raise LoadError(f"sysbench failed (exit code {code}):\n{_tail(self._log.read_text())}")
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running():
            self._process.kill()
        self._process.wait()
        self._folder.remove()


def run(server: Server, load: Runnable, script: Path = SCRIPT) -> dict[str, Any]:
    """Runs one client to its end."""
    with Client(server, load, script) as client:
        return client.report()


def _sysbench(server: Server, script: Path = SCRIPT) -> list[str]:
    options = _pgsql_options(server) if isinstance(server, str) else server
    # If this process is killed, its sysbench must not go on: the kernel sees to that.
    end_with_us = ["setpriv", "--pdeathsig", "KILL"]
    return [*end_with_us, "sysbench", str(script), *options]


def _pgsql_options(dsn: str) -> list[str]:
    found = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "db"}
    options = [f"--pgsql-{option}={found[name]}" for name, option in names.items() if found.get(name)]
    return ["--db-driver=pgsql", *options]


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.splitlines()[-lines:])
