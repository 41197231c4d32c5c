"""The databases: one with the plain table, one for each way in which the stock is split."""

from pathlib import Path

import psycopg
from psp.mrv.create import Options, create
from psp.servers.pgserver import PgServer

STOCK = 1_000_000_000  # nobody runs out of it


def make(server: PgServer, name: str, items: int, records: int | None, stock: int = STOCK) -> str:
    """A database of products, each stock in `records` (1: cold; None: a plain table). Returns its DSN."""
    server.create_database(name)
    dsn = server.dsn(name)
    with psycopg.connect(dsn) as connection:
        connection.execute(Path(__file__).with_name("products.sql").read_bytes())
        connection.execute(
            "INSERT INTO product SELECT id, 'product ' || id, %s FROM generate_series(1, %s) id",
            (stock, items),
        )
    if records is not None:
        create(dsn, "product.stock", Options(records=records, max=max(64, records)), lambda _: None)
    return dsn


def vacuum(dsn: str) -> None:
    """So that no round pays for the dead rows of the one before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
