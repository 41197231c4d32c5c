"""A superuser who makes or drops an MRV writes rows of others: no code of theirs may run as him."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from psp.problems import Problem, RefusedError
from psp.sql_files import read_sql


def refuse_users_code(
    connection: psycopg.Connection[Any], table: int, columns: Sequence[str], label: str, hint: str
) -> None:
    """RefusedError: triggers, CHECKs, indexes or the like that call functions of ordinary roles would run if
    these columns were updated.

    Not if the session's role is no superuser: then PostgreSQL's rights tell what it may do.
    """
    query = read_sql("mrv/command/users_code.sql")
    found = connection.execute(query, {"table": table, "columns": [*columns]}).fetchall()
    problems = [
        Problem("error", what, f"it calls {function}, which is no superuser's", hint)
        for what, function in found
    ]
    if problems:
        raise RefusedError(
            f"rows of {label} cannot be written here: code of ordinary roles would run as a superuser",
            problems,
        )
