"""The throw-away PostgreSQL of the benchmarks of Multi-Record Values, and how long its commits take."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.ports import PortAllocator
from psp.servers.temporary import TemporaryFolder
from psycopg import sql

DURABLE = {"fsync": "on", "synchronous_commit": "on"}


@contextmanager
def throw_away_server(clients_max: int) -> Iterator[PgServer]:
    """A durable PostgreSQL that is removed at the end."""
    with TemporaryFolder() as folder:
        give_to_server(folder.path)
        settings = {**DURABLE, "max_connections": str(clients_max + 20)}
        server = PgServer(folder.path / "pg", PortAllocator().take(), folder.path, settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def set_commit_delay(dsn: str, delay_ms: float) -> None:
    """For all sessions that begin later, with any driver."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting, value in (("commit_delay", round(1000 * delay_ms)), ("commit_siblings", 0)):
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(connection.info.dbname), sql.SQL(setting), sql.Literal(value)
                )
            )
