"""The servers: two semi-primaries, the primary, and a plain PostgreSQL database that knows nothing of psp."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psycopg
from psp.cluster import growth, verify
from psp.cluster.configs import APP_ROLE
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError
from psp.schema.native.capture import use
from psp.waiting import wait_until

from tests.fuzz.sessions import Session
from tests.fuzz.tables import BASE

SCHEMA = Path(__file__).parent / "schema.sql"
PLAIN = "plain"
DRAIN_S = 20
CLIENTS_PER_SP = 2
OPTIONS = Options(
    pg_settings={"shared_buffers": "64MB", "autovacuum": "off", "deadlock_timeout": "100ms", "fsync": "off"},
    sp_options={"commit_timeout_ms": 5000, "conflict_grace_ms": 300},
)

PUBLISHED = """
    SELECT greatest((SELECT truncated_t FROM psp.log_start), (SELECT max(global_t) FROM psp.replication_log))
"""

Contents = dict[str, set[str]]


class World:
    """Servers and sessions. `clients[sp]` are an application's sessions at that semi-primary.

    The first semi-primary captures by the server module, if it was built, the second one by SQL.
    """

    def __init__(self) -> None:
        self._watching: list[psycopg.Connection[Any]] = []
        self._start()

    def _start(self) -> None:
        self.cluster = LocalCluster.temporary([Zone("sp1"), Zone("sp2")], OPTIONS)
        try:
            self._fill(self.cluster)
        except BaseException:
            self.close()
            raise

    def _fill(self, cluster: LocalCluster) -> None:
        server = cluster.server("sp1")
        server.create_database(PLAIN, owner=APP_ROLE)
        cluster.load_schema(SCHEMA)
        with psycopg.connect(server.dsn(PLAIN, APP_ROLE), autocommit=True) as connection:
            connection.execute(SCHEMA.read_bytes())
        growth.adopt(cluster)
        with psycopg.connect(cluster.sps[1].admin_dsn) as connection:
            use(connection, "sql")
        self.plain = Session("plain PostgreSQL", server.dsn(PLAIN, APP_ROLE))
        self.clients = [[Session(sp.name, sp.dsn) for _ in range(CLIENTS_PER_SP)] for sp in cluster.sps]
        self._primary = self._watch(cluster.primary_dsn)
        self._sps = {sp.name: self._watch(sp.admin_dsn) for sp in cluster.sps}

    def _watch(self, dsn: str) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._watching.append(connection)
        return connection

    def close(self) -> None:
        """Removes everything."""
        for connection in self._watching:
            connection.close()
        self._watching.clear()
        self.cluster.down()

    def renew(self) -> None:
        """After a difference: empty servers that are equal, by force if it can be done, else new ones."""
        try:
            self.drain()
            for connection in self._sps.values():
                connection.execute("SET session_replication_role = replica")
                connection.execute(f"TRUNCATE {', '.join((*BASE, 'journal'))}".encode())
            self._primary.execute("DELETE FROM psp.data")
            self.plain.connection.execute(f"TRUNCATE {', '.join(BASE)}".encode())
        except (psycopg.Error, PspError):
            self.close()
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is where --------------------------------------------------------------------------

    def drain(self) -> None:
        """Waits until both semi-primaries have everything."""
        published = _value(self._primary, PUBLISHED)
        for name, connection in self._sps.items():

            def look(connection: psycopg.Connection[Any] = connection) -> bool:
                return _value(connection, "SELECT watermark FROM psp.watermark") >= published

            wait_until(f"{name} to apply everything", look, DRAIN_S, 0.002)

    def contents(self, of_plain: bool) -> dict[str, Contents]:
        """All rows, of each server by name."""
        found = {name: _contents(connection) for name, connection in self._sps.items()}
        if of_plain:
            found[self.plain.name] = _contents(self.plain.connection)
        return found

    def verify(self) -> list[str]:
        """The tables that are not the same at the primary and both semi-primaries."""
        return verify.verify(self.cluster, DRAIN_S).differing()

    def journal(self) -> list[set[str]]:
        """The attempts that each semi-primary has."""
        query = "SELECT attempt::text FROM journal"
        return [{row[0] for row in connection.execute(query)} for connection in self._sps.values()]

    def outcome(self, tx_id: str) -> str:
        """What psp says about a transaction."""
        return str(_row(self.clients[0][0].connection, "SELECT psp.outcome(%s)", (tx_id,))[0])


def _contents(connection: psycopg.Connection[Any]) -> Contents:
    """The beginning and the hash of each row's text."""
    rows = "SELECT '{0}', left(r::text, 300) || ' ' || md5(r::text) FROM {0} r"
    query = " UNION ALL ".join(rows.format(name) for name in BASE)
    found: Contents = {name: set() for name in BASE}
    for name, row in connection.execute(query.encode()):
        found[name].add(row)
    return found


def _row(connection: psycopg.Connection[Any], query: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row


def _value(connection: psycopg.Connection[Any], query: str) -> int:
    return int(_row(connection, query)[0])
