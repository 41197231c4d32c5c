"""A real Prometheus scrapes three zones under TPC-C: alerts fire when they should, and not before.

`make test-prometheus` fetches the program. Of the rules a copy is used: `for:` is five seconds, and some
thresholds are such that a test reaches them; everything else is as in deploy/prometheus.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import growth
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.waiting import wait_until

from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Client, Load, Scale
from tests.cluster.metrics.reading import samples
from tests.cluster.support import applying_paused, execute, needs_module, paused, wait_streaming
from tests.prometheus.server import PROGRAM, RULES, Prometheus, hastened, now, scraping

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="it is not fetched: make test-prometheus")
ZONES = (Zone("near", 10), Zone("middle", 30), Zone("far", 60))
SCALE = Scale(warehouses=3, items=1000, customers=30)
LOAD_S = 1200
FIRES_S = 180
CALM_TRANSACTIONS = 1000
CALM_SCRAPES = 30
LAG_S, LOG_S = 4, 30
AWAY = {"PspSemiPrimaryAway", "PspSemiPrimaryDown"}
LAGS = {"PspApplyLags"}
LOG = {"PspLogIsOld", "PspLogIsLarge"}
BY_SQL = {"PspCertifiesBySql"}
CLOSED: LiteralString = "SELECT closed_t FROM psp.status"


@pytest.fixture(scope="module")
def busy() -> Iterator[LocalCluster]:
    """Three zones under the benchmark's load, at home in a warehouse each.

    The log's removed entries take room until they are vacuumed, so its size is steady only if that is soon.
    """
    options = Options(
        pg_settings={"shared_buffers": "64MB", "autovacuum_naptime": "1s"},
        primary_options={"log_truncation_interval_ms": 500},
    )
    with LocalCluster.temporary(ZONES, options) as cluster, ExitStack() as stack:
        runner.prepare(cluster.sps[0].dsn, SCALE)
        growth.adopt(cluster)
        wait_streaming(cluster)
        for home, sp in enumerate(cluster.sps, 1):
            load = Load(threads=2, seconds=LOAD_S, scale=SCALE, home_first=home, home_last=home)
            stack.enter_context(Client(sp.dsn, load))
        yield cluster


@pytest.fixture(scope="module")
def prometheus(busy: LocalCluster) -> Iterator[Prometheus]:
    """The log's threshold is four times what it takes in a calm cluster."""
    calm_bytes = 0.0
    begun = closed(busy.sps[0])

    def is_known() -> bool:
        nonlocal calm_bytes
        calm_bytes = max(calm_bytes, samples(busy, PRIMARY).get("psp_log_bytes", 0.0))
        return closed(busy.sps[0]) >= begun + CALM_TRANSACTIONS

    wait_until("some transactions", is_known, FIRES_S)
    assert calm_bytes > 0
    thresholds = {
        "psp_apply_lag_seconds > 30": f"psp_apply_lag_seconds > {LAG_S}",
        "psp_log_oldest_seconds > 3600": f"psp_log_oldest_seconds > {LOG_S}",
        "psp_log_bytes > 20e9": f"psp_log_bytes > {4 * calm_bytes:.0f}",
    }
    rules = hastened((paths.home() / RULES).read_text(), thresholds)
    with scraping(busy, rules) as made:
        wait_until("some scrapes of all", lambda: scrapes(made) >= CALM_SCRAPES, FIRES_S)
        yield made


def closed(sp: SpNode) -> int:
    return int(execute(sp, CLOSED)[0][0])


def scrapes(prometheus: Prometheus) -> float:
    """Of the daemon that was scraped least."""
    found = prometheus.query("sum_over_time(up[1h])")
    return min(value for _, value in found) if len(found) == len(ZONES) + 1 else 0


def fires(prometheus: Prometheus, *alerts: str) -> dict[str, list[dict[str, str]]]:
    return wait_until(
        f"{', '.join(alerts)} to fire",
        lambda: found if set(alerts) <= (found := prometheus.firing()).keys() else None,
        FIRES_S,
    )


def end(prometheus: Prometheus, *alerts: str) -> None:
    wait_until(f"{', '.join(alerts)} to end", lambda: not set(alerts) & prometheus.firing().keys(), FIRES_S)


def never_before(prometheus: Prometheus, *alerts: str) -> None:
    until = now(prometheus)
    assert [alert for alert in alerts if prometheus.has_fired(alert, until)] == []


def test_a_calm_cluster_has_no_alert(prometheus: Prometheus, busy: LocalCluster) -> None:
    """Under load, for many scrapes. What is measured is what psp.status tells."""
    never_before(prometheus, *AWAY, *LAGS, *LOG, *BY_SQL, "PspCannotCommit", "PspPrimaryCannotDecide")
    assert prometheus.value("sum(psp_semi_primary_connected)") == len(ZONES)
    for sp in busy.sps:
        job = f'instance="127.0.0.1:{busy.state.node(sp.name).metrics_port}"'
        assert (prometheus.value(f"rate(psp_commits_total{{{job}}}[20s])") or 0) > 0
        whole = f"sum(rate(psp_commit_seconds_sum{{{job},outcome='committed'}}[20s]))"
        parts = f"sum(rate(psp_commit_stage_seconds_sum{{{job}}}[20s]))"
        assert (prometheus.value(f"{parts} / {whole}") or 0) > 0.9
        (row,) = execute(
            sp,
            "SELECT commit_ms, check_ms + network_ms + parked_ms + queue_ms + certify_ms + answer_ms,"
            " network_ms FROM psp.status",
        )
        assert row[0] == pytest.approx(row[1])
        assert row[2] >= sp.rtt_ms


@needs_module()
def test_one_that_certifies_by_sql(prometheus: Prometheus, busy: LocalCluster) -> None:
    """The module's function is gone when the daemon connects again."""
    never_before(prometheus, *BY_SQL)
    assert prometheus.value('psp_executor_sessions{certify="module"}') == 2
    with psycopg.connect(busy.primary_dsn, autocommit=True) as connection:
        (drops, makes), *_ = connection.execute(
            "SELECT string_agg(format('DROP FUNCTION %s', p.oid::regprocedure), '; '),"
            " string_agg(pg_get_functiondef(p.oid), '; ')"
            "  FROM pg_proc p"
            " WHERE p.oid IN ('psp.certify_batch'::regproc, 'psp.certify_module_version'::regproc)"
        ).fetchall()
        connection.execute(drops)
        end_executors(connection)
        fires(prometheus, *BY_SQL)
        connection.execute(makes)
        end_executors(connection)
    end(prometheus, *BY_SQL)


def end_executors(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """psp-primary connects again, and looks which way its server offers."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'psp-primary executor%'"
    )


def test_one_that_falls_behind(prometheus: Prometheus, busy: LocalCluster) -> None:
    never_before(prometheus, *LAGS)
    sp = busy.sp("middle")
    with applying_paused(sp):
        (found,) = fires(prometheus, *LAGS)["PspApplyLags"]
        assert found["instance"] == f"127.0.0.1:{busy.state.node(sp.name).metrics_port}"
    end(prometheus, *LAGS)
    wait_streaming(busy)


def test_one_that_is_away_and_the_log_that_is_kept_for_it(prometheus: Prometheus, busy: LocalCluster) -> None:
    """The last one: the clients of that zone may have ended."""
    never_before(prometheus, *AWAY, *LOG)
    with paused(busy, "far"):
        found = fires(prometheus, *AWAY)
        assert [one["sp"] for one in found["PspSemiPrimaryAway"]] == ["far"]
        fires(prometheus, *LOG)
        assert "PspPrimaryDown" not in prometheus.firing()
    end(prometheus, *AWAY, "PspLogIsOld")
    wait_streaming(busy)
