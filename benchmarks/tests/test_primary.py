"""bench-primary's arithmetic, and that all parts of it are measured, not what comes out."""

import pytest
from psp.cluster.local import Zone
from psp.paths import module_dir, server_version

from benchmarks.primary import batches, tpcc
from benchmarks.primary.targets import targets
from benchmarks.tpcc.runner import Scale

needs_module = pytest.mark.skipif(
    module_dir(server_version()) is None, reason="it needs the server module, which is not built"
)


def _said(transactions: int, sql_s: float, upsert_s: float) -> dict[str, float]:
    return {
        "transactions": transactions, "sql_committed": transactions, "module_committed": transactions / 2,
        "sql_server_s": sql_s, "sql_client_s": 0.5, "module_server_s": sql_s / 2, "module_client_s": 0.25,
        "upsert_server_s": upsert_s, "upsert_client_s": 0.25,
    }  # fmt: skip


def test_row_and_targets() -> None:
    row = batches.row(batches.Point(25, 8, 0), [_said(1000, 1.0, 0.5), _said(1000, 2.0, 1.0)])
    assert row["sql"] == {
        "committed_percent": pytest.approx(100),
        "us": {"server": pytest.approx(1500), "client": pytest.approx(500)},
        "rows_per_cpu_s": pytest.approx(12_500),
        "upsert_ratio": pytest.approx(0.5),
    }
    assert row["module"]["committed_percent"] == pytest.approx(50)
    assert row["module"]["upsert_ratio"] == pytest.approx(1)
    assert row["upsert"]["us"] == {"server": pytest.approx(750), "client": pytest.approx(250)}
    near = {"sql": {"transactions_per_cpu_s": 1000}, "module": {"transactions_per_cpu_s": 2000}}
    far = {"sql": {"transactions_per_cpu_s": 2000}, "module": {"transactions_per_cpu_s": 5000}}
    found = targets([row], {"near": near, "far": far})
    assert found["upsert_ratio"]["holds"] is True
    assert found["upsert_ratio"]["sql"] == pytest.approx(0.5)
    assert found["upsert_ratio"]["by_load"] == {"8 x 25 rows, 0 % conflicts": pytest.approx(1)}
    assert found["tpcc_per_cpu_s"]["measured"] == pytest.approx(3500)
    assert found["tpcc_per_cpu_s"]["sql"] == pytest.approx(1500)
    assert found["tpcc_per_cpu_s"]["holds"] is True


@needs_module
def test_batches_are_certified_and_upserted() -> None:
    point = batches.Point(rows=3, transactions=20, conflicts=5)
    with batches.primary(keys=200) as dsn:
        row = batches.row(point, [batches.measure(dsn, point, keys=200)])
    for form in batches.FORMS:
        assert row[form]["committed_percent"] == pytest.approx(95)
        assert min(row[form]["us"]["server"], row["upsert"]["us"]["server"], row[form]["upsert_ratio"]) > 0


@pytest.mark.parametrize("form", ["sql", pytest.param("module", marks=needs_module)])
def test_tpcc_is_measured(form: str) -> None:
    where = tpcc.Cluster("small", [Zone("near"), Zone("far", 10)], threads=1, warehouses=1)
    found = tpcc.measure(where, 2, form, Scale(warehouses=2, items=1000, customers=100), warm_up_s=1)
    assert found["clients"] == 2
    assert found["transactions_per_cpu_s"] > 0
    assert set(found["commit_p50_ms"]) == {"near", "far"}
