"""What the schema tool needs to know about the server itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.output import PspError
from psp.paths import sql_dir


class SqlAsciiError(PspError):
    """The database does not know what its text means: not even its catalogs can be read as text."""

    def __init__(self, database: str) -> None:
        self.where = f"database {database}"
        self.problem = "the encoding is SQL_ASCII, text cannot be converted between servers"
        super().__init__(
            f"{self.where}: {self.problem}", "dump it and restore it into one with encoding UTF8"
        )


def refuse_sql_ascii(connection: psycopg.Connection[Any]) -> None:
    """SqlAsciiError if the connection's database has that encoding."""
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise SqlAsciiError(connection.info.dbname)


@dataclass(frozen=True)
class ServerFacts:
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
    large_objects: int
    event_triggers: list[str]
    materialized_views: list[str]


def read_facts(connection: psycopg.Connection[Any]) -> ServerFacts:
    """The facts about the connection's server and database. SqlAsciiError before anything is read."""
    refuse_sql_ascii(connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute((sql_dir("catalog") / "server_facts.sql").read_bytes()).fetchone()
    assert row is not None
    return ServerFacts(**row)
