"""Each application's migrations, from the first to the last, and backwards where it can (README.md)."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.waiting import wait_until
from psycopg import sql

from tests.cluster.schema_changes.statements import allow_ddl, changes
from tests.cluster.support import as_admin, execute, wait_streaming
from tests.histories.applications import APPLICATIONS, Application
from tests.histories.installation import Installation
from tests.histories.load import CONTROL, Load

FOLDER = Path(os.environ.get("HISTORIES", "build/histories")).resolve()
RESULTS = Path(os.environ.get("RESULTS", "results")).resolve()
WANTED = os.environ.get("APPS", "").split() or [application.name for application in APPLICATIONS]
CHOSEN = [application for application in APPLICATIONS if application.name in WANTED]
ZONES = (Zone("sp1"), Zone("sp2"), Zone("sp3"))
# On one PostgreSQL writers wait for a migration's transaction as long as it takes. So they do here.
HOLD_S = 120
OPTIONS = Options(
    pg_settings={"shared_buffers": "128MB"},
    primary_options={"hold_timeout_max_ms": HOLD_S * 1000},
    sp_options={"commit_timeout_ms": 2 * HOLD_S * 1000},
)
DRAINED_S = 300


@contextmanager
def cluster_for(application: Application, folder: Path) -> Iterator[LocalCluster]:
    """Three SPs with the control table; the role of the application may change the schema."""
    control = folder / "control.sql"
    control.write_text(CONTROL)
    with LocalCluster.temporary(ZONES, OPTIONS) as cluster:
        cluster.load_schema(control)
        growth.adopt(cluster)
        for sp in cluster.sps:
            allow_ddl(sp)
            role = sql.Identifier(execute(sp, "SELECT current_user")[0][0])
            with psycopg.connect(sp.admin_dsn) as connection:
                for setting in (*application.settings, f"psp.hold_timeout = '{HOLD_S}s'"):
                    connection.execute(sql.SQL("ALTER ROLE {} SET {}").format(role, sql.SQL(setting)))
        yield cluster


def jobs_are_done(sp: SpNode) -> bool:
    states = execute(
        as_admin(sp), "SELECT statement, state, last_error FROM psp.schema_jobs WHERE state <> 'done'"
    )
    failed = [row for row in states if row[1] == "failed"]
    assert failed == [], f"{sp.name}: {failed}"
    return states == []


def judge(cluster: LocalCluster, load: Load) -> None:
    """All servers are the same, and nobody has seen what he should not."""
    wait_streaming(cluster)
    for sp in cluster.sps:
        wait_until(f"the jobs of {sp.name}", lambda sp=sp: jobs_are_done(sp), DRAINED_S)  # type: ignore[misc]
    found = verify.verify(cluster, DRAINED_S)
    assert found.consistent, found.as_dict()
    for sp in cluster.sps:
        assert execute(as_admin(sp), "SELECT psp.guard_problems()") == [], sp.name
    assert len({changes(sp) for sp in cluster.sps}) == 1
    assert load.unexpected == []
    assert load.commits["control"] > 0


@pytest.mark.parametrize("application", CHOSEN, ids=[application.name for application in CHOSEN])
def test_history(application: Application, tmp_path: Path) -> None:
    RESULTS.mkdir(exist_ok=True)
    log = RESULTS / f"history-{application.name}.log"
    log.unlink(missing_ok=True)
    installation = Installation(application, FOLDER)
    with LocalCluster.temporary([Zone("plain")], OPTIONS) as plain:
        execute(plain.sps[0], CONTROL)
        began = time.monotonic()
        installation.up(plain.sps[0], log)
        plain_s = time.monotonic() - began
        expected = execute(plain.sps[0], application.versions)
    assert expected[0][0] >= application.least
    with cluster_for(application, tmp_path) as cluster:
        sp, *others = cluster.sps
        with Load(others, application) as load:
            began = time.monotonic()
            installation.up(sp, log)
            seconds = time.monotonic() - began
        judge(cluster, load)
        for each in cluster.sps:
            assert execute(each, application.versions) == expected
        newest = changes(sp)
        statements = execute(as_admin(sp), "SELECT count(*) FROM psp.schema_history")[0][0]
        installation.up(sp, log)  # nothing is left to be done
        assert changes(sp) == newest
        if application.down:
            with Load(others, application) as backwards:
                installation.down(sp, log)
            judge(cluster, backwards)
            assert changes(sp) > newest
    result = {
        "application": application.name,
        "packages": application.packages,
        "noted": expected[0][0],
        "changes": newest,
        "statements": statements,
        "seconds": round(seconds, 1),
        "plain_seconds": round(plain_s, 1),
        "backwards": bool(application.down),
        "commits": load.commits,
        "retries": load.retries,
        "control_ms_max": round(load.control_ms_max, 1),
    }
    (RESULTS / f"history-{application.name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
