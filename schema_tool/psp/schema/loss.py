"""`psp schema accept-loss`: a semi-primary may follow a primary that lacks what it has followed."""

from __future__ import annotations

from psp.output import PspError
from psp.schema.server import read_facts
from psp.sessions import open_session
from psp.sql_files import read_sql


def accept_loss(dsn: str) -> None:
    """Says so in the database, for the next start of its daemon; docs/decisions/66.

    PspError: the database is no semi-primary, or has followed no primary yet. psycopg.Error: the role may
    not.
    """
    with open_session(dsn) as connection:
        if not read_facts(connection).adopted:
            raise PspError(
                "the database is no semi-primary", "Name the database of the semi-primary that waits."
            )
        changed = connection.execute(read_sql("semi_primary/command/accept_loss.sql")).rowcount
        if changed == 0:
            raise PspError("this semi-primary has followed no primary yet", "There is nothing to accept.")
