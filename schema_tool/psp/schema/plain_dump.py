"""`psp schema dump`: a semi-primary's database as plain SQL, as if psp had never been there.

pg_dump runs three times on one snapshot. What stands before and behind the rows is small, and psp's own part
is taken out of its text; the rows go straight into the file.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.paths import client_program
from psp.schema.catalog import read_database
from psp.schema.dump import DBLINK_SCHEMA, LOCK_WAIT_MS, portable, without_password
from psp.schema.reading import gate_of_snapshot
from psp.schema.server import read_facts
from psp.schema.strides import Unstrided, unstrided
from psp.sql_files import read_sql

Section = Literal["pre-data", "data", "post-data"]

_OWN_SCHEMAS = ("psp", DBLINK_SCHEMA)
# What pg_dump says above each object.
_HEADER = re.compile(r"^(?=--\n-- Name: .*; Type: .*; Schema: .*; Owner: .*\n--\n)", re.MULTILINE)
_NAMED = re.compile(r"--\n-- Name: (.*); Type: (.*); Schema: (.*); Owner: .*\n")
_RIGHTS_OF_PSP = re.compile(
    r"^(?:GRANT|REVOKE) .* (?:TO|FROM) psp_(?:functions|semi_primary);\n", re.MULTILINE
)
_INCREMENT = re.compile(r"INCREMENT BY -?\d+")


@dataclass(frozen=True)
class _Own:
    """What is psp's, or was changed by psp."""

    triggers: frozenset[tuple[str, str]]  # schema, pg_dump's name
    has_dblink: bool  # it was made for psp, and not by the application
    sequences: dict[tuple[str, str], Unstrided]  # schema, name


def dump_plain(dsn: str, out: IO[bytes], *, no_owner: bool = False) -> None:
    """Writes the schema and all rows of one moment. After a PspError `out` may have a part of them."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        _check(connection)
        own = _read_own(connection)
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        command, environment = _command(connection, dsn, row[0], no_owner)
        for section in ("pre-data", "data", "post-data"):
            _write_section(out, [*command, f"--section={section}"], environment, section, own)
            out.flush()


def _check(connection: psycopg.Connection[Any]) -> None:
    facts = read_facts(connection)
    if not facts.adopted:
        raise PspError("the database is not under psp", "pg_dump dumps it")
    row = connection.execute("SELECT mode, joining FROM psp.identity").fetchone()
    assert row is not None
    mode, joining = row
    if mode == "views":
        raise PspError(
            "in views mode the tables are views", "release a semi-primary, and pg_dump its database"
        )
    if joining:
        raise PspError("the semi-primary joins, and has not all rows yet", "dump at another one")


def _read_own(connection: psycopg.Connection[Any]) -> _Own:
    database = read_database(connection)
    triggers = connection.execute(read_sql("semi_primary/command/own_triggers.sql")).fetchall()
    dblink = connection.execute(
        "SELECT FROM pg_extension WHERE extname = 'dblink' AND extnamespace::regnamespace::text = ANY (%s)",
        (list(_OWN_SCHEMAS),),
    ).fetchone()
    with gate_of_snapshot(connection) as gate:
        sequences = {(s.schema, s.name): unstrided(connection, gate, s) for s in database.sequences}
    return _Own(
        frozenset((schema, _in_comment(name)) for schema, name in triggers),
        dblink is not None,
        {name: plain for name, plain in sequences.items() if plain is not None},
    )


def _command(
    connection: psycopg.Connection[Any], dsn: str, snapshot: str, no_owner: bool
) -> tuple[list[str], dict[str, str]]:
    where, environment = without_password(dsn)
    command = [
        str(client_program("pg_dump", connection.info.server_version // 10000)), f"--snapshot={snapshot}",
        "--no-subscriptions", *(f"--exclude-schema={schema}" for schema in _OWN_SCHEMAS),
        f"--lock-wait-timeout={LOCK_WAIT_MS}", *(["--no-owner"] if no_owner else []), "-d", where,
    ]  # fmt: skip
    return command, environment


def _write_section(
    out: IO[bytes], command: list[str], environment: dict[str, str], section: Section, own: _Own
) -> None:
    if section == "data":
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=environment, check=False)
        text = _places(own)
    else:
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        text = "".join(_without_own(portable(done.stdout.decode()), own))
    if done.returncode != 0:
        raise PspError(f"pg_dump failed: {done.stderr.decode(errors='replace').strip()}")
    out.write(text.encode())


def _without_own(dumped: str, own: _Own) -> Iterator[str]:
    """The text object by object, without psp's, and with the increments that the application knows."""
    for part in _HEADER.split(dumped):
        named = _NAMED.match(part)
        name, kind, schema = named.groups() if named else ("", "", "")
        if _is_own(name, kind, schema, own):
            continue
        if kind == "SEQUENCE" and (schema, name) in own.sequences:
            part = _INCREMENT.sub(f"INCREMENT BY {own.sequences[schema, name].increment}", part, count=1)
        elif kind == "ACL":
            part = _RIGHTS_OF_PSP.sub("", part)
        yield part


def _is_own(name: str, kind: str, schema: str, own: _Own) -> bool:
    if kind == "TRIGGER":
        return (schema, name) in own.triggers
    if kind == "EVENT TRIGGER":
        return name.startswith("psp_")
    if (kind, name) in {("EXTENSION", "dblink"), ("COMMENT", "EXTENSION dblink")}:
        return own.has_dblink
    return schema in _OWN_SCHEMAS  # rights on functions of dblink


def _in_comment(name: str) -> str:
    return re.sub(r"[\n\r]", " ", name)


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
