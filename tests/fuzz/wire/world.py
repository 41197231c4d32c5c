"""Two honest semi-primaries, and a third one that the fuzzer has taken over."""

import time
from typing import Self

import psycopg
import zmq
from psp.cluster import growth, verify
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.waiting import wait_until

from tests.fuzz.cases import Difference
from tests.fuzz.health import Watch, row_of
from tests.fuzz.wire import messages
from tests.fuzz.wire.hook import Hook
from tests.fuzz.wire.writes import Known
from tests.fuzz.world import OPTIONS

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TABLE item (
    id int PRIMARY KEY, stock int NOT NULL CHECK (stock >= 0), code text UNIQUE, price numeric,
    m mood, i int[], d small
);
CREATE INDEX ON item (code, stock);
CREATE TABLE line (item int REFERENCES item, n int, note text, PRIMARY KEY (item, n));
CREATE TABLE part (id text PRIMARY KEY, v varchar(10)) PARTITION BY RANGE (id);
CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (MINVALUE) TO ('m');
CREATE TABLE part_high PARTITION OF part FOR VALUES FROM ('m') TO (MAXVALUE);
CREATE TABLE counted (
    id bigint PRIMARY KEY, at timestamptz, j jsonb, twice bigint GENERATED ALWAYS AS (id * 2) STORED
);
"""
ROWS = """
INSERT INTO item SELECT n, n, 'code ' || n, n / 3.0, 'ok', ARRAY[n], n FROM generate_series(1, 5) n;
INSERT INTO line SELECT n, n, 'note' FROM generate_series(1, 3) n;
INSERT INTO part VALUES ('a', 'a'), ('z', 'z');
INSERT INTO counted VALUES (1, now(), '{"a": 1}'), (2, NULL, NULL);
"""
TAKEN = "sp3"


class World:
    """`known`: what the one that was taken over knows: valid keys and images."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._start()

    def _start(self) -> None:
        self.cluster = LocalCluster.temporary([Zone("sp1"), Zone("sp2"), Zone(TAKEN)], OPTIONS)
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def _fill(self) -> None:
        with psycopg.connect(self.cluster.sps[0].dsn) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(self.cluster)
        with psycopg.connect(self.cluster.sps[0].dsn) as connection:
            connection.execute(ROWS)
        verify.wait_drained(self.cluster)
        self.cluster.stop(TAKEN, "daemon")
        self.honest = self.cluster.sps[:2]
        self._pids = self._running()
        self.watch = Watch(self.cluster, self.honest)
        self.hooks = [Hook(sp.admin_dsn) for sp in self.honest]
        self.known = _known(self.cluster)
        self._connect()

    def _running(self) -> list[int | None]:
        return [self.cluster.pid(node, "daemon") for node in (PRIMARY, *(sp.name for sp in self.honest))]

    def renew(self) -> None:
        self.close()
        self._context = zmq.Context()
        self._start()

    def close(self) -> None:
        """Removes everything."""
        self._context.destroy(linger=0)
        self.cluster.down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the one that was taken over --------------------------------------------------------------

    def _connect(self) -> None:
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.connect(f"tcp://127.0.0.1:{self.cluster.state.node(PRIMARY).daemon_port}")
        self.epoch = 0
        self.enter()

    def enter(self) -> None:
        """Says hello until it is welcome."""
        with psycopg.connect(self.cluster.primary_dsn) as connection:
            (cluster_id,) = row_of(connection, "SELECT cluster_id FROM psp.cluster")
            (sp_id,) = row_of(connection, f"SELECT sp_id FROM psp.semi_primaries WHERE name = '{TAKEN}'")
        watermark = verify.published(self.cluster.primary_dsn)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            self.send(messages.hello(cluster_id.bytes, sp_id, TAKEN, watermark))
            if self.receive(500, messages.WELCOME) is not None:
                return
        raise PspError("the primary does not let the semi-primary in")

    def send(self, message: bytes) -> None:
        self._socket.send(message)

    def receive(self, timeout_ms: int, wanted: int) -> bytes | None:
        """The next message of that kind."""
        while self._socket.poll(timeout_ms):
            found = dict(messages.fields(self._socket.recv()))
            if messages.WELCOME in found:
                epoch = found.get(1, 0)
                assert isinstance(epoch, int)
                self.epoch = epoch
            if wanted in found:
                body = found[wanted]
                assert isinstance(body, bytes)
                return body
        return None

    # ---- the others --------------------------------------------------------------------------------

    def judge(self) -> None:
        """Nobody has stopped, all rows are equal, and commits go both ways. Raises Difference."""
        if self._running() != self._pids:
            raise Difference("a daemon has ended")
        try:
            self.watch.wait_applied()
            for here, there in (self.honest, self.honest[::-1]):
                _commit(here, there)
            self.watch.wait_applied()
        except (PspError, psycopg.Error) as problem:
            raise Difference(str(problem)) from problem
        dsns = {sp.name: sp.admin_dsn for sp in self.honest}
        found = verify.verify_servers(self.cluster.primary_dsn, dsns, 20)
        if not found.consistent:
            raise Difference(f"rows of {found.differing()}; {found.schema_differences}")


def _commit(here: SpNode, there: SpNode) -> None:
    with psycopg.connect(here.dsn) as connection:
        row = row_of(connection, "INSERT INTO counted SELECT max(id) + 1, now() FROM counted RETURNING id")
    with psycopg.connect(there.dsn, autocommit=True) as connection:
        query = f"SELECT count(*) FROM counted WHERE id = {row[0]}"
        wait_until("the row", lambda: row_of(connection, query)[0] == 1, 10, 0.01)


def _known(cluster: LocalCluster) -> Known:
    with psycopg.connect(cluster.primary_dsn) as connection:
        version, *_ = row_of(connection, "SELECT catalog_version FROM psp.cluster")
        tables = connection.execute(
            "SELECT table_id, table_name, guards, form FROM psp.tables ORDER BY 1"
        ).fetchall()
        rows = connection.execute(
            "SELECT table_id, key, image FROM psp.data WHERE NOT deleted ORDER BY 1, 2"
        ).fetchall()
        guards = connection.execute(
            "SELECT table_id, key FROM psp.data WHERE deleted ORDER BY 1, 2"
        ).fetchall()
    return Known(
        version,
        {table_id: name for table_id, name, *_ in tables},
        {table_id: tuple(guard["guard_id"] for guard in found) for table_id, _, found, _ in tables},
        tuple(messages.Row(table_id, key, image) for table_id, key, image in rows),
        tuple(messages.Row(table_id, key, None, False, messages.GUARD) for table_id, key in guards),
        {table_id: form for table_id, *_, form in tables},
    )
