"""`psp top`: how a cluster is, again and again."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from psp.cluster import state
from psp.cluster.local import LocalCluster
from psp.output import console
from psp.problems import errors_shown
from psp.waiting import wait_until
from psp.watch import gather
from psp.watch.judged import as_dict
from psp.watch.screen import render

INTERVAL_MIN_S = 0.2

Dsns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DSN]...",
        help="The primary, semi-primaries or both: libpq connection strings or URIs. None: a local cluster.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Option("--name", help="Without DSN: the local cluster's name.")]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", help="Without DSN: its folder.", show_default="/var/tmp/psp-UID/NAME"),
]


def sources(dsns: list[str] | None, name: str, directory: Path | None) -> list[gather.Source]:
    """The servers that a command names, or those of a local cluster."""
    if not dsns:
        folder = (directory or state.default_directory(name)).resolve()
        cluster = LocalCluster.open(folder, console.print)
        dsns = [cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps)]
    return [gather.Source(dsn) for dsn in dsns]


def top(
    dsns: Dsns = None,
    once: Annotated[bool, typer.Option("--once", help="One look, then end.")] = False,
    interval: Annotated[
        float, typer.Option(min=INTERVAL_MIN_S, max=3600, help="Seconds between two looks.")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each look.")] = False,
    name: Name = "demo",
    directory: Dir = None,
) -> None:
    """Shows whether everybody can write, how fast and how far behind each semi-primary is, which keys are
    lost, who is away, and what to do; again each second, until Ctrl-C. It only reads.

    Each server tells what it knows: the primary knows all members, a semi-primary knows itself. A server
    that does not answer is told and holds up no other.

    [bold]Examples[/]

        psp top                              # the cluster of psp cluster up
        psp top "host=primary dbname=psp"    # as the primary hears them
        psp top "host=primary dbname=psp" "host=db dbname=shop"
        psp top "host=db dbname=shop" --once --json
    """
    with errors_shown():
        servers = sources(dsns, name, directory)
        if console.is_terminal and not json and not once:
            _refresh(servers, interval)
        else:
            _print(servers, interval, json, once)


def _refresh(servers: list[gather.Source], interval_s: float) -> None:
    # Of a screen that is too small the beginning counts.
    with Live(console=_wrapping(), auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        _repeat(lambda: live.update(render(gather.look(servers)), refresh=True), interval_s)


def _wrapping() -> Console:
    """The console of all commands leaves long lines to the terminal, and Live would cut them off."""
    return Console(highlight=False)


def _print(servers: list[gather.Source], interval_s: float, json: bool, once: bool) -> None:
    screen = _wrapping()

    def show() -> None:
        view = gather.look(servers)
        if json:
            screen.file.write(json_format.dumps(as_dict(view), default=str) + "\n")
        else:
            screen.print(render(view))
        sys.stdout.flush()

    with suppress(BrokenPipeError):  # nobody reads any more
        if once:
            show()
        else:
            _repeat(show, interval_s)


def _repeat(show: Callable[[], object], interval_s: float) -> None:
    """Until Ctrl-C."""

    def again() -> bool:
        show()
        return False

    with suppress(KeyboardInterrupt):
        wait_until("Ctrl-C", again, timeout_s=float("inf"), interval_s=interval_s)
