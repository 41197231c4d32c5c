"""What the schema tool needs to know about the server itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.output import PspError

MIN_VERSION = 15

_FACTS = """
SELECT to_regclass('psp.identity') IS NOT NULL AND to_regclass('psp.converted_tables') IS NULL AS adopted,
       to_regclass('psp.converted_tables') IS NOT NULL AS converted,
       current_user AS role,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
       (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'dblink') AS dblink_schema,
       EXISTS (SELECT FROM pg_available_extensions WHERE name = 'dblink') AS dblink_available,
       EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'dblink'
               WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
                 AND d.deptype = 'e' AND has_function_privilege('public', d.objid, 'EXECUTE'))
           AS dblink_public,
       current_setting('default_transaction_isolation') AS default_isolation,
       ARRAY(SELECT r.rolname::text FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
             WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
               AND 'default_transaction_isolation=serializable' = ANY (s.setconfig)) AS serializable_roles,
       ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = current_database()) AS prepared_transactions,
       (SELECT count(*) FROM pg_largeobject_metadata) AS large_objects,
       ARRAY(SELECT t.evtname::text FROM pg_event_trigger t JOIN pg_proc f ON f.oid = t.evtfoid
             JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname <> 'psp') AS event_triggers,
       ARRAY(SELECT n.nspname || '.' || c.relname
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'm') AS materialized_views
"""


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
        row = cursor.execute(_FACTS).fetchone()
    assert row is not None
    return ServerFacts(**row)
