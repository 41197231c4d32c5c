"""Puts a live database into views mode, in one transaction: it finishes or leaves the database as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from psp.output import PspError
from psp.problems import Problem, RefusedError, has_errors
from psp.schema import locks
from psp.schema.catalog import read_database
from psp.schema.generate import TEXT_SETTINGS, CapturedTable, define_tables
from psp.schema.install import Identity, identify, run_script
from psp.schema.keys import quote
from psp.schema.model import Database, Stride
from psp.schema.rules import not_superuser
from psp.schema.server import read_facts, refuse_version
from psp.schema.views.catalog import Check, Grant, Unique, read_details, read_schema
from psp.schema.views.checks import bring_back, constraints, may_be_broken, spare_tombstones
from psp.schema.views.generate import (
    VARIANTS,
    ConvertedTable,
    closing_sql,
    first_sql,
    index_columns,
    table_sql,
    variant_schema,
)
from psp.schema.views.rules import check_table
from psp.sessions import open_session

LOCK_MODE = "ACCESS EXCLUSIVE"
_CANNOT = "the database cannot be converted"


@dataclass(frozen=True)
class Options:
    drop_foreign_keys: bool = False
    lock_wait_s: float = 60.0


def convert(dsn: str, options: Options, say: locks.Say) -> list[Problem]:
    """Converts a database of no cluster; returns warnings. On an exception nothing has changed.

    RefusedError: the database cannot be converted as it is.
    """
    with open_session(dsn) as connection:
        refuse_version(connection)
        facts = read_facts(connection)
        if not facts.superuser:
            raise RefusedError(_CANNOT, [not_superuser(facts)])
        if facts.adopted or facts.converted:
            raise PspError("the database is under psp already", "psp schema release takes it out")
        tables = read_database(connection).captured_tables
        connection.rollback()
        warnings: list[Problem] = []

        def work() -> None:
            warnings[:] = _convert(connection, options)
            connection.commit()

        locks.retry_while_locked(connection, tables, LOCK_MODE, options.lock_wait_s, say, work)
        return warnings


def _convert(connection: psycopg.Connection[Any], options: Options) -> list[Problem]:
    run_script(connection, TEXT_SETTINGS)
    locks.lock(connection, read_database(connection).captured_tables, LOCK_MODE)
    database = read_database(connection)
    problems = check(connection, database, drop_foreign_keys=options.drop_foreign_keys)
    if has_errors(problems):
        raise RefusedError(_CANNOT, problems)
    begin(connection)
    install(connection, define_tables(connection, database))
    return problems


def check(
    connection: psycopg.Connection[Any],
    database: Database,
    *,
    drop_foreign_keys: bool,
    add_keys: bool = False,
) -> list[Problem]:
    """What stands in the way of conversion. With `add_keys`, tables will get primary keys."""
    problems = [
        problem
        for table in database.captured_tables
        for problem in check_table(table, read_details(connection, table), drop_foreign_keys, add_keys)
    ]
    for schema in sorted({table.schema for table in database.captured_tables}):
        problems += _check_variant_schemas(connection, schema)
    return problems


def begin(connection: psycopg.Connection[Any]) -> None:
    """The psp schema, before psp.tables is filled."""
    run_script(connection, TEXT_SETTINGS)
    connection.execute("SET LOCAL client_min_messages = warning")
    for script in first_sql():
        run_script(connection, script)


def install(
    connection: psycopg.Connection[Any], captured: list[CapturedTable], identity: Identity | None = None,
    strides: Iterable[Stride] = (),
) -> None:  # fmt: skip
    """Makes views of the tables, in the caller's transaction. Without an identity: of no cluster."""
    locks.lock(connection, [table.table for table in captured], LOCK_MODE)
    tables = [ConvertedTable(table, read_details(connection, table.table)) for table in captured]
    if identity is not None:
        identify(connection, identity, strides)
    _create_variant_schemas(connection, {table.schema for table in tables})
    # Foreign keys first: they stand on other tables' unique indexes.
    for table in tables:
        _drop_foreign_keys(connection, table)
    for table in tables:
        _convert_table(connection, table)
    _store_undo(connection, tables)
    connection.execute(
        "SELECT psp.create_apply_functions(%s::integer[], %s::text[])",
        ([t.captured.table_id for t in tables], [t.captured.facts["search_path"] for t in tables]),
    )
    for table in tables:
        connection.execute(
            "SELECT psp.create_guards(%s, %s)",
            (Jsonb(table.captured.facts), table.qualified(table.persistent_name)),
        )
    for script in closing_sql(tables, in_cluster=identity is not None):
        run_script(connection, script)


def _check_variant_schemas(connection: psycopg.Connection[Any], schema: str) -> list[Problem]:
    names = [variant_schema(schema, variant) for variant in VARIANTS[1:]]
    found = connection.execute(
        "SELECT s FROM unnest(%s::text[]) s WHERE octet_length(s) > 63 "
        "OR to_regnamespace(quote_ident(s)) IS NOT NULL",
        (names,),
    ).fetchall()
    what = "it is too long for a name, or there already"
    return [Problem("error", f"schema {name}", what, "rename it") for (name,) in found]


def _create_variant_schemas(connection: psycopg.Connection[Any], schemas: set[str]) -> None:
    for schema in sorted(schemas):
        for variant in VARIANTS[1:]:
            name = variant_schema(schema, variant)
            _create_schema(connection, name, *read_schema(connection, schema))
            connection.execute(
                "INSERT INTO psp.variant_schemas (schema_name, variant, variant_schema) VALUES (%s, %s, %s)",
                (schema, variant, name),
            )


def _create_schema(connection: psycopg.Connection[Any], name: str, owner: str, grants: list[Grant]) -> None:
    """As open as the application's own: the views have the table's rights, which need USAGE of the schema."""
    run_script(connection, f"CREATE SCHEMA {quote(name)} AUTHORIZATION {quote(owner)}")
    for given in read_schema(connection, name)[1]:  # by ALTER DEFAULT PRIVILEGES
        run_script(connection, f"REVOKE ALL ON SCHEMA {quote(name)} FROM {_role(given.grantee)}")
    for grant in grants:
        if grant.privilege == "USAGE":
            run_script(connection, _grant(f"SCHEMA {quote(name)}", grant))


def _drop_foreign_keys(connection: psycopg.Connection[Any], table: ConvertedTable) -> None:
    for key in table.details.foreign_keys:
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                sql.Identifier(table.schema, table.name), sql.Identifier(key.name)
            )
        )


def _convert_table(connection: psycopg.Connection[Any], table: ConvertedTable) -> None:
    original = table.qualified(table.name)
    persistent = table.qualified(table.persistent_name)
    asked = constraints(connection, table.captured.table, table.details)
    for unique in table.details.uniques:
        if unique.replica_identity:  # the primary key is one, an index that is gone is none
            run_script(connection, f"ALTER TABLE {original} REPLICA IDENTITY DEFAULT")
        what = "ALTER TABLE {0} DROP CONSTRAINT {1}" if unique.constraint_name else "DROP INDEX {2}"
        name = quote(unique.constraint_name or unique.name)
        run_script(connection, what.format(original, name, table.qualified(unique.name)))
    run_script(
        connection,
        f"ALTER TABLE {original} ADD COLUMN deleted pg_catalog.bool NOT NULL DEFAULT false, "
        "ADD COLUMN global_t pg_catalog.int8 NOT NULL DEFAULT 0;\n"
        f"ALTER TABLE {original} RENAME TO {quote(table.persistent_name)}",
    )
    for column in _always(table):
        run_script(connection, f"ALTER TABLE {persistent} ALTER COLUMN {column} SET GENERATED BY DEFAULT")
    for check in _loose_checks(table):
        run_script(connection, spare_tombstones(persistent, check))
    predicates = {index.name: index.predicate for index in table.captured.table.guarded_indexes}
    nulls = {index.name for index in table.captured.table.guarded_indexes if index.nulls_not_distinct}
    for unique in table.details.uniques:
        run_script(connection, _partial(persistent, unique, predicates[unique.name], unique.name in nulls))
    run_script(connection, table_sql(table, asked))
    for view in table.views.values():
        _only(connection, view, table.details.owner, table.details.grants)
    _only(connection, table.qualified(table.temp_name), table.details.owner, [])
    _only(connection, persistent, table.details.owner, [])
    connection.execute(
        "INSERT INTO psp.converted_tables (table_id, schema_name, table_name, persistent, temp) "
        "VALUES (%s, %s, %s, %s, %s)",
        (table.captured.table_id, table.schema, table.name, table.persistent_name, table.temp_name),
    )
    connection.execute(
        "UPDATE psp.tables SET persistent = %s WHERE table_id = %s",
        (table.persistent_name, table.captured.table_id),
    )


def _always(table: ConvertedTable) -> list[str]:
    """Identity columns GENERATED ALWAYS, quoted: applying must be able to set them, in updates too."""
    return [quote(column.name) for column in table.captured.table.columns if column.identity == "a"]


def _loose_checks(table: ConvertedTable) -> list[Check]:
    return [check for check in table.details.checks if may_be_broken(table.captured.table, check)]


def _partial(persistent: str, unique: Unique, predicate: str | None, nulls_not_distinct: bool) -> str:
    """Tombstones keep no unique value."""
    where = "NOT deleted" + (f" AND ({predicate})" if predicate else "")
    nulls = " NULLS NOT DISTINCT" if nulls_not_distinct else ""
    return (
        f"CREATE UNIQUE INDEX {quote(unique.name)} ON {persistent} "
        f"({index_columns(unique.index_definition)}){nulls} WHERE {where}"
    )


def _only(connection: psycopg.Connection[Any], relation: str, owner: str, grants: Iterable[Grant]) -> None:
    """Takes from everybody but the owner what they may do with a relation, then gives `grants`."""
    rows = connection.execute(
        "SELECT DISTINCT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_get_userbyid(a.grantee)::text END "
        "FROM (SELECT relacl FROM pg_class WHERE oid = %(name)s::regclass UNION ALL "
        "      SELECT attacl FROM pg_attribute WHERE attrelid = %(name)s::regclass) r(acl), "
        "     aclexplode(r.acl) a",
        {"name": relation},
    ).fetchall()
    for (grantee,) in rows:
        if grantee != owner:
            run_script(connection, f"REVOKE ALL ON {relation} FROM {_role(grantee)}")
    for grant in grants:
        run_script(connection, _grant(relation, grant))


def _role(name: str | None) -> str:
    return "PUBLIC" if name is None else quote(name)


def _grant(relation: str, grant: Grant) -> str:
    column = f" ({quote(grant.column)})" if grant.column else ""
    option = " WITH GRANT OPTION" if grant.grantable else ""
    return f"GRANT {grant.privilege}{column} ON {relation} TO {_role(grant.grantee)}{option}"


# ---- what release does ------------------------------------------------------------------------------------


def _store_undo(connection: psycopg.Connection[Any], tables: list[ConvertedTable]) -> None:
    statements = [statement for table in tables for statement in _undo(table)]
    # Last: they stand on unique indexes.
    statements += [statement for table in tables for statement in _undo_foreign_keys(table)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO psp.undo (statement) VALUES (%s)", [(s,) for s in statements])


def _undo(table: ConvertedTable) -> list[str]:
    original = table.qualified(table.name)
    statements = [
        f"ALTER TABLE {original} ALTER COLUMN {column} SET GENERATED ALWAYS" for column in _always(table)
    ]
    for check in _loose_checks(table):  # psp's went with the column that they name
        statements.append(bring_back(original, check))
        statements += _comment(f"CONSTRAINT {quote(check.name)} ON {original}", check.comment)
    for unique in table.details.uniques:
        if unique.constraint_name:
            name = quote(unique.constraint_name)
            statements.append(f"ALTER TABLE {original} ADD CONSTRAINT {name} {unique.constraint_definition}")
            commented = f"CONSTRAINT {name} ON {original}"
        else:
            statements.append(unique.index_definition)
            commented = f"INDEX {table.qualified(unique.name)}"
        statements += _comment(commented, unique.comment)
        if unique.replica_identity:
            statements.append(f"ALTER TABLE {original} REPLICA IDENTITY USING INDEX {quote(unique.name)}")
        if unique.clustered:
            statements.append(f"ALTER TABLE {original} CLUSTER ON {quote(unique.name)}")
    return statements + [_grant(original, grant) for grant in table.details.grants]


def _undo_foreign_keys(table: ConvertedTable) -> list[str]:
    original = table.qualified(table.name)
    statements = []
    for key in table.details.foreign_keys:
        statements.append(f"ALTER TABLE {original} ADD CONSTRAINT {quote(key.name)} {key.definition}")
        statements += _comment(f"CONSTRAINT {quote(key.name)} ON {original}", key.comment)
    return statements


def _comment(what: str, text: str | None) -> list[str]:
    return [] if text is None else [f"COMMENT ON {what} IS {sql.Literal(text).as_string(None)}"]
