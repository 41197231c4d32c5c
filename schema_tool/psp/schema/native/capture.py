"""What captures rows and commits at a semi-primary in native mode: SQL, or the server module psp_capture."""

from __future__ import annotations

from typing import Any, Literal, get_args

import psycopg

from psp.output import PspError
from psp.sql_files import constant

Capture = Literal["sql", "module"]
CaptureChoice = Literal["auto", "sql", "module"]
CHOICES: tuple[CaptureChoice, ...] = get_args(CaptureChoice)


def choose(connection: psycopg.Connection[Any], wanted: CaptureChoice) -> Capture:
    """The capture to install: `auto` is the module where the server has it.

    PspError: the module is wanted, and not there.
    """
    if wanted == "sql":
        return "sql"
    problem = _problem_of_module(connection)
    if problem is None:
        return "module"
    if wanted == "auto":
        return "sql"
    raise PspError(
        f"the server module psp_capture cannot be used: {problem}",
        "make install puts it into the server's library folder; --capture=sql does without",
    )


def use(connection: psycopg.Connection[Any], wanted: CaptureChoice) -> Capture:
    """Changes it at a running semi-primary, in the caller's transaction; writers wait for its end."""
    found = connection.execute("SELECT mode, capture FROM psp.identity").fetchone()
    if found is None or found[0] != "native":
        raise PspError("only a semi-primary in native mode has a capture that can be chosen")
    chosen = choose(connection, wanted)
    if chosen != found[1]:
        connection.execute("SELECT psp.use_capture(%s)", (chosen,))
    return chosen


def _problem_of_module(connection: psycopg.Connection[Any]) -> str | None:
    expected = constant("SEMI_PRIMARY_SCHEMA_VERSION")
    try:
        with connection.transaction():
            connection.execute("LOAD 'psp_capture'")
            connection.execute(
                "CREATE FUNCTION pg_temp.psp_module_version() RETURNS integer LANGUAGE c "
                "AS 'psp_capture', 'psp_module_version'"
            )
            row = connection.execute("SELECT pg_temp.psp_module_version()").fetchone()
            connection.execute("DROP FUNCTION pg_temp.psp_module_version()")
    except psycopg.Error as error:
        return str(error.diag.message_primary or error)
    assert row is not None
    return None if row[0] == expected else f"it is of version {row[0]}, this psp needs {expected}"
