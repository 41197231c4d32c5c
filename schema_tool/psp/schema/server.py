"""What the schema tool needs to know about the server itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.output import PspError
from psp.sql_files import read_sql


class EncodingError(PspError):
    """The database's text cannot go to every other server. Of SQL_ASCII not even the catalog can be read."""

    def __init__(self, database: str, encoding: str) -> None:
        self.where = f"database {database}"
        self.problem = f"the encoding is {encoding}, psp needs UTF8: text goes to all servers as it is"
        super().__init__(
            f"{self.where}: {self.problem}", "dump it and restore it into one with encoding UTF8"
        )


def refuse_encoding(connection: psycopg.Connection[Any]) -> None:
    """EncodingError if the connection's database is not in UTF8."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise EncodingError(connection.info.dbname, str(encoding))


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
    large_objects: int
    event_triggers: list[str]
    materialized_views: list[str]
    subscriptions: list[str]
    temporary_tables: list[str]  # with foreign keys, or inheriting from permanent ones
    guard_problems: list[str]  # of a database that is under psp: what its guard finds


def read_facts(connection: psycopg.Connection[Any]) -> ServerFacts:
    """The facts about the connection's server and database. EncodingError before anything is read."""
    refuse_encoding(connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(read_sql("catalog/server_facts.sql")).fetchone()
        assert row is not None
        is_guarded = row.pop("guarded") and row["superuser"]
        query = read_sql("catalog/guard_problems.sql")
        problems = [found["problem"] for found in cursor.execute(query)] if is_guarded else []
    return ServerFacts(**row, guard_problems=problems)
