"""The primary's database: created, read and written by the schema tool. The daemon does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.primary import module
from psp.schema.model import Mode, Stride
from psp.schema.server import refuse_unfit, refuse_version
from psp.sql_files import constant, read_sql

SCHEMA_FILE = "primary/install/schema.sql"
ROLE_FILE = "primary/install/daemon_role.sql"  # the rights of the daemon's role, again after each upgrade


@dataclass(frozen=True)
class Cluster:
    """The row of psp.cluster. `schema_ddl`: plain SQL, for joining SPs; None before adoption."""

    cluster_id: str
    slots: int
    state: str  # empty, adopting, adopted
    mode: Mode
    schema_ddl: str | None


def schema_version() -> int:
    """The version of schema psp that this psp makes, and that its daemon serves."""
    return constant("PRIMARY_SCHEMA_VERSION")


def daemon_lock() -> tuple[int, int]:
    """The advisory lock of the daemon that serves the database."""
    return constant("LOCK_CLASS"), constant("PRIMARY_DAEMON_LOCK")


def init_primary(dsn: str) -> None:
    """Creates the psp schema of a primary. PspError if there is one already, or the database is unfit."""
    with psycopg.connect(dsn) as connection:
        refuse_version(connection)
        refuse_unfit(connection)
        row = connection.execute("SELECT to_regnamespace('psp') IS NOT NULL").fetchone()
        if row is not None and row[0]:
            raise PspError("the database has a schema psp already", "use an empty database for the primary")
        connection.execute(read_sql(SCHEMA_FILE))
        connection.execute(read_sql(ROLE_FILE))
        module.install(connection)


def upgrade_primary(dsn: str) -> int:
    """Brings an older psp's schema to schema_version(), in one transaction; returns the version it had.

    PspError if the daemon serves the database, or if the schema is newer than this psp.
    """
    with psycopg.connect(dsn) as connection:
        found = _read_version(connection)
        if found > schema_version():
            raise _other_version(found)
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", daemon_lock()).fetchone()
        if row is None or not row[0]:
            raise PspError("psp-primary is serving this database", "stop it first")
        for version in range(found + 1, schema_version() + 1):
            connection.execute(read_sql(f"primary/install/upgrades/{version}.sql"))
        connection.execute(read_sql(ROLE_FILE))
        module.install(connection)
        return found


def _read_version(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT to_regclass('psp.replication_log') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        raise PspError("the primary's database is not prepared", "psp primary init DSN")
    found = connection.execute("SELECT schema_version FROM psp.cluster").fetchone()
    assert found is not None
    return int(found[0])


def _other_version(found: int) -> PspError:
    message = f"the primary's schema psp has version {found}, this psp needs {schema_version()}"
    older = "stop psp-primary, then: psp primary upgrade DSN"
    return PspError(message, older if found < schema_version() else "install the psp that has made it")


def check_version(connection: psycopg.Connection[Any]) -> None:
    """PspError if the database is no primary's, or one of another version of psp."""
    version = _read_version(connection)
    if version != schema_version():
        raise _other_version(version)


def read_cluster(connection: psycopg.Connection[Any], *, lock: bool = False) -> Cluster:
    """The primary's one row; with `lock` nobody else adopts or joins until the transaction's end."""
    check_version(connection)
    if lock:
        connection.execute("SET LOCAL lock_timeout = '5s'")
        try:
            connection.execute("SELECT FROM psp.cluster FOR UPDATE")
        except psycopg.errors.LockNotAvailable as error:
            raise PspError(
                "another psp command is changing the cluster", "try again when it is done"
            ) from error
    found = connection.execute(
        "SELECT cluster_id::text, slots, state, mode, schema_ddl FROM psp.cluster"
    ).fetchone()
    assert found is not None
    return Cluster(*found)


def set_copies(dsn: str, number: int) -> None:
    """At least so many synchronous standbys must have what psp-primary tells."""
    with psycopg.connect(dsn) as connection:
        # Its own COMMIT must not wait for the standbys that it no longer asks for.
        connection.execute("SET LOCAL synchronous_commit = local")
        read_cluster(connection, lock=True)
        connection.execute("UPDATE psp.cluster SET copies = %s", (number,))


def refuse_second_adoption(connection: psycopg.Connection[Any], replace: bool) -> None:
    """PspError if somebody may need what the primary has of an adopted database. `replace`: not its rows."""
    query = read_sql("primary/command/adopt_again.sql")
    found = connection.execute(query).fetchone()
    assert found is not None
    members, has_all, has_rows = found
    if members:
        raise PspError(
            f"the primary has adopted a database already; its semi-primaries are {', '.join(members)}",
            "psp schema join adds a semi-primary to them. To change the schema, release all of them with "
            "--primary-dsn, change it in one, and adopt that one",
        )
    if has_rows and not (has_all or replace):
        raise PspError(
            "the primary may have the only copy of rows that it adopted: no semi-primary that had everything "
            "was released into a plain database",
            "--replace adopts all the same, and forgets the primary's rows",
        )


def begin_again(connection: psycopg.Connection[Any]) -> str:
    """Makes the primary of an adopted database one that has never adopted; returns its new id.

    It has another id and history: no earlier semi-primary belongs to it. PspError if the daemon runs, since
    it would go on with what it knows.
    """
    row = connection.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", daemon_lock()).fetchone()
    if row is None or not row[0]:
        raise PspError(
            "psp-primary is serving this database, which has been adopted before",
            "stop it, adopt, and start it again",
        )
    connection.execute("TRUNCATE psp.epochs")
    found = connection.execute(
        "UPDATE psp.cluster SET state = 'empty', cluster_id = gen_random_uuid(), catalog_version = 1 "
        "RETURNING cluster_id::text"
    ).fetchone()
    assert found is not None
    return str(found[0])


def wipe(connection: psycopg.Connection[Any]) -> None:
    """Forgets an adoption: one that was not finished, or one that has no semi-primary any more."""
    connection.execute(
        "TRUNCATE psp.semi_primaries, psp.tables, psp.table_versions, psp.emptied_tables, "
        "psp.catalog_versions, psp.sequences, psp.data, psp.tx_log, psp.replication_log, psp.decided "
        "RESTART IDENTITY"
    )
    connection.execute("UPDATE psp.log_start SET truncated_t = 0, settled_t = 0, collected_t = 0")


@contextmanager
def without_key(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """psp.data, which is empty, has no primary key in the block: made of all rows at once it costs less.

    In the caller's transaction; an exception leaves it without a key, to be rolled back.
    """
    key = connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'psp.data'::regclass AND conname = 'data_pkey'"
    ).fetchone()
    assert key is not None
    connection.execute("ALTER TABLE psp.data DROP CONSTRAINT data_pkey")
    yield
    connection.execute(sql.SQL("ALTER TABLE psp.data ADD CONSTRAINT data_pkey {}").format(sql.SQL(key[0])))


def register(connection: psycopg.Connection[Any], name: str, zone: str, acked_t: int) -> int:
    """A new semi-primary's number. acked_t: what it has, -1 if it has yet to copy everything."""
    try:
        row = connection.execute(
            "INSERT INTO psp.semi_primaries (name, zone, acked_t) VALUES (%s, %s, %s) RETURNING sp_id",
            (name, zone, acked_t),
        ).fetchone()
    except psycopg.errors.UniqueViolation as error:
        raise PspError(
            f"the cluster has a semi-primary named {name} already",
            "choose another --name, or release that one",
        ) from error
    assert row is not None
    return int(row[0])


def mark_released(connection: psycopg.Connection[Any], sp_id: int, released_t: int | None = None) -> bool:
    """The semi-primary is gone for good; its number is not used again. Returns whether it was there.

    released_t: its database lives on as a plain one that has everything up to this number.
    """
    done = connection.execute(
        "UPDATE psp.semi_primaries SET released_at = now(), released_t = %s "
        "WHERE sp_id = %s AND released_at IS NULL",
        (released_t, sp_id),
    )
    return done.rowcount == 1


def take_back_release(connection: psycopg.Connection[Any], sp_id: int) -> None:
    """It was marked by mistake, a moment ago."""
    connection.execute(
        "UPDATE psp.semi_primaries SET released_at = NULL, released_t = NULL WHERE sp_id = %s", (sp_id,)
    )


def store_strides(connection: psycopg.Connection[Any], strides: Iterable[Stride]) -> None:
    """Where each sequence stood at adoption."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO psp.sequences (schema_name, sequence_name, base, increment) VALUES (%s, %s, %s, %s)",
            [(s.schema, s.name, s.base, s.increment) for s in strides],
        )


def read_strides(connection: psycopg.Connection[Any]) -> list[Stride]:
    """As stored."""
    rows = connection.execute(
        "SELECT schema_name, sequence_name, base, increment FROM psp.sequences"
    ).fetchall()
    return [Stride(*row) for row in rows]
