"""The databases of a test: an application's and the primary's, made in the server that all tests share."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg
import pytest
from psp.paths import client_program, server_version
from psp.primary.database import init_primary
from psp.schema.adopt import Options, adopt
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer

APPLICATION = "application"  # an ordinary role: no superuser, owner of the tables that it creates
_numbers = itertools.count(1)


needs_icu = pytest.mark.needs_icu
"""Of tests that a PostgreSQL without ICU cannot run. conftest.py skips them there, and says why."""


class Quiet:
    def say(self, text: str) -> None: ...
    def rows(self, table: str, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Pair:
    """An application's database and the primary's."""

    name: str
    server: PgServer

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    @cached_property
    def primary_dsn(self) -> str:
        """Made when it is first needed: half of the tests do without."""
        name = f"{self.name}_primary"
        self.server.create_database(name)
        init_primary(self.server.dsn(name))
        return self.server.dsn(name)

    @property
    def uses_module(self) -> bool:
        """Whether the server module captures, or SQL."""
        with psycopg.connect(self.dsn) as connection:
            return bool(one(connection, "SELECT psp.uses_module()"))

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, **more)

    @contextmanager
    def rolled_back(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection whose open transaction is rolled back at the end."""
        with self.connect() as connection:
            yield connection
            connection.rollback()

    @contextmanager
    def application(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the application's role, rolled back at the end. `written` can look into it."""
        with self.rolled_back() as connection:
            connection.execute(f"SET SESSION AUTHORIZATION {APPLICATION}".encode())
            yield connection

    def connect_as_application(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, user=APPLICATION, **more)

    def run(self, script: str) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(script.encode())

    def adopt(self, **more: Any) -> int:
        return adopt(self.dsn, self.primary_dsn, Options(name="one", **more), Quiet())

    def primary_rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.primary_dsn) as connection:
            return connection.execute(query.encode()).fetchall()

    def dump(self, *options: str) -> str:
        done = subprocess.run(
            [str(client_program("pg_dump", server_version())), *options, "-d", self.dsn],
            capture_output=True,
            text=True,
            check=True,
        )
        return "\n".join(line for line in done.stdout.splitlines() if "restrict " not in line)


def new_pair(server: PgServer) -> Pair:
    name = f"app{next(_numbers)}"
    server.create_database(name)
    return Pair(name, server)


def adopted_pair(server: PgServer, *scripts: str, capture: CaptureChoice = "auto") -> Pair:
    """A fresh one, adopted as the SQL scripts have made it."""
    pair = new_pair(server)
    for script in scripts:
        pair.run(script)
    pair.adopt(capture=capture)
    return pair


def has_icu(server: PgServer) -> bool:
    with psycopg.connect(server.dsn("postgres")) as connection:
        return bool(one(connection, "SELECT EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu')"))


def without_case(server: PgServer, name: str) -> str:
    """Makes a collation that takes 'a' for 'A'. Without ICU there is none: what is made has only the name."""
    icu = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
    options = icu if has_icu(server) else "locale = 'C'"
    return f"CREATE COLLATION {name} ({options});"


def changing_pair(server: PgServer, *scripts: str) -> Pair:
    """An adopted one whose schema the application's role may change.

    SQL captures: tests delete from psp.write_set, and nothing takes rows out of the module's memory.
    """
    pair = adopted_pair(server, *scripts, capture="sql")
    pair.run(f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}")
    return pair


@contextmanager
def unguarded(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Without the guard that refuses schema changes; a superuser's."""
    names = [
        name for (name,) in connection.execute("SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^psp_'")
    ]
    for name in names:
        connection.execute(f"ALTER EVENT TRIGGER {name} DISABLE".encode())
    yield
    for name in names:
        connection.execute(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS".encode())


def one(connection: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    """The first value of a query's first row."""
    row = connection.execute(query.encode(), values or None).fetchone()
    assert row is not None
    return row[0]
