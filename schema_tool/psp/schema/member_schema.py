"""A semi-primary's schema, with what psp knows of it: where a join starts from (docs/decisions/73)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from psp.output import PspError
from psp.schema.dump import dump_schema_without
from psp.schema.model import Stride
from psp.schema.server import read_facts
from psp.sessions import open_session
from psp.sql_files import constant, read_sql
from psp.waiting import WaitTimeout, wait_until

TABLES = """
SELECT table_id, schema_name, table_name, columns, key_columns, guards FROM psp.tables
 WHERE schema_name <> 'psp' ORDER BY table_id
"""
_HISTORY = "COPY psp.schema_history TO STDOUT (FORMAT binary)"
_OLDER_COPY = "COPY psp.statements_of_older_copy FROM STDIN (FORMAT binary)"
_CHANGE_TIMEOUT_S = 10
NAME_BYTES_MAX = 63
_WORD = re.compile(r'"((?:[^"]|"")+)"|([\w$]+)')

Say = Callable[[str], None]


@dataclass(frozen=True)
class MemberSchema:
    """All of it is of one moment, after `catalog_version` - 1 schema changes."""

    name: str
    ddl: str
    tables: list[tuple[Any, ...]]
    strides: list[Stride]
    older_images: list[tuple[int, int, Any]]
    catalog_version: int
    last_number: int
    history: bytes
    jobs: list[dict[str, Any]]
    left_out: list[str]  # what the member has alone
    set_aside: list[str]  # what the member lacks, in words

    def told(self) -> list[str]:
        """What the person who joins has to know."""
        lines = [f"not taken over, {self.name} has it alone: {what}" for what in self.left_out]
        return lines + [f"as at {self.name}, where it is missing, too: {what}" for what in self.set_aside]


def read_member(dsn: str, cluster_id: str, adopted_ddl: str, say: Say) -> MemberSchema | None:
    """None: it has seen no schema change, so its schema is the adopted one.

    Begins again as long as schema changes commit there meanwhile. PspError: the database is not fit.
    """
    while True:
        with open_session(dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute("SET search_path = pg_catalog, pg_temp")
            connection.execute("SET idle_in_transaction_session_timeout = 0")  # while pg_dump reads
            connection.commit()
            state = _check(connection, cluster_id)
            if state["catalog_version"] == 1:
                return None
            say(f"reading the schema of {state['name']}: version {state['catalog_version']}")
            try:
                schema = _read(connection, dsn, adopted_ddl, state)
            except PspError:
                if not _changes_soon(connection, state):
                    raise
            else:
                if not _has_changed(connection, state):
                    return schema
            say(f"a schema change has come to {state['name']} meanwhile: reading again")


def _check(connection: psycopg.Connection[Any], cluster_id: str) -> dict[str, Any]:
    if not read_facts(connection).adopted:
        raise PspError("the database of --schema-from is no semi-primary in native mode")
    with connection.cursor(row_factory=dict_row) as cursor:
        state = cursor.execute(read_sql("semi_primary/command/state_of_schema.sql")).fetchone()
    assert state is not None
    name, hint = state["name"], "name another semi-primary; or join without --schema-from"
    if state["cluster_id"] != cluster_id:
        raise PspError(f"{name}, of --schema-from, belongs to another cluster", hint)
    if state["joining"]:
        raise PspError(f"{name} joins itself, and has not all schema changes yet", hint)
    if state["schema_version"] != constant("SEMI_PRIMARY_SCHEMA_VERSION"):
        raise PspError(f"{name} was made by another version of psp", hint)
    if state["owners"]:
        raise PspError(
            f"at {name} captured tables belong to other roles than at the other semi-primaries: "
            f"{state['owners']}",
            f"give them back there (docs/schema-changes.md, psp.reassign_owned); {hint}",
        )
    return state


def _changes_soon(connection: psycopg.Connection[Any], state: dict[str, Any]) -> bool:
    """After pg_dump has failed: a schema change that waits for its locks ends it soon, and arrives."""
    try:
        return wait_until("a schema change", lambda: _has_changed(connection, state), _CHANGE_TIMEOUT_S)
    except WaitTimeout:
        return False


def _has_changed(connection: psycopg.Connection[Any], state: dict[str, Any]) -> bool:
    """In a new snapshot."""
    connection.rollback()
    row = connection.execute("SELECT catalog_version FROM psp.identity").fetchone()
    return row != (state["catalog_version"],)


def _read(
    connection: psycopg.Connection[Any], dsn: str, adopted_ddl: str, state: dict[str, Any]
) -> MemberSchema:
    history = connection.execute("SELECT statement, settings - 'schemas' FROM psp.schema_history").fetchall()
    texts = [adopted_ddl, *(f"{statement} {settings}" for statement, settings in history)]
    leave = connection.execute(
        read_sql("semi_primary/command/objects_to_leave.sql"), {"words": sorted(words_of(texts))}
    ).fetchall()
    ddl = dump_schema_without(connection, dsn, [(classid, objid) for classid, objid, _ in leave])
    enabled = connection.execute(read_sql("semi_primary/command/enabled_triggers.sql")).fetchall()
    with connection.cursor(row_factory=dict_row) as cursor:
        jobs = cursor.execute(read_sql("semi_primary/command/jobs_of_schema.sql")).fetchall()
    strides = connection.execute("SELECT schema_name, sequence_name, base, increment FROM psp.sequences")
    return MemberSchema(
        state["name"],
        ddl + "".join(f"{statement};\n" for (statement,) in enabled),
        connection.execute(TABLES).fetchall(),
        [Stride(*row) for row in strides],
        connection.execute("SELECT table_id, until_version, fields FROM psp.older_images").fetchall(),
        state["catalog_version"],
        state["last_number"],
        _history(connection),
        jobs,
        sorted(label for *_, label in leave if label is not None),
        [row[0] for row in connection.execute("SELECT problem FROM psp.set_aside_problems ORDER BY 1")],
    )


def words_of(texts: list[str]) -> set[str]:
    """In small letters; what stands in quotes as a whole, too."""
    words: set[str] = set()
    for text in texts:
        # By lines, too: an odd quotation mark in a comment would turn what is inside and outside round.
        for part in (text, *text.splitlines()):
            words.update(quoted.replace('""', '"') or word for quoted, word in _WORD.findall(part))
        words.update(re.findall(r"[\w$]+", text))
    return {_as_name(word) for word in words}


def _as_name(word: str) -> str:
    """As lower() has it of PostgreSQL's names: cut, and letters of ASCII only made small."""
    return word.encode()[:NAME_BYTES_MAX].lower().decode(errors="ignore")


def _history(connection: psycopg.Connection[Any]) -> bytes:
    with connection.cursor().copy(_HISTORY) as copy:
        return b"".join(bytes(part) for part in copy)


def take_over(connection: psycopg.Connection[Any], member: MemberSchema) -> None:
    """At the joiner, in its transaction, after psp is installed: its schema changes count as run."""
    with connection.cursor() as cursor:
        with cursor.copy(_OLDER_COPY) as copy:
            copy.write(member.history)
        cursor.executemany(
            "INSERT INTO psp.older_images (table_id, until_version, fields) VALUES (%s, %s, %s)",
            [(table_id, version, Jsonb(fields)) for table_id, version, fields in member.older_images],
        )
        cursor.executemany(read_sql("semi_primary/command/take_over_job.sql"), member.jobs)
        cursor.execute(
            "UPDATE psp.identity SET catalog_version = %s, last_number = %s",
            (member.catalog_version, member.last_number),
        )
