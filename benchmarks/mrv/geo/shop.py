"""A cluster whose SPs sell the same products: once from a plain table, once from Multi-Record Values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.mrv.create import Options as MrvOptions
from psp.mrv.create import create

from benchmarks.mrv.shop import STOCK
from benchmarks.plain import DURABLE

PRODUCTS = Path(__file__).parents[1] / "products.sql"
MRV_SCHEMA = "public"
PLAIN_SCHEMA = "plain_shop"
RECORDS_MAX = 1024


@contextmanager
def cluster_of(zones: Sequence[Zone], items: int, clients_max: int) -> Iterator[LocalCluster]:
    """MRV_SCHEMA.product has the MRVs, PLAIN_SCHEMA.product none; each value is in one record."""
    settings = {"fsync": DURABLE["fsync"], "max_connections": str(clients_max + 30)}
    sp_options = {"commit_timeout_ms": 60000, "hook_connections_max": clients_max + 30}
    with LocalCluster.temporary(zones, Options(pg_settings=settings, sp_options=sp_options)) as cluster:
        dsn = cluster.sps[0].admin_dsn
        with psycopg.connect(dsn) as connection:
            for schema in (MRV_SCHEMA, PLAIN_SCHEMA):
                connection.execute(
                    f"CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path = {schema}".encode()
                )
                connection.execute(PRODUCTS.read_bytes())
                connection.execute(
                    "INSERT INTO product SELECT id, 'product ' || id, %s FROM generate_series(1, %s) id",
                    (STOCK, items),
                )
        create(dsn, f"{MRV_SCHEMA}.product.stock", MrvOptions(max=RECORDS_MAX), lambda _: None)
        growth.adopt(cluster)
        yield cluster


def set_records(cluster: LocalCluster, items: int, each: int) -> None:
    """So many records for each value in each SP's own part of the ring, with even amounts.

    What the workers of the SPs come to when each of them needs so many.
    """
    merge(cluster, items)
    first, *others = cluster.sps
    _for_each(cluster, first, items, f"SELECT psp_mrv.adjust(1, %s, {each})")  # one more than `each`
    for sp in others:
        _for_each(cluster, sp, items, f"SELECT psp_mrv.adjust(1, %s, {each})")
    _for_each(cluster, first, items, "SELECT psp_mrv.adjust(1, %s, -1)")
    _for_each(cluster, cluster.sps[0], items, "SELECT psp_mrv.balance(1, %s, 'all')")


def merge(cluster: LocalCluster, items: int) -> None:
    """The values of the first so many products are cold again."""
    _for_each(cluster, cluster.sps[0], items, "SELECT psp_mrv.adjust(1, %s, -10000)")


def own_records(sp: SpNode) -> int:
    """The first product's records in an SP's own part of the ring."""
    with psycopg.connect(sp.admin_dsn) as connection:
        row = connection.execute(
            """SELECT count(*) FROM psp_mrv.product_stock, current_setting('psp_mrv.ring_first') first,
                      current_setting('psp_mrv.ring_count') places
                WHERE id = 1 AND rk >= first::integer AND rk < first::integer + places::integer"""
        ).fetchone()
    return int(row[0]) if row else 0


def _for_each(cluster: LocalCluster, sp: SpNode, items: int, statement: str) -> None:
    """In one transaction; afterwards every SP has it."""
    with psycopg.connect(sp.admin_dsn) as connection:
        for item in range(1, items + 1):
            connection.execute(statement.encode(), ([str(item)],))
    verify.wait_drained(cluster)


def vacuum(cluster: LocalCluster) -> None:
    """So that no round pays for the dead rows of the one before."""
    for sp in cluster.sps:
        with psycopg.connect(sp.admin_dsn, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE product_orig, psp_mrv.product_stock")
            connection.execute(f"VACUUM ANALYZE {PLAIN_SCHEMA}.product".encode())


def sold(sp: SpNode) -> dict[str, int]:
    """Pieces that are gone of each shop, as an SP shows it."""
    with psycopg.connect(sp.admin_dsn) as connection:
        return {
            schema: int(connection.execute(
                f"SELECT sum({STOCK} - stock)::bigint FROM {schema}.product".encode()
            ).fetchall()[0][0])
            for schema in (MRV_SCHEMA, PLAIN_SCHEMA)
        }  # fmt: skip
