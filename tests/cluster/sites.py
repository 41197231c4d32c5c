"""What the tests of clients share: a cluster under psp with the tables that a test file asks for.

A test names its tables beside its code with `@needs("CREATE TABLE ...")`; the file's one cluster is made with
all of them, because psp takes a database's tables as they are at adoption.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import psycopg
from psp.cluster.local import LocalCluster
from psp.cluster.verify import verify, wait_drained

from tests.cluster.support import adopted_pair

Test = TypeVar("Test", bound=Callable[..., Any])
_SCHEMA = "psp_test_schema"


def needs(sql: str) -> Callable[[Test], Test]:
    """Marks a test with the SQL that must have run before its file's cluster is adopted."""

    def mark(test: Test) -> Test:
        setattr(test, _SCHEMA, sql)
        return test

    return mark


@contextmanager
def cluster_for(module: ModuleType) -> Iterator[LocalCluster]:
    """Two SPs, `north` and `south`, with the tables of the module's tests."""
    parts = [getattr(item, _SCHEMA) for item in vars(module).values() if hasattr(item, _SCHEMA)]
    with adopted_pair(parts) as cluster:
        yield cluster


class Sites:
    """The two ends of a cluster, as applications see them: connections are opened for one test."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._open: list[psycopg.Connection[Any]] = []

    def connect(self, name: str, autocommit: bool = False) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(
            self.cluster.sp(name).dsn, autocommit=autocommit, options="-c statement_timeout=60s"
        )
        self._open.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def run(self, name: str, *statements: str) -> None:
        """One committed transaction of these statements."""
        with self.connect(name) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, name: str, query: str) -> list[Any]:
        """What an application at that SP reads, once everything has arrived there."""
        wait_drained(self.cluster)
        with self.connect(name) as connection:
            return connection.execute(query).fetchall()

    def assert_same(self) -> None:
        """Every table holds the same rows at both SPs and at the primary, and the schemas are the same."""
        result = verify(self.cluster)
        assert result.consistent, result.as_dict()

    def published(self) -> int:
        """How many transactions the primary has certified and published."""
        with psycopg.connect(self.cluster.primary_dsn) as connection:
            row = connection.execute("SELECT coalesce(max(global_t), 0) FROM psp.replication_log").fetchone()
        assert row is not None
        return int(row[0])
