"""Clients that count: what each was told about its transactions, and whether that is so at every SP."""

import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg
from psp.cluster import verify
from psp.cluster.local import LocalCluster, SpNode
from psp.waiting import wait_until

from tests.cluster.support import (
    CONNECTION_FAILURE,
    OUTCOME_UNKNOWN,
    SERIALIZATION_FAILURE,
    WAIT_S,
    connect,
    execute,
    tx_id_of,
    wait_for_row,
    wait_streaming,
)

# A PostgreSQL server that is stopped ends its sessions by these.
SERVER_STOPS = ("57P01", "57P02", "57P03")


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
