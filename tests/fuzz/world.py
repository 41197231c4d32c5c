"""The servers: two semi-primaries, the primary, and a plain PostgreSQL database that knows nothing of psp."""

from pathlib import Path
from typing import Any, Self

import psycopg
from psp.cluster import growth, verify
from psp.cluster.configs import APP_ROLE
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError
from psp.schema.native.capture import use

from tests.fuzz.dumps import differing_dumps
from tests.fuzz.health import Watch, row_of
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

Contents = dict[str, set[str]]


class World:
    """Servers and sessions. `clients[sp]` are an application's sessions at that semi-primary.

    The first semi-primary captures by the server module, if it was built, the second one by SQL.
    """

    def __init__(self) -> None:
        self._watch: Watch | None = None
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
        self._watch = Watch(cluster)

    @property
    def watch(self) -> Watch:
        """A superuser's sessions."""
        assert self._watch is not None
        return self._watch

    def close(self) -> None:
        """Removes everything."""
        if self._watch is not None:
            self._watch.close()
        self.cluster.down()

    def renew(self) -> None:
        """After a difference: empty servers that are equal, by force if it can be done, else new ones."""
        try:
            self.drain()
            for connection in self.watch.sps.values():
                connection.execute("SET session_replication_role = replica")
                connection.execute(f"TRUNCATE {', '.join((*BASE, 'journal'))}".encode())
            self.watch.primary.execute("DELETE FROM psp.data")
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
        """Waits until both semi-primaries have everything. PspError: one has stopped."""
        self.watch.wait_applied()

    def differing_schemas(self) -> str:
        """What pg_dump says otherwise at one of the three servers."""
        dsns = {sp.name: sp.admin_dsn for sp in self.cluster.sps}
        return differing_dumps(dsns | {PLAIN: self.cluster.server("sp1").dsn(PLAIN)})

    def contents(self, of_plain: bool) -> dict[str, Contents]:
        """All rows, of each server by name."""
        found = {name: _contents(connection) for name, connection in self.watch.sps.items()}
        if of_plain:
            found[self.plain.name] = _contents(self.plain.connection)
        return found

    def verify(self) -> list[str]:
        """The tables that are not the same at the primary and both semi-primaries."""
        return verify.verify(self.cluster, DRAIN_S).differing()

    def journal(self) -> list[set[str]]:
        """The attempts that each semi-primary has."""
        query = "SELECT attempt::text FROM journal"
        return [{row[0] for row in connection.execute(query)} for connection in self.watch.sps.values()]

    def outcome(self, tx_id: str) -> str:
        """What psp says about a transaction."""
        return str(row_of(self.clients[0][0].connection, "SELECT psp.outcome(%s)", (tx_id,))[0])


def _contents(connection: psycopg.Connection[Any]) -> Contents:
    """The beginning and the hash of each row's text."""
    rows = "SELECT '{0}', left(r::text, 300) || ' ' || md5(r::text) FROM {0} r"
    query = " UNION ALL ".join(rows.format(name) for name in BASE)
    found: Contents = {name: set() for name in BASE}
    for name, row in connection.execute(query.encode()):
        found[name].add(row)
    return found
