"""What the tests of clusters share: connections, waits, retries, errors."""

import os
import re
import signal
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster import daemons, growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.servers import processes
from psp.servers.processes import ProcessName
from psp.sql_files import read_sql
from psp.waiting import wait_until

SERIALIZATION_FAILURE = "40001"
CONNECTION_FAILURE = "08006"
OUTCOME_UNKNOWN = "08007"
WAIT_S = 60
APPLY_WORKER = "psp apply worker"  # names of the daemon's sessions
LOCAL_WORKER = "psp local worker"  # and a number
SCHEMA = Path(__file__).parent / "schema.sql"
"""The tables of the cluster that most tests share."""

MakeCluster = Callable[[Sequence[Zone], str, Options | None], LocalCluster]
"""The type of the fixture `make_cluster`."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def needs_module() -> pytest.MarkDecorator:
    """For tests of the server module's capture, which `make test-sql-capture` leaves out."""
    missing = paths.module_dir(paths.server_version()) is None
    return pytest.mark.skipif(missing, reason="it needs the server module, which is not built")


@contextmanager
def adopted_pair(scripts: Iterable[str], options: Options | None = None) -> Iterator[LocalCluster]:
    """Two SPs, `north` and `south`, whose database is adopted as the SQL scripts have made it."""
    with LocalCluster.temporary([Zone("north"), Zone("south")], options) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            for script in scripts:
                connection.execute(script.encode())
        growth.adopt(cluster)
        yield cluster


def connect(sp: SpNode, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """An application's connection to an SP."""
    return psycopg.connect(sp.dsn, connect_timeout=10, **options)


def execute(sp: SpNode, statement: LiteralString, parameters: Any = None) -> list[tuple[Any, ...]]:
    """One autocommitted statement at an SP; its rows, if it has any."""
    with connect(sp, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def as_admin(sp: SpNode) -> SpNode:
    """The same SP, whose connections are a superuser's."""
    return SpNode(sp.name, sp.zone, sp.rtt_ms, sp.admin_dsn, sp.admin_dsn)


@contextmanager
def paused(cluster: LocalCluster, name: str) -> Iterator[None]:
    """A daemon that does nothing for a while."""
    pid = cluster.pid(name, "daemon")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def applying_paused(sp: SpNode) -> Iterator[None]:
    """The apply worker's session does nothing for a while."""
    ((pid,),) = execute(
        as_admin(sp), "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (APPLY_WORKER,)
    )
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for_row(sp: SpNode, statement: LiteralString, parameters: Any = None) -> tuple[Any, ...]:
    """Waits until a query at an SP finds a row."""
    rows = wait_until(f"{statement} at {sp.name}", lambda: execute(sp, statement, parameters), WAIT_S)
    return rows[0]


def wait_for_commits(sp: SpNode) -> None:
    """Waits until an SP has found its primary again: before that a COMMIT is refused after a short grace."""
    able: LiteralString = "SELECT psp.can_commit()"
    wait_until(f"{sp.name} to commit", lambda: execute(sp, able) == [(True,)], WAIT_S)


def waiting(sp: SpNode, application: str, kind: str | None = None) -> int:
    """How many sessions at an SP whose names begin so wait for a lock, of this kind if one is given."""
    rows = execute(
        as_admin(sp),
        "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, %s) "
        "AND wait_event_type = 'Lock' AND wait_event = coalesce(%s, wait_event)",
        (application, kind),
    )
    return int(rows[0][0])


def retry(work: Callable[[], object], errors: tuple[str, ...] = (SERIALIZATION_FAILURE,)) -> int:
    """Repeats `work` while it fails with one of `errors`; returns how often it failed."""
    failures = 0
    while True:
        try:
            work()
            return failures
        except psycopg.Error as error:
            if error.sqlstate not in errors:
                raise
            failures += 1


def is_streaming(cluster: LocalCluster, name: str) -> bool:
    """Whether an SP's daemon says of itself that it streams."""
    rows = execute(cluster.sp(name), "SELECT state FROM psp.status")
    return rows == [("streaming",)]


def wait_streaming(cluster: LocalCluster) -> None:
    """Waits until every SP streams."""
    for sp in cluster.sps:
        wait_until(f"{sp.name} to stream", partial(is_streaming, cluster, sp.name), WAIT_S)


def settle(cluster: LocalCluster) -> None:
    """Brings back all that was stopped; asserts that the SPs hold the same rows as the primary."""
    cluster.resume()
    wait_streaming(cluster)
    result = verify.verify(cluster, WAIT_S)
    assert result.consistent, result.as_dict()


def forget_all(cluster: LocalCluster) -> None:
    """The primary forgets its decisions, as after a day in which it has served."""
    with psycopg.connect(cluster.primary_dsn, autocommit=True, cursor_factory=psycopg.RawCursor) as primary:
        acknowledged: LiteralString = (
            "SELECT 1 FROM psp.log_start WHERE truncated_t >= (SELECT max(global_t) FROM psp.tx_log)"
        )
        wait_until("all to be acknowledged", lambda: primary.execute(acknowledged).fetchone(), WAIT_S)
        primary.execute("UPDATE psp.log_start SET clock_ms = clock_ms + 1")
        primary.execute(read_sql("primary/daemon/purge_tx_log.sql"), (0, 0, 1_000_000))


def start_second(
    cluster: LocalCluster, name: ProcessName, config: dict[str, object], timeout_s: float = 15
) -> Path:
    """Starts one more SP daemon, its hook socket its own; returns its log. PspError if it is never ready."""
    file, log = name.cluster_dir / "second.yaml", name.cluster_dir / "second.log"
    hook = cluster.state.socket_dir / ".s.PGSQL.1"
    own = {"hook_listen": f"unix:{hook}", "metrics_listen": ""}
    daemons.write_config(file, {**config, **own})
    command = [str(paths.binary(daemons.SP_BINARY)), "--config", str(file)]
    processes.start(name, command, log, timeout_s)
    return log


def tx_id_of(error: psycopg.Error) -> uuid.UUID:
    """The transaction id that an error of an unknown outcome names."""
    texts = (error.diag.message_detail, error.diag.message_hint, error.diag.message_primary)
    for text in texts:
        found = _UUID.search(text or "")
        if found:
            return uuid.UUID(found.group())
    raise AssertionError(f"{error.sqlstate} names no transaction: {error}")


@contextmanager
def raises(*sqlstates: str) -> Iterator[list[psycopg.Error]]:
    """Like pytest.raises, for one of some SQLSTATEs; the error is the list's only entry afterwards."""
    caught: list[psycopg.Error] = []
    try:
        yield caught
    except psycopg.Error as error:
        assert error.sqlstate in sqlstates, f"{error.sqlstate} instead of {sqlstates}: {error}"
        caught.append(error)
        return
    raise AssertionError(f"no error {sqlstates}")


def forge(admin: psycopg.Connection[Any], statement: LiteralString) -> None:
    """Writes past the capture, as a superuser who passes for the apply worker in one transaction."""
    admin.execute("CREATE TEMP TABLE worker ON COMMIT DROP AS TABLE psp.apply_session")
    admin.execute(read_sql("semi_primary/daemon/apply_claim.sql"))
    admin.execute("SET LOCAL session_replication_role = replica")
    admin.execute(statement)
    admin.execute("UPDATE psp.apply_session SET (pid, server_start) = (SELECT pid, server_start FROM worker)")
    admin.commit()
