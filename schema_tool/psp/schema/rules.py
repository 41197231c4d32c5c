"""What stands in the way of adoption, in the server, the tables and the sequences."""

from __future__ import annotations

from collections.abc import Iterator

from psp.problems import Problem
from psp.schema.model import LOCAL_OID_TYPES, Column, Database, Index, IndexColumn, Sequence, Table
from psp.schema.server import ServerFacts, too_new

SERVER_LOCAL_TYPES = frozenset({"oid", "xid", "cid", "tid", "xid8", "pg_lsn", "pg_snapshot", "txid_snapshot"})
"""Numbers that a server gives out: they travel, but mean nothing at another server."""

SEQUENCE_VALUES_MIN = 1000
"""Fewer values left for each SP than this, or than a tenth of all, are worth a warning."""
SEQUENCE_VALUES_PLENTY = 10**9
"""Of fewer values for each SP people should know how they are used up."""

LOCKS_OF_PSP, LOCKS_OF_TABLE, LOCKS_OF_INDEX, LOCKS_OF_SEQUENCE = 900, 20, 4, 3
"""What adoption and join lock in their one transaction, measured, and a third more for what was not."""
LOCKS_SURE = 0.7
"""This part of it is needed in any case."""


def check_cluster(database: Database, facts: ServerFacts, slots: int) -> list[Problem]:
    """What concerns server and sequences, in both modes."""
    sequences = (
        () if facts.adopted or facts.converted else database.sequences
    )  # else they have strides by now
    room = [] if facts.adopted or facts.converted else room_for_locks(database, facts)
    return [*_server(database, facts), *room, *(p for s in sequences for p in _sequence(s, slots))]


def locks_needed(database: Database) -> int:
    """How many locks adoption, or a join of these tables, takes in its one transaction: rather too many."""
    tables = database.captured_tables
    return (
        LOCKS_OF_PSP
        + LOCKS_OF_TABLE * sum(len(table.relations) for table in tables)
        + LOCKS_OF_INDEX * sum(len(table.indexes) for table in tables)
        + LOCKS_OF_SEQUENCE * len(database.sequences)
    )


def room_for_locks(database: Database, facts: ServerFacts) -> Iterator[Problem]:
    """PostgreSQL says `out of shared memory` after minutes of work where there is too little."""
    needed, room = locks_needed(database), facts.locks_per_transaction * facts.transactions_max
    if needed <= room:
        return
    setting = -(-needed // facts.transactions_max // 64) * 64  # rounded up
    yield Problem(
        "error" if needed * LOCKS_SURE > room else "warning", "the server",
        f"adoption locks up to {needed:,} objects at once, and the server has room for {room:,} locks",
        f"max_locks_per_transaction = {setting}, and a restart; the same at each server that is to join",
    )  # fmt: skip


def not_superuser(facts: ServerFacts) -> Problem:
    """Views mode needs one: it gives tables, views and functions away."""
    return Problem("error", f"role {facts.role}", "it is not a superuser",
                   "adopt as a superuser, or in native mode, which does without")  # fmt: skip


# ---- the server -------------------------------------------------------------------------------------------


def _server(database: Database, facts: ServerFacts) -> Iterator[Problem]:
    where = f"database {database.name}"
    newer = too_new(database.version)
    if newer is not None:
        yield newer
    if facts.converted:
        yield Problem("error", where, "the database is in views mode", "psp schema release takes it out")
    elif facts.adopted:
        yield Problem("error", where, "the database is under psp already", "psp schema release takes it out")
    for problem in facts.guard_problems:
        yield Problem("error", where, problem)
    for name in facts.subscriptions:
        yield Problem("error", f"subscription {name}", "it writes rows here that no other server would get",
                      "DROP SUBSCRIPTION; subscribe in another database, and write as a client")  # fmt: skip
    for name in facts.temporary_tables:
        yield Problem("error", f"temporary table {name}",
                      "it has a foreign key, or inherits from a permanent table: psp refuses both",
                      "end the session that has made it")  # fmt: skip
    if facts.default_isolation == "serializable":
        yield Problem("error", where, "default_transaction_isolation is serializable, which psp refuses",
                      "ALTER DATABASE … SET default_transaction_isolation (or psp.serializable) = "
                      "'repeatable read'")  # fmt: skip
    for role in facts.serializable_roles:
        yield Problem("error", f"role {role}",
                      "default_transaction_isolation is serializable, which psp refuses",
                      "ALTER ROLE … SET default_transaction_isolation (or psp.serializable) = "
                      "'repeatable read'")  # fmt: skip
    for gid in facts.prepared_transactions:
        yield Problem("error", f"prepared transaction {gid}", "it is pending and could never be certified",
                      "COMMIT PREPARED or ROLLBACK PREPARED it; psp refuses PREPARE TRANSACTION")  # fmt: skip
    if facts.prepared_transactions_max > 0:
        yield Problem("warning", where,
                      "a prepared transaction can lock rows that other servers have written, and only its "
                      "owner or a superuser can end it",
                      "max_prepared_transactions = 0: psp refuses to prepare what has written")  # fmt: skip
    if facts.large_objects:
        yield Problem("warning", where, f"{facts.large_objects} large objects stay local to this server",
                      "keep large values in bytea columns")  # fmt: skip
    for name in facts.event_triggers:
        yield Problem("note", f"event trigger {name}", "it will fire for adoption's own DDL, too")
    for name in facts.materialized_views:
        yield Problem("note", f"materialized view {name}",
                      "each SP refreshes it for itself; one that joins has none of its rows",
                      "psp schema refresh at each SP that has joined")  # fmt: skip
    tables = database.captured_tables
    rows, size = sum(t.rows_about for t in tables), sum(t.bytes for t in tables)
    yield Problem(
        "note", where, f"about {rows:,} rows to copy, {size / 2**20:,.1f} MiB, tables: {len(tables)}"
    )


# ---- tables -----------------------------------------------------------------------------------------------


def check_table(database: Database, table: Table, add_keys: bool) -> Iterator[Problem]:
    """Native mode: what is wrong with a table. With `add_keys` it needs no primary key if it can have one."""
    for trigger in table.triggers:
        if trigger.enabled in "AR" and trigger.deferrable:
            yield Problem("error", f"trigger {trigger.name} on {table.label}",
                          "deferrable, and ENABLE ALWAYS or REPLICA: it would run as the daemon's role",
                          f"ALTER TABLE … ENABLE TRIGGER {trigger.name}")  # fmt: skip
    if not table.is_captured:
        if table.kind == "f":
            yield Problem(
                "note", f"table {table.label}", "it is a foreign table: it stays local to this server"
            )
        else:
            yield Problem("warning", f"table {table.label}",
                          "it is unlogged: each server has rows of its own, and decides by them alone "
                          "(a leader that was elected, a lock)",
                          "ALTER TABLE … SET LOGGED, unless it is a cache")  # fmt: skip
        for key in table.foreign_keys:
            if key.table_oid == table.oid and database.is_captured(key.parent_oid):
                yield Problem("warning", f"foreign key {key.name} on {table.label}",
                              "rows that other servers delete leave their references in this local table",
                              "drop it, or make the table permanent")  # fmt: skip
        return
    yield from certification(table, add_keys)
    yield from _behaviour(table)
    yield from _foreign_keys(database, table)


def certification(table: Table, add_keys: bool) -> Iterator[Problem]:
    """What the primary needs of a captured table, in both modes."""
    yield from _primary_key(table, add_keys)
    for column in table.columns:
        yield from _column(table, column)
    for index in table.guarded_indexes:
        yield from _guard(table, index)
    yield from _structure(table)


def _primary_key(table: Table, add_keys: bool) -> Iterator[Problem]:
    where = f"table {table.label}"
    key = table.primary_key
    if key is None:
        if table.add_key is None:
            yield Problem("error", where,
                          "it has no primary key, and psp can add none: it has a column psp_key, or is "
                          "partitioned by what may be NULL",
                          "add a primary key")  # fmt: skip
        elif not add_keys:
            yield Problem("error", where, "it has no primary key",
                          "add one, or adopt with --add-keys, which adds a uuid column psp_key")  # fmt: skip
        return
    if key.exclusion:
        yield Problem("error", where,
                      "its primary key has WITHOUT OVERLAPS: rows are certified by equal keys, and periods "
                      "overlap without being equal",
                      "use another primary key, and UNIQUE (… WITHOUT OVERLAPS)")  # fmt: skip
        return
    for member in key.columns:
        if not member.may_be_key:
            yield _unequal_bytes(f"column {table.label}.{table.column(member.number).name}", member)


def _unequal_bytes(where: str, member: IndexColumn) -> Problem:
    if member.collation:
        return Problem(
            "error", where,
            f"a primary key with the nondeterministic collation {member.collation} "
            "has equal values of unequal bytes",
            "use a deterministic collation",
        )  # fmt: skip
    return Problem(
        "error", where,
        f"equal values of type {member.plain_name} may have different bytes, "
        "so it cannot be in a primary key",
        "use a key of another type, and keep this one as a unique index if needed",
    )  # fmt: skip


def _column(table: Table, column: Column) -> Iterator[Problem]:
    where = f"column {table.label}.{column.name}"
    for leaf in column.leaves:
        if leaf.is_builtin and leaf.name in LOCAL_OID_TYPES:
            yield Problem("error", where, f"type {leaf.name} holds OIDs, which differ between servers",
                          "store the name as text")  # fmt: skip
        elif leaf.kind in "bec" and not leaf.has_binary:
            yield Problem("error", where, f"type {leaf.name} has no binary send and receive functions",
                          "change the column's type, for example to text")  # fmt: skip
        elif leaf.is_builtin and leaf.name in SERVER_LOCAL_TYPES:
            yield Problem(
                "warning", where, f"a value of type {leaf.name} may mean something at this server only"
            )


def _guard(table: Table, index: Index) -> Iterator[Problem]:
    where = f"index {table.schema}.{index.name}"
    if index.whole_row:
        yield Problem("error", where, "it takes the whole row as one value",
                      "name the columns in the index's expression")  # fmt: skip
    for function in index.user_functions:
        yield Problem("warning", where,
                      f"{function} runs as the owner of {table.label}, a superuser, and its owner is none",
                      "ALTER FUNCTION … OWNER TO a superuser, or index another expression")  # fmt: skip
    if index.exclusion and not index.columns:
        yield Problem("warning", where,
                      "it compares no column by the equality of its type: concurrent transactions that "
                      "insert rows, or change what it compares, conflict",
                      "add a column WITH = (btree_gist has it for gist)")  # fmt: skip
    for member in index.columns:
        if member.normalise == "constant":
            yield Problem("warning", where,
                          f"no portable hash for {member.key_type}: concurrent "
                          "transactions that write any value of it conflict",
                          "drop the index, or index another expression")  # fmt: skip
        elif member.collation:
            yield Problem("warning", where, f"collation {member.collation} is nondeterministic",
                          "use the same ICU version at all servers")  # fmt: skip


def _structure(table: Table) -> Iterator[Problem]:
    for index in (*table.indexes, *table.partition_indexes):
        if not index.valid:
            yield Problem("error", f"index {table.schema}.{index.name}",
                          "it is unique and not valid: it may refuse rows here, and no other server has it",
                          "DROP INDEX, or REINDEX INDEX")  # fmt: skip
    if table.parents:
        yield Problem("error", f"table {table.label}", f"it inherits from {', '.join(table.parents)}",
                      "use declarative partitioning, or ALTER TABLE … NO INHERIT")  # fmt: skip
    for name in table.invalid_checks:
        yield Problem("warning", f"constraint {name} on {table.label}",
                      "it is not valid: a server that joins stops at the first row that breaks it",
                      "mend the rows and ALTER TABLE … VALIDATE CONSTRAINT, or drop it")  # fmt: skip
    for name in table.unsteady_checks:
        yield Problem("warning", f"constraint {name} on {table.label}",
                      "it asks for more than the row (the time, the user): it may be broken where and when a "
                      "committed row arrives, and that server stops applying",
                      "drop it, or let a trigger ask")  # fmt: skip
    foreign = [r for r in table.relations if r.kind == "f"]
    for relation in foreign:
        yield Problem("error", f"partition {relation.schema}.{relation.name}",
                      f"a foreign table is a partition of {table.label}", "detach it")  # fmt: skip


def _behaviour(table: Table) -> Iterator[Problem]:
    if not table.owner_writes:
        yield Problem("error", f"table {table.label}",
                      "its owner has no right to read and write it, and rows are applied as the owner",
                      "GRANT ALL ON … TO the owner, and USAGE on the schema")  # fmt: skip
    if table.row_security_forced:
        yield Problem("error", f"table {table.label}",
                      "FORCE ROW LEVEL SECURITY hides rows from its owner, and rows are applied as the owner",
                      "ALTER TABLE … NO FORCE ROW LEVEL SECURITY, or at each server: ALTER ROLE … BYPASSRLS",
                      )  # fmt: skip
    yield from _loud(table)


def _loud(table: Table) -> Iterator[Problem]:
    """What fires where rows of other servers are written, or should."""
    for trigger in table.triggers:
        if trigger.enabled not in "AR":
            if trigger.notifies and trigger.enabled == "O":
                yield Problem("warning", f"trigger {trigger.name} on {table.label}",
                              "it calls pg_notify, and fires where a row is written only: clients of other "
                              "servers hear nothing",
                              f"ALTER TABLE … ENABLE ALWAYS TRIGGER {trigger.name}, or psp.notify in its "
                              "function")  # fmt: skip
            continue
        kind = "ALWAYS" if trigger.enabled == "A" else "REPLICA"
        where = f"trigger {trigger.name} on {table.label}"
        if trigger.before_row or trigger.on_truncate:
            when = (
                "before each row: it could change rows of other servers"
                if trigger.before_row
                else "on TRUNCATE"
            )
            yield Problem("error", where, f"ENABLE {kind}, and it runs {when}",
                          f"ALTER TABLE … ENABLE TRIGGER {trigger.name}, or make it an AFTER trigger of rows",
                          )  # fmt: skip
        else:
            yield Problem("warning", where,
                          f"ENABLE {kind}: it fires for rows that arrive from other servers, too, and must "
                          "not write captured tables",
                          f"ALTER TABLE … ENABLE TRIGGER {trigger.name}, unless that is wanted")  # fmt: skip
    for name in table.loud_rules:
        yield Problem("error", f"rule {name} on {table.label}",
                      "ENABLE ALWAYS or REPLICA: it would change how rows of other servers are written",
                      f"ALTER TABLE … ENABLE RULE {name}")  # fmt: skip


def _foreign_keys(database: Database, table: Table) -> Iterator[Problem]:
    for key in table.foreign_keys:
        where = f"foreign key {key.name} on {table.label}"
        if key.table_oid not in {relation.oid for relation in table.relations}:
            continue
        if key.is_to_part:
            yield Problem("error", where, "it refers to what is unique in one partition only",
                          "make the unique index on the partitioned table")  # fmt: skip
        elif not database.is_captured(key.parent_oid):
            yield Problem("warning", where, "rows of the table that it refers to stay local to this server",
                          "drop it")  # fmt: skip
        elif key.is_coarse:
            yield Problem("warning", where,
                          "its columns have other types than those that it refers to: a transaction that "
                          "takes a row away there conflicts with concurrent ones that add one here",
                          "give the columns the same types")  # fmt: skip


# ---- sequences --------------------------------------------------------------------------------------------


def _sequence(sequence: Sequence, slots: int) -> Iterator[Problem]:
    where = f"sequence {sequence.label}"
    if sequence.cycle:
        yield Problem("error", where, "CYCLE would make servers draw the same numbers",
                      f"ALTER SEQUENCE {sequence.label} NO CYCLE")  # fmt: skip
    limit, begin = sequence.range if sequence.increment > 0 else sequence.range[::-1]
    left = (limit - sequence.base) // sequence.increment // slots
    everything = (limit - begin) // sequence.increment // slots
    larger = "ALTER SEQUENCE … AS bigint MAXVALUE …, and the column to bigint; or fewer --slots"
    if left < 1:
        yield Problem("error", where, f"its range is too small for {slots} servers", larger)
    elif left < max(SEQUENCE_VALUES_MIN, everything // 10):
        yield Problem("warning", where, f"only {left:,} values are left for each of {slots} servers", larger)
    elif everything < SEQUENCE_VALUES_PLENTY:
        # Rounded, so that the same is said of all integer columns, in one note.
        yield Problem(
            "note", where,
            f"each server draws every {slots}th number: of its about {everything / 1e6:,.1f} million, "
            "each INSERT takes one, also an INSERT … ON CONFLICT that inserts nothing",
            larger,
        )  # fmt: skip
