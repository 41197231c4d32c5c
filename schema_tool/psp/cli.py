"""The `psp` command: one Typer application, with one sub-application for each task."""

import os
from typing import Annotated

import typer

from psp import __version__
from psp.cluster.cli import app as cluster_app
from psp.console.cli import show_console
from psp.doctor.cli import doctor
from psp.help import flow
from psp.mrv.cli import app as mrv_app
from psp.output import console
from psp.primary.cli import app as primary_app
from psp.schema.cli import app as schema_app
from psp.trace.cli import trace
from psp.watch.cli import top

app = typer.Typer(
    name="psp",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="""Several PostgreSQL servers, far apart, all writable, one consistent database.

[bold]Try it on this machine[/] (throw-away PostgreSQL servers, three zones with simulated distance):

    psp cluster up --zone lisbon=30 --zone tokyo=190 --schema tables.sql
    psp top
    psp cluster psql tokyo
    psp cluster down

[bold]Put a database of your own under psp[/]:

    psp primary init  "host=primary dbname=psp"
    psp schema check  "host=db dbname=shop"      # what stands in the way
    psp schema adopt  "host=db dbname=shop" --help
    psp schema release "host=db dbname=shop"     # a plain database again

[bold]See whether all is well[/]:

    psp doctor "host=primary dbname=psp" "host=db dbname=shop"

[bold]Follow one transaction through the daemons' logs[/]:

    psp trace 3c7d9a52-8a51-4c0e-9a0b-6f0f6f0a8d11 *.log

[bold]Let many change one number at once[/] (any PostgreSQL):

    psp mrv create item.stock "dbname=shop" --lower-bound 0
""",
)
app.add_typer(schema_app, name="schema")
app.add_typer(cluster_app, name="cluster")
app.add_typer(primary_app, name="primary")
app.add_typer(mrv_app, name="mrv")
app.command("top")(top)
app.command("console")(show_console)
app.command("doctor")(doctor)
app.command("trace")(trace)
flow(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"psp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    pg_bin: Annotated[
        str,
        typer.Option(
            envvar="PSP_PG_BIN",
            help="Folders with PostgreSQL's programs, : between them, that are looked into first.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Options that stand before the command."""
    if pg_bin:
        os.environ["PSP_PG_BIN"] = pg_bin


if __name__ == "__main__":
    app()
