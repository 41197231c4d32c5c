"""Puts a live database under psp: the first semi-primary of a cluster.

All in one go. Most rows are copied before writers have to wait (adopted_rows.py). The semi-primary's side is
one transaction; the primary's is one that commits first, as `adopting`, and is marked `adopted` after the
semi-primary has committed. An interruption before that leaves the database as it was, and the next run clears
the primary. After an interruption between the last two steps, the next run only marks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from psp.output import PspError
from psp.primary import database as primary
from psp.problems import RefusedError, has_errors
from psp.schema import changers, locks, modes
from psp.schema.adopted_rows import RowProgress, Snapshot, copy_rest, copy_snapshot
from psp.schema.catalog import read_database
from psp.schema.dump import dump_schema
from psp.schema.generate import TEXT_SETTINGS, define_tables
from psp.schema.install import Identity, copy_tables, run_script, strides_of
from psp.schema.model import Database, Mode
from psp.schema.modes import LOCK_MODES
from psp.schema.native.capture import CaptureChoice
from psp.schema.server import read_facts
from psp.sessions import open_session

PRIMARY_ATTEMPTS = 20
SMALL_BYTES = 1 << 20
"""Tables of this size altogether are copied under the locks, and not before."""
_CANNOT = "the database cannot be adopted"


@dataclass(frozen=True)
class Options:
    name: str
    zone: str = ""
    slots: int | None = None
    add_keys: bool = False
    lock_wait_s: float = 60.0
    mode: Mode = "native"
    drop_foreign_keys: bool = False
    capture: CaptureChoice = "auto"
    replace: bool = False  # the primary may have the only copy of an earlier adoption's rows
    schema_roles: Sequence[str] = ()  # that may change the schema


class Progress(RowProgress, Protocol):
    """What adoption tells while it works."""

    def say(self, text: str) -> None:
        """A step begins."""


def adopt(dsn: str, primary_dsn: str, options: Options, progress: Progress) -> int:
    """Adopts the database; returns the semi-primary's number. On an exception nothing has changed.

    RefusedError: the database cannot be adopted as it is.
    """
    with open_session(dsn) as connection, psycopg.connect(primary_dsn) as primary_connection:
        # Not the database's default: what is read under the locks is what is there under the locks.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        lacking = modes.check_rights(connection, options.mode)
        if has_errors(lacking):
            raise RefusedError(_CANNOT, lacking)
        # The transactions end here and nowhere else: an exception rolls both back.
        finished = _finish_interrupted(connection, primary_connection, options.replace)
        if finished is not None:
            return finished
        cluster_id, slots = _begin_primary_again(primary_connection, options)
        snapshot = _copy_snapshot(connection, primary_connection, dsn, slots, options, progress)
        database = read_database(connection)
        connection.rollback()
        result: list[int] = []

        def work() -> None:
            with primary_connection.transaction():  # a savepoint, below which the snapshot stays
                result.append(
                    _adopt(
                        connection, primary_connection, dsn, cluster_id, slots, snapshot, options, progress
                    )
                )

        tables = database.captured_tables
        lock_mode = LOCK_MODES[options.mode]
        locks.retry_while_locked(connection, tables, lock_mode, options.lock_wait_s, progress.say, work)
        primary_connection.commit()
        connection.commit()
        primary_connection.execute("UPDATE psp.cluster SET state = 'adopted'")
        primary_connection.commit()
        primary_connection.execute("ANALYZE psp.data")
        primary_connection.commit()
        return result[-1]


def _finish_interrupted(
    connection: psycopg.Connection[Any], primary_connection: psycopg.Connection[Any], replace: bool
) -> int | None:
    """The last step of an earlier run that was interrupted before it; None if there was no such run."""
    cluster = primary.read_cluster(primary_connection, lock=True)
    if cluster.state == "adopted":
        primary.refuse_second_adoption(primary_connection, replace)
    found = None
    facts = read_facts(connection)
    if facts.adopted or facts.converted:
        found = connection.execute("SELECT cluster_id::text, sp_id FROM psp.identity").fetchone()
    connection.rollback()
    if found is None or found[0] != cluster.cluster_id or cluster.state != "adopting":
        primary_connection.rollback()
        return None
    primary_connection.execute("UPDATE psp.cluster SET state = 'adopted'")
    primary_connection.commit()
    return int(found[1])


def _begin_primary_again(primary_connection: psycopg.Connection[Any], options: Options) -> tuple[str, int]:
    """The same again after a deadlock with the primary's daemon, which looks at these tables."""
    for _ in range(PRIMARY_ATTEMPTS):
        try:
            return _begin_primary(primary_connection, options)
        except psycopg.errors.DeadlockDetected:
            primary_connection.rollback()
    raise PspError("the primary's tables are in use", "try again")


def _begin_primary(primary_connection: psycopg.Connection[Any], options: Options) -> tuple[str, int]:
    """Empties the primary, which nobody else changes from here on; returns the cluster's id and its slots."""
    cluster = primary.read_cluster(primary_connection, lock=True)
    cluster_id = cluster.cluster_id
    if cluster.state == "adopted":
        primary.refuse_second_adoption(primary_connection, options.replace)  # maybe adopted a moment ago
        cluster_id = primary.begin_again(primary_connection)
    primary.wipe(primary_connection)
    return cluster_id, options.slots or cluster.slots


def _copy_snapshot(
    connection: psycopg.Connection[Any], primary_connection: psycopg.Connection[Any], dsn: str, slots: int,
    options: Options, progress: Progress,
) -> Snapshot:  # fmt: skip
    """Copies the tables that have a primary key, while writers go on. Leaves nothing in the database."""
    database = read_database(connection)
    _check(connection, database, slots, options)
    if _bytes_of(database) <= SMALL_BYTES:
        connection.rollback()
        return Snapshot("", "", {})
    schema = dump_schema(connection, dsn)
    connection.rollback()
    progress.say("copying the rows: nobody waits yet")
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    run_script(connection, TEXT_SETTINGS)
    database = read_database(connection)
    modes.begin(connection, options.mode)
    tables = define_tables(connection, database, only_with_key=True)
    snapshot = copy_snapshot(connection, primary_connection, tables, schema, progress)
    connection.rollback()
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return snapshot


def _bytes_of(database: Database) -> int:
    return sum(table.bytes for table in database.captured_tables)


def _check(connection: psycopg.Connection[Any], database: Database, slots: int, options: Options) -> None:
    problems = modes.check(
        connection, database, options.mode, slots,
        add_keys=options.add_keys, drop_foreign_keys=options.drop_foreign_keys,
    )  # fmt: skip
    if has_errors(problems):
        raise RefusedError(_CANNOT, problems)


def _adopt(
    connection: psycopg.Connection[Any], primary_connection: psycopg.Connection[Any], dsn: str,
    cluster_id: str, slots: int, snapshot: Snapshot, options: Options, progress: Progress,
) -> int:  # fmt: skip
    """What is done under the locks, in both transactions; returns the semi-primary's number."""
    run_script(connection, TEXT_SETTINGS)
    progress.say("locking the tables: writers wait from here on, readers do not")
    database = _lock_all(connection)
    _check(connection, database, slots, options)
    if not database.captured_tables:
        progress.say("there are no tables: nothing will be captured, and none can be created until release")
    ddl = dump_schema(connection, dsn)
    if not snapshot.schema and _bytes_of(database) > 16 * SMALL_BYTES:
        raise PspError("the tables have grown while their locks were waited for", "adopt again")
    if snapshot.schema and ddl != snapshot.schema:
        raise PspError("the schema has changed while the rows were copied", "adopt again when it is done")
    if options.add_keys:
        database, added = _add_keys(connection, database)
        ddl += added
    modes.begin(connection, options.mode)
    tables = define_tables(connection, database)

    sp_id = primary.register(primary_connection, options.name, options.zone, acked_t=0)
    strides = strides_of(database.sequences)
    primary_connection.execute(
        "UPDATE psp.cluster SET state = 'adopting', mode = %s, slots = %s, schema_ddl = %s",
        (options.mode, slots, ddl),
    )
    copy_tables(connection, primary_connection)
    primary.store_strides(primary_connection, strides)

    copy_rest(connection, primary_connection, tables, snapshot)
    progress.say("installing the capture")
    identity = Identity(
        cluster_id, sp_id, options.name, slots, joining=False, mode=options.mode,
        capture=modes.choose_capture(connection, options.mode, options.capture),
    )  # fmt: skip
    modes.install(connection, options.mode, identity, tables, strides)
    changers.grant(connection, options.mode, options.schema_roles)
    return sp_id


def _lock_all(connection: psycopg.Connection[Any]) -> Database:
    """The catalog, with every captured table locked: what is read is what stays."""
    before = read_database(connection)
    locks.lock(connection, before.captured_tables, LOCK_MODES["native"])  # views mode locks readers out later
    after = read_database(connection)
    if {t.oid for t in before.captured_tables} != {t.oid for t in after.captured_tables}:
        raise PspError("the schema is being changed by another session", "adopt again when it is done")
    return after


def _add_keys(connection: psycopg.Connection[Any], database: Database) -> tuple[Database, str]:
    """Gives each table without a primary key its psp_key; returns the new catalog and the DDL run."""
    statements = [
        table.add_key
        for table in database.captured_tables
        if table.primary_key is None and table.add_key is not None
    ]
    for statement in statements:
        run_script(connection, statement)
    return read_database(connection), "".join(f"\n{statement};\n" for statement in statements)


class _Quiet:
    """Progress that nobody looks at."""

    def say(self, text: str) -> None:
        pass

    def rows(self, table: str, done: int, total: int) -> None:
        pass


def adopt_database(
    dsn: str, primary_dsn: str, *, name: str, zone: str = "", add_keys: bool = False, mode: Mode = "native",
    drop_foreign_keys: bool = False, schema_roles: Sequence[str] = (),
) -> int:  # fmt: skip
    """`adopt` for programs: without progress, with the primary's own number of slots."""
    options = Options(
        name=name, zone=zone, add_keys=add_keys, mode=mode, drop_foreign_keys=drop_foreign_keys,
        schema_roles=schema_roles,
    )  # fmt: skip
    return adopt(dsn, primary_dsn, options, _Quiet())
