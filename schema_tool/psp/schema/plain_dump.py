"""`psp schema dump`: a semi-primary's database as plain SQL, as if psp had never been there.

pg_dump runs three times on one snapshot. What stands before and behind the rows is small: psp's own part is
left out of an archive of it by its numbers in the catalog (archive.py). The rows go straight into the file.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import IO, Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.paths import client_program
from psp.schema.archive import Number, sql_without
from psp.schema.catalog import read_database
from psp.schema.dump import DBLINK_SCHEMA, LOCK_WAIT_MS, portable, without_password
from psp.schema.keys import KEY_COLUMN, has_key_of_psp
from psp.schema.reading import gate_of_snapshot
from psp.schema.server import read_facts
from psp.schema.strides import Unstrided, columns_of_sequences, unstrided
from psp.sessions import open_session
from psp.sql_files import read_sql

_OWN_SCHEMAS = ("psp", DBLINK_SCHEMA)
_DOLLARS = r"""(?<![\w$])\$(?P<tag>[^\W\d]\w*|)\$.*?\$(?P=tag)\$"""
_QUOTED = rf"""(?<!\w)E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|{_DOLLARS}"""
_TO_PSP = r"(?:TO|FROM)\ psp_(?:functions|semi_primary);\n"
_NAME = r"""(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_]*)"""
# What is looked for stands outside of comments and quoted text, of the bodies of functions for example.
_WORDS = re.compile(
    rf"""(?P<rights>^(?:GRANT|REVOKE)\ (?:"(?:[^"]|"")*"|[^";])*\ {_TO_PSP})
    |(?:CREATE\ (?:UNLOGGED\ )?SEQUENCE|^\ +SEQUENCE\ NAME)\ (?P<sequence>{_NAME}\.{_NAME})
    |INCREMENT\ BY\ (?P<increment>-?\d+)
    |--[^\n]*|{_QUOTED}""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_LAST_SETTING = b"SET row_security = off;\n"
"""Of those at the beginning of pg_dump's text."""
_HEAD_BYTES = 1 << 12

Warn = Callable[[str], None]


@dataclass(frozen=True)
class _Own:
    """What is psp's, or was changed by psp."""

    objects: frozenset[Number]
    sequences: dict[tuple[str, str], Unstrided]  # schema, name
    keyed: list[tuple[str, str]]  # tables that have psp_key, as their primary key


def dump_plain(
    dsn: str, out: IO[bytes], *, no_owner: bool = False, drop_keys: bool = False, warn: Warn = lambda _: None
) -> None:
    """Writes the schema and all rows of one moment. After a PspError `out` may have a part of them."""
    with open_session(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        _check(connection)
        own = _read_own(connection)
        unsure = [f"{schema}.{name}" for (schema, name), plain in own.sequences.items() if not plain.is_sure]
        if unsure:
            warn(
                f"no column tells what other semi-primaries have drawn of {', '.join(sorted(unsure))}: "
                "they go on behind what this one has drawn"
            )
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        command, environment = _command(connection, dsn, row[0])
        major = connection.info.server_version // 10000
        owner = ["--no-owner"] if no_owner else []
        restore = [str(client_program("pg_restore", major)), *owner]

        def write_schema(section: str) -> None:
            whole = sql_without(
                [*command, f"--section={section}"], restore, environment, own.objects, _OWN_SCHEMAS
            )
            out.write(_without_strides(portable(whole), own).encode())
            out.flush()

        write_schema("pre-data")
        _write_rows(out, [*command, *owner, "--section=data"], environment)
        out.write(_places(own).encode())
        write_schema("post-data")
        if drop_keys:
            out.write(_without_keys(own.keyed).encode())


def _check(connection: psycopg.Connection[Any]) -> None:
    facts = read_facts(connection)
    if not facts.adopted:
        raise PspError("the database is not under psp", "pg_dump dumps it")
    try:
        row = connection.execute(
            "SELECT mode, joining, (SELECT count(*) FROM psp.sequences) FROM psp.identity"
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        role = sql.Identifier(connection.info.user).as_string(None)
        raise PspError(
            f"role {role} may not read what psp knows of the database",
            f"a superuser may; so may {role} after GRANT SELECT (mode, joining) ON psp.identity TO {role}; "
            f"GRANT SELECT ON psp.sequences TO {role}",
        ) from error
    assert row is not None
    mode, joining, _ = row
    if mode == "views":
        raise PspError(
            "in views mode the tables are views", "release a semi-primary, and pg_dump its database"
        )
    if joining:
        raise PspError("the semi-primary joins, and has not all rows yet", "dump at another one")


def _read_own(connection: psycopg.Connection[Any]) -> _Own:
    database = read_database(connection)
    objects = connection.execute(
        read_sql("semi_primary/command/own_objects.sql"), {"schemas": list(_OWN_SCHEMAS)}
    ).fetchall()
    columns = columns_of_sequences(connection)
    with gate_of_snapshot(connection) as gate:
        sequences = {(s.schema, s.name): unstrided(connection, gate, s, columns) for s in database.sequences}
    return _Own(
        frozenset((classid, objid) for classid, objid in objects),
        {name: plain for name, plain in sequences.items() if plain is not None},
        [(table.schema, table.name) for table in database.captured_tables if has_key_of_psp(table)],
    )


def _command(
    connection: psycopg.Connection[Any], dsn: str, snapshot: str
) -> tuple[list[str], dict[str, str]]:
    where, environment = without_password(dsn)
    command = [
        str(client_program("pg_dump", connection.info.server_version // 10000)), f"--snapshot={snapshot}",
        "--no-subscriptions", *(f"--exclude-schema={schema}" for schema in _OWN_SCHEMAS),
        f"--lock-wait-timeout={LOCK_WAIT_MS}", "-d", where,
    ]  # fmt: skip
    return command, environment


def _write_rows(out: IO[bytes], command: list[str], environment: dict[str, str]) -> None:
    """Only what stands before the first rows is looked at."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        assert process.stdout is not None
        head = process.stdout.read(_HEAD_BYTES)
        settings, last, rest = head.partition(_LAST_SETTING)
        if last:
            settings = settings.replace(b"SET transaction_timeout = 0;\n", b"", 1)  # older servers lack it
        out.write(settings + last + rest)
        shutil.copyfileobj(process.stdout, out, 1 << 20)
        if process.wait() != 0:
            errors.seek(0)
            raise PspError(f"pg_dump failed: {errors.read().decode(errors='replace').strip()}")


def _without_strides(dumped: str, own: _Own) -> str:
    """The increments that the application knows, and no rights of psp's roles."""
    increments = {
        sql.Identifier(*name).as_string(None): str(plain.increment) for name, plain in own.sequences.items()
    }
    increment: str | None = None

    def as_before(found: re.Match[str]) -> str:
        nonlocal increment
        if found["rights"]:
            return ""
        if found["sequence"]:
            increment = increments.get(_quoted(found["sequence"]))
        elif found["increment"] and increment is not None:
            return f"INCREMENT BY {increment}"
        return found[0]

    return _WORDS.sub(as_before, dumped)


def _quoted(name: str) -> str:
    """pg_dump quotes names that need it."""
    return ".".join(part if part[0] == '"' else f'"{part}"' for part in re.findall(_NAME, name))


def _places(own: _Own) -> str:
    """Behind the rows: pg_dump has set the sequences to where this semi-primary's own class of numbers is."""
    lines = [
        sql.SQL("SELECT pg_catalog.setval({}, {}, {});\n")
        .format(
            sql.Literal(sql.Identifier(schema, name).as_string(None)),
            sql.Literal(plain.value),
            sql.Literal(plain.is_called),
        )
        .as_string(None)
        for (schema, name), plain in sorted(own.sequences.items())
    ]
    return "\n--\n-- Sequences go on behind all rows.\n--\n\n" + "".join(lines) if lines else ""


def _without_keys(tables: Collection[tuple[str, str]]) -> str:
    drop = sql.SQL("ALTER TABLE {} DROP COLUMN {};\n")
    lines = [drop.format(sql.Identifier(*t), sql.Identifier(KEY_COLUMN)).as_string(None) for t in tables]
    return "\n--\n-- The keys that psp has added.\n--\n\n" + "".join(lines) if lines else ""
