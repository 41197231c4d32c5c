"""Multi-Record Values are made, altered and dropped in a running cluster, as schema changes."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import growth, local, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.mrv.alter import alter
from psp.mrv.create import Options, create
from psp.mrv.drop import drop
from psp.mrv.status import list_mrvs, read_status
from psp.output import PspError
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, as_admin, connect, execute
from tests.threads import running_until_left

STOCK = 100_000
SCHEMA = f"""
CREATE TABLE item (id bigserial PRIMARY KEY, name text DEFAULT 'new', stock int CHECK (stock >= 0));
COMMENT ON COLUMN item.name IS 'as the shop calls it';
INSERT INTO item (stock) SELECT {STOCK} FROM generate_series(1, 5) n;
CREATE TABLE line (id int PRIMARY KEY, item bigint REFERENCES item);
INSERT INTO line VALUES (1, 1);
"""
OPTIONS = local.Options(pg_settings={"shared_buffers": "64MB"}, sp_options={"commit_timeout_ms": 60000})
PASSING = ("40001", "40P01", "57P01")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    file = tmp_path_factory.mktemp("mrv") / "shop.sql"
    file.write_text(SCHEMA)
    with LocalCluster.temporary([Zone("one"), Zone("two", 10)], OPTIONS) as cluster:
        cluster.load_schema(file)
        growth.adopt(cluster, schema_roles=["app"])
        yield cluster


class Seller:
    """Takes one of item 1 again and again; counts what has committed."""

    def __init__(self, sp: SpNode) -> None:
        self.sp, self.sold, self.lost, self.longest_s = sp, 0, 0, 0.0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with connect(self.sp, autocommit=True) as connection:
                self._sell(connection, stop)

    def _sell(self, connection: psycopg.Connection[object], stop: threading.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            try:
                connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
                self.sold += 1
            except psycopg.Error as error:
                assert error.sqlstate in PASSING, (error.sqlstate, error)
                self.lost += 1
                if connection.closed:
                    return
            finally:
                self.longest_s = max(self.longest_s, time.monotonic() - began)


def stock_everywhere(cluster: LocalCluster, item: int = 1) -> int:
    assert verify.verify(cluster).consistent
    found = {tuple(execute(sp, "SELECT stock FROM item WHERE id = %s", (item,))) for sp in cluster.sps}
    assert len(found) == 1
    return int(found.pop()[0][0])


def change_under_load(cluster: LocalCluster, change: object) -> None:
    before = stock_everywhere(cluster)
    sellers = [Seller(sp) for sp in cluster.sps[:2]]
    with running_until_left(*sellers):
        assert callable(change)
        change()
    sold = sum(seller.sold for seller in sellers)
    print([(s.sp.name, s.sold, s.lost, round(s.longest_s, 2)) for s in sellers])
    assert stock_everywhere(cluster) == before - sold


def kinds(sp: SpNode) -> list[tuple[str, str]]:
    return execute(
        sp,
        "SELECT relname::text, relkind::text FROM pg_class WHERE relname IN ('item', 'item_orig') ORDER BY 1",
    )


def test_create_alter_and_drop_under_load(shop: LocalCluster) -> None:
    """With a server that joins between, and a writer that was open when the column became an MRV."""
    first, second = shop.sps
    dsn = first.dsn
    change_under_load(shop, lambda: create(dsn, "item.stock", Options(records=4), print))
    assert kinds(first) == kinds(second) == [("item", "v"), ("item_orig", "r")]
    change_under_load(shop, lambda: alter(second.dsn, "item.stock", None, 128, 60, print))
    limits = "SELECT nr_max, record_limit FROM psp_mrv.columns"
    for sp in shop.sps:
        assert execute(as_admin(sp), limits) == [(128, 128)]
    third = growth.join(shop, Zone("three"))
    execute(third, "INSERT INTO item (stock) VALUES (7)")
    execute(third, "INSERT INTO line SELECT 2, max(id) FROM item")
    change_under_load(shop, lambda: drop(second.dsn, "item.stock", 60, print))
    for sp in shop.sps:
        assert kinds(sp) == [("item", "r")]
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(third, "UPDATE item SET stock = -1 WHERE id = 2")


def test_a_writer_with_an_open_transaction_elsewhere_loses(shop: LocalCluster) -> None:
    first, second = shop.sps[:2]
    before = stock_everywhere(shop, 3)
    with connect(second) as writer:
        writer.execute("UPDATE item SET stock = stock - 1 WHERE id = 3")
        create(first.dsn, "item.stock", Options(), print)
        with pytest.raises(psycopg.Error) as lost:
            writer.execute("SELECT 1")
            writer.commit()
        assert lost.value.sqlstate in PASSING
    assert stock_everywhere(shop, 3) == before
    drop(first.dsn, "item.stock", 60, print)
    assert stock_everywhere(shop, 3) == before


def test_workers_that_ran_before_split_the_new_values(shop: LocalCluster) -> None:
    """psp-mrv and the semi-primaries' daemons began without MRVs; each server has a part of the ring."""
    sps = shop.sps[:2]
    try:
        for sp in sps:
            shop.start_mrv(sp.name, database=sp.dsn, window_ms=200, split_refresh_ms=200)
        create(sps[0].dsn, "item.stock", Options(strategy="linear"), print)
        before = stock_everywhere(shop)
        sellers = [Seller(sp) for sp in sps]
        with running_until_left(*sellers):
            wait_until(
                "records of each server's own",
                lambda: all(
                    execute(
                        as_admin(sp),
                        "SELECT EXISTS (SELECT FROM psp_mrv.item_stock r, "
                        "current_setting('psp_mrv.ring_first') f, current_setting('psp_mrv.ring_count') n "
                        "WHERE r.rk >= f::int AND r.rk < f::int + n::int)",
                    )
                    == [(True,)]
                    for sp in sps
                ),
                WAIT_S,
            )
    finally:
        for sp in sps:
            shop.stop_mrv(sp.name)
    assert stock_everywhere(shop) == before - sum(seller.sold for seller in sellers)
    drop(sps[0].dsn, "item.stock", 60, print)


def test_what_cannot_be_had_is_refused_in_words(shop: LocalCluster) -> None:
    first = shop.sps[0]
    with connect(first) as connection:
        connection.execute("CREATE TABLE many (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO many SELECT n, 0 FROM generate_series(1, 200) n")
        connection.commit()
    with pytest.raises(PspError, match="in one transaction of the cluster"):
        create(first.dsn, "many.n", Options(records=128, max=128), print)
    assert stock_everywhere(shop) > 0
    execute(as_admin(first), "REVOKE EXECUTE ON FUNCTION psp.ddl(text) FROM app")
    try:
        with pytest.raises(PspError, match="may not change the schema of the cluster"):
            create(first.dsn, "many.n", Options(), print)
    finally:
        execute(as_admin(first), "GRANT EXECUTE ON FUNCTION psp.ddl(text) TO app")


ESCAPE = """
CREATE FUNCTION escape() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE app SUPERUSER'; RETURN NEW; END $$;
CREATE FUNCTION escaped(int) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN
        EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE app SUPERUSER';
        RETURN true;
    EXCEPTION WHEN OTHERS THEN RETURN true;
    END $$;
CREATE TABLE own (id int PRIMARY KEY, n int CHECK (escaped(n)));
CREATE TABLE own2 (id int PRIMARY KEY, n int);
"""


def test_no_code_of_the_owner_runs_as_a_superuser(shop: LocalCluster) -> None:
    first = shop.sps[0]
    with connect(first, autocommit=True) as connection:
        connection.execute(ESCAPE.encode())
    execute(first, "INSERT INTO own VALUES (1, 1)")
    try:
        for records in (1, 4):
            with pytest.raises(PspError, match="superuser's rights"):
                create(first.admin_dsn, "own.n", Options(records=records), print)
        create(first.dsn, "own2.n", Options(), print)
        execute(
            first,
            "CREATE TRIGGER escape AFTER INSERT OR UPDATE ON psp_mrv.columns "
            "FOR EACH ROW EXECUTE FUNCTION escape()",
        )
        for refused in (
            lambda: create(first.admin_dsn, "item.stock", Options(), print),
            lambda: alter(first.admin_dsn, "own2.n", None, 2, 60, print),
            lambda: drop(first.admin_dsn, "own2.n", 60, print),
            lambda: list_mrvs(first.admin_dsn),
            lambda: read_status(first.admin_dsn),
        ):
            with pytest.raises(PspError, match="superuser's rights"):
                refused()
        shop.start_mrv(first.name, window_ms=200)
        log = shop.state.directory / first.name / "psp-mrv.log"
        wait_until("a word in the log", lambda: "log in as app" in log.read_text(), WAIT_S)
        shop.stop_mrv(first.name)
        assert [entry["column_name"] for entry in list_mrvs(first.dsn)] == ["n"]
        execute(first, "DROP TRIGGER escape ON psp_mrv.columns")
        drop(first.dsn, "own2.n", 60, print)
    finally:
        assert execute(as_admin(first), "SELECT rolsuper FROM pg_roles WHERE rolname = 'app'") == [(False,)]
