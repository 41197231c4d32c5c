"""What the schema tool needs to know about the server itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.output import PspError
from psp.paths import POSTGRES_MAX_VERSION, POSTGRES_MIN_VERSION
from psp.problems import Problem
from psp.sql_files import read_sql


class UnfitError(PspError):
    """psp can do nothing with this database. Told before anything of it is read, even the catalog."""

    def __init__(self, database: str, problem: str, hint: str) -> None:
        self.where = f"database {database}"
        self.problem = problem
        super().__init__(f"{self.where}: {problem}", hint)


def refuse_unfit(connection: psycopg.Connection[Any]) -> None:
    """UnfitError if the server is too old, or the connection's database is not in UTF8."""
    _refuse_old(connection)
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise UnfitError(
            connection.info.dbname,
            f"the encoding is {encoding}, psp needs UTF8: text goes to all servers as it is",
            "dump it and restore it into one with encoding UTF8",
        )


def refuse_version(connection: psycopg.Connection[Any]) -> None:
    """PspError if psp makes nothing on this server: it is too old or too new."""
    _refuse_old(connection)
    problem = too_new(connection.info.server_version)
    if problem is not None:
        raise PspError(problem.problem, problem.hint)


def too_new(version: int) -> Problem | None:
    """A version that nobody has tried: it may write rows or describe tables in ways unknown to psp."""
    if version // 10000 <= POSTGRES_MAX_VERSION:
        return None
    return Problem(
        "error", "the server",
        f"PostgreSQL {version // 10000} is newer than this psp, which knows "
        f"PostgreSQL {POSTGRES_MIN_VERSION} to {POSTGRES_MAX_VERSION}",
        "use a newer psp, or an older PostgreSQL",
    )  # fmt: skip


def _refuse_old(connection: psycopg.Connection[Any]) -> None:
    info = connection.info
    if info.server_version < POSTGRES_MIN_VERSION * 10000:
        raise UnfitError(
            info.dbname,
            f"PostgreSQL {info.server_version // 10000} is too old",
            f"psp needs PostgreSQL {POSTGRES_MIN_VERSION} or later",
        )


@dataclass(frozen=True)
class ServerFacts:
    """What a server and one of its databases are like. Lists hold what stands in the way."""

    adopted: bool  # native mode
    converted: bool  # views mode
    role: str
    superuser: bool
    dblink_schema: str | None  # quoted; where the extension is installed already
    dblink_available: bool
    dblink_public: bool  # it is installed already, and PUBLIC may execute some of it
    default_isolation: str
    serializable_roles: list[str]
    prepared_transactions: list[str]
    prepared_transactions_max: int
    locks_per_transaction: int
    transactions_max: int  # the server has room for so many times locks_per_transaction
    large_objects: int
    event_triggers: list[str]
    materialized_views: list[str]
    subscriptions: list[str]
    temporary_tables: list[str]  # with foreign keys, or inheriting from permanent ones
    guard_problems: list[str]  # of a database that is under psp: what its guard finds


def read_facts(connection: psycopg.Connection[Any]) -> ServerFacts:
    """The facts about the connection's server and database. UnfitError before anything is read."""
    refuse_unfit(connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(read_sql("catalog/server_facts.sql")).fetchone()
        assert row is not None
        is_guarded = row.pop("guarded")
        query = read_sql("catalog/guard_problems.sql")
        problems = [found["problem"] for found in cursor.execute(query)] if is_guarded else []
    return ServerFacts(**row, guard_problems=problems)
