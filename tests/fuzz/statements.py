"""Random statements as text. The same seed of the random generator makes the same statements.

A statement may hold others: in expressions, as run('…'), in texts that triggers execute, in CTEs. Its result
must not depend on the order in which PostgreSQL finds rows: the plain PostgreSQL has them in other places.
So what is inserted is ordered, and only statements about one row hold others.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.fuzz.tables import BY_NAME, TABLES, Column, Table

DEEPEST = 2  # run('… run(''…'') …')


def quoted(text: str) -> str:
    """A SQL string."""
    return "'" + text.replace("'", "''") + "'"


class Statements:
    """Makes statements. `near` is the table of the statement around: the most interesting one to meet."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._last_key: dict[str, list[str]] = {}  # by table
        self._many = False  # whether the statement that is being made is about several rows

    # ---- choices --------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def table(self, near: Table | None = None) -> Table:
        if near is not None and self.chance(0.7):
            return near
        table = self.random.choices(TABLES, [table.weight for table in TABLES])[0]
        if table.partitions and self.chance(0.15):
            return replace(table, name=self.random.choice(table.partitions))
        return table

    def base_table(self, near: Table | None = None) -> Table:
        """One that takes every kind of statement."""
        while True:
            table = self.table(near)
            if table.merge:
                return table
            near = None

    def key(self, table: Table) -> list[str]:
        """Often the last one, so that statements meet at a row."""
        last = self._last_key.get(table.name)
        if last is not None and self.chance(0.45):
            return last
        if len(table.keys) > 2 and self.chance(0.7):
            key = [column.values[0] for column in table.keys]
        else:
            key = [self.random.choice(column.values) for column in table.keys]
        self._last_key[table.name] = key
        return key

    def some_keys(self, table: Table) -> list[list[str]]:
        """Different ones, in the order of their text."""
        count = self.random.choice((1, 1, 1, 2, 3))
        return sorted({tuple(key): key for key in (self.key(table) for _ in range(count))}.values())

    def on(self, row: str, choices: Sequence[str]) -> str:
        """One of the expressions, about that row."""
        return self.random.choice(choices).replace("{r}", row)

    # ---- pieces ---------------------------------------------------------------------------------

    def at(self, table: Table, key: Sequence[str], row: str = "") -> str:
        """The row with that key."""
        return " AND ".join(
            f"{row}{column.name} = {value}" for column, value in zip(table.keys, key, strict=True)
        )

    def where(self, table: Table, row: str = "") -> str:
        kind = self.random.randrange(10)
        if kind < 5:
            return self.at(table, self.key(table), row)
        self._many = True
        if kind < 7:
            return " OR ".join(f"({self.at(table, key, row)})" for key in self.some_keys(table))
        if kind == 7:
            return row + self.random.choice(("a = 2", "a > 3", "a IS NULL", "a IN (1, 5)"))
        if kind == 8:
            return row + self.random.choice(("b IS NULL", "b < 'm'", "b LIKE '%x%'"))
        return "true"

    def nested(self, depth: int, near: Table) -> str:
        """A number that costs a statement."""
        many = self._many
        function = "try" if self.chance(0.25) else "run"
        text = f"{function}({quoted(self.statement(depth + 1, near))})"
        self._many = many
        return text

    def value(self, column: Column, depth: int, near: Table) -> str:
        if column.name == "a" and depth < DEEPEST and self.chance(0.06):
            return self.nested(depth, near)
        return self.random.choice(column.values)

    def stored_text(self, depth: int, near: Table) -> str:
        """A statement for a trigger to execute."""
        return quoted(self.statement(depth + 1, near)) if depth < DEEPEST and self.chance(0.4) else "NULL"

    def row(self, table: Table, key: Sequence[str], depth: int) -> str:
        """The values of `self.names`."""
        values = [*key, *(self.value(column, depth, table) for column in table.columns)]
        values += [self.stored_text(depth, table) for _ in table.texts]
        return ", ".join(values)

    def names(self, table: Table) -> str:
        return ", ".join([*(c.name for c in table.keys), *(c.name for c in table.columns), *table.texts])

    def changes(self, table: Table, depth: int, row: str = "") -> str:
        """What follows SET."""
        chosen = self.random.sample(table.columns, self.random.randint(1, min(2, len(table.columns))))
        parts = []
        for column in chosen:
            if column.name == "a" and depth < DEEPEST and not self._many and self.chance(0.12):
                parts.append(f"a = {self.nested(depth, table)}")
            else:
                changes = (self._many and column.of_many) or column.changes
                parts.append(f"{column.name} = {self.on(row, changes)}")
        if table.texts and self.chance(0.5):
            parts.append(f"{self.random.choice(table.texts)} = {self.stored_text(depth, table)}")
        if not self._many and self.chance(0.15):
            parts.append(self.on(row, table.moves))
        return ", ".join(parts)

    def returning(self, table: Table, depth: int) -> str:
        """RETURNING is evaluated after the row was written: what it calls writes later."""
        if self.chance(0.65):
            return ""
        names = ", ".join(column.name for column in table.keys)
        if depth < DEEPEST and not self._many and self.chance(0.4):
            return f" RETURNING {names}, {self.nested(depth, table)}"
        return f" RETURNING {names}, {table.name}.a"

    # ---- statements -----------------------------------------------------------------------------

    def statement(self, depth: int = 0, near: Table | None = None) -> str:
        """Any DML statement."""
        table = self.table(near)
        kind = self.random.randrange(100)
        if kind < 55:
            return self.simple(table, depth) + self.returning(table, depth)
        if kind < 68:
            return self.merge(self.base_table(near), depth)
        if kind < 92:
            return self.with_cte(self.base_table(near), depth)
        if depth < DEEPEST:
            return f"SELECT {self.nested(depth, table)} AS x, {self.nested(depth, table)} AS y"
        return self.simple(table, depth)

    def simple(self, table: Table, depth: int) -> str:
        """INSERT, UPDATE or DELETE."""
        make = self.random.choices(
            (self.insert, self.insert_select, self.update, self.update_from, self.move, self.swap,
             self.delete, self.delete_using),
            (28, 6, 24, 6, 14, 4, 14, 4),
        )[0]  # fmt: skip
        self._many = False
        return make(table, depth)

    def insert(self, table: Table, depth: int, keys: list[list[str]] | None = None) -> str:
        rows = [f"({self.row(table, key, depth)})" for key in keys or self.some_keys(table)]
        text = f"INSERT INTO {table.name} ({self.names(table)}) VALUES {', '.join(rows)}"
        return text + (self.on_conflict(table, depth) if self.chance(0.6) else "")

    def on_conflict(self, table: Table, depth: int) -> str:
        if not table.conflict:
            return ""
        if self.chance(0.2):
            return " ON CONFLICT DO NOTHING"
        target = table.conflict[0] if self.chance(0.7) else self.random.choice(table.conflict)
        if self.chance(0.2):
            return f" ON CONFLICT {target} DO NOTHING"
        if self.chance(0.3):
            return f" ON CONFLICT {target} DO UPDATE SET b = excluded.b, a = {table.name}.a"
        changes = self.changes(table, depth, f"{table.name}.")
        where = f" WHERE {self.where(table, table.name + '.')}" if self.chance(0.2) else ""
        return f" ON CONFLICT {target} DO UPDATE SET {changes}{where}"

    def insert_select(self, table: Table, depth: int) -> str:
        """Rows of the table itself, under other keys."""
        last = table.keys[-1]
        moved = {"id": "id + 20", "d": "d + 20"}[last.name]
        keys = ", ".join([*(c.name for c in table.keys[:-1]), moved])
        rest = ", ".join([*(c.name for c in table.columns), *table.texts])
        order = ", ".join(c.name for c in table.keys)
        conflict = self.on_conflict(table, depth) if self.chance(0.7) else ""
        return (
            f"INSERT INTO {table.name} ({self.names(table)}) SELECT {keys}, {rest} FROM {table.name} "
            f"WHERE {self.where(table)} ORDER BY {order}{conflict}"
        )

    def update(self, table: Table, depth: int) -> str:
        where = self.where(table)
        return f"UPDATE {table.name} SET {self.changes(table, depth)} WHERE {where}"

    def update_from(self, table: Table, depth: int) -> str:
        self._many = True
        keys = self.some_keys(table)[: 1 if table.columns[0].of_many else None]
        rows = ", ".join(f"({', '.join(key)}, {self.random.randrange(9)})" for key in keys)
        names = ", ".join(f"k{n}" for n in range(len(table.keys)))
        joined = " AND ".join(
            f"{table.name}.{c.name} = s.k{n}{self.cast(c)}" for n, c in enumerate(table.keys)
        )
        return f"UPDATE {table.name} SET a = s.v FROM (VALUES {rows}) s ({names}, v) WHERE {joined}"

    @staticmethod
    def cast(column: Column) -> str:
        """A VALUES list of strings is text."""
        return {"n": "::numeric", "f": "::float8", "c": "::char(5)", "m": "::mood"}.get(column.name, "")

    def move(self, table: Table, depth: int, key: list[str] | None = None) -> str:
        """One row gets another key."""
        where = self.at(table, key or self.key(table))
        more = f", {self.changes(table, depth)}" if self.chance(0.15) else ""
        move = self.on("", table.moves)
        return f"UPDATE {table.name} SET {move}{more} WHERE {where}"

    def swap(self, table: Table, depth: int) -> str:
        """Many rows get other keys."""
        if not table.swaps:
            return self.move(table, depth)
        return f"UPDATE {table.name} SET {self.on('', table.swaps)} WHERE {self.where(table)}"

    def delete(self, table: Table, depth: int) -> str:
        return f"DELETE FROM {table.name} WHERE {self.where(table)}"

    def delete_using(self, table: Table, depth: int) -> str:
        other = self.table(table)
        self._many = True
        return (
            f"DELETE FROM {table.name} USING (SELECT DISTINCT a FROM {other.name} "
            f"WHERE {self.where(other)}) s WHERE {table.name}.a = s.a"
        )

    def merge(self, table: Table, depth: int) -> str:
        """Every action, also one that moves the row to another partition."""
        keys = self.some_keys(table)
        self._many = len(keys) > 1
        rows = ", ".join(f"({', '.join(key)}, {self.random.randrange(9)})" for key in keys)
        names = ", ".join(f"k{n}" for n in range(len(table.keys)))
        joined = " AND ".join(f"t.{c.name} = s.k{n}{self.cast(c)}" for n, c in enumerate(table.keys))
        actions = []
        if self.chance(0.3):
            actions.append("WHEN MATCHED AND t.a > 3 THEN DELETE")
        if self.chance(0.2):
            actions.append(f"WHEN MATCHED AND s.v = 0 THEN UPDATE SET {self.changes(table, depth, 't.')}")
        if self.chance(0.3):
            actions.append(f"WHEN MATCHED AND s.v > 4 THEN UPDATE SET {self.on('t.', table.moves)}")
        actions.append(
            self.random.choice(
                (
                    "WHEN MATCHED THEN DO NOTHING",
                    "WHEN MATCHED THEN DELETE",
                    f"WHEN MATCHED THEN UPDATE SET {self.changes(table, depth, 't.')}",
                    f"WHEN MATCHED THEN UPDATE SET {self.on('t.', table.moves)}",
                )
            )
        )
        if self.chance(0.7):
            new = [f"s.k{n}{self.cast(c)}" for n, c in enumerate(table.keys)]
            actions.append(
                f"WHEN NOT MATCHED THEN INSERT ({self.names(table)}) VALUES ({self.row(table, new, depth)})"
            )
        return (
            f"MERGE INTO {table.name} t USING (VALUES {rows}) s ({names}, v) ON {joined} {' '.join(actions)}"
        )

    # ---- CTEs that write ------------------------------------------------------------------------

    def with_cte(self, table: Table, depth: int) -> str:
        make = self.random.choice(
            (
                self.delete_insert,
                self.delete_insert,
                self.delete_move,
                self.insert_delete,
                self.unread,
                self.handed_on,
            )
        )
        self._many = False
        return make(table, depth)

    def delete_insert(self, table: Table, depth: int) -> str:
        """A row is replaced by another one with its key."""
        key = self.key(table)
        head = f"WITH d AS (DELETE FROM {table.name} WHERE {self.at(table, key)} RETURNING *)"
        insert = f"INSERT INTO {table.name} ({self.names(table)})"
        values = self.row(table, key, depth).replace("DEFAULT", "1")
        source = self.random.choice(
            (
                f"SELECT {values} WHERE EXISTS (SELECT FROM d)",
                f"SELECT {values} FROM d LIMIT 1",
                f"SELECT {self.names(table)} FROM d",
                f"SELECT {values} WHERE (SELECT count(*) FROM d) > 0",
            )
        )
        return f"{head} {insert} {source}{self.returning(table, depth)}"

    def delete_move(self, table: Table, depth: int) -> str:
        """A row goes, and another one gets its key."""
        key, other = self.key(table), self.key(table)
        moved = ", ".join(f"{column.name} = {value}" for column, value in zip(table.keys, key, strict=True))
        read = self.random.choice((" AND EXISTS (SELECT FROM d)", " AND (SELECT count(*) FROM d) < 2", ""))
        return (
            f"WITH d AS (DELETE FROM {table.name} WHERE {self.at(table, key)} RETURNING a) "
            f"UPDATE {table.name} SET {moved} "
            f"WHERE {self.at(table, other)}{read}{self.returning(table, depth)}"
        )

    def insert_delete(self, table: Table, depth: int) -> str:
        """What is written by an upsert, or beside it, is deleted."""
        key, other = self.key(table), self.key(table)
        changed = self.insert(table, depth, [key])
        at = self.at(table, self.random.choice((key, other)), f"{table.name}.")
        return (
            f"WITH i AS ({changed} RETURNING a) "
            f"DELETE FROM {table.name} USING (SELECT count(*) AS n FROM i) s WHERE {at} AND s.n >= 0"
        )

    def unread(self, table: Table, depth: int) -> str:
        """CTEs that nobody reads are executed all the same, after the statement."""
        first = f"WITH x AS ({self.simple(table, depth)}{self.returning(table, depth)})"
        if self.chance(0.4):
            near = self.base_table(table)
            first += f", y AS ({self.simple(near, depth)})"
        near = self.base_table(table)
        last = self.random.choice(("SELECT 1 AS x", self.simple(near, depth) + self.returning(near, depth)))
        return f"{first} {last}"

    def handed_on(self, table: Table, depth: int) -> str:
        """Rows go from one table into another one."""
        target = self.base_table(table)
        if len(target.keys) != 1:
            target = BY_NAME["plain"]
        taken = self.random.choice((self.delete, self.update))(table, depth)
        names = ", ".join(column.name for column in target.keys)
        return (
            f"WITH x AS ({taken} RETURNING a) INSERT INTO {target.name} ({names}, a) "
            "SELECT DISTINCT 5 + a % 4, a % 4 FROM x WHERE a IS NOT NULL ORDER BY 1"
            f"{self.on_conflict(target, depth)}"
        )
