"""What the daemons answer to GET /metrics and GET /health, and to what is neither."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import LiteralString

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options
from psp.waiting import wait_until

from tests.cluster.metrics.reading import documented, get, samples, types
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    WAIT_S,
    adopted_pair,
    connect,
    execute,
    raises,
    settle,
    wait_streaming,
)

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO item SELECT i, 0 FROM generate_series(1, 9) i;
"""
NAMES_MAX = 60
STAGES = ("check", "network", "parked", "queue", "certify", "answer")
PARTS: LiteralString = (
    "SELECT commit_ms, check_ms, network_ms, parked_ms, queue_ms, certify_ms, answer_ms FROM psp.status"
)
STATUS: LiteralString = "SELECT commits_total, aborts_total, losses_total FROM psp.status"


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    options = Options(
        pg_settings={"shared_buffers": "32MB"}, primary_options={"log_truncation_interval_ms": 200}
    )
    with adopted_pair([SCHEMA], options) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Everything streams; afterwards, too."""
    settle(shared_pair)
    yield shared_pair
    settle(shared_pair)


def lose(cluster: LocalCluster) -> None:
    """North wins a row; south, which has not seen it, loses."""
    north, south = cluster.sps
    with connect(south) as loser:
        loser.execute("UPDATE item SET n = n + 1 WHERE id = 1")
        execute(north, "UPDATE item SET n = n + 1 WHERE id = 1")
        with raises(SERIALIZATION_FAILURE):
            loser.commit()


@pytest.mark.parametrize("name", [PRIMARY, "north"])
def test_the_page_names_what_the_daemon_has(pair: LocalCluster, name: str) -> None:
    """Remedy: docs/metrics.md must have a row for each metric, with its type."""
    assert types(pair, name) == documented(name)


def test_there_are_not_many(pair: LocalCluster) -> None:
    names = {**types(pair, PRIMARY), **types(pair, "north")}
    assert len(names) <= NAMES_MAX
    for name, kind in names.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert not name.endswith(("_ms", "_us", "_mb")), name


def test_sums_are_those_of_psp_status(pair: LocalCluster) -> None:
    south = pair.sp("south")
    before, before_primary = samples(pair, "south"), samples(pair, PRIMARY)
    for _ in range(5):
        execute(south, "UPDATE item SET n = n + 1 WHERE id = 2")
    lose(pair)
    after = samples(pair, "south")
    wait_until(
        "psp.status to be written",
        lambda: (
            execute(south, STATUS)
            == [(after["psp_commits_total"], after["psp_aborts_total"], _losses(after))]
        ),
        WAIT_S,
    )
    assert after["psp_commits_total"] - before["psp_commits_total"] == 5
    assert _losses(after) - _losses(before) == 1
    assert after['psp_losses_total{kind="row"}'] - before['psp_losses_total{kind="row"}'] == 1
    whole = 'psp_commit_seconds_count{outcome="committed"}'
    assert after[whole] - before[whole] == 5
    assert after['psp_commit_seconds_count{outcome="aborted"}'] == after["psp_aborts_total"]

    after_primary = samples(pair, PRIMARY)
    committed = 'psp_decisions_total{sp="south",outcome="committed"}'
    assert after_primary[committed] - before_primary[committed] == 5
    assert after_primary["psp_batch_transactions_sum"] > before_primary["psp_batch_transactions_sum"]


def test_the_parts_of_a_commit_are_its_time(pair: LocalCluster) -> None:
    """Of one COMMIT that the primary decides: the stages' sums make the whole."""
    north = pair.sp("north")
    before = samples(pair, "north")
    execute(north, "UPDATE item SET n = n + 1 WHERE id = 3")
    after = samples(pair, "north")

    def grown(key: str) -> float:
        return after[key] - before[key]

    for stage in STAGES:
        assert grown(f'psp_commit_stage_seconds_count{{stage="{stage}"}}') == 1
    parts = sum(grown(f'psp_commit_stage_seconds_sum{{stage="{stage}"}}') for stage in STAGES)
    assert parts == pytest.approx(grown('psp_commit_seconds_sum{outcome="committed"}'), abs=1e-6)
    assert grown('psp_commit_stage_seconds_sum{stage="certify"}') > 0


def test_psp_status_has_the_same_parts(pair: LocalCluster) -> None:
    """Means of about the last minute: of all that this daemon has answered, since it is new."""
    pair.stop("south", "daemon")
    pair.resume()
    settle(pair)
    south = pair.sp("south")
    assert execute(south, PARTS) == [(None,) * 7]
    for _ in range(3):
        execute(south, "UPDATE item SET n = n + 1 WHERE id = 5")
    shown = samples(pair, "south")
    means = [1000 * shown[f'psp_commit_stage_seconds_sum{{stage="{stage}"}}'] / 3 for stage in STAGES]
    whole, *parts = wait_until(
        "it to have all three",
        lambda: row if (row := execute(south, PARTS)[0])[0] == pytest.approx(sum(means), abs=0.01) else None,
        WAIT_S,
    )
    assert parts == pytest.approx(means, abs=0.001)
    assert whole == pytest.approx(sum(parts))
    ((slowest,),) = execute(south, "SELECT commit_p99_ms FROM psp.status")
    assert whole <= slowest <= 3 * whole * 9 / 8  # of the three the slowest one


def test_what_is_applied_is_counted(pair: LocalCluster) -> None:
    before = samples(pair, "south")["psp_applied_transactions_total"]
    execute(pair.sp("north"), "UPDATE item SET n = n + 1 WHERE id = 4")
    wait_until(
        "south to apply it",
        lambda: samples(pair, "south")["psp_applied_transactions_total"] > before,
        WAIT_S,
    )
    assert samples(pair, "south")["psp_apply_batch_seconds_count"] > 0


def test_the_primary_knows_its_log_and_who_is_there(pair: LocalCluster) -> None:
    found = wait_until(
        "the log to be looked at",
        lambda: shown if "psp_log_bytes" in (shown := samples(pair, PRIMARY)) else None,
        WAIT_S,
    )
    assert found["psp_log_bytes"] > 0
    assert found["psp_can_decide"] == 1
    for name in ("north", "south"):
        assert found[f'psp_semi_primary_connected{{sp="{name}"}}'] == 1
    sessions = ("module", "sql")
    assert sum(found[f'psp_executor_sessions{{certify="{by}"}}'] for by in sessions) == 2
    pair.stop("south", "daemon")
    wait_until(
        "south to be missed",
        lambda: samples(pair, PRIMARY)['psp_semi_primary_connected{sp="south"}'] == 0,
        WAIT_S,
    )


def _losses(shown: dict[str, float]) -> float:
    return sum(value for key, value in shown.items() if key.startswith("psp_losses_total"))


def is_ill(cluster: LocalCluster, name: str, why: str) -> bool:
    status, body = get(cluster, name, "/health")
    return status == 503 and why in body and body.count("\n") == 1


def test_health_of_a_semi_primary(pair: LocalCluster) -> None:
    wait_streaming(pair)
    assert get(pair, "north", "/health") == (200, "ok\n")
    pair.stop(PRIMARY, "daemon")
    wait_until("north to tell", partial(is_ill, pair, "north", "not connected to the primary"), WAIT_S)
    pair.resume()
    wait_until("north to be well", lambda: get(pair, "north", "/health")[0] == 200, WAIT_S)


def test_health_without_the_database(pair: LocalCluster) -> None:
    pair.stop("north", "postgres")
    wait_until("north to tell", partial(is_ill, pair, "north", "PostgreSQL"), WAIT_S)
    pair.resume()
    wait_until("north to be well", lambda: get(pair, "north", "/health")[0] == 200, WAIT_S)


def test_health_of_the_primary(pair: LocalCluster) -> None:
    wait_streaming(pair)
    assert get(pair, PRIMARY, "/health") == (200, "ok\n")
    pair.stop(PRIMARY, "postgres")
    wait_until("the primary to tell", partial(is_ill, pair, PRIMARY, "can decide nothing: no answer"), WAIT_S)
    shown = samples(pair, PRIMARY)
    assert shown["psp_can_decide"] == 0
    assert shown['psp_standstill{cause="no answer"}'] == 1
    assert shown["psp_standstill_seconds"] > 0
    wait_until("north to tell", partial(is_ill, pair, "north", "can decide nothing"), WAIT_S)
    pair.resume()
    wait_until("the primary to decide", lambda: get(pair, PRIMARY, "/health")[0] == 200, WAIT_S)


@pytest.mark.parametrize("name", [PRIMARY, "north"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x00\xa5\x01\x00", 400),
        (b"\x00" * 100_000, 400),
        (b"GET /" + b"a" * 100_000, 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000, 400),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 405),
    ],
)
def test_what_is_no_request_gets_a_short_answer(
    pair: LocalCluster, name: str, sent: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", pair.state.node(name).metrics_port), timeout=20) as client:
        client.sendall(sent)
        answer = client.makefile("rb").read()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(answer) < 200


def test_many_silent_connections_keep_nobody_from_committing(pair: LocalCluster) -> None:
    """They have their time, and then the next ones are served."""
    port = pair.state.node("north").metrics_port
    with ExitStack() as open_ones:
        for _ in range(30):
            open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)).sendall(b"GET")
        execute(pair.sp("north"), "UPDATE item SET n = n + 1 WHERE id = 5")
        assert get(pair, "north", "/health")[0] == 200


def test_psycopg_is_no_scraper(pair: LocalCluster) -> None:
    """A client of PostgreSQL on the wrong port gets an error, and the daemon goes on."""
    port = pair.state.node("north").metrics_port
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"host=127.0.0.1 port={port} connect_timeout=20")
    assert get(pair, "north", "/health")[0] == 200
