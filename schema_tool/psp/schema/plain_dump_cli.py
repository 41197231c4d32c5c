"""`psp schema dump` and `load`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich import progress as bars
from rich.text import Text

from psp.output import PspError, console, error_console
from psp.problems import errors_shown
from psp.schema.load import load
from psp.schema.plain_dump import dump_plain


def add_commands(app: typer.Typer) -> None:
    """Those that move data."""
    app.command("dump")(dump_command)
    app.command("load")(load_command)


def dump_command(
    dsn: Annotated[str, typer.Argument(help="libpq connection string or URI of a semi-primary's database.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Where to write it.", show_default="stdout")
    ] = None,
    no_owner: Annotated[
        bool, typer.Option("--no-owner", help="Say no owners: they become the role that loads it.")
    ] = False,
    drop_keys: Annotated[
        bool, typer.Option("--drop-keys", help="Drop the columns psp_key, which psp has added, at the end.")
    ] = False,
) -> None:
    """Writes a semi-primary's database as plain SQL, with all rows and without psp, for psql.

    It is what pg_dump says of a database that has never been under psp: no schema psp, no triggers of psp's,
    sequences with the increments that the application has given them, and behind all rows. The role is a
    superuser, or the owner of all that may read two tables of psp's (docs/moving-data.md). Native mode only.

    [bold]Example[/]

        psp schema dump "host=db dbname=shop" -f shop.sql
        psql -X -v ON_ERROR_STOP=1 -f shop.sql "host=elsewhere dbname=shop"
    """
    with errors_shown():
        if file is None:
            dump_plain(dsn, sys.stdout.buffer, no_owner=no_owner, drop_keys=drop_keys, warn=_warn)
            return
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as out:
                dump_plain(dsn, out, no_owner=no_owner, drop_keys=drop_keys, warn=_warn)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def _warn(text: str) -> None:
    error_console.print(Text(f"warning: {text}", style="yellow"))


def load_command(
    dsn: Annotated[str, typer.Argument(help="The database of one semi-primary, as the tables' owner.")],
    file: Annotated[Path, typer.Argument(help="What pg_dump has written as plain SQL; - for stdin.")],
    add_keys: Annotated[
        bool, typer.Option("--add-keys", help="Give tables without a primary key a uuid column psp_key.")
    ] = False,
) -> None:
    """Loads pg_dump's plain text into a running cluster: schema and rows go to all semi-primaries.

    pg_dump gives tables their primary keys behind the rows, in a file that may be larger than a transaction
    of the cluster. So the command runs what stands before the rows, and the keys, in one transaction; then
    the rows, some megabytes at a time; then indexes, foreign keys and triggers. What others make lose is
    tried again. An error ends the command, and what was loaded before stays.

    The role may call psp.ddl and make what the file makes. Let it own everything: pg_dump --no-owner.

    [bold]Example[/]

        pg_dump --no-owner -f shop.sql "host=old dbname=shop"
        psp schema load "host=db dbname=shop user=shop" shop.sql
    """
    columns = (
        bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.DownloadColumn(),
    )  # fmt: skip
    with (
        errors_shown(),
        tempfile.TemporaryDirectory() as folder,
        bars.Progress(*columns, console=error_console) as bar,
    ):
        if str(file) == "-":
            file = Path(folder) / "stdin"
            with file.open("wb") as out:
                shutil.copyfileobj(sys.stdin.buffer, out)
        elif not file.is_file():
            raise PspError(f"there is no file {file}")
        task = bar.add_task("keys", total=file.stat().st_size)
        rows = load(
            dsn, file, lambda what, at: bar.update(task, description=what, completed=at), add_keys=add_keys
        )
    console.print(Text(f"loaded: {rows} rows"))
