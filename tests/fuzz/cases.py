"""One case: a seed's transactions, run and judged.

First the semi-primaries take turns, each beginning when it has everything. A plain PostgreSQL executes the
same transactions: all answers and all rows must be the same. Then clients of both run side by side. At the
end all servers hold the same rows, and each transaction has become what its client was told.
"""

import re
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.sessions import UNKNOWN, Answer, Outcome, Session
from tests.fuzz.transactions import Step, Transaction, Transactions, fixture
from tests.fuzz.world import CLIENTS_PER_SP, Contents, World

TURNS = 10
TURN_LENGTH = 4
SIDE_BY_SIDE = 8  # transactions of each client
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Difference(Exception):
    """What must be equal is not."""


@dataclass(frozen=True)
class Case:
    """What a seed stands for. `turns`: each is of one semi-primary. `clients`: one list for each client."""

    seed: int
    turns: tuple[tuple[Transaction, ...], ...]
    clients: tuple[tuple[Transaction, ...], ...]


@dataclass
class Tally:
    """What has happened, over many cases."""

    transactions: int = 0
    committed: int = 0
    statements: int = 0
    failed: int = 0
    by_psp: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.transactions += 1
        self.committed += outcome.committed
        self.statements += len(outcome.answers)
        self.failed += sum(bool(answer.state) for answer in outcome.answers)
        self.unknown += filter(None, (outcome.unknown,))
        self.by_psp.update(answer.state for answer in outcome.answers if answer.by_psp)

    def __str__(self) -> str:
        refused = ", ".join(f"{state} {count}" for state, count in sorted(self.by_psp.items()))
        doubts = "".join(f"\n  {message}" for message in self.unknown)
        return (
            f"{self.transactions} transactions, {self.committed} committed, {self.statements} statements, "
            f"{self.failed} failed; psp's own errors: {refused or 'none'}{doubts}"
        )


def make_case(seed: int) -> Case:
    """The same seed makes the same case."""
    random = Random(seed)
    make = Transactions(random)
    turns = []
    for turn in range(TURNS):
        length = random.randint(1, TURN_LENGTH)
        turns.append(tuple(make.transaction(turn % 2) for _ in range(length)))
    clients = [
        tuple(make.transaction(sp) for _ in range(SIDE_BY_SIDE))
        for sp in (0, 1)
        for _ in range(CLIENTS_PER_SP)
    ]
    return Case(seed, tuple(turns), tuple(clients))


def run_case(world: World, case: Case, tally: Tally) -> None:
    """Raises Difference."""
    run_turns(world, case.turns, tally)
    run_side_by_side(world, case, tally)
    if differing := world.differing_schemas():
        raise Difference(differing)


# ---- in turns -----------------------------------------------------------------------------------------


def run_turns(world: World, turns: Sequence[Sequence[Transaction]], tally: Tally) -> None:
    """Serial, and judged by a plain PostgreSQL."""
    first = fixture(0)
    if not (world.clients[0][0].run(first).committed and world.plain.run(first).committed):
        raise Difference("the tables cannot be filled")
    for turn in ((), *turns):
        for transaction in turn:
            _compare(world, transaction, tally)
        world.drain()
        _same_contents(world.contents(of_plain=True))
    if differing := world.verify():
        raise Difference(f"the primary has other rows of {', '.join(differing)}")


def _compare(world: World, transaction: Transaction, tally: Tally) -> None:
    """The same transaction at a semi-primary and at the plain PostgreSQL."""
    outcome = world.clients[transaction.sp][0].run(transaction)
    tally.add(outcome)
    follow = _settled(world, outcome)
    expected = world.plain.run(transaction, follow)
    if outcome.committed != expected.committed:
        raise Difference(_unlike(transaction, outcome, expected, "one has committed"))
    for psp, plain in zip(outcome.answers, expected.answers, strict=False):
        if (psp.state, psp.rows) != (plain.state, plain.rows):
            raise Difference(_unlike(transaction, outcome, expected, f"psp: {psp}\nplain: {plain}"))


def _settled(world: World, outcome: Outcome) -> Outcome:
    """The plain PostgreSQL commits what turned out to be committed."""
    last = outcome.answers[-1]
    if last.state != UNKNOWN:
        return outcome
    found = _UUID.search(last.message)
    outcome.committed = found is not None and world.outcome(found.group()) == "committed"
    if outcome.committed:
        outcome.answers[-1] = Answer(("COMMIT",))
    return outcome


def _unlike(transaction: Transaction, psp: Outcome, plain: Outcome, what: str) -> str:
    answers = "\n".join(
        f"  psp:   {a}\n  plain: {b}" for a, b in zip(psp.answers, plain.answers, strict=False) if a != b
    )
    return f"{what}\n{transaction.label}\n{transaction}\n{answers}"


def _same_contents(found: dict[str, Contents]) -> None:
    (first, reference), *others = reversed(found.items())
    lines = []
    for name, contents in others:
        for table, rows in contents.items():
            lines += [f"{table}: only at {name}: {row}" for row in sorted(rows - reference[table])]
            lines += [f"{table}: only at {first}: {row}" for row in sorted(reference[table] - rows)]
    if lines:
        raise Difference("\n".join(lines[:12]))


# ---- side by side -------------------------------------------------------------------------------------


@dataclass
class _Told:
    """What clients were told about their attempts."""

    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    doubtful: dict[str, str] = field(default_factory=dict)  # attempt -> what was said


def run_side_by_side(world: World, case: Case, tally: Tally) -> None:
    """Concurrent, and judged by equality and by what clients were told."""
    told, lock, problems = _Told(), threading.Lock(), list[BaseException]()

    def client(session: Session, transactions: Sequence[Transaction], marks: Random) -> None:
        try:
            for transaction in transactions:
                attempt = str(uuid.UUID(int=marks.getrandbits(128)))
                marked = transaction if marks.random() < 0.4 else _mark(transaction, attempt)
                outcome = session.run(marked)
                with lock:
                    tally.add(outcome)
                    if marked is not transaction:
                        _note(told, attempt, outcome)
        except BaseException as problem:
            problems.append(problem)

    sessions = [session for sp in world.clients for session in sp]
    threads = [
        threading.Thread(target=client, args=(session, transactions, Random(case.seed * 100 + number)))
        for number, (session, transactions) in enumerate(zip(sessions, case.clients, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    _judge(world, told)


def _mark(transaction: Transaction, attempt: str) -> Transaction:
    """One that writes the journal, too, so that its fate can be seen."""
    if transaction.style != "block" or any(step.sql.startswith("COMMIT") for step in transaction.steps):
        return transaction
    mark = Step(f"INSERT INTO journal VALUES ('{attempt}', 'sp{transaction.sp + 1}')")
    return Transaction(
        transaction.sp, transaction.style, transaction.begin, (mark, *transaction.steps), transaction.end
    )


def _note(told: _Told, attempt: str, outcome: Outcome) -> None:
    last = outcome.answers[-1]
    if outcome.committed:
        told.committed.add(attempt)
    elif last.state in (UNKNOWN, "lost", "57P01"):
        told.doubtful[attempt] = last.message
    else:
        told.aborted.add(attempt)


def _judge(world: World, told: _Told) -> None:
    world.drain()
    _same_contents(world.contents(of_plain=False))
    if differing := world.verify():
        raise Difference(f"the primary has other rows of {', '.join(differing)}")
    for name, present in zip(("sp1", "sp2"), world.journal(), strict=True):
        if lost := told.committed - present:
            raise Difference(f"told committed, not at {name}: {sorted(lost)}")
        if kept := told.aborted & present:
            raise Difference(f"told rolled back, but at {name}: {sorted(kept)}")
        for attempt, message in told.doubtful.items():
            found = _UUID.search(message)
            if found and (world.outcome(found.group()) == "committed") != (attempt in present):
                raise Difference(f"psp.outcome does not tell what is so at {name}: {attempt}: {message}")
