"""No client may connect to a joining semi-primary before its copy is whole: it would read half the rows."""

from __future__ import annotations

from typing import Any

import psycopg

from psp.sessions import open_session
from psp.sql_files import read_sql


def keep_out(connection: psycopg.Connection[Any]) -> None:
    """In the transaction of the join. Without effect if the role may not change the database's rights."""
    connection.execute("SELECT psp.keep_clients_out()")


def end_sessions(connection: psycopg.Connection[Any]) -> None:
    """After that transaction: sessions of roles that may not connect any more."""
    connection.execute(read_sql("semi_primary/command/end_clients.sql"))


def let_in(connection: psycopg.Connection[Any]) -> None:
    """At a release; a semi-primary that an older psp has made keeps nobody out."""
    row = connection.execute("SELECT to_regprocedure('psp.let_clients_in()') IS NOT NULL").fetchone()
    if row == (True,):
        connection.execute("SELECT psp.let_clients_in()")


def advice(dsn: str) -> str:
    """What to tell the person who has just made the semi-primary."""
    with open_session(dsn) as connection:
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM psp.connect_rights), current_database(), current_user"
        ).fetchone()
    assert row is not None
    are_out, database, role = row
    if are_out:
        return (
            "Until psp.status says streaming, only superusers and members of pg_monitor can connect here: "
            "the tables are empty, then incomplete. Clients get 42501. They have their rights again then."
        )
    return (
        "Its tables are empty, then incomplete, until psp.status says streaming: let clients in then. "
        f"{role} may not keep them out: as the owner of database {database}, REVOKE CONNECT until then."
    )
