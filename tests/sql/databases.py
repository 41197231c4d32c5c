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
from psp.cluster.pgserver import PgServer
from psp.paths import postgres_program
from psp.schema.adopt import Options, adopt
from psp.schema.primary import init_primary

APPLICATION = "application"  # an ordinary role: no superuser, owner of the tables that it creates
_numbers = itertools.count(1)


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

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, **more)

    @contextmanager
    def application(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the application's role, rolled back at the end. `written` can look into it."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"SET SESSION AUTHORIZATION {APPLICATION}".encode())
            yield connection
            connection.rollback()

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
            [str(postgres_program("pg_dump")), *options, "-d", self.dsn],
            capture_output=True,
            text=True,
            check=True,
        )
        return "\n".join(line for line in done.stdout.splitlines() if "restrict " not in line)


<<<<<<< HEAD
@dataclass(frozen=True)
class Written:
    """A row of psp.write_set. `name`: of the table, or of the unique index whose guard it is."""

    name: str
    op: str
    payload: bytes


def written(connection: psycopg.Connection[Any]) -> list[Written]:
    """What the open transaction has captured, in order. The session's own user must be a superuser."""
    connection.execute("RESET SESSION AUTHORIZATION")
    connection.execute("SET LOCAL search_path = pg_catalog; SET LOCAL client_encoding = 'UTF8'")
    rows = connection.execute(
        """SELECT coalesce(t.table_name, g.name), w.op::pg_catalog.text, w.payload
             FROM psp.write_set w
             LEFT JOIN psp.tables t ON t.table_id = w.table_id
             LEFT JOIN (SELECT (guard ->> 'guard_id')::pg_catalog.int4 AS id, guard ->> 'index' AS name
                          FROM psp.tables, pg_catalog.jsonb_array_elements(guards) guard) g
                    ON g.id = w.table_id
            WHERE w.xid = pg_catalog.pg_current_xact_id_if_assigned()
            ORDER BY w.cmin::pg_catalog.text::pg_catalog.int4"""
    )
    return [Written(name, op, bytes(payload)) for name, op, payload in rows.fetchall()]


def fields(record: bytes) -> tuple[list[bytes | None], bytes]:
    """The values of record_send's bytes, and what comes after them."""
    (count,) = struct.unpack_from("!i", record)
    values: list[bytes | None] = []
    position = 4
    for _ in range(count):
        _, length = struct.unpack_from("!Ii", record, position)
        position += 8
        values.append(None if length < 0 else record[position : position + length])
        position += max(length, 0)
    return values, record[position:]


@dataclass(frozen=True)
class Entry:
    """One row of a payload: the values of its key and, unless it is deleted or a guard, of its image."""

    key: list[bytes | None]
    image: list[bytes | None] | None
    image_bytes: bytes | None


def entries(row: Written) -> list[Entry]:
    """A payload taken apart, as sql/native/install/schema.sql describes it."""
    result: list[Entry] = []
    rest = row.payload
    while rest:
        if row.op == "i":
            count = rest[0]
            places = struct.unpack_from(f"!{count}H", rest, 1)
            whole = rest[1 + 2 * count :]
            image, rest = fields(whole)
            result.append(Entry([image[place] for place in places], image, whole[: len(whole) - len(rest)]))
        else:
            values, rest = fields(rest)
            assert values[0] is not None
            image_bytes = values[1] if row.op == "u" else None
            columns = fields(image_bytes)[0] if image_bytes is not None else None
            result.append(Entry(fields(values[0])[0], columns, image_bytes))
    return result


@pytest.fixture(scope="session")
def server() -> Iterator[PgServer]:
    settings = {"fsync": "off", "max_prepared_transactions": "5", "shared_buffers": "32MB"}
    with TemporaryFolder() as folder:
        give_to_server(folder.path)
        found = PgServer(folder.path / "pg", PortAllocator().take(), folder.path, settings)
        found.create()
        found.start()
        found.create_role(APPLICATION)
        yield found


@pytest.fixture
def pair(server: PgServer) -> Pair:
    """A fresh one."""
    return new_pair(server)


=======
>>>>>>> 447642c (Tests are packages: helpers are imported by their full names, so all tests can be in one run)
def new_pair(server: PgServer) -> Pair:
    name = f"app{next(_numbers)}"
    server.create_database(name)
    return Pair(name, server)
