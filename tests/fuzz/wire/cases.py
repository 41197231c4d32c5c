"""One case: a seed's messages of a semi-primary that was taken over. The others go on, and stay equal."""

import uuid
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.cases import Difference
from tests.fuzz.wire import messages
from tests.fuzz.wire.hook import chunks_of, other_requests
from tests.fuzz.wire.messages import Write
from tests.fuzz.wire.world import World
from tests.fuzz.wire.writes import SPOILERS, Writes, flipped

LENGTH = 12
ANSWER_MS = 2000  # no longer than a semi-primary may be silent


@dataclass
class Tally:
    """What has happened, over many cases."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.sent} messages; {', '.join(f'{what} {n}' for what, n in self.answers.most_common())}"


def run_case(world: World, seed: int, only_mended: bool, tally: Tally) -> list[str]:
    """What was sent and answered. Raises Difference."""
    random = Random(seed)
    writes = Writes(random, world.known, tuple(s for s in SPOILERS if s.mended or not only_mended))
    log = []
    try:
        for _ in range(LENGTH):
            watermark = world.watch.published()
            name, write = (
                writes.spoilt(watermark) if random.random() < 0.8 else ("valid", writes.valid(watermark))
            )
            at_hook = random.random() < 0.3
            answer = _commit_at_hook(world, random, write, only_mended) if at_hook else _certify(world, write)
            name = f"{name}, at the hook" if at_hook else name
            tally.sent += 1
            tally.answers[answer.split(":")[0]] += 1
            log.append(f"{name}: {answer}\n    {_shown(write)}")
            if answer == "no answer" and len(write.tx_id) == 16:
                raise Difference("no answer")
        log += _other_messages(world, random) + other_requests(random, random.choice(world.hooks))
        world.judge()
    except Difference as problem:
        raise Difference("\n".join((str(problem), *log))) from problem
    return log


def _certify(world: World, write: Write) -> str:
    """The primary's answer."""
    world.send(messages.to_primary(world.epoch, messages.CERTIFY, write.encoded()))
    wait_ms = ANSWER_MS if len(write.tx_id) == 16 else 100
    while (body := world.receive(wait_ms, messages.DECISION)) is not None:
        found = dict(messages.fields(body))
        if found.get(1, b"") != write.tx_id:
            continue
        error = found.get(4)
        if isinstance(error, bytes):
            return f"error: {error.decode(errors='replace')}"
        return "conflict" if 3 in found else f"committed: {found.get(2)!r}"
    return "no answer"  # without an id there can be none


def _commit_at_hook(world: World, random: Random, write: Write, only_mended: bool) -> str:
    """The daemon's answer at one of the other two. No backend waits for it."""
    hook = random.choice(world.hooks)
    chunks = chunks_of(random, write)
    if random.random() < 0.3 and not only_mended:
        chunks = flipped(random, chunks)
    answer = hook.ask(hook.commit(write, chunks))
    if answer == "PSP DOUBTS":
        tx = uuid.UUID(bytes=(write.tx_id + bytes(16))[:16])
        hook.ask(f"doubts {tx}".encode())
        answer = hook.ask(hook.proven(f"rows {tx} ", random.choice((b"", chunks, random.randbytes(9)))))
    return f"committed: {answer}" if answer.startswith("PSP ") else answer


def _other_messages(world: World, random: Random) -> list[str]:
    """Of every kind, with numbers that cannot be; some are cut off, or no messages at all."""
    number, data = messages.number, messages.data
    tables = (*world.known.numbers, 0, 99, 2**31)

    def odd() -> int:
        return random.choice((-1, 0, 1, 7, 2**31, 2**62, -(2**63)))

    def hold() -> bytes:
        some = messages.packed(3, random.sample(tables, 2))
        return number(1, odd()) + number(2, odd()) + some + number(4, random.choice((0, 1, 50)))

    def lost() -> bytes:
        keys = b"".join(data(1, random.choice(world.known.rows).encoded()) for _ in range(2))
        conflict = (
            number(1, random.choice(tables))
            + data(2, random.randbytes(5))
            + number(3, odd())
            + number(4, odd())
        )
        return data(1, conflict) + data(2, keys)

    sent = []
    for _ in range(6):
        kind, body = random.choice(
            (
                (messages.ACK, number(1, random.choice((-1, 0, -(2**63))))),
                (
                    messages.HEARTBEAT,
                    number(1, odd()) + number(2, odd()) + number(3, odd()) + number(4, odd()),
                ),
                (messages.STREAM, number(1, odd()) + number(2, random.randrange(2))),
                (messages.OUTCOME, data(1, random.randbytes(random.choice((0, 15, 16, 17))))),
                (messages.HOLD, hold()),
                (messages.END_HOLD, number(1, odd())),
                (messages.LOST, lost()),
                (messages.GOODBYE, b""),
                (12, random.randbytes(9)),
            )
        )
        message = messages.to_primary(random.choice((world.epoch, world.epoch, 0, odd())), kind, body)
        if random.random() < 0.2:
            message = message[: random.randrange(len(message))]
        world.send(message)
        sent.append(f"message {message.hex()}")
    world.enter()
    return sent


def _shown(write: Write) -> str:
    rows = (f"({row.table_id} {row.key.hex()} {row.image.hex() if row.image else row.image} "
            f"{'deleted ' if row.deleted else ''}{row.access})" for row in write.rows)  # fmt: skip
    head = f"kind {write.kind} version {write.version}"
    return f"{head} rows {', '.join(rows)} uses {write.uses} changes {write.changes}"
