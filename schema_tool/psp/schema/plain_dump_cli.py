"""`psp schema dump`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from psp.problems import errors_shown
from psp.schema.plain_dump import dump_plain


def dump_command(
    dsn: Annotated[str, typer.Argument(help="libpq connection string or URI of a semi-primary's database.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Where to write it.", show_default="stdout")
    ] = None,
    no_owner: Annotated[
        bool, typer.Option("--no-owner", help="Say no owners: they become the role that loads it.")
    ] = False,
) -> None:
    """Writes a semi-primary's database as plain SQL, with all rows and without psp, for psql.

    It is what pg_dump says of a database that has never been under psp: no schema psp, no triggers of psp's,
    sequences with the increments that the application has given them, and behind all rows. The role is a
    superuser. Native mode only.

    [bold]Example[/]

        psp schema dump "host=db dbname=shop" -f shop.sql
        psql -X -v ON_ERROR_STOP=1 -f shop.sql "host=elsewhere dbname=shop"
    """
    with errors_shown():
        if file is None:
            dump_plain(dsn, sys.stdout.buffer, no_owner=no_owner)
            return
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as out:
                dump_plain(dsn, out, no_owner=no_owner)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
