"""The server module psp_certify at a primary: made available to the daemon, where the server has it."""

from __future__ import annotations

from typing import Any

import psycopg

from psp.sql_files import read_sql

FUNCTIONS_FILE = "primary/install/certify_module.sql"
REMOVAL_FILE = "primary/install/no_certify_module.sql"


def install(connection: psycopg.Connection[Any]) -> None:
    """Makes the module's functions in the caller's transaction, or removes them: the server lacks the module.

    Only a superuser may make functions in C: for others the database stays as it is, and the daemon looks for
    itself whether it can use what is there.
    """
    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row is None or not row[0]:
        return
    try:
        with connection.transaction():
            connection.execute(read_sql(FUNCTIONS_FILE))
    except (psycopg.errors.UndefinedFile, psycopg.errors.UndefinedFunction):
        connection.execute(read_sql(REMOVAL_FILE))
