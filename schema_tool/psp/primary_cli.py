"""`psp primary`: prepares the PostgreSQL database of the primary."""

from typing import Annotated

import psycopg
import typer

from psp.output import PspError, console, fail
from psp.schema.primary import init_primary

app = typer.Typer(no_args_is_help=True, help="The primary's own database: certification, log, every row.")


@app.command()
def init(
    dsn: Annotated[str, typer.Argument(help="libpq connection string or URI of the primary's PostgreSQL.")],
) -> None:
    """Creates the psp schema in an empty database that the psp-primary daemon is to use.

    The database must exist. Applications never connect to it.

    [bold]Example[/]

        createdb psp && psp primary init "dbname=psp"
    """
    try:
        init_primary(dsn)
    except (PspError, psycopg.Error) as error:
        fail(str(error).strip(), getattr(error, "hint", None))
    console.print("The primary's database is ready. Next: psp-primary --config primary.yaml")
