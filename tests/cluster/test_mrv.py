"""Multi-Record Values inside psp: partition records are captured rows, and the bound holds across SPs."""

import threading
from pathlib import Path

import psycopg
import pytest
from conftest import MakeCluster
from psp.cluster import growth, local, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.mrv.create import Options, create
from psp.mrv.drop import drop
from psp.output import PspError
from support import connect, execute, wait_for_row

STOCK = 200
SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, name text, stock int CHECK (stock >= 0));
INSERT INTO item VALUES (1, 'apple', {STOCK}), (2, 'pear', {STOCK});
"""
ZONES = [Zone("one"), Zone("two")]
# A busy machine must not leave a commit in doubt: the sums are compared to the last piece.
OPTIONS = local.Options(pg_settings={"shared_buffers": "64MB"}, sp_options={"commit_timeout_ms": 60000})


@pytest.fixture
def mrv_cluster(make_cluster: MakeCluster, tmp_path: Path) -> LocalCluster:
    """Two SPs; item.stock was made an MRV before adoption."""
    cluster = make_cluster(ZONES, "", OPTIONS)
    file = tmp_path / "shop.sql"
    file.write_text(SCHEMA)
    cluster.load_schema(file)
    create(cluster.sps[0].admin_dsn, "item.stock", Options(records=8), print)
    growth.adopt(cluster)
    return cluster


def _change(sp: SpNode, change: int, times: int, told: dict[str, int]) -> None:
    """Adds (or subtracts) pieces, once each; counts what became of them."""
    with connect(sp, autocommit=True) as connection:
        for _ in range(times):
            try:
                connection.execute("UPDATE item SET stock = stock + %s WHERE id = 1", (change,))
                outcome = "done"
            except psycopg.errors.SerializationFailure:
                outcome = "aborted"
            except psycopg.errors.CheckViolation:
                outcome = "refused"
            except psycopg.Error as error:
                outcome = f"{error.sqlstate} {error}"
            told[outcome] = told.get(outcome, 0) + 1


def test_two_sps_add_and_subtract(mrv_cluster: LocalCluster) -> None:
    """More is wanted than there is: the bound holds, and what was reported is what is there."""
    work = [(sp, change) for sp in mrv_cluster.sps for change in (-3, -2, 1)]
    told: list[dict[str, int]] = [{} for _ in work]
    threads = [
        threading.Thread(target=_change, args=(sp, change, 60, tally))
        for (sp, change), tally in zip(work, told, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert set().union(*told) <= {"done", "aborted", "refused"}
    verify.wait_drained(mrv_cluster)
    expected = STOCK + sum(c * t.get("done", 0) for (_, c), t in zip(work, told, strict=True))
    for sp in mrv_cluster.sps:
        assert execute(sp, "SELECT stock FROM item ORDER BY id") == [(expected,), (STOCK,)]
    assert expected >= 0
    assert any(tally.get("refused") for tally in told)
    assert verify.verify(mrv_cluster).consistent


def test_each_sp_has_a_record_of_its_own(mrv_cluster: LocalCluster) -> None:
    """Both change one value in open transactions at once; neither is aborted."""
    one, two = mrv_cluster.sps
    with connect(one) as first, connect(two) as second:
        for connection in (first, second):
            for _ in range(3):
                connection.execute("UPDATE item SET stock = stock - 1 WHERE id = 1")
        first.commit()
        second.commit()
    for sp in mrv_cluster.sps:
        wait_for_row(sp, "SELECT 1 FROM item WHERE id = 1 AND stock = %s", (STOCK - 6,))


def test_workers_at_both_sps(mrv_cluster: LocalCluster) -> None:
    """A value is merged at one SP while the other adds records or amounts: one of them is aborted."""
    one, two = mrv_cluster.sps
    for statement in (
        "SELECT psp_mrv.adjust(1, '{1}', 4)",
        "UPDATE item SET stock = stock + 5 WHERE id = 1",
        "SELECT psp_mrv.balance(1, '{1}', 'all')",
    ):
        with psycopg.connect(one.admin_dsn) as merger, psycopg.connect(two.admin_dsn) as other:
            merger.execute("SELECT psp_mrv.adjust(1, '{1}', -100)")
            other.execute("UPDATE item SET stock = stock + 1 WHERE id = 1")
            other.execute(statement.encode())
            merger.commit()
            with pytest.raises(psycopg.errors.SerializationFailure):
                other.commit()
        verify.wait_drained(mrv_cluster)
        assert execute(two, "SELECT stock FROM item WHERE id = 1") == [(STOCK,)]
        execute(one, "SELECT 1")
        with psycopg.connect(one.admin_dsn) as splitter:
            splitter.execute("SELECT psp_mrv.adjust(1, '{1}', 3)")
        verify.wait_drained(mrv_cluster)
    assert verify.verify(mrv_cluster).consistent


def test_create_and_drop_are_refused_inside_psp(mrv_cluster: LocalCluster) -> None:
    dsn = mrv_cluster.sps[0].admin_dsn
    with pytest.raises(PspError, match="under psp"):
        create(dsn, "item.id", Options(), print)
    with pytest.raises(PspError, match="under psp"):
        drop(dsn, "item.stock", 5, print)
