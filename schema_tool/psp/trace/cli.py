"""`psp trace`: one transaction's way, from logs."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from psp.output import Json, PspError, console, fail, print_json, table
from psp.problems import errors_shown
from psp.trace import lines, words
from psp.trace.lines import Event
from psp.trace.way import Placed, Way, way_of

STDIN = "-"

Wanted = Annotated[
    str,
    typer.Argument(
        metavar="TXID",
        help="The transaction's id (a uuid, as errors and logs tell it), or its number global_t.",
        show_default=False,
    ),
]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Logs of daemons, text or JSON. - is standard input.", show_default=False
    ),
]


def trace(wanted: Wanted, files: Files, json: Json = False) -> None:
    """Shows where one transaction was, and for how long: from its COMMIT at a semi-primary to the primary and
    back, and when the other semi-primaries had it. It reads logs of daemons; it asks no server.

    The daemons must log single transactions (their own log, on stderr; log_format text and json both do):

        log_commits_one_in: 1000   # one in a thousand, step by step; 1: all
        log_commits_over_ms: 200   # the end of those that took 200 ms there

    Give one file for each server. Times within a file are exact. Clocks of different servers differ:
    how far is found from the messages themselves, and ± says by how much that may be wrong.

    [bold]Examples[/]

        psp trace 3c7d9a52-8a51-4c0e-9a0b-6f0f6f0a8d11 *.log
        psp trace 4711 lisbon.log primary.log    # that global_t
        journalctl -u psp-primary -o cat | psp trace 4711 - lisbon.log
    """
    with errors_shown():
        names = list(dict.fromkeys(files))
        events = [event for name in names for event in _events(name)]
        tx = _tx(wanted, events)
        way = way_of(tx, events) if tx else None
        if way is None:
            fail(*words.not_found(wanted, names, events))
        if json:
            print_json(as_dict(way))
        else:
            _print(way)


def _events(name: str) -> list[Event]:
    if name == STDIN:
        return list(lines.events(name, sys.stdin))
    try:
        with Path(name).open(encoding="utf-8", errors="replace") as file:
            return list(lines.events(name, file))
    except OSError as error:
        raise PspError(f"cannot read {name}: {error.strerror}") from None


def _tx(wanted: str, events: Sequence[Event]) -> str | None:
    if wanted.isdigit() and len(wanted) < 20:
        committed = (event for event in events if event.fields.get("global_t") == str(int(wanted)))
        return next((event.tx for event in committed), None)
    try:
        return str(uuid.UUID(wanted))
    except ValueError:
        raise PspError(
            f"{wanted} is neither a transaction's id nor a number",
            "an id is a uuid such as 3c7d9a52-8a51-4c0e-9a0b-6f0f6f0a8d11; a number is the global_t of a "
            "transaction that has committed",
        ) from None


def as_dict(way: Way) -> dict[str, Any]:
    """For programs. A number that is not known is null."""
    fields = words.end_of(way)
    return {
        "tx": way.tx,
        "outcome": fields.get("outcome"),
        "global_t": int(fields["global_t"]) if fields.get("global_t", "").isdigit() else None,
        "steps": [_step(one) for one in way.steps],
        "clocks": [
            {
                "file": file,
                "ahead_ms": _number(ahead.middle * 1000),
                "uncertainty_ms": _number(ahead.uncertainty * 1000),
            }
            for file, ahead in way.clocks.items()
        ],
        "remarks": list(words.remarks(way)),
    }


def _step(one: Placed) -> dict[str, Any]:
    step = one.step
    return {
        "file": step.file,
        "at": step.where,
        "step": step.name,
        "time": step.time.isoformat(timespec="microseconds"),
        "ms": _number(one.ms),
        "uncertainty_ms": _number(one.uncertainty_ms),
        "in_file_ms": _number(one.in_file_ms),
        "reckoned": step.is_reckoned,
        "details": words.details(step) or None,
        "fields": step.fields,
    }


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _print(way: Way) -> None:
    fields = words.end_of(way)
    told = words.outcome(fields) if fields else "its end is not told"
    console.print(f"transaction {way.tx}: {told}\n", markup=False)
    rows = [
        (
            _ms(one.ms),
            _plus_minus(one.uncertainty_ms),
            _ms(one.in_file_ms),
            escape(one.step.where),
            escape(_name(one)),
        )
        for one in way.steps
    ]
    console.print(table(None, ("       ms", "    ±", " in file", "at", "step"), rows))
    for line in ("", "clocks", *(f"  {line}" for line in words.clock_lines(way)), ""):
        console.print(line, markup=False)
    for remark in words.remarks(way):
        console.print(remark, markup=False)


def _name(one: Placed) -> str:
    details = words.details(one.step)
    return ("~ " if one.step.is_reckoned else "") + one.step.name + (f": {details}" if details else "")


def _ms(value: float) -> str:
    return f"{value:>9,.3f}"


def _plus_minus(value: float) -> str:
    if value == 0:
        return ""
    return f"{value:>5,.1f}" if math.isfinite(value) else "    ?"
