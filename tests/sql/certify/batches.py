"""Random batches for both forms of the statement that certifies: SQL, and the server module psp_certify."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

TABLES = (1, 2)
KEYS = 24
SPS = 3
USE_READ = 2  # psp.proto.UseKind

Key = tuple[int, bytes]
Value = int | bool | bytes | str | uuid.UUID | None


def make_id(xid: int, sp_id: int, rest: int = 0) -> uuid.UUID:
    """As sql/semi_primary/install/semi_primary.sql: psp.transaction_uuid makes one."""
    middle = bytearray(rest.to_bytes(6, "big"))
    middle[0] = middle[0] & 0x0F | 0x80
    middle[2] = middle[2] & 0x3F | 0x80
    return uuid.UUID(bytes=xid.to_bytes(6, "big") + bytes(middle) + sp_id.to_bytes(4, "big"))


@dataclass
class Transaction:
    """One of a batch. A reason, or a loss (table, key, winner's number and SP, use): it must not commit."""

    tx_id: uuid.UUID
    sp_id: int
    global_t: int = 0
    watermark: int = 0
    seen: Sequence[int] = ()
    reason: str | None = None
    write_set: bytes | None = None
    loss: tuple[int, bytes, int, int, int | None] | None = None


@dataclass
class Row:
    """A key that a transaction, i = 1, 2, …, writes or reads."""

    i: int
    table_id: int
    key: bytes
    image: bytes | None = None
    known_t: int | None = None
    use: int | None = None


@dataclass
class Batch:
    transactions: list[Transaction] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def parameters(self) -> list[str]:
        """$1 to $23, as text."""
        txs = self.transactions
        rows = sorted(self.rows, key=lambda row: (row.table_id, row.key))
        begins = [1 + sum(len(tx.seen) for tx in txs[:n]) for n in range(len(txs))]
        ends = [begin - 1 + len(tx.seen) for begin, tx in zip(begins, txs, strict=True)]
        numbers = [tx.global_t for tx in txs if tx.global_t]
        arrays: list[Sequence[Value]] = [
            [tx.tx_id for tx in txs], [tx.sp_id for tx in txs], [tx.global_t for tx in txs],
            [tx.watermark for tx in txs], begins, ends, [t for tx in txs for t in tx.seen],
            [tx.reason for tx in txs], [tx.write_set for tx in txs],
            *([tx.loss and tx.loss[n] for tx in txs] for n in range(5)),
            [row.i for row in rows], [row.table_id for row in rows], [row.key for row in rows],
            [row.image is None for row in rows], [row.image for row in rows],
            [row.known_t for row in rows], [row.use for row in rows],
        ]  # fmt: skip
        return [_array(one) for one in arrays] + [str(min(numbers, default=0)), str(max(numbers, default=0))]


def _array(values: Sequence[Value]) -> str:
    return "{" + ",".join(_element(value) for value in values) + "}"


def _element(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


class Batches:
    """As the daemon makes them: no key that one transaction writes is used by another of its batch."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.newest_t = 1
        self.tx_ids: list[uuid.UUID] = []
        self.xid = 1000

    def next(self) -> Batch:
        pick = self.random
        batch = Batch()
        free = [(table, b"key %d" % n) for table in TABLES for n in range(KEYS)]
        pick.shuffle(free)
        read = [free.pop() for _ in range(4)]
        for _ in range(pick.choice((0, 1, 1, 2, 5, 12))):
            batch.transactions.append(self._transaction(batch))
            if batch.transactions[-1].global_t:
                number = len(batch.transactions)
                batch.rows += [self._write(number, free.pop()) for _ in range(pick.randrange(4)) if free]
                batch.rows += [
                    Row(number, *key, use=USE_READ) for key in pick.sample(read, pick.randrange(3))
                ]
        return batch

    def _transaction(self, batch: Batch) -> Transaction:
        pick = self.random
        here = {tx.tx_id for tx in batch.transactions}
        repeated = [tx_id for tx_id in self.tx_ids[-30:] if tx_id not in here]
        if pick.random() < 0.15 and repeated:
            tx_id = pick.choice(repeated)
        else:
            sp_id = pick.randint(1, SPS)
            self.xid += pick.randint(-2, 3)
            tx_id = make_id(self.xid, sp_id, pick.getrandbits(48))
            if pick.random() < 0.05:
                tx_id = uuid.UUID(int=pick.getrandbits(128))
            self.tx_ids.append(tx_id)
        tx = Transaction(tx_id, tx_id.bytes[-1] if tx_id.bytes[-1] in range(1, SPS + 1) else 1)
        kind = pick.random()
        if kind < 0.1:
            tx.reason = pick.choice(("", 'its "reason" \\ is this', "ein längerer Grund"))
        elif kind < 0.2:
            tx.reason = "it has lost"
            tx.loss = (pick.choice(TABLES), b"\x00lost", self.newest_t, 2, pick.choice((None, USE_READ)))
        else:
            tx.watermark = max(0, self.newest_t - pick.choice((0, 0, 1, 3, 10, 60)))
            above = range(tx.watermark + 1, self.newest_t + 1)
            tx.seen = sorted(pick.sample(above, pick.randrange(len(above) + 1)))
            tx.write_set = pick.randbytes(pick.choice((0, 30, 300, 6000)))
            self.newest_t += 1
            tx.global_t = self.newest_t
        return tx

    def _write(self, number: int, key: Key) -> Row:
        known_t = None
        if self.random.random() < 0.2:
            known_t = max(0, self.newest_t - self.random.choice((0, 5, 40)))
        return Row(number, *key, self._image(), known_t)

    def _image(self) -> bytes | None:
        """None: deleted, or a guard. Large ones are compressed, or stored outside the row, or both."""
        pick = self.random
        kind = pick.random()
        if kind < 0.3:
            return None
        if kind < 0.8:
            return pick.randbytes(pick.randrange(300))
        return pick.choice((b"again " * 3000, pick.randbytes(3000), pick.randbytes(6000) * 2))
