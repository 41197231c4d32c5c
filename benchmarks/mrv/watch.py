"""What limits a load while it runs: the machine's processors, or locks."""

import threading
from statistics import fmean
from types import TracebackType
from typing import Self

import psycopg

from benchmarks.mrv import cpu_busy

INTERVAL_S = 0.1


class Watch:
    """A context around a load on one database. Its figures are there when the context is left.

    cpu_busy: 0 to 1, of all processors, everybody's work counted. lock_waiters: the mean number of sessions
    of that database that waited for a lock of another one's.
    """

    def __init__(self, dsn: str) -> None:
        self.cpu_busy = 0.0
        self.lock_waiters = 0.0
        self._dsn = dsn
        self._samples: list[int] = []
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self._before = (0.0, 0.0)

    def _sample(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(INTERVAL_S):
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ).fetchone()
                self._samples.append(int(row[0]) if row else 0)

    def __enter__(self) -> Self:
        self._before = cpu_busy.read()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._sampler.join()
        self.cpu_busy = cpu_busy.share(self._before, cpu_busy.read())
        self.lock_waiters = fmean(self._samples) if self._samples else 0.0
