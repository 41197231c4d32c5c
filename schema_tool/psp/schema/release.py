"""Takes psp out of a database again and leaves a plain one, with all its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from psp.mrv.ring import forget_part
from psp.output import PspError
from psp.primary import database as primary
from psp.schema import clients_out, locks
from psp.schema.catalog import read_database
from psp.schema.farewell import Farewell, Self, ask_primary, read_self, without_primary
from psp.schema.keys import KEY_COLUMN, has_key_of_psp
from psp.schema.model import Sequence, Table
from psp.schema.reading import Gate, gate_under_locks
from psp.schema.server import read_facts
from psp.schema.strides import Columns, columns_of_sequences, tables_of, unstrided
from psp.schema.views.release import plain_tables
from psp.sessions import open_session
from psp.sql_files import read_sql

LOCK_MODE = "ACCESS EXCLUSIVE"
DAEMON_SILENCE_S = 5


Confirm = Callable[[list[str]], None]


def release(
    dsn: str, primary_dsn: str | None, *, drop_keys: bool, force: bool, lock_wait_s: float, say: locks.Say,
    confirm: Confirm = lambda _: None,
) -> None:  # fmt: skip
    """One transaction at the semi-primary, then the primary is told. On an exception nothing has changed.

    `force`: even if the daemon seems to run, transactions of views mode are unfinished, or committed ones are
    missing. `confirm` gets warnings, and raises what it likes if people do not agree.
    """
    with open_session(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # what the locks are for
        facts = read_facts(connection)
        if not (facts.adopted or facts.converted):
            raise PspError("the database is not under psp")
        if not force:
            _check_daemon_stopped(connection)
        semi_primary = read_self(connection)
        farewell = _farewell(semi_primary, primary_dsn, force)
        if farewell.lost and not force:
            raise PspError(
                farewell.lost,
                "run psp-semi-primary until psp.status shows no lag; --force: they are not needed here",
            )
        confirm([*([farewell.lost] if farewell.lost else []), *farewell.warnings])
        relations = _relations(connection)
        connection.rollback()
        work = partial(_release, connection, converted=facts.converted, drop_keys=drop_keys, force=force)
        locks.retry_while_relations_locked(connection, relations, LOCK_MODE, lock_wait_s, say, work)
    if primary_dsn is not None and semi_primary is not None and farewell.is_member:
        with psycopg.connect(primary_dsn) as connection:
            primary.mark_released(connection, semi_primary.sp_id, farewell.released_t)


def _farewell(semi_primary: Self | None, primary_dsn: str | None, force: bool) -> Farewell:
    if semi_primary is None:
        return Farewell("", [], None, False)
    if primary_dsn is None:
        return without_primary(semi_primary)
    with psycopg.connect(primary_dsn) as connection:
        return ask_primary(connection, semi_primary, may_be_connected=force)


def _relations(connection: psycopg.Connection[Any]) -> list[int]:
    """OIDs of all that gets locked: the captured tables; psp's own, which a begun transaction holds."""
    captured = [r.oid for table in read_database(connection).captured_tables for r in table.relations]
    rows = connection.execute(
        "SELECT oid::int8 FROM pg_class WHERE relnamespace = 'psp'::regnamespace"
    ).fetchall()
    return captured + [oid for (oid,) in rows]


def _check_daemon_stopped(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "SELECT 1 FROM psp.daemon_status WHERE updated_at > clock_timestamp() - make_interval(secs => %s) "
        "AND status ->> 'state' <> 'stopped'",
        (DAEMON_SILENCE_S,),
    ).fetchone()
    if row is not None:
        raise PspError("the semi-primary's daemon is running", "stop psp-semi-primary first")


def _release(connection: psycopg.Connection[Any], *, converted: bool, drop_keys: bool, force: bool) -> None:
    database = read_database(connection)
    connection.execute("SET LOCAL client_min_messages = warning")
    # The guard against schema changes first: it would refuse what follows.
    for (name,) in connection.execute(
        "SELECT t.evtname FROM pg_event_trigger t JOIN pg_proc f ON f.oid = t.evtfoid "
        "WHERE f.pronamespace = 'psp'::regnamespace"
    ).fetchall():
        connection.execute(sql.SQL("DROP EVENT TRIGGER {}").format(sql.Identifier(name)))
    # In views mode, who wrote to T_temp holds a lock on T_persistent too, and ends before this gets its own.
    locks.lock(connection, database.captured_tables, LOCK_MODE)
    if converted:
        plain_tables(connection, force)
        database = read_database(connection)
    else:
        connection.execute(
            "SELECT psp.enable_unique_checks(ARRAY(SELECT relation FROM psp.captured_relations), '')"
        )
    columns = columns_of_sequences(connection)
    gate = gate_under_locks(connection, tables_of(columns))
    for sequence in database.sequences:
        _unstride(connection, gate, sequence, columns)
    forget_part(connection)
    clients_out.let_in(connection)  # it may not have got all rows yet
    connection.execute("DROP SCHEMA psp CASCADE")  # functions, and with them all triggers
    connection.execute(read_sql("semi_primary/command/drop_roles.sql"))
    connection.execute(read_sql("semi_primary/command/drop_origin.sql"))
    if drop_keys:
        for table in database.captured_tables:
            _drop_key(connection, table)
    connection.commit()


def _unstride(connection: psycopg.Connection[Any], gate: Gate, sequence: Sequence, columns: Columns) -> None:
    plain = unstrided(connection, gate, sequence, columns)
    if plain is None:
        return
    target = sql.Identifier(sequence.schema, sequence.name)
    connection.execute(
        sql.SQL("ALTER SEQUENCE {} INCREMENT BY {}").format(target, sql.Literal(plain.increment))
    )
    connection.execute(
        "SELECT setval(%s::regclass, %s, %s)", (target.as_string(connection), plain.value, plain.is_called)
    )


def _drop_key(connection: psycopg.Connection[Any], table: Table) -> None:
    if has_key_of_psp(table):
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(
                sql.Identifier(table.schema, table.name), sql.Identifier(KEY_COLUMN)
            )
        )
