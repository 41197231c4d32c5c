"""The databases: one with the plain table, one for each way in which the stock is split."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psp.cluster.pgserver import PgServer, give_to_server
from psp.cluster.ports import PortAllocator
from psp.cluster.temporary import TemporaryFolder
from psp.mrv.create import Options, create

STOCK = 1_000_000_000  # nobody runs out of it
RECORDS_MAX = 1024
DURABLE = {"fsync": "on", "synchronous_commit": "on"}


@contextmanager
def throw_away_server(clients_max: int) -> Iterator[PgServer]:
    """A durable PostgreSQL that is removed at the end."""
    with TemporaryFolder() as folder:
        give_to_server(folder.path)
        settings = {**DURABLE, "max_connections": str(clients_max + 20)}
        server = PgServer(folder.path / "shop", PortAllocator().take(), folder.path, settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def make(server: PgServer, name: str, items: int, records: int | None) -> str:
    """A database of products, each stock in `records` (1: cold; None: a plain table). Returns its DSN."""
    server.create_database(name)
    dsn = server.dsn(name)
    with psycopg.connect(dsn) as connection:
        connection.execute(Path(__file__).with_name("products.sql").read_bytes())
        connection.execute(
            "INSERT INTO product SELECT id, 'product ' || id, %s FROM generate_series(1, %s) id",
            (STOCK, items),
        )
    if records is not None:
        create(dsn, "product.stock", Options(records=records, max=max(64, records)), lambda _: None)
    return dsn


def vacuum(dsn: str) -> None:
    """So that no round pays for the dead rows of the one before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
