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
    if not _can_be_loaded(connection):
        connection.execute(read_sql(REMOVAL_FILE))
        return
    try:
        with connection.transaction():
            connection.execute(read_sql(FUNCTIONS_FILE))
    except psycopg.errors.UndefinedFunction:  # the file is an older one
        connection.execute(read_sql(REMOVAL_FILE))


def _can_be_loaded(connection: psycopg.Connection[Any]) -> bool:
    try:
        with connection.transaction():
            connection.execute("LOAD 'psp_certify'")
    except psycopg.Error:  # it is not there, or of another server: PostgreSQL has no code of its own for that
        return False
    return True
