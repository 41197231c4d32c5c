"""Random transactions: statements with savepoints, cursors, DO blocks and COPY, and all ways to end them."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.fuzz.statements import Statements, quoted
from tests.fuzz.tables import BASE, BY_NAME, Table

Style = Literal["block", "single", "message", "procedure"]
"""block: BEGIN … COMMIT. single: each statement by itself. message: all in one message, as one transaction.
procedure: in a procedure that commits after each."""

CLEAN_UP = ("CLOSE ALL", "DEALLOCATE ALL", "DISCARD TEMP")
# What may change the meaning of triggers' statements, or of values as text.
SETTINGS = (
    "CONSTRAINTS ALL IMMEDIATE",
    "CONSTRAINTS ALL DEFERRED",
    "LOCAL client_encoding = 'LATIN1'",
    "LOCAL client_encoding = 'LATIN9'",
    "LOCAL client_encoding = 'WIN1252'",
    "LOCAL datestyle = 'German'",
    "LOCAL intervalstyle = 'iso_8601'",
    "LOCAL bytea_output = 'escape'",
    "LOCAL extra_float_digits = -10",
    "LOCAL standard_conforming_strings = off",
    "LOCAL plan_cache_mode = 'force_generic_plan'",
    "LOCAL check_function_bodies = off",
)


@dataclass(frozen=True)
class Step:
    """One message of the client; `data` are the lines of a COPY."""

    sql: str
    data: str | None = None

    def __str__(self) -> str:
        return self.sql if self.data is None else f"{self.sql}\n{self.data}\\."


@dataclass(frozen=True)
class Transaction:
    """What one client sends, at the semi-primary with that number.

    After an error it goes back to the last savepoint, or rolls back.
    """

    sp: int
    style: Style
    begin: str
    steps: tuple[Step, ...]
    end: str

    @property
    def label(self) -> str:
        return f"at sp{self.sp + 1}, {self.style}"

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if self.style == "block":
            lines = [self.begin, *lines, self.end]
        return "\n".join(f"  {line};" for line in lines)


class Transactions:
    """Makes transactions of `Statements`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.statements = Statements(random)
        self._names = 0

    def transaction(self, sp: int) -> Transaction:
        style: Style = self.random.choices(("block", "single", "message", "procedure"), (80, 10, 7, 3))[0]
        if style == "block":
            steps = [step for _ in range(self.random.randint(1, 4)) for step in self.steps(0)]
            if self.random.random() < 0.12:
                steps.insert(0, Step(f"SET {self.random.choice(SETTINGS)}"))
            end = "ROLLBACK" if self.random.random() < 0.07 else "COMMIT"
            level = self.random.choice(("READ COMMITTED", "REPEATABLE READ"))
            return Transaction(sp, style, f"BEGIN ISOLATION LEVEL {level}", (*steps, *self.before_end()), end)
        texts = [self.statements.statement() for _ in range(self.random.randint(1, 3))]
        if style == "message":
            texts = ["; ".join(texts)]
        elif style == "procedure":
            texts = [f"CALL run_and_commit(ARRAY[{', '.join(map(quoted, texts))}])"]
        return Transaction(sp, style, "", tuple(Step(text) for text in texts), "")

    def name(self, prefix: str) -> str:
        """A new name for a savepoint, a cursor or a prepared statement."""
        self._names += 1
        return f"{prefix}{self._names}"

    # ---- what stands between BEGIN and COMMIT ---------------------------------------------------------

    def steps(self, depth: int) -> list[Step]:
        kind = self.random.randrange(100)
        table = self.statements.base_table()
        if kind < 62:
            return [Step(self.statements.statement())]
        if kind < 76 and depth < 2:
            return self.savepoint(depth)
        if kind < 82:
            return self.cursor(table)
        if kind < 88:
            return [Step(self.do_block())]
        if kind < 92:
            return self.copy(table)
        if kind < 96:
            name = self.name("p")
            text = self.statements.simple(table, 0)
            return [Step(f"PREPARE {name} AS {text}"), Step(f"EXECUTE {name}"), Step(f"EXECUTE {name}")]
        if kind < 98:
            return self.swap(table)
        return [Step(f"SET {self.random.choice(SETTINGS)}")]

    def swap(self, table: Table) -> list[Step]:
        """Two rows exchange their keys, by way of a third key."""
        first, second = (self.statements.key(table) for _ in range(2))
        third = [
            "-1" if column.name == "id" else value for column, value in zip(table.keys, first, strict=True)
        ]
        steps = []
        for old, new in ((first, third), (second, first), (third, second)):
            keys = ", ".join(f"{c.name} = {value}" for c, value in zip(table.keys, new, strict=True))
            steps.append(Step(f"UPDATE {table.name} SET {keys} WHERE {self.statements.at(table, old)}"))
        return steps

    def savepoint(self, depth: int) -> list[Step]:
        name = self.name("s")
        inner = [step for _ in range(self.random.randint(1, 3)) for step in self.steps(depth + 1)]
        end = self.random.choice((f"ROLLBACK TO {name}", f"RELEASE {name}"))
        return [Step(f"SAVEPOINT {name}"), *inner, Step(end)]

    def cursor(self, table: Table) -> list[Step]:
        """Rows that a cursor stands on are changed."""
        name = self.name("c")
        where = self.statements.at(table, self.statements.key(table))
        if self.random.random() < 0.5:
            order = ", ".join(column.name for column in table.keys)
            where = f"{self.statements.where(table)} ORDER BY {order} FOR UPDATE"
        steps = [Step(f"DECLARE {name} CURSOR FOR SELECT * FROM {table.name} WHERE {where}")]
        for _ in range(self.random.randint(1, 2)):
            change = self.random.choice(
                (
                    f"DELETE FROM {table.name}",
                    f"UPDATE {table.name} SET {self.statements.changes(table, 0)}",
                    f"UPDATE {table.name} SET {self.statements.on('', table.moves)}",
                )
            )
            guard = self.name("s")  # it may stand on no row
            steps += [
                Step(f"FETCH {name}"),
                Step(f"SAVEPOINT {guard}"),
                Step(f"{change} WHERE CURRENT OF {name}"),
            ]
        return [*steps, Step(f"CLOSE {name}")]

    def do_block(self) -> str:
        """An exception takes back what its block has written."""
        first, second, third = (quoted(self.statements.statement(1)) for _ in range(3))
        fail = self.random.choice(("PERFORM 1 / 0;", "RAISE unique_violation;", ""))
        inner = f"BEGIN EXECUTE {second}; {fail} EXCEPTION WHEN OTHERS THEN EXECUTE {third}; END;"
        return f"DO {quoted(f'BEGIN EXECUTE {first}; {inner} END')}"

    def copy(self, table: Table) -> list[Step]:
        if len(table.keys) != 1:
            table = BY_NAME["uniq"]
        keys = self.random.sample(range(1, 30), self.random.randint(1, 3))
        lines = [f"{key}\t{self.random.choice(('1', '2', '4', chr(92) + 'N'))}\tcopied\n" for key in keys]
        return [Step(f"COPY {table.name} (id, a, b) FROM STDIN", "".join(lines))]

    # ---- what stands just before COMMIT ---------------------------------------------------------------

    def before_end(self) -> list[Step]:
        """What is still executed, or fails, after the last statement."""
        kind = self.random.randrange(100)
        near = self.statements.base_table()
        if kind < 5:
            return [Step("SET CONSTRAINTS ALL IMMEDIATE")]
        if kind < 8:
            query = f"SELECT 10 / (a - 3) FROM {near.name} WHERE {self.statements.where(near)}"
            return [Step(f"DECLARE {self.name('h')} CURSOR WITH HOLD FOR {query}")]
        if kind < 11:
            query = f"SELECT {self.statements.nested(0, near)}"
            return [Step(f"DECLARE {self.name('h')} CURSOR WITH HOLD FOR {query}")]
        if kind < 13:
            return [
                Step("CREATE TEMP TABLE emptied (id integer PRIMARY KEY) ON COMMIT DELETE ROWS"),
                Step("CREATE TEMP TABLE keeps (id integer REFERENCES emptied)"),
            ]
        if kind < 15:
            return [
                Step("CREATE TEMP TABLE plain (id integer) ON COMMIT DROP"),
                Step("INSERT INTO plain VALUES (1)"),
            ]
        if kind < 17:
            return [Step("SET TRANSACTION READ ONLY")]
        if kind < 20:
            return [Step("COMMIT AND CHAIN"), Step(self.statements.statement())]
        return []


NUMBERED = (
    "parent", "plain", "uniq", "late", "child", "cousin", "heir", "tree", "ranged", "trig", "types", "ruled",
)  # fmt: skip


def fixture(sp: int) -> Transaction:
    """Empties the tables and writes the first rows; triggers execute nothing."""
    rows = "SELECT n, n AS a, 'é ' || n FROM generate_series"
    texts = ["SELECT set_config('fuzz.quiet', 'on', true)"]
    texts += [f"DELETE FROM {name}" for name in BASE]
    texts += [f"INSERT INTO {name} (id, a, b) {rows}(1, 4) n" for name in NUMBERED]
    texts.append(f"INSERT INTO listed SELECT chr(97 + r.n % 4), r.* FROM ({rows}(1, 6) n) r")
    texts.append(f"INSERT INTO keys SELECT 1, '', 0, 'c', 'sad', r.* FROM ({rows}(1, 2) n) r")
    return Transaction(sp, "block", "BEGIN", tuple(map(Step, texts)), "COMMIT")
