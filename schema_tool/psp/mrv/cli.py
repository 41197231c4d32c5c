"""`psp mrv`: create, alter, drop, list, status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from psp.mrv.alter import alter
from psp.mrv.create import BALANCES, RECORDS_MAX, STRATEGIES, Options, create
from psp.mrv.drop import drop
from psp.mrv.status import list_mrvs, read_status
from psp.output import Json, console, error_console, print_json, table
from psp.problems import errors_shown
from psp.schema.options import Dsn

app = typer.Typer(
    no_args_is_help=True, help="Multi-Record Values: numbers that many add to and subtract from at once."
)

Name = Annotated[str, typer.Argument(metavar="TABLE.COLUMN", help="Or SCHEMA.TABLE.COLUMN, without quotes.")]
LockWait = Annotated[float, typer.Option("--lock-wait", help="Seconds to wait for locks on the table.")]

Strategy = StrEnum("Strategy", {name: name for name in STRATEGIES})  # type: ignore[misc]
Balance = StrEnum("Balance", {name: name for name in BALANCES})  # type: ignore[misc]


def _say(text: str) -> None:
    error_console.print(Text(text))


@app.command("create")
def create_command(
    name: Name,
    dsn: Dsn,
    records: Annotated[
        int, typer.Option(min=1, max=RECORDS_MAX, help="Records of each value at first; 1: not split.")
    ] = 1,
    min_records: Annotated[int, typer.Option("--min", min=1, help="Fewest records that adjust leaves.")] = 1,
    max_records: Annotated[int, typer.Option("--max", max=RECORDS_MAX, help="Most records of a value.")] = 64,
    lower_bound: Annotated[
        str | None,
        typer.Option(help="A number, or `none`; by default that of a constraint CHECK (column >= number)."),
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="How adjust finds the number of records.")] = Strategy(
        "linear"
    ),
    balance: Annotated[Balance, typer.Option(help="Which records balance evens out.")] = Balance("random"),
    spread_from: Annotated[
        str | None,
        typer.Option(help="Amounts that are added to several records at once; `none`: no amounts."),
    ] = None,
    lock_wait: LockWait = 60.0,
    json: Json = False,
) -> None:
    """Turns a column of a live table into Multi-Record Values, in place.

    Either finishes or leaves the table as it was. The table becomes a view of the same name.

    [bold]Example[/]

        psp mrv create item.stock "dbname=shop" --lower-bound 0
    """
    options = Options(
        records, min_records, max_records, lower_bound, strategy.value, balance.value, spread_from, lock_wait
    )
    with errors_shown(json):
        mrv = create(dsn, name, options, _say)
    if json:
        print_json({k: v for k, v in vars(mrv).items() if k != "more"})
        return
    bound = (
        "no lower bound" if mrv.lower_bound is None else f"lower bound {mrv.lower_bound} ({mrv.bound_name})"
    )
    console.print(Text(f"{mrv.label} is an MRV: {bound}, {mrv.nr_min} to {mrv.nr_max} records."))


@app.command("alter")
def alter_command(
    name: Name,
    dsn: Dsn,
    min_records: Annotated[
        int | None, typer.Option("--min", min=1, help="Fewest records that adjust leaves.")
    ] = None,
    max_records: Annotated[
        int | None, typer.Option("--max", max=RECORDS_MAX, help="Most records of a value.")
    ] = None,
    lock_wait: LockWait = 60.0,
) -> None:
    """Changes how many records a value may have; --max also beyond what it was at creation.

    Each record must hold less then: values with larger ones go back to one record until adjust splits them.
    The view is replaced: it then has the columns that the table behind it has got meanwhile.

    [bold]Example[/]

        psp mrv alter item.stock "dbname=shop" --max 256
    """
    with errors_shown():
        mrv = alter(dsn, name, min_records, max_records, lock_wait, _say)
    console.print(Text(f"{mrv.label} has {mrv.nr_min} to {mrv.nr_max} records."))


@app.command("drop")
def drop_command(name: Name, dsn: Dsn, lock_wait: LockWait = 60.0) -> None:
    """Makes the column a plain one again; with its last MRV the table is what it was."""
    with errors_shown():
        drop(dsn, name, lock_wait, _say)
    console.print(Text(f"{name} is a plain column again."))


@app.command("list")
def list_command(dsn: Dsn, json: Json = False) -> None:
    """Lists the MRVs of a database and their parameters."""
    with errors_shown():
        found = list_mrvs(dsn)
    if json:
        print_json(found)
        return
    if not found:
        _say_none()
        return
    columns = ("MRV", "type", "lower\nbound", "min", "max", "adjust", "ar_goal", "balance")
    console.print(table(None, columns, [
        (f"{m['schema_name']}.{m['table_name']}.{m['column_name']}", m["value_type"], m["lower_bound"],
         m["nr_min"], m["nr_max"], m["strategy"], str(m["ar_goal"]), m["balance"])
        for m in found
    ]))  # fmt: skip


@app.command("status")
def status_command(dsn: Dsn, json: Json = False) -> None:
    """Shows how many values are split, what the workers do, and the most contended values."""
    with errors_shown():
        status = read_status(dsn)
    if json:
        print_json(status)
        return
    if not status["mrvs"]:
        _say_none()
        return
    hottest = [{**row, "key": ", ".join(row["key"])} for row in status["hottest"]]
    _print_rows(status["mrvs"], "mrv", "values", "split", "records", "most_records")
    _print_rows(
        status["workers"], "worker", "runner", "silent_s", "rounds", "actions", "aborts", "last_error"
    )
    _print_rows(hottest, "mrv", "key", "records", "commits", "aborts", "response_ms", "lock_waiters")


def _say_none() -> None:
    _say("The database has no MRVs; psp mrv create makes one.")


def _print_rows(rows: list[dict[str, Any]], *names: str) -> None:
    if rows:
        headings = [name.replace("_", "\n") for name in names]
        console.print(table(None, headings, [[row[name] for name in names] for row in rows]))
