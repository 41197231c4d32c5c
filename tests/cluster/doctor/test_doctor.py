"""A running cluster with several things wrong at once, and then mended."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psp.cli import app
from psp.cluster.local import LocalCluster, Options, Zone
from psp.waiting import wait_until
from typer.testing import CliRunner

from tests.cluster.support import WAIT_S, MakeCluster, wait_streaming

SCHEMA = "CREATE TABLE item (id serial PRIMARY KEY, note text)"
SPOIL = {
    "sp1": ["ALTER TABLE item SET (autovacuum_enabled = off)", "GRANT CREATE ON SCHEMA public TO PUBLIC"],
    "sp2": ["CREATE ROLE report IN ROLE pg_read_all_data", "REVOKE pg_signal_backend FROM psp_semi_primary"],
}
MEND = {
    "sp1": ["ALTER TABLE item RESET (autovacuum_enabled)", "REVOKE CREATE ON SCHEMA public FROM PUBLIC"],
    "sp2": ["DROP ROLE report", "GRANT pg_signal_backend TO psp_semi_primary"],
}


def run(cluster: LocalCluster) -> tuple[int, dict[str, str], str]:
    """The exit code, what each point that is not fine is, and all that was told."""
    dsns = [cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps)]
    done = CliRunner().invoke(app, ["doctor", *dsns, "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    verdicts = {point["point"]: point["verdict"] for point in found["points"] if point["verdict"] != "fine"}
    return done.exit_code, verdicts, done.stdout


def change(cluster: LocalCluster, statements: dict[str, list[str]]) -> None:
    for name, texts in statements.items():
        with psycopg.connect(cluster.sp(name).admin_dsn, autocommit=True) as connection:
            for text in texts:
                connection.execute(text.encode())


def test_several_things_at_once_and_then_mended(make_cluster: MakeCluster) -> None:
    options = Options(pg_settings={"shared_buffers": "32MB", "fsync": "on"})
    cluster = make_cluster([Zone("sp1"), Zone("sp2")], SCHEMA, options)
    wait_streaming(cluster)
    lonely = {"synchronous replication of the primary": "look"}  # a throw-away cluster has no standby
    assert run(cluster)[:2] == (1, lonely)

    change(cluster, SPOIL)
    cluster.stop("sp2", "daemon")
    wait_until("the primary misses sp2", lambda: "semi-primaries that are away" in run(cluster)[1], WAIT_S)
    wait_until("sp2 is stopped", lambda: "streams" in run(cluster)[1], WAIT_S)
    code, verdicts, told = run(cluster)
    assert code == 2
    assert verdicts == lonely | {
        "semi-primaries that are away": "wrong",
        "streams": "wrong",
        "schemas are alike": "look",
        "roles and grants": "wrong",
        "search_paths": "look",
        "vacuum and transaction ids": "look",
    }
    for words in (
        "public.item",
        "schema public",
        "report: member of pg_read_all_data",
        "lacks pg_signal_backend",
    ):
        assert words in told

    change(cluster, MEND)
    cluster.start("sp2", "daemon")
    wait_streaming(cluster)
    wait_until("all is mended", lambda: run(cluster)[:2] == (1, lonely), WAIT_S)

    cluster.stop("sp2")
    code, verdicts, told = run(cluster)
    assert (code, verdicts["every server answers"]) == (2, "wrong")
    cluster.start("sp2")
