"""`psp cluster`: local clusters on throw-away PostgreSQL servers."""

import typer

app = typer.Typer(no_args_is_help=True, help="Local clusters on throw-away PostgreSQL servers.")
