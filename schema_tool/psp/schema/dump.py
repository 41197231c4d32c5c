"""The application's schema as plain SQL, for semi-primaries that join later: pg_dump, made self-contained."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from psp.paths import client_program
from psp.schema.archive import Number, run_program, sql_without
from psp.schema.templates import dollar_quote
from psp.sql_files import read_sql

LOCK_WAIT_MS = 5000
DBLINK_SCHEMA = "psp_dblink"
"""Where an administrator puts dblink for a role that may not install it (docs/adopting.md)."""
# psql commands around the dump, not SQL; their key is a random one.
_RESTRICTED = re.compile(r"^\\restrict (\w+)\n(.*)^\\unrestrict \1\n", re.MULTILINE | re.DOTALL)
_TIMEOUTS = "SET idle_in_transaction_session_timeout = 0;\n"
# Since the minor versions of November 2026 (15.20) servers keep a number of theirs among a column's options.
# Older minor versions of pg_dump print it, and older servers refuse it.
_ALTER_COLUMN = r"^(ALTER TABLE ONLY .* ALTER COLUMN .* SET \()pg_attver=\d+"
_NUMBER = re.compile(rf"{_ALTER_COLUMN}\);\n", re.MULTILINE)
# What only an extension's owner may say. Without it, the comment is the one that the extension comes with.
_EXTENSION_COMMENT = re.compile(
    r"^--\n-- Name: EXTENSION [^\n]*; Type: COMMENT; [^\n]*\n--\n\n"
    r"COMMENT ON EXTENSION \S+ IS E?'(?:[^']|'')*';\n",
    re.MULTILINE,
)
_OWN_DBLINK = re.compile(
    r"^--\n-- Name: dblink; Type: EXTENSION; [^\n]*\n--\n\n"
    rf"CREATE EXTENSION [^\n]* SCHEMA \"{DBLINK_SCHEMA}\";\n",
    re.MULTILINE,
)
_EXTENSION = re.compile(
    r"^(--\n-- Name: [^\n]*; Type: EXTENSION; [^\n]*\n--\n\n)"
    r"(CREATE EXTENSION IF NOT EXISTS \"((?:[^\"\n]|\"\")+)\"[^\n]*;)\n",
    re.MULTILINE,
)
# pg_dump prints it where all names are quoted. It is what each database comes with, and its owner's.
_PUBLIC_COMMENT = "COMMENT ON SCHEMA \"public\" IS 'standard public schema';\n"
_NUMBER_AMONG_OPTIONS = re.compile(rf"{_ALTER_COLUMN}, ", re.MULTILINE)


def dump_schema(connection: psycopg.Connection[Any], dsn: str) -> str:
    """The schema's DDL; roles that own something or are granted something are created where they are missing,
    and the search_path, the database's owner and who may make schemas in it are as they are here.

    pg_dump has a session of its own: nothing uncommitted of `connection` is in the dump. It quotes all names,
    since a word may be a keyword in another version.
    """
    command, environment = _pg_dump(connection, dsn)
    return _self_contained(connection, run_program([*command, "--no-tablespaces"], environment))


def dump_schema_without(connection: psycopg.Connection[Any], dsn: str, objects: Collection[Number]) -> str:
    """The same of a semi-primary, as `connection` sees it in its transaction, without these objects."""
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    command, environment = _pg_dump(connection, dsn)
    pg_restore = str(client_program("pg_restore", connection.info.server_version // 10000))
    dumped = sql_without(
        [*command, f"--snapshot={row[0]}"],
        [pg_restore, "--no-tablespaces"],
        environment,
        objects,
        ("psp", DBLINK_SCHEMA),
    )
    return _self_contained(connection, dumped)


def _pg_dump(connection: psycopg.Connection[Any], dsn: str) -> tuple[list[str], dict[str, str]]:
    where, environment = without_password(dsn)
    command = [
        str(client_program("pg_dump", connection.info.server_version // 10000)), "--schema-only",
        "--quote-all-identifiers", "--no-subscriptions", "--exclude-schema=psp",
        f"--exclude-schema={DBLINK_SCHEMA}", f"--lock-wait-timeout={LOCK_WAIT_MS}", "-d", where,
    ]  # fmt: skip
    return command, environment


def _self_contained(connection: psycopg.Connection[Any], dumped: str) -> str:
    dumped = _EXTENSION_COMMENT.sub("", _OWN_DBLINK.sub("", dumped)).replace(_PUBLIC_COMMENT, "", 1)
    dumped = _with_owners_of_extensions(connection, dumped)
    return _roles(connection) + _database_rights(connection) + _search_paths(connection) + portable(dumped)


def without_password(dsn: str) -> tuple[str, dict[str, str]]:
    """A connection string for a command line, which everybody may read, and the environment beside it."""
    settings = conninfo_to_dict(dsn)
    password = settings.pop("password", None)
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
    if password:
        environment["PGPASSWORD"] = str(password)
    return make_conninfo("", **settings), environment


def portable(dumped: str) -> str:
    """What pg_dump says, as plain SQL that servers older than it understand, too."""
    dumped = dumped.replace(f"{_TIMEOUTS}SET transaction_timeout = 0;\n", _TIMEOUTS, 1)  # at the beginning
    dumped = _NUMBER_AMONG_OPTIONS.sub(r"\1", _NUMBER.sub("", dumped))
    return _RESTRICTED.sub(lambda found: found[2], dumped, count=1)


def _with_owners_of_extensions(connection: psycopg.Connection[Any], dumped: str) -> str:
    """pg_dump tells the owner of everything else."""
    owners = dict(connection.execute(read_sql("catalog/extension_owners.sql")).fetchall())
    template = sql.SQL(read_sql("catalog/create_extension.sql").decode().split("DO ", 1)[1])

    def as_owner(found: re.Match[str]) -> str:
        header, statement, quoted = found.groups()
        name = quoted.replace('""', '"')
        if name not in owners:
            return found[0]
        made = template.format(
            quote=sql.SQL(dollar_quote(f"{statement} {owners[name]}")), name=sql.Literal(name),
            owner=sql.Literal(owners[name]), statement=sql.Literal(statement),
        )  # fmt: skip
        return f"{header}DO {made.as_string(connection)}"

    return _EXTENSION.sub(as_owner, dumped)


def _roles(connection: psycopg.Connection[Any]) -> str:
    rows = connection.execute(
        """SELECT DISTINCT r.rolname::text FROM pg_catalog.pg_roles r
           LEFT JOIN pg_catalog.pg_shdepend s ON s.refclassid = 'pg_catalog.pg_authid'::regclass
                AND s.refobjid = r.oid
                AND s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
           WHERE (s.refobjid IS NOT NULL OR r.oid = 10) AND r.rolname !~ '^pg_'
                AND r.rolname NOT IN ('psp_functions', 'psp_semi_primary') ORDER BY 1"""
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


def _database_rights(connection: psycopg.Connection[Any]) -> str:
    """Only a superuser may give them; without one there are no schema changes which could need them."""
    rows = connection.execute(read_sql("catalog/database_rights.sql")).fetchall()
    if not rows:
        return ""
    quote = sql.SQL(dollar_quote(" ".join(role for role, _ in rows)))
    statement = sql.SQL(
        "DO {} DECLARE r record; BEGIN\n"
        "    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN\n"
        "        RETURN;\n"
        "    END IF;\n"
        "    FOR r IN SELECT * FROM unnest(ARRAY[{}]::text[], ARRAY[{}]::boolean[])\n"
        "                           AS r(name, is_owner) LOOP\n"
        "        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r.name) THEN\n"
        "            EXECUTE pg_catalog.format('CREATE ROLE %I', r.name);\n"
        "        END IF;\n"
        "        EXECUTE pg_catalog.format(\n"
        "            CASE WHEN r.is_owner THEN 'ALTER DATABASE %I OWNER TO %I'\n"
        "                 ELSE 'GRANT CREATE ON DATABASE %I TO %I' END, current_database(), r.name);\n"
        "    END LOOP;\nEND {};\n"
    ).format(
        quote, sql.SQL(", ").join(sql.Literal(role) for role, _ in rows),
        sql.SQL(", ").join(sql.Literal(is_owner) for _, is_owner in rows), quote,
    )  # fmt: skip
    return statement.as_string(connection)


def _search_paths(connection: psycopg.Connection[Any]) -> str:
    """Functions with bare names find at every server what they find here: settings of the new database."""
    statements = []
    template = sql.SQL(read_sql("catalog/set_search_path.sql").decode())
    from_files = _search_path_of_files(connection)
    for role, path in connection.execute(read_sql("catalog/search_paths.sql"), (from_files,)):
        if path is None:
            continue
        quote = sql.SQL(dollar_quote(f"{role} {path}"))
        statement = template.format(quote=quote, path=sql.Literal(path), role=sql.Literal(role))
        statements.append(statement.as_string(connection))
    return "".join(statements)


def _search_path_of_files(connection: psycopg.Connection[Any]) -> str | None:
    """None: the server's files say nothing, or the role may not read them."""
    row = connection.execute(
        "SELECT has_table_privilege('pg_file_settings', 'SELECT') "
        "AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')"
    ).fetchone()
    if row is None or not row[0]:
        return None
    found = connection.execute(read_sql("catalog/file_search_path.sql")).fetchone()
    return None if found is None else found[0]
