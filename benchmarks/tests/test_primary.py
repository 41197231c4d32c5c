"""bench-primary's arithmetic, and that all parts of it are measured, not what comes out."""

import pytest
from psp.cluster.local import Zone

from benchmarks.primary import batches, tpcc
from benchmarks.primary.targets import targets
from benchmarks.tpcc.runner import Scale


def _said(transactions: int, certify_s: float, upsert_s: float) -> dict[str, float]:
    return {
        "transactions": transactions, "committed": transactions, "certify_server_s": certify_s,
        "certify_client_s": 0.5, "upsert_server_s": upsert_s, "upsert_client_s": 0.25,
    }  # fmt: skip


def test_row_and_targets() -> None:
    row = batches.row(batches.Point(25, 8, 0), [_said(1000, 1.0, 0.5), _said(1000, 2.0, 1.0)])
    assert row["upsert_ratio"] == pytest.approx(0.5)
    assert row["certify_rows_per_cpu_s"] == pytest.approx(12_500)
    assert row["certify_us"] == {"server": pytest.approx(1500), "client": pytest.approx(500)}
    assert row["committed_percent"] == pytest.approx(100)
    found = targets(
        [row], {"near": {"transactions_per_cpu_s": 2000}, "far": {"transactions_per_cpu_s": 5000}}
    )
    assert found["upsert_ratio"]["holds"] is False
    assert found["upsert_ratio"]["by_load"] == {"8 x 25 rows, 0 % conflicts": pytest.approx(0.5)}
    assert found["tpcc_per_cpu_s"]["measured"] == pytest.approx(3500)
    assert found["tpcc_per_cpu_s"]["holds"] is True


def test_batches_are_certified_and_upserted() -> None:
    point = batches.Point(rows=3, transactions=20, conflicts=5)
    with batches.primary(keys=200) as dsn:
        row = batches.row(point, [batches.measure(dsn, point, keys=200)])
    assert row["committed_percent"] == pytest.approx(95)
    assert min(row["certify_us"]["server"], row["upsert_us"]["server"], row["upsert_ratio"]) > 0


def test_tpcc_is_measured() -> None:
    where = tpcc.Cluster("small", [Zone("near"), Zone("far", 10)], threads=1, warehouses=1)
    found = tpcc.measure(where, seconds=2, scale=Scale(warehouses=2, items=1000, customers=100), warm_up_s=1)
    assert found["clients"] == 2
    assert found["transactions_per_cpu_s"] > 0
    assert set(found["commit_p50_ms"]) == {"near", "far"}
