"""What commands print: tables for people on stdout, JSON for programs, errors with hints on stderr."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)
error_console = Console(stderr=True, highlight=False, soft_wrap=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs.")]


class PspError(RuntimeError):
    """An error that the user can do something about: what is wrong, and optionally a hint what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A Rich table; numbers stand right, everything else left, None is shown as a dash.

    Without frames, so that nine columns fit 80 characters; a heading may have two lines. What does not fit is
    folded, not cut: two names that begin alike stay two names.
    """
    result = Table(
        title=title, title_justify="left", header_style="bold",
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0,
    )  # fmt: skip
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows if row[index] is not None]
        numeric = bool(cells) and all(isinstance(cell, int | float) for cell in cells)
        result.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(*(_cell(cell) for cell in row))
    return result


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def print_json(value: Any) -> None:
    """One JSON document on stdout, nothing else."""
    json.dump(value, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def fail(message: str, hint: str | None = None, code: int = 1) -> NoReturn:
    """Prints the error and the hint to stderr and leaves the command with `code`."""
    error_console.print(f"[bold red]error:[/] {_escaped(message)}")
    if hint:
        error_console.print(f"[bold]hint:[/]  {_escaped(hint)}")
    raise typer.Exit(code)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
