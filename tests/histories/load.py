"""Writers at the SPs that do not migrate: of a table that no migration knows, and of the application's own.

A row of an application's table has a value for each column that must have one, and for those that the
application always writes. The table is locked as by an INSERT before its columns are read, so that they are
the same when the row is written.
"""

import threading
import time
from collections import Counter
from random import Random
from typing import Any, LiteralString, Self

import psycopg
from psp.cluster.local import SpNode
from psycopg import sql

from tests.cluster.support import CONNECTION_FAILURE, OUTCOME_UNKNOWN, SERIALIZATION_FAILURE, WAIT_S, connect
from tests.histories.applications import Application

CONTROL = "CREATE TABLE control (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), sp text NOT NULL)"
EXPECTED = {SERIALIZATION_FAILURE, CONNECTION_FAILURE, OUTCOME_UNKNOWN}
IN_THE_WAY = EXPECTED | {"40P01", "57014", "57P01"}
"""Who holds a lock of the table that a schema change needs may be ended (docs/schema-changes.md)."""
PAUSE_MAX_S = 0.05

COLUMNS: LiteralString = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typcategory::text, a.atttypmod - 4,
       (SELECT format('(SELECT %%I FROM %%s LIMIT 1)', p.attname, k.confrelid::regclass)
          FROM pg_constraint k JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = k.confkey[1]
         WHERE k.conrelid = a.attrelid AND k.contype = 'f' AND k.conkey = ARRAY[a.attnum] LIMIT 1),
       (SELECT e.enumlabel FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder LIMIT 1)
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
 WHERE a.attrelid = to_regclass(quote_ident(%s)) AND a.attnum > 0 AND NOT a.attisdropped
   AND (a.attnotnull OR a.attname = ANY (%s)) AND NOT a.atthasdef AND a.attidentity = ''
"""


def _value(row: tuple[Any, ...], random: Random) -> sql.Composable:
    """Something that the column can hold."""
    _, kind, category, length, reference, label = row
    number = random.randrange(1, 2**31)
    text = f"written {number}"
    if reference is not None:
        return sql.SQL(reference)
    if label is not None:
        return sql.Literal(label)
    if kind == "uuid":
        return sql.SQL("gen_random_uuid()")
    if kind in ("json", "jsonb"):
        return sql.Literal("{}")
    if kind in ("smallint", "bytea"):
        return sql.Literal(str(number % 30000))
    match category:
        case "N":
            return sql.Literal(number)
        case "B":
            return sql.Literal(False)
        case "D":
            return sql.SQL("now()")
        case "T":
            return sql.Literal("1 s")
        case "A":
            return sql.Literal("{}")
    return sql.Literal(text[:length] if length > 0 else text)


class Load:
    """Used as a context manager, while the migrations run."""

    def __init__(self, sps: list[SpNode], application: Application) -> None:
        self._written = list(application.written)
        self.commits: Counter[str] = Counter()  # by table
        self.retries: Counter[str] = Counter()  # by table and SQLSTATE
        self.unexpected: list[str] = []
        self.control_ms_max = 0.0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(sp, table), daemon=True)
            for sp in sps for table in ("control", *application.tables)
        ]  # fmt: skip

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=WAIT_S * 2)
            assert not thread.is_alive(), "a writer hangs"

    def _write(self, sp: SpNode, table: str) -> None:
        random = Random(f"{sp.name} {table}")
        while not self._stop.is_set():
            try:
                with connect(sp) as connection:
                    while not self._stop.wait(random.uniform(0, PAUSE_MAX_S)):
                        self._attempt(connection, sp, table, random)
            except psycopg.OperationalError as error:  # the session itself was ended
                self._note(error, table)

    def _attempt(self, connection: psycopg.Connection[Any], sp: SpNode, table: str, random: Random) -> None:
        began = time.monotonic()
        try:
            if table == "control":
                connection.execute("INSERT INTO control (sp) VALUES (%s)", [sp.name])
            elif not self._insert(connection, table, random):
                connection.rollback()
                return
            connection.commit()
        except psycopg.Error as error:
            self._note(error, table)
            if connection.closed:
                raise
            connection.rollback()
        else:
            self.commits[table] += 1
            if table == "control":
                self.control_ms_max = max(self.control_ms_max, (time.monotonic() - began) * 1000)

    def _insert(self, connection: psycopg.Connection[Any], table: str, random: Random) -> bool:
        """False: there is no such table yet."""
        if connection.execute("SELECT to_regclass(quote_ident(%s))", [table]).fetchone() == (None,):
            return False
        name = sql.Identifier(table)
        try:
            connection.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(name))
        except psycopg.errors.UndefinedTable:  # it has gone meanwhile
            return False
        columns = connection.execute(COLUMNS, [table, self._written]).fetchall()
        if not columns:
            connection.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(name))
            return True
        names = sql.SQL(", ").join(sql.Identifier(row[0]) for row in columns)
        values = sql.SQL(", ").join(_value(row, random) for row in columns)
        there = sql.SQL("").join(
            sql.SQL(" AND {} IS NOT NULL").format(sql.SQL(row[4])) for row in columns if row[4]
        )
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} WHERE true{} ON CONFLICT DO NOTHING")
        try:
            connection.execute(statement.format(name, names, values, there))
        except (psycopg.errors.NotNullViolation, psycopg.errors.ForeignKeyViolation):
            return False  # the migration deletes the rows to which it refers
        return True

    def _note(self, error: psycopg.Error, table: str) -> None:
        self.retries[f"{table} {error.sqlstate}"] += 1
        if error.sqlstate not in (EXPECTED if table == "control" else IN_THE_WAY):
            self.unexpected.append(f"{table}: {error.sqlstate}: {error}")
