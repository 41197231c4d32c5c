"""Reads a live database's catalog into the model. Names come out qualified: search_path is emptied."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from psp.schema.model import (
    Column,
    Database,
    ForeignKey,
    Index,
    IndexColumn,
    Relation,
    Sequence,
    Table,
    Trigger,
    Type,
)
from psp.sql_files import read_sql_with_facts

Row = dict[str, Any]
ByTable = dict[int, list[Row]]


def read_database(connection: psycopg.Connection[Any]) -> Database:
    """The whole catalog, as the connection's current transaction sees it."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = ''")
        connection.execute("SET LOCAL jit = off")  # compiling these queries takes longer than running them
        return Database(
            name=connection.info.dbname,
            version=connection.info.server_version,
            tables=tuple(_tables(connection)),
            sequences=tuple(_sequences(connection)),
        )


def _rows(connection: psycopg.Connection[Any], file: str) -> list[Row]:
    """What a query of sql/catalog finds. Each leaves out system schemas, psp and extensions' objects."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(read_sql_with_facts(f"catalog/{file}")).fetchall()


def _grouped(rows: Iterable[Row], key: str = "table_oid") -> ByTable:
    groups: ByTable = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def _column(row: Row) -> Column:
    row = _without(row, "table_oid")
    return Column(**{**row, "leaves": tuple(Type(**leaf) for leaf in row["leaves"])})


def _tables(connection: psycopg.Connection[Any]) -> Iterable[Table]:
    relations = {row["oid"]: row for row in _rows(connection, "relations.sql")}
    columns = _grouped(_rows(connection, "columns.sql"))
    indexes = _indexes(connection)
    triggers = _grouped(_rows(connection, "triggers.sql"))
    foreign_keys = _foreign_keys(connection)
    for row in relations.values():
        if row["is_partition"]:
            continue
        tree = [oid for oid in row["tree"] if oid in relations]
        yield Table(
            oid=row["oid"],
            schema=row["schema"],
            name=row["name"],
            kind=row["kind"],
            persistence=row["persistence"],
            row_security_forced=row["row_security_forced"],
            owner_writes=row["owner_writes"],
            rows_about=sum(int(relations[oid]["rows_about"]) for oid in tree),
            bytes=sum(relations[oid]["bytes"] for oid in tree),
            parents=tuple(row["parents"]),
            relations=tuple(_relation(relations[oid]) for oid in tree),
            columns=tuple(map(_column, columns[row["oid"]])),
            indexes=tuple(indexes[row["oid"]]),
            partition_indexes=tuple(i for oid in tree if oid != row["oid"] for i in indexes[oid]),
            triggers=tuple(Trigger(**_without(t, "table_oid")) for oid in tree for t in triggers[oid]),
            foreign_keys=tuple(dict.fromkeys(key for oid in tree for key in foreign_keys[oid])),
            add_key=row["add_key"],
            unsteady_checks=tuple(row["unsteady_checks"]),
            invalid_checks=tuple(row["invalid_checks"]),
            loud_rules=tuple(sorted({name for oid in tree for name in relations[oid]["loud_rules"]})),
        )


def _foreign_keys(connection: psycopg.Connection[Any]) -> dict[int, list[ForeignKey]]:
    """By the tables at both ends. Asked for only if there are any: it takes long to plan the query."""
    any_sql = "SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' LIMIT 1"
    result: dict[int, list[ForeignKey]] = defaultdict(list)
    for row in _rows(connection, "foreign_keys.sql") if connection.execute(any_sql).rowcount else []:
        key = ForeignKey(**row)
        result[key.table_oid].append(key)
        result[key.parent_oid].append(key)
    return result


def _without(row: Row, key: str) -> Row:
    return {name: value for name, value in row.items() if name != key}


def _relation(row: Row) -> Relation:
    return Relation(row["oid"], row["schema"], row["name"], row["kind"])


def _indexes(connection: psycopg.Connection[Any]) -> dict[int, list[Index]]:
    columns = _grouped(_rows(connection, "index_columns.sql"), "index_oid")
    result: dict[int, list[Index]] = defaultdict(list)
    for row in _rows(connection, "indexes.sql"):
        members = tuple(IndexColumn(**_without(c, "index_oid")) for c in columns[row["oid"]])
        index = Index(**{**row, "user_functions": tuple(row["user_functions"]), "columns": members})
        result[index.table_oid].append(index)
    return result


def _sequences(connection: psycopg.Connection[Any]) -> Iterable[Sequence]:
    for row in _rows(connection, "sequences.sql"):
        state = sql.SQL("SELECT last_value, is_called FROM {}").format(
            sql.Identifier(row["schema"], row["name"])
        )
        position = connection.execute(state).fetchone()
        assert position is not None
        owner = row.pop("owner")
        yield Sequence(
            **row, last_value=position[0], is_called=position[1], owner=tuple(owner) if owner else None
        )
