"""What the tests of this folder share: connections, retries, a counted workload, and the checks after it."""

import os
import re
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, Self

import psycopg
from psp import paths
from psp.cluster import daemons, growth, processes, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.cluster.processes import ProcessName
from psp.waiting import wait_until

SERIALIZATION_FAILURE = "40001"
CONNECTION_FAILURE = "08006"
OUTCOME_UNKNOWN = "08007"
# A PostgreSQL server that is stopped ends its sessions by these.
SERVER_STOPS = ("57P01", "57P02", "57P03")

WAIT_S = 60
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@contextmanager
def adopted_pair(scripts: Iterable[str], options: Options | None = None) -> Iterator[LocalCluster]:
    """Two SPs, `north` and `south`, whose database is adopted as the SQL scripts have made it."""
    with LocalCluster.temporary([Zone("north"), Zone("south")], options) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            for script in scripts:
                connection.execute(script.encode())
        growth.adopt(cluster)
        yield cluster


@contextmanager
def running(*bodies: Callable[[], object]) -> Iterator[None]:
    """Each in a thread. They have ended when the block has been left; the first exception is raised then."""
    problems: list[BaseException] = []

    def guarded(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(2 * WAIT_S)
    assert not any(thread.is_alive() for thread in threads), "a client hangs"
    if problems:
        raise problems[0]


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


def wait_for_row(sp: SpNode, statement: LiteralString, parameters: Any = None) -> tuple[Any, ...]:
    """Waits until a query at an SP finds a row."""
    rows = wait_until(f"{statement} at {sp.name}", lambda: execute(sp, statement, parameters), WAIT_S)
    return rows[0]


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


def start_second(
    cluster: LocalCluster, name: ProcessName, config: dict[str, object], timeout_s: float = 15
) -> Path:
    """Starts one more SP daemon, its hook socket its own; returns its log. PspError if it is never ready."""
    file, log = name.cluster_dir / "second.yaml", name.cluster_dir / "second.log"
    hook = cluster.state.socket_dir / ".s.PGSQL.1"
    daemons.write_config(file, {**config, "hook_listen": f"unix:{hook}"})
    command = [str(paths.binary(daemons.SP_BINARY)), "--config", str(file)]
    processes.start(name, command, log, timeout_s)
    return log


@dataclass
class Attempts:
    """What clients were told about their transactions."""

    committed: set[uuid.UUID] = field(default_factory=set)
    aborted: set[uuid.UUID] = field(default_factory=set)
    in_doubt: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)  # attempt -> tx id, to ask psp.outcome
    lost: set[uuid.UUID] = field(default_factory=set)  # the session broke in the middle: nothing was told
    errors: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)


class Workload:
    """Clients at every SP that increment shared counters, one journal row with each increment, until stopped.

    Each transaction is tried once: the next attempt is a new one. Used as a context manager.
    """

    def __init__(self, cluster: LocalCluster, counters: int = 4, clients_per_sp: int = 2) -> None:
        self.attempts = Attempts()
        self._counters = [f"load-{uuid.uuid4().hex[:8]}-{n}" for n in range(counters)]
        self._cluster = cluster
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(sp, n), name=f"{sp.name}-{n}")
            for sp in cluster.sps
            for n in range(clients_per_sp)
        ]

    def __enter__(self) -> Self:
        for name in self._counters:
            execute(self._cluster.sps[0], "INSERT INTO counter (name) VALUES (%s)", (name,))
        for sp in self._cluster.sps:
            for name in self._counters:
                wait_for_row(sp, "SELECT 1 FROM counter WHERE name = %s", (name,))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=WAIT_S)
            assert not thread.is_alive(), f"client {thread.name} hangs"

    def wait_commits(self, more: int) -> None:
        """Waits until that many more transactions have committed."""
        goal = self._committed() + more
        wait_until(f"{goal} commits of the workload", lambda: self._committed() >= goal, WAIT_S)

    def _committed(self) -> int:
        with self._lock:
            return len(self.attempts.committed)

    def _run(self, sp: SpNode, client: int) -> None:
        turn = client
        while not self._stop.is_set():
            try:
                with connect(sp) as connection:
                    while not self._stop.is_set():
                        turn += 1
                        self._attempt(connection, sp, self._counters[turn % len(self._counters)])
            except psycopg.OperationalError as error:
                # The server is down; _attempt has noted what it was in the middle of.
                self._stop.wait(0.05)
                with self._lock:
                    self.attempts.errors[error.sqlstate or "connection"] += 1

    def _attempt(self, connection: psycopg.Connection[Any], sp: SpNode, counter: str) -> None:
        attempt = uuid.uuid4()
        try:
            connection.execute("UPDATE counter SET value = value + 1 WHERE name = %s", (counter,))
            connection.execute("INSERT INTO journal VALUES (%s, %s, %s)", (attempt, sp.name, counter))
            connection.commit()
        except psycopg.Error as error:
            self._note(attempt, error, connection.closed)
            if connection.closed:
                raise
            connection.rollback()
        else:
            with self._lock:
                self.attempts.committed.add(attempt)

    def _note(self, attempt: uuid.UUID, error: psycopg.Error, broken: bool) -> None:
        with self._lock:
            attempts = self.attempts
            attempts.errors[error.sqlstate or "connection"] += 1
            if error.sqlstate == OUTCOME_UNKNOWN:
                attempts.in_doubt[attempt] = tx_id_of(error)
            elif error.sqlstate in (SERIALIZATION_FAILURE, CONNECTION_FAILURE):
                attempts.aborted.add(attempt)
            elif broken or error.sqlstate in SERVER_STOPS:
                attempts.lost.add(attempt)
            else:
                attempts.unexpected.append(f"{error.sqlstate}: {error}")

    # ---- afterwards -----------------------------------------------------------------------------

    def check(self) -> None:
        """Reported committed: at every SP; reported aborted: nowhere; and no increment is lost."""
        assert self.attempts.unexpected == []
        self._cluster_at_rest()
        outcomes = {attempt: self._outcome(tx) for attempt, tx in self.attempts.in_doubt.items()}
        for sp in self._cluster.sps:
            rows = execute(sp, "SELECT attempt FROM journal WHERE counter = ANY (%s)", (self._counters,))
            present = {row[0] for row in rows}
            assert self.attempts.committed - present == set(), f"reported committed, not at {sp.name}"
            assert self.attempts.aborted & present == set(), f"reported aborted, but at {sp.name}"
            for attempt, outcome in outcomes.items():
                assert (outcome == "committed") == (attempt in present), f"{outcome} is not so at {sp.name}"
            total = execute(sp, "SELECT sum(value) FROM counter WHERE name = ANY (%s)", (self._counters,))
            assert total[0][0] == len(present), f"lost increments at {sp.name}"

    def _cluster_at_rest(self) -> None:
        wait_streaming(self._cluster)
        verify.wait_drained(self._cluster, WAIT_S)

    def _outcome(self, tx: uuid.UUID) -> str:
        rows = execute(self._cluster.sps[0], "SELECT psp.outcome(%s)", (tx,))
        return str(rows[0][0])


def tx_id_of(error: psycopg.Error) -> uuid.UUID:
    """The transaction id that an error of an unknown outcome names."""
    texts = (error.diag.message_detail, error.diag.message_hint, error.diag.message_primary)
    for text in texts:
        found = _UUID.search(text or "")
        if found:
            return uuid.UUID(found.group())
    raise AssertionError(f"{error.sqlstate} names no transaction: {error}")


@contextmanager
def raises(sqlstate: str) -> Iterator[list[psycopg.Error]]:
    """Like pytest.raises, for a SQLSTATE; the error is the list's only entry afterwards."""
    caught: list[psycopg.Error] = []
    try:
        yield caught
    except psycopg.Error as error:
        assert error.sqlstate == sqlstate, f"{error.sqlstate} instead of {sqlstate}: {error}"
        caught.append(error)
        return
    raise AssertionError(f"no error {sqlstate}")


def forge(admin: psycopg.Connection[Any], statement: LiteralString) -> None:
    """Writes past the capture, as a superuser who passes for the apply worker in one transaction."""
    admin.execute("CREATE TEMP TABLE worker ON COMMIT DROP AS TABLE psp.apply_session")
    admin.execute((paths.sql_dir("semi_primary/daemon") / "apply_claim.sql").read_bytes())
    admin.execute("SET LOCAL session_replication_role = replica")
    admin.execute(statement)
    admin.execute("UPDATE psp.apply_session SET (pid, server_start) = (SELECT pid, server_start FROM worker)")
    admin.commit()
