"""The throw-away PostgreSQL of the benchmarks of Multi-Record Values, and how long its commits take."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server
from psycopg import sql

DURABLE = {"fsync": "on", "synchronous_commit": "on"}


@contextmanager
def throw_away_server(clients_max: int) -> Iterator[PgServer]:
    """A durable PostgreSQL that is removed at the end."""
    with temporary_server({**DURABLE, "max_connections": str(clients_max + 20)}) as server:
        yield server


def set_commit_delay(dsn: str, delay_ms: float) -> None:
    """For all sessions that begin later, with any driver."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting, value in (("commit_delay", round(1000 * delay_ms)), ("commit_siblings", 0)):
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(connection.info.dbname), sql.SQL(setting), sql.Literal(value)
                )
            )
