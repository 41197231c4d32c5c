"""Clients at every SP, until they are stopped: TPC-C, and writers of a table that no migration changes.

Each of them tries its transaction again after every error. What it was told is noted, and judged afterwards.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import psycopg
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.support import CONNECTION_FAILURE, OUTCOME_UNKNOWN, SERIALIZATION_FAILURE, WAIT_S, connect
from tests.migration.tpcc import draw, read_statements

MIX = 3  # TPC-C clients at each SP
DEADLOCK = "40P01"  # as on plain PostgreSQL
EXPECTED = {SERIALIZATION_FAILURE, DEADLOCK, CONNECTION_FAILURE, OUTCOME_UNKNOWN}
PAUSE_MAX_S = 0.5
OPTIONS = "-c statement_timeout=60s"


@dataclass(frozen=True)
class Failure:
    """An error that a client has seen, and since when its transaction (or connection) had been tried."""

    sp: str
    client: str
    sqlstate: str | None
    text: str
    began: float
    ended: float


@dataclass(frozen=True)
class Commit:
    """A commit of a writer, as its client saw it."""

    sp: str
    began: float
    ms: float


@dataclass
class Notes:
    """What the clients were told. They share it; each operation is one call of a list or set."""

    failures: list[Failure] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    written: set[uuid.UUID] = field(default_factory=set)  # rows of the journal whose COMMIT succeeded
    refused: set[uuid.UUID] = field(default_factory=set)  # and those that were told to be rolled back
    tpcc: list[str] = field(default_factory=list)  # the SP of each committed TPC-C transaction


class Clients:
    """Used as a context manager."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.notes = Notes()
        self._stop = threading.Event()
        self._statements = read_statements()
        self._broken: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        for home, sp in enumerate(cluster.sps, start=1):
            for n in range(MIX):
                random = Random(f"{seed} {sp.name} {n}")
                self._add(self._tpcc, f"tpcc-{sp.name}-{n}", sp, random, home)
            self._add(self._write, f"writer-{sp.name}", sp, Random(f"{seed} {sp.name}"))

    def _add(self, body: Callable[..., None], name: str, *arguments: Any) -> None:
        def guarded() -> None:
            try:
                body(*arguments)
            except BaseException as problem:
                self._broken.append(problem)

        self._threads.append(threading.Thread(target=guarded, name=name, daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=WAIT_S * 2)
            assert not thread.is_alive(), f"{thread.name} hangs"
        if self._broken:
            raise self._broken[0]

    # ---- the two kinds --------------------------------------------------------------------------

    def _tpcc(self, sp: SpNode, random: Random, home: int) -> None:
        def transactions(connection: psycopg.Connection[Any]) -> Iterator[Callable[[], None]]:
            cursor = psycopg.RawCursor(connection)

            def run(name: str, *parameters: Any) -> list[tuple[Any, ...]]:
                cursor.execute(self._statements[name].encode(), parameters)
                return cursor.fetchall() if cursor.description else []

            while True:
                work, number = draw(random), random.random()

                def attempt(work: Any = work, number: float = number) -> None:
                    work(run, Random(number), home)
                    connection.commit()
                    self.notes.tpcc.append(sp.name)

                yield attempt

        self._run(sp, random, transactions)

    def _write(self, sp: SpNode, random: Random) -> None:
        def transactions(connection: psycopg.Connection[Any]) -> Iterator[Callable[[], None]]:
            while True:
                yield lambda: self._write_once(connection, sp)

        self._run(sp, random, transactions)

    def _write_once(self, connection: psycopg.Connection[Any], sp: SpNode) -> None:
        row = uuid.uuid4()
        connection.execute("INSERT INTO journal (id, sp) VALUES (%s, %s)", [row, sp.name])
        began = time.monotonic()
        try:
            connection.commit()
        except psycopg.Error as error:
            if error.sqlstate in (SERIALIZATION_FAILURE, CONNECTION_FAILURE):
                self.notes.refused.add(row)
            raise
        self.notes.commits.append(Commit(sp.name, began, (time.monotonic() - began) * 1000))
        self.notes.written.add(row)

    # ---- what both do ---------------------------------------------------------------------------

    def _run(
        self,
        sp: SpNode,
        random: Random,
        transactions: Callable[[psycopg.Connection[Any]], Iterator[Callable[[], None]]],
    ) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with connect(sp, options=OPTIONS) as connection:
                    for attempt in transactions(connection):
                        if not self._until_done(attempt, connection, sp, random):
                            break
            except psycopg.OperationalError as error:  # the connection itself
                self._note(error, sp, began)
                self._stop.wait(0.05)

    def _until_done(
        self, attempt: Callable[[], None], connection: psycopg.Connection[Any], sp: SpNode, random: Random
    ) -> bool:
        """False: the connection is lost, or the clients are to stop."""
        pause_s = 0.002
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                attempt()
            except psycopg.Error as error:
                self._note(error, sp, began)
                if connection.closed:
                    return False
                connection.rollback()
                self._stop.wait(random.uniform(0, pause_s))
                pause_s = min(PAUSE_MAX_S, 2 * pause_s)
            else:
                return True
        return False

    def _note(self, error: psycopg.Error, sp: SpNode, began: float) -> None:
        client = threading.current_thread().name
        failure = Failure(sp.name, client, error.sqlstate, str(error).strip(), began, time.monotonic())
        self.notes.failures.append(failure)
