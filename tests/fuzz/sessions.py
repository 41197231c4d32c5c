"""A session that runs transactions as a client would, and keeps what every statement was answered."""

from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.fuzz.transactions import CLEAN_UP, Step, Transaction

# Plans must not depend on how large a table happens to be on disk.
SETTINGS = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_hashagg = off; SET jit = off"
UNKNOWN = "08007"


@dataclass(frozen=True)
class Answer:
    """What a statement was answered: its rows (in any order), or an error."""

    rows: tuple[str, ...] = ()
    state: str = ""
    message: str = ""

    @property
    def by_psp(self) -> bool:
        """An error that plain PostgreSQL does not have."""
        return self.message.startswith("psp: ")

    def __str__(self) -> str:
        return f"{self.state}: {self.message}" if self.state else "; ".join(self.rows)


@dataclass
class Outcome:
    """The answers to one transaction, BEGIN and COMMIT among them. `unknown`: the id of one in doubt."""

    answers: list[Answer] = field(default_factory=list)
    committed: bool = False
    unknown: str = ""


class Session:
    """One connection; `name` is for messages."""

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name
        self.dsn = dsn
        self.connection = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=10, prepare_threshold=None)
        connection.execute(SETTINGS)
        return connection

    def close(self) -> None:
        self.connection.close()

    def run(self, transaction: Transaction, follow: Outcome | None = None) -> Outcome:
        """Runs it to its end. With `follow`, what psp refused there counts as refused here.

        A lost connection is replaced afterwards; its error is the last answer.
        """
        outcome = Outcome()
        run = self._block if transaction.style == "block" else self._singly
        run(transaction, outcome, follow)
        if self.connection.closed:
            self.connection = self._connect()
        else:
            self._clean_up()
        return outcome

    def _block(self, transaction: Transaction, outcome: Outcome, follow: Outcome | None) -> None:
        self._send(Step(transaction.begin), outcome, follow)
        open_savepoints: list[str] = []
        for step in transaction.steps:
            if self._send(step, outcome, follow).state:
                if self.connection.closed or step.sql.startswith("COMMIT"):
                    return
                if not open_savepoints:
                    self.connection.execute("ROLLBACK")
                    return
                self.connection.execute(f"ROLLBACK TO {open_savepoints[-1]}".encode())
            elif step.sql.startswith("SAVEPOINT "):
                open_savepoints.append(step.sql.removeprefix("SAVEPOINT "))
            elif step.sql.startswith("COMMIT"):
                open_savepoints.clear()
            else:
                _forget(open_savepoints, step.sql)
        answer = self._send(Step(transaction.end), outcome, follow)
        outcome.committed = not answer.state and transaction.end == "COMMIT"
        if answer.state and not self.connection.closed:
            self.connection.execute("ROLLBACK")

    def _singly(self, transaction: Transaction, outcome: Outcome, follow: Outcome | None) -> None:
        for step in transaction.steps:
            self._send(step, outcome, follow)
            if self.connection.closed:
                return
        outcome.committed = not outcome.answers[-1].state

    def _send(self, step: Step, outcome: Outcome, follow: Outcome | None) -> Answer:
        number = len(outcome.answers)
        if follow is not None and number < len(follow.answers) and follow.answers[number].by_psp:
            answer = follow.answers[number]
        else:
            answer = self._execute(step)
        outcome.answers.append(answer)
        if answer.state == UNKNOWN:
            outcome.unknown = answer.message
        return answer

    def _execute(self, step: Step) -> Answer:
        rows: list[str] = []
        try:
            with self.connection.cursor() as cursor:
                if step.data is not None:
                    with cursor.copy(step.sql.encode()) as copy:
                        copy.write(step.data)
                    return Answer((cursor.statusmessage or "",))
                cursor.execute(step.sql.encode())
                more: bool | None = True
                while more:
                    rows.append(cursor.statusmessage or "")
                    rows += _texts(cursor.pgresult)
                    more = cursor.nextset()
        except psycopg.Error as error:
            said = " ".join(
                filter(None, (error.diag.message_primary or str(error), error.diag.message_detail))
            )
            return Answer(state=error.sqlstate or "lost", message=said)
        return Answer(tuple(rows))

    def _clean_up(self) -> None:
        """Cursors, prepared statements and temporary tables of the last transaction."""
        for statement in CLEAN_UP:
            self.connection.execute(statement)


def _texts(result: psycopg.pq.abc.PGresult | None) -> list[str]:
    """A result's rows, as PostgreSQL writes them."""
    if result is None:
        return []
    columns = range(result.nfields)
    return sorted(str([result.get_value(row, column) for column in columns]) for row in range(result.ntuples))


def _forget(open_savepoints: list[str], statement: str) -> None:
    """RELEASE ends a savepoint, ROLLBACK TO those after it."""
    for prefix, kept in (("RELEASE ", 0), ("ROLLBACK TO ", 1)):
        name = statement.removeprefix(prefix)
        if name != statement and name in open_savepoints:
            del open_savepoints[open_savepoints.index(name) + kept :]
