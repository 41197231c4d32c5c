"""The application's schema as plain SQL, for semi-primaries that join later: pg_dump, made self-contained."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from psp.output import PspError
from psp.paths import postgres_program
from psp.schema.templates import dollar_quote
from psp.sql_files import read_sql

LOCK_WAIT_MS = 5000
# Of newer pg_dumps: commands of psql, which are no SQL, and a setting that older servers do not have.
_NEWER = re.compile(r"^(\\(un)?restrict .*|SET transaction_timeout = 0;)\n", re.MULTILINE)


def dump_schema(connection: psycopg.Connection[Any], dsn: str) -> str:
    """The schema's DDL; roles that own something or are granted something are created where they are missing,
    and the search_path is as it is here.

    pg_dump has a session of its own: nothing uncommitted of `connection` is in the dump.
    """
    settings = conninfo_to_dict(dsn)
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
    password = settings.pop("password", None)
    if password:
        environment["PGPASSWORD"] = str(password)  # not on the command line, which everybody may read
    command = [
        str(postgres_program("pg_dump", connection.info.server_version // 10000)), "--schema-only",
        "--no-publications", "--no-subscriptions", "--no-tablespaces",
        "--exclude-schema=psp", f"--lock-wait-timeout={LOCK_WAIT_MS}", "-d", make_conninfo("", **settings),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )
    if done.returncode != 0:
        raise PspError(f"pg_dump failed: {done.stderr.strip()}")
    return _roles(connection) + _search_paths(connection) + _NEWER.sub("", done.stdout, count=3)


def _roles(connection: psycopg.Connection[Any]) -> str:
    rows = connection.execute(
        """SELECT DISTINCT r.rolname::text FROM pg_catalog.pg_roles r
           LEFT JOIN pg_catalog.pg_shdepend s ON s.refclassid = 'pg_catalog.pg_authid'::regclass
                AND s.refobjid = r.oid
                AND s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
           WHERE (s.refobjid IS NOT NULL OR r.oid = 10) AND r.rolname !~ '^pg_' ORDER BY 1"""
    ).fetchall()
    statement = sql.SQL(
        "DO $psp$ DECLARE r text; BEGIN\n"
        "    FOREACH r IN ARRAY ARRAY[{}]::text[] LOOP\n"
        "        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r) THEN\n"
        "            EXECUTE format('CREATE ROLE %I', r);\n"
        "        END IF;\n"
        "    END LOOP;\nEND $psp$;\n"
    ).format(sql.SQL(", ").join(sql.Literal(name) for (name,) in rows))
    return statement.as_string(connection)


def _search_paths(connection: psycopg.Connection[Any]) -> str:
    """Functions with bare names find at every server what they find here: settings of the new database."""
    statements = []
    for role, path in connection.execute(read_sql("catalog/search_paths.sql")):
        if path is None:
            continue
        quote = sql.SQL(dollar_quote(f"{role} {path}"))
        form = "ALTER DATABASE %2$I" if role is None else "ALTER ROLE %1$I IN DATABASE %2$I"
        statements.append(
            sql.SQL(
                "DO {} BEGIN\n"
                "    PERFORM pg_catalog.set_config('search_path', {}, true);\n"
                "    EXECUTE pg_catalog.format({}, {}, pg_catalog.current_database());\n"
                "END {};\n"
            )
            .format(
                quote, sql.Literal(path), sql.Literal(f"{form} SET search_path FROM CURRENT"),
                sql.Literal(role), quote,
            )
            .as_string(connection)
        )  # fmt: skip
    return "".join(statements)
