"""Certification by SQL and by the server module beside a raw upsert of equal batches: psp-batches."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psp.output import PspError
from psp.paths import binary
from psp.primary.database import init_primary
from psp.servers.temporary import temporary_server

PROGRAM = "psp-batches"
SETUP = Path(__file__).with_name("setup.sql")
DATABASE = "primary"
KEYS = 200_000
# Of a transaction -> transactions in a batch.
GRID = {1: (1, 8, 64), 25: (1, 8, 64), 1000: (1, 8)}
FORMS = ("sql", "module")  # of the statement that certifies
CONFLICTS = (0, 5)  # per cent
ROWS_OF_A_POINT = 30_000
BATCHES_MIN, BATCHES_MAX = 20, 400


@dataclass(frozen=True)
class Point:
    """What is measured."""

    rows: int
    transactions: int
    conflicts: int

    @property
    def batches(self) -> int:
        """Some thousand rows, and neither two batches nor thousands."""
        wanted = ROWS_OF_A_POINT // (self.rows * self.transactions)
        return max(BATCHES_MIN, min(BATCHES_MAX, wanted))


def points() -> list[Point]:
    """The whole grid."""
    return [
        Point(rows, transactions, conflicts)
        for rows, batches in GRID.items()
        for transactions in batches
        for conflicts in CONFLICTS
    ]


@contextmanager
def primary(keys: int = KEYS) -> Iterator[str]:
    """A primary's database with rows to update, on a server of its own that flushes; how to connect to it."""
    with temporary_server({"fsync": "on", "synchronous_commit": "on", "shared_buffers": "512MB"}) as server:
        server.create_database(DATABASE)
        dsn = server.dsn(DATABASE)
        init_primary(dsn)
        # Several statements take no parameters of the protocol, so the client puts the value into the text.
        with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            connection.execute(SETUP.read_bytes(), {"keys": keys})
            connection.execute("VACUUM ANALYZE")
        yield dsn


def measure(dsn: str, point: Point, keys: int = KEYS) -> dict[str, Any]:
    """What psp-batches says. PspError: it failed."""
    options = {
        "keys": keys,
        "rows": point.rows,
        "transactions": point.transactions,
        "conflicts": point.conflicts,
        "batches": point.batches,
    }
    command = [str(binary(PROGRAM)), dsn, *(f"--{name}={value}" for name, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PspError(f"{PROGRAM} failed: {done.stderr.strip()}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def row(point: Point, said: list[dict[str, Any]]) -> dict[str, Any]:
    """All rounds of a point. Rows for each CPU second count those of losers: the upsert writes them, too."""
    found: dict[str, Any] = {
        "rows": point.rows,
        "transactions": point.transactions,
        "conflicts_percent": point.conflicts,
        "upsert": _costs(point, said, "upsert"),
    }
    for form in FORMS:
        found[form] = {
            "committed_percent": 100 * _total(said, f"{form}_committed") / _total(said, "transactions"),
            **_costs(point, said, form),
            "upsert_ratio": _cpu_s(said, "upsert") / _cpu_s(said, form),
        }
    return found


def _costs(point: Point, said: list[dict[str, Any]], name: str) -> dict[str, Any]:
    transactions = _total(said, "transactions")
    return {
        "us": {part: 1e6 * _total(said, f"{name}_{part}_s") / transactions for part in ("server", "client")},
        "rows_per_cpu_s": transactions * point.rows / _cpu_s(said, name),
    }


def _total(said: list[dict[str, Any]], name: str) -> float:
    return float(sum(one[name] for one in said))


def _cpu_s(said: list[dict[str, Any]], name: str) -> float:
    return _total(said, f"{name}_server_s") + _total(said, f"{name}_client_s")
