"""Reads the facts of `psp doctor`. A server that does not answer, or cannot be read, is a fact as well.

The session may be a superuser's, and users have made things in these databases. So nothing of theirs is run:
the search_path is pg_catalog, the transaction only reads, and a superuser's session asks psp's own objects
only where a superuser owns schema psp: nobody else could have put something in their place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import class_row, dict_row, scalar_row

from psp.cluster import obstacles
from psp.doctor.facts import Clock, Facts, Health, Member, Primary, Server
from psp.primary import members
from psp.primary.database import schema_version
from psp.schema import changers
from psp.sql_files import constant, read_sql
from psp.whose import Whose, whose

ANSWER_MAX_S = 90
_CONNECT_S = 10
_AS_SUPERUSER = "name a superuser in the connection string, or the role that owns schema psp"
_SETTINGS = """
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '5s';
SET LOCAL idle_in_transaction_session_timeout = '120s'; SET LOCAL client_encoding = 'UTF8'
"""


def read_cluster(dsns: Sequence[str]) -> Facts:
    """All at once, each in a thread of its own. One that hangs is left alone, and stops no other."""
    found: dict[int, Server | Exception] = {}

    def read(number: int, dsn: str) -> None:
        try:
            found[number] = read_server(dsn, f"server {number}")
        except Exception as error:  # of a thread nobody would hear it
            found[number] = error

    threads = [
        threading.Thread(target=read, args=one, daemon=True, name="psp doctor") for one in enumerate(dsns, 1)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_MAX_S
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return Facts(tuple(_of_thread(found.get(number), number, dsn) for number, dsn in enumerate(dsns, 1)))


def _of_thread(found: Server | Exception | None, number: int, dsn: str) -> Server:
    if isinstance(found, Exception):
        raise found
    if found is not None:
        return found
    return Server(
        _shown(conninfo_to_dict(dsn)) or f"server {number}",
        trouble=f"it does not answer: it has not told all within {ANSWER_MAX_S} s",
        remedy="see whether it is stopped or overloaded",
    )


def _shown(given: dict[str, Any]) -> str:
    return " ".join(f"{key}={given[key]}" for key in ("host", "port", "dbname") if key in given)


def read_server(dsn: str, otherwise: str) -> Server:
    """`otherwise`: its name if the connection string tells none."""
    found = Server(otherwise)
    try:
        given = conninfo_to_dict(dsn)
        found = Server(_shown(given) or otherwise)
        with psycopg.connect(dsn, **_connecting(given)) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(_SETTINGS.encode())
            here = whose(connection)
            found = _read_health(connection, found, here)
            return _read_psp(connection, found, here)
    except psycopg.OperationalError as error:
        return replace(
            found, trouble=f"it does not answer: {_text(error)}", remedy="start it, or correct the address"
        )
    except psycopg.errors.InsufficientPrivilege as error:
        return replace(found, trouble=_text(error), remedy=_AS_SUPERUSER)
    except psycopg.Error as error:
        return replace(found, trouble=f"it cannot be looked at: {_text(error)}")


def _connecting(given: dict[str, Any]) -> dict[str, Any]:
    timeout = {} if "connect_timeout" in given else {"connect_timeout": _CONNECT_S}
    return {"application_name": "psp doctor", **timeout}


def _text(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def _read_health(connection: psycopg.Connection[Any], found: Server, here: Whose) -> Server:
    before = time.time()
    with connection.cursor(row_factory=class_row(Health)) as cursor:
        health = cursor.execute(read_sql("catalog/server_health.sql")).fetchone()
    after = time.time()
    assert health is not None
    doors: list[str] = []
    if health.superuser:
        with connection.cursor(row_factory=scalar_row) as cursor:
            doors = cursor.execute(read_sql("catalog/open_doors.sql")).fetchall()
    clock = Clock(health.clock_s - (before + after) / 2, (after - before) / 2)
    return replace(found, health=replace(health, kind=here.kind), clock=clock, open_doors=doors)


def _read_psp(connection: psycopg.Connection[Any], found: Server, here: Whose) -> Server:
    """What psp's own tables and functions tell."""
    health = found.health
    assert health is not None
    if health.is_standby:
        return replace(
            found,
            trouble="it is a standby: psp's state is not to be read here",
            remedy="name the server that it follows",
        )
    if here.is_dangerous:
        return replace(
            found,
            trouble=f"schema psp belongs to {here.owner}, no superuser: nothing in it is run as one",
            remedy=f"name user={here.owner} in the connection string",
        )
    if here.kind is None:
        return replace(found, trouble="the database is not under psp", remedy="correct dbname, or adopt it")
    if here.kind == "primary":
        return _read_primary(connection, found)
    return _read_member(connection, found)


def _read_primary(connection: psycopg.Connection[Any], found: Server) -> Server:
    with connection.cursor(row_factory=scalar_row) as cursor:
        version = cursor.execute("SELECT schema_version FROM psp.cluster").fetchone()
        found = replace(found, name="primary", schema_version=version)
        if version != schema_version():
            return found
        cluster_id = cursor.execute("SELECT cluster_id::text FROM psp.cluster").fetchone()
    return replace(found, primary=Primary(str(cluster_id), members.read(connection)))


def _read_member(connection: psycopg.Connection[Any], found: Server) -> Server:
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT name, schema_version FROM psp.identity").fetchone()
        assert row is not None
        found = replace(found, name=row["name"], schema_version=row["schema_version"])
        if found.schema_version != constant("SEMI_PRIMARY_SCHEMA_VERSION"):
            return found
        status = cursor.execute(read_sql("semi_primary/command/health.sql")).fetchone()
        assert status is not None
        query = read_sql("catalog/guard_problems.sql")
        problems = [problem["problem"] for problem in cursor.execute(query)]
    owners = []
    if status["mode"] == "native" and status["guarded"]:
        owners = [
            f"{o.role}: {o.grant}"
            for o in changers.read_owners(connection)
            if o.can_be_granted and not o.may_change
        ]
    comparable = None
    if found.health is not None and found.health.superuser:
        comparable = obstacles.read_server(connection, True)
    member = Member(**status, guard_problems=problems, owners_without_right=owners)
    return replace(found, member=member, comparable=comparable)
