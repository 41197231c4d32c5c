"""Who has lost to other semi-primaries lately, and the keys that are reserved for them."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from psp.output import table
from psp.sql_files import read_sql

KEY_CHARACTERS_MAX = 40

# One JSON value: `losers` and `reservations`. No row: nobody has lost lately.
SQL = read_sql("primary/command/losses.sql").decode()


def tables(losses: dict[str, Any] | None) -> list[Table]:
    """For people; nothing where nobody has lost lately."""
    if losses is None:
        return []
    shown = [_losers(losses["losers"])]
    return [*shown, _reservations(losses["reservations"])] if losses["reservations"] else shown


def _losers(losers: list[dict[str, Any]]) -> Table:
    columns = ("name", "lost\nper s", "lost", "turns", "used")
    rows = [
        (one["name"], one["losses_per_s"], one["losses"], one["reservations"], one["used"]) for one in losers
    ]
    return table("Transactions lost to other semi-primaries, since psp-primary has started", columns, rows)


def _reservations(reservations: list[dict[str, Any]]) -> Table:
    columns = ("for", "since ms", "table", "key", "keys", "waiting")
    rows = [
        (one["name"], one["age_ms"], one["table"], _short(one["key"]), one["keys"], one["waiting"])
        for one in reservations
    ]
    return table("Keys that are reserved for those who have lost them", columns, rows)


def _short(key: str) -> str:
    return key if len(key) <= KEY_CHARACTERS_MAX else key[:KEY_CHARACTERS_MAX] + "…"
