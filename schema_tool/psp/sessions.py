"""Sessions of psp's commands, often a superuser's, in databases where others make functions and operators."""

from __future__ import annotations

from typing import Any

import psycopg


def open_session(dsn: str, **more: Any) -> psycopg.Connection[Any]:
    """psycopg.connect whose session looks for names in pg_catalog only, to its end, rollbacks included.

    Under the database's own search_path an operator or aggregate of somebody's that fits better than
    PostgreSQL's would run with the rights of who runs the command. The session may write, also where the
    daemon is away (docs/decisions/81-read-only-while-broken.md).
    """
    autocommit = more.pop("autocommit", False)
    connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True, **more)
    try:
        connection.execute("SET search_path = pg_catalog, pg_temp")
        connection.execute("SET default_transaction_read_only = off")
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection
