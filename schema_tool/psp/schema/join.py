"""Makes an empty database a new semi-primary of a cluster. Its daemon then copies the primary's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.primary import database as primary
from psp.primary import members
from psp.problems import has_errors
from psp.schema import changers, clients_out, rules
from psp.schema.catalog import read_database
from psp.schema.generate import CapturedTable, define_numbered
from psp.schema.install import Identity, run_script
from psp.schema.member_schema import TABLES, MemberSchema, Say, read_member, take_over
from psp.schema.model import Database, Mode
from psp.schema.modes import begin, check_empty, choose_capture, install
from psp.schema.named_roles import roles_named
from psp.schema.native.capture import CaptureChoice
from psp.schema.server import read_facts, refuse_unfit
from psp.sessions import open_session
from psp.sql_files import read_sql

_FILLED = (
    "pg_class", "pg_attribute", "pg_type", "pg_index", "pg_constraint", "pg_trigger", "pg_depend", "pg_proc",
    "pg_inherits", "pg_attrdef", "pg_sequence", "pg_shdepend",
)  # fmt: skip
"""Catalogs that the restored schema fills in this very transaction: no plan knows how large they are."""
_DUMPED_FROM = re.compile(r"^-- Dumped from database version (\d+)", re.MULTILINE)
_NOT_FOUND = ("42883", "42P01", "42704")
"""A function, a table, another object: what a function's body names without its schema."""


class Replaces(Enum):
    """Whether a join removes the semi-primary of the same name, whose server is lost."""

    NOBODY = auto()
    LOST = auto()  # one that is not connected
    ALSO_CONNECTED = auto()


def prepare_join(
    sp_dsn: str, primary_dsn: str, name: str, zone: str = "", capture: CaptureChoice = "auto",
    schema_roles: Sequence[str] = (), schema_from: str | None = None, say: Say = lambda _: None,
    replaces: Replaces = Replaces.NOBODY, confirm: Callable[[str], None] = lambda _: None,
) -> int:  # fmt: skip
    """Restores the cluster's schema, captured, its sequences strided; returns the new semi-primary's number.

    `schema_from`: the database of a semi-primary that streams, to start from its schema; otherwise the joiner
    runs all schema changes. The primary registers it first. Clients cannot connect before its copy is whole.
    `replaces`: whether the member of this name is removed in its favour. `confirm` gets what that costs, and
    raises what it likes if people do not agree.
    PspError or psycopg.Error: the database is as empty as it was.
    """
    with open_session(sp_dsn) as connection, psycopg.connect(primary_dsn) as primary_connection:
        refuse_unfit(connection)
        force = replaces is Replaces.ALSO_CONNECTED
        if replaces is not Replaces.NOBODY:
            primary.check_version(primary_connection)
            members.confirm_loss(primary_connection, name, force=force, confirm=confirm)
        member = _read_member(primary_connection, schema_from, say)
        cluster = primary.read_cluster(primary_connection, lock=True)
        if cluster.state != "adopted" or cluster.schema_ddl is None:
            raise PspError("the cluster has no adopted database yet", "psp schema adopt starts it with one")
        _check_empty(connection, cluster.mode)
        replaced = None
        if replaces is not Replaces.NOBODY:
            replaced, there = members.replace(primary_connection, name, force=force)
            zone = zone or there
        sp_id = _register(primary_connection, name, zone, cluster.slots)
        if member is not None:
            _check_superuser(connection)
        say("restoring the schema")
        _restore(connection, cluster.schema_ddl, member)
        _check_history(connection, primary_connection, member, say)
        database = read_database(connection)
        _check_locks(connection, database)
        begin(connection, cluster.mode)
        rows = primary_connection.execute(TABLES).fetchall() if member is None else member.tables
        tables = _define_as_there(connection, rows, database)
        identity = Identity(
            cluster.cluster_id, sp_id, name, cluster.slots, joining=True, mode=cluster.mode,
            capture=choose_capture(connection, cluster.mode, capture),
        )  # fmt: skip
        say("installing the capture")
        strides = primary.read_strides(primary_connection) if member is None else member.strides
        install(connection, cluster.mode, identity, tables, strides)
        if member is not None:
            take_over(connection, member)
        changers.grant(connection, cluster.mode, schema_roles)
        clients_out.keep_out(connection)
        primary_connection.commit()
        try:
            connection.commit()
        except BaseException:
            primary.mark_released(primary_connection, sp_id)
            if replaced is not None:
                primary.take_back_release(primary_connection, replaced)
            primary_connection.commit()
            raise
        clients_out.end_sessions(connection)
        for line in member.told() if member is not None else ():
            say(line)
        return sp_id


def _register(primary_connection: psycopg.Connection[Any], name: str, zone: str, slots: int) -> int:
    sp_id = primary.register(primary_connection, name, zone, acked_t=-1)
    if sp_id > slots:
        raise PspError(
            f"all {slots} slots of the cluster have been used",
            "release every semi-primary and adopt again with more --slots",
        )
    return sp_id


def _read_member(
    primary_connection: psycopg.Connection[Any], schema_from: str | None, say: Say
) -> MemberSchema | None:
    """None: the schema is the adopted one."""
    if schema_from is None:
        return None
    cluster = primary.read_cluster(primary_connection)
    if cluster.schema_ddl is None or cluster.mode == "views":
        return None
    member = read_member(schema_from, cluster.cluster_id, cluster.schema_ddl, say)
    primary_connection.rollback()
    row = primary_connection.execute("SELECT catalog_version FROM psp.cluster").fetchone()
    if member is not None and row is not None and row[0] < member.catalog_version:
        raise PspError(
            f"{member.name} has run schema changes that the primary has lost",
            "release it; name a semi-primary that follows this primary",
        )
    return member


def _restore(connection: psycopg.Connection[Any], adopted_ddl: str, member: MemberSchema | None) -> None:
    schema_ddl = adopted_ddl if member is None else member.ddl
    try:
        if member is not None:  # they have rights on what psp reads
            connection.execute(read_sql("semi_primary/install/roles.sql"))
        run_script(connection, schema_ddl)
    except psycopg.Error as error:
        hint, here = error.diag.message_hint, connection.info.server_version // 10000
        made = _DUMPED_FROM.search(schema_ddl)
        if made is not None and int(made[1]) > here:
            hint = f"it is that of PostgreSQL {made[1]}, this server is {here}: join with one of that version"
        elif member is not None and member.left_out:
            hint = (
                f"{member.name} has these alone; what the schema uses of them make here first: "
                f"{', '.join(member.left_out)}"
            )
        elif error.sqlstate in _NOT_FOUND and error.diag.context is not None:
            hint = (
                "pg_dump's text finds names with their schemas only: at a semi-primary, ALTER FUNCTION … SET "
                "search_path = … for the function that is named above, and join with --schema-from"
            )
        raise PspError(f"the cluster's schema cannot be restored here: {error}", hint) from error
    if read_facts(connection).superuser:  # others may not
        connection.execute(sql.SQL("ANALYZE {}").format(sql.SQL(", ").join(map(sql.Identifier, _FILLED))))


def _check_empty(connection: psycopg.Connection[Any], mode: Mode) -> None:
    facts, database = read_facts(connection), read_database(connection)
    if facts.adopted or facts.converted:
        raise PspError("the database is a semi-primary already", "join with an empty database")
    if database.tables or database.sequences:
        count = len(database.tables) + len(database.sequences)
        raise PspError(
            f"the database is not empty: it has {count} tables and sequences", "join with an empty database"
        )
    # Nothing is here yet, so these are the server's own errors: version, rights, encoding, dblink.
    problems = check_empty(connection, database, facts, mode)
    if has_errors(problems):
        worst = problems[0]
        raise PspError(f"{worst.object}: {worst.problem}", worst.hint)


def _check_locks(connection: psycopg.Connection[Any], database: Database) -> None:
    """Before the long part. The transaction has the schema by now, with a few locks for each table."""
    for problem in rules.room_for_locks(database, read_facts(connection)):
        if problem.severity == "error":
            raise PspError(problem.problem.replace("adoption", "a join", 1), problem.hint)


def _check_history(
    connection: psycopg.Connection[Any], primary_connection: psycopg.Connection[Any],
    member: MemberSchema | None, say: Say,
) -> None:  # fmt: skip
    """The joiner runs schema changes, and stops where a role or schema is missing. A job fails.

    Those that a member had run do not run here.
    """
    if member is not None:
        return
    history = primary_connection.execute(read_sql("primary/command/needs_of_history.sql")).fetchall()
    if history:
        _check_superuser(connection)
        say(
            "all schema changes since the adoption will run here, one by one, before the rows come: "
            "--schema-from DSN of a semi-primary starts from its schema"
        )
    here = {role for (role,) in connection.execute("SELECT rolname FROM pg_roles")}
    missing = [role for role, only_jobs, *_ in history if not only_jobs and role not in here]
    if missing:
        raise PspError(
            f"roles as which schema changes run do not exist here: {', '.join(missing)}",
            "CREATE ROLE, with their memberships and rights; what the cluster has dropped may go afterwards",
        )
    named = {role for *_, statements in history for text in statements for role in roles_named(text)}
    if named - here:
        raise PspError(
            f"roles that schema changes name do not exist here: {', '.join(sorted(named - here))}",
            "CREATE ROLE; what the cluster has dropped may go afterwards",
        )
    schemas = {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace")}
    unknown = sorted({name for *_, names, _ in history for name in names} - schemas)
    if unknown:
        raise PspError(
            f"schemas in the search_path of schema changes do not exist here: {', '.join(unknown)}",
            "CREATE SCHEMA, and GRANT USAGE on them to those who may use them at the other semi-primaries",
        )


def _check_superuser(connection: psycopg.Connection[Any]) -> None:
    if not read_facts(connection).superuser:
        raise PspError(
            "the cluster has had schema changes, which a database without event triggers cannot run",
            "join as a superuser; or release all semi-primaries, and adopt again",
        )


def _define_as_there(
    connection: psycopg.Connection[Any], rows: Sequence[tuple[Any, ...]], database: Database
) -> list[CapturedTable]:
    """The restored tables under the cluster's numbers. What was restored must be what the cluster has."""
    tables = {(table.schema, table.name): table for table in database.captured_tables}
    numbered = []
    for table_id, schema, name, *_, guards in rows:
        table = tables.pop((schema, name), None)
        if table is None:
            raise PspError(f"the restored schema has no table {schema}.{name}")
        guard_ids = {guard["index"]: guard["guard_id"] for guard in guards}
        if set(guard_ids) != {index.guard_name for index in table.guarded_indexes}:
            raise PspError(
                f"the restored table {table.label} has other unique indexes or exclusion constraints "
                "than the cluster's"
            )
        numbered.append((table, table_id, guard_ids))
    if tables:
        raise PspError(f"the cluster does not have the restored tables {sorted(tables)}")
    result = define_numbered(connection, numbered)
    for here, there in zip(connection.execute(TABLES).fetchall(), rows, strict=True):
        if here != there:
            raise PspError(f"the restored table {here[1]}.{here[2]} has other columns than the cluster's")
    return result
