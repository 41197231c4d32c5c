"""psp schema check of a semi-primary: what stops it, or could stop it at a coming schema change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.rows import dict_row, scalar_row

from psp.cluster import obstacles
from psp.cluster.verify import named
from psp.problems import Problem, sort
from psp.schema.server import ServerFacts
from psp.sessions import open_session
from psp.sql_files import read_sql

_VERSION_SQL = "SELECT catalog_version FROM psp.identity"


def check_semi_primary(
    connection: psycopg.Connection[Any], facts: ServerFacts, *, is_alone: bool
) -> list[Problem]:
    """What an SP knows alone: that it stands still, failed jobs, what its guard finds, local indexes."""
    where = f"database {connection.info.dbname}"
    found = [Problem("error", where, problem) for problem in facts.guard_problems]
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(read_sql("semi_primary/command/own_obstacles.sql")):
            found.append(Problem(**row))
    hint = "compare with other semi-primaries: name them, too" if is_alone else ""
    found.append(Problem("note", where, "it is under psp: this is about coming schema changes", hint))
    return sort(found)


def compare_with(
    connection: psycopg.Connection[Any], facts: ServerFacts, sp_dsns: Iterable[str]
) -> list[Problem]:
    """What this server and SPs of the cluster do not have alike. It may be one that is to join."""
    here = _value(connection, "SELECT name FROM psp.identity") if facts.adopted else "this server"
    servers = {here: obstacles.read_server(connection, facts.adopted)}
    versions = {_value(connection, _VERSION_SQL)} if facts.adopted else set()
    found: list[Problem] = []
    for dsn in sp_dsns:
        try:
            (name,) = named([dsn])
            with open_session(dsn) as other:
                other.read_only = True
                other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                servers[name] = obstacles.read_server(other, True)
                versions.add(_value(other, _VERSION_SQL))
        except psycopg.OperationalError as error:
            found.append(
                Problem("warning", "another semi-primary", f"it is not compared: {str(error).strip()}")
            )
    found += obstacles.compare(servers)
    if len(versions) > 1:  # the schemas differ for a moment, or as long as one of them stands still
        numbers = " and ".join(str(version) for version in sorted(versions))
        found.append(Problem("note", "versions of the catalog", f"they are {numbers}",
                             "compare again when all have applied the newest schema change"))  # fmt: skip
    else:
        found += obstacles.differing_schemas(servers)
    return sort(found)


def _value(connection: psycopg.Connection[Any], statement: str) -> Any:
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(statement.encode()).fetchone()
