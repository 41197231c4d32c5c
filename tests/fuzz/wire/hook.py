"""What a backend asks the daemon beside it (writeset/FORMAT.md), as one who knows the token."""

import hashlib
import select
import time
import uuid
from random import Random

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from tests.fuzz.cases import Difference
from tests.fuzz.health import row_of
from tests.fuzz.wire.messages import (
    ENDED,
    GUARD,
    READ,
    REFERRERS_READ,
    SHARED,
    TABLE_READ,
    Use,
    Write,
    record,
)

ANSWER_S = 10
CID, INT4, CHAR, BYTEA = 29, 23, 18, 17
OPS = {SHARED: b"s", ENDED: b"k", READ: b"r", REFERRERS_READ: b"f", TABLE_READ: b"t"}


class Hook:
    """A connection to a semi-primary's hook server. `dsn`: of a superuser, who may read the token."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn) as admin:
            (token,) = row_of(admin, "SELECT token FROM psp.identity")
            (self._conninfo,) = row_of(admin, "SELECT psp.conninfo_of_daemon()")
        self._token = str(token).encode()
        self._connection = self._connect()

    def _connect(self) -> PGconn:
        connection = pq.PGconn.connect(self._conninfo.encode())
        if connection.status != pq.ConnStatus.OK:
            raise Difference(f"the hook server lets nobody in: {connection.error_message.decode()}")
        return connection

    def close(self) -> None:
        self._connection.finish()

    def ask(self, line: bytes) -> str:
        """The answer to a request; a connection that the server has ended is made again."""
        if self._connection.status != pq.ConnStatus.OK:
            self._connection.finish()
            self._connection = self._connect()
        self._connection.send_query(line)
        end = time.monotonic() + ANSWER_S
        answer = ""
        while True:
            while self._connection.is_busy():
                wait_s = max(0, end - time.monotonic())
                if not select.select([self._connection.socket], [], [], wait_s)[0]:
                    raise Difference(f"the hook server does not answer {line[:200]!r}")
                try:
                    self._connection.consume_input()
                except psycopg.OperationalError:
                    return answer or "error: the connection has ended"
            result = self._connection.get_result()
            if result is None:
                return answer
            error = result.error_message.decode(errors="replace")
            answer = answer or (f"error: {error}" if error else (result.command_status or b"row").decode())

    def proven(self, head: str, content: bytes) -> bytes:
        """A request with these bytes."""
        return b"%s%s %s" % (head.encode(), self._proof(head, content), content.hex().encode())

    def _proof(self, head: str, content: bytes) -> bytes:
        proven = self._token + head.encode() + hashlib.sha256(content).digest()
        return hashlib.sha256(proven).hexdigest()[:32].encode()

    def commit(self, write: Write, chunks: bytes) -> bytes:
        """The request of a COMMIT."""
        tx = uuid.UUID(bytes=(write.tx_id + bytes(16))[:16])
        seen = ",".join(map(str, write.seen)) or "-"
        head = f"{tx} {write.version} {write.watermark} {seen}"
        return b"commit %s %s %s" % (head.encode(), self._proof(head, chunks), chunks.hex().encode())


def chunks_of(random: Random, write: Write) -> bytes:
    """The write as its triggers would have captured it."""
    out = b""
    for number, row in enumerate(write.rows):
        if row.access == GUARD:
            op, payload = b"g", record((BYTEA, row.key))
        elif row.deleted:
            op, payload = random.choice((b"d", b"d", b"e")), record((BYTEA, row.key))
        else:
            op, payload = b"u", record((BYTEA, row.key), (BYTEA, row.image))
        out += _chunk(number, row.table_id, op, payload)
    for use in write.uses:
        out += _chunk(90, use.table_id, OPS.get(use.kind, b"?"), _used(use))
    for change in write.changes:
        flag = 1 if change.dropped else 2 if change.emptied else 0
        guards = b"".join(guard.to_bytes(4, "big") for guard in change.guards)
        out += _chunk(91, change.table_id, b"c", bytes([flag]) + guards)
    return out


def _used(use: Use) -> bytes:
    return b"" if use.kind == TABLE_READ else record((BYTEA, use.key))


def _chunk(number: int, table_id: int, op: bytes, payload: bytes) -> bytes:
    cmin, table = number.to_bytes(4, "big"), (table_id & 0xFFFFFFFF).to_bytes(4, "big")
    return record((CID, cmin), (INT4, table), (CHAR, op), (BYTEA, payload))


def other_requests(random: Random, hook: Hook) -> list[str]:
    """Of every kind, with content that means nothing, or a lie about it."""
    tx = uuid.UUID(bytes=random.randbytes(16))
    content = random.choice(
        (b"", random.randbytes(20), b"SELECT 1; DROP TABLE t", b"1 50 1,2", b"(" * 5000, b"/*" * 5000)
    )
    requests = (
        hook.proven(f"rows {tx} ", content),
        hook.proven("segment ", content),
        hook.proven("statements 10 ", content),
        hook.proven("hold ", content),
        hook.proven(
            "hold ", f"{random.randrange(10**6)} {random.choice((0, 50))} {random.randrange(9)}".encode()
        ),
        b"doubts %s" % str(tx).encode(),
        b"doubts x",
        b"outcome %s 10" % str(tx).encode(),
        b"commit",
        b"ping",
        b"SET x = 1",
        random.randbytes(30).hex().encode(),
    )
    return [f"{line[:60]!r}: {hook.ask(line)[:150]}" for line in random.sample(requests, 4)]
