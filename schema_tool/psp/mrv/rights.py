"""Who owns and may use what an MRV consists of: as it was with the table."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql

from psp.mrv.changes import Changes
from psp.mrv.facts import Grant, Mrv, TableFacts, find_table, read_facts
from psp.mrv.generate import FUNCTIONS, READERS, TRIGGERS, WRITERS, prefix

_PUBLIC = sql.SQL("PUBLIC")


def give(changes: Changes, base: TableFacts, table: TableFacts, mrv: Mrv, *, is_new: bool) -> None:
    """Owners and grants. `table`: what applications have rights on, the table as it was, or the view."""
    owner = sql.Identifier(base.owner)
    changes.add(sql.SQL("GRANT USAGE ON SCHEMA psp_mrv, psp_mrv_view TO {}").format(owner))
    _own(changes, "TABLE", sql.Identifier("psp_mrv", mrv.records_table), owner)
    functions = [sql.Identifier("psp_mrv", f"{mrv.records_table}_{name}") for name in FUNCTIONS]
    functions += [
        sql.Identifier("psp_mrv", f"{prefix(mrv.schema_name, mrv.table_name)}_{name}") for name in TRIGGERS
    ]
    for function in functions:
        changes.add(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(function))
        _own(changes, "FUNCTION", function, owner)
    _own(changes, "FUNCTION", sql.Identifier("psp_mrv_view", f"{mrv.records_table}_sum"), owner)
    _give_functions(changes, mrv, table.grants, base.owner)
    if is_new:
        view = sql.Identifier(mrv.schema_name, mrv.table_name)
        _own(changes, "VIEW", view, owner)
        copy_grants(changes, view, table, mrv.schema_name, mrv.table_name)
        _copy_comments(changes, view, table)
    changes.run()


def _own(changes: Changes, kind: str, name: sql.Identifier, owner: sql.Identifier) -> None:
    changes.add(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(kind), name, owner))


def _give_functions(changes: Changes, mrv: Mrv, grants: Iterable[Grant], owner: str) -> None:
    """The right to read or update the column is the right to call the functions that do so."""
    for grant in grants:
        names = {"SELECT": READERS, "UPDATE": WRITERS}.get(grant.privilege, ())
        if grant.grantee == owner or grant.column not in (None, mrv.column_name) or not names:
            continue
        grantee = _grantee(grant)
        changes.add(sql.SQL("GRANT USAGE ON SCHEMA psp_mrv TO {}").format(grantee))
        for name in names:
            changes.add(
                sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(
                    sql.Identifier("psp_mrv", f"{mrv.records_table}_{name}"), grantee
                )
            )


def copy_grants(changes: Changes, target: sql.Identifier, source: TableFacts, schema: str, name: str) -> None:
    """Gives a table or view the same privileges as `source` has, and no others."""
    changes.run()
    present = read_facts(changes.connection, find_table(changes.connection, schema, name))
    if _comparable(present.grants) == _comparable(source.grants):
        return
    for grant in present.grants:
        changes.add(_statement("REVOKE", grant, target))
    for grant in source.grants:
        changes.add(_statement("GRANT", grant, target))


def _comparable(grants: list[Grant]) -> set[Grant]:
    return set(grants)


def _statement(verb: str, grant: Grant, target: sql.Identifier) -> sql.Composed:
    columns = sql.SQL(" ({})").format(sql.Identifier(grant.column)) if grant.column else sql.SQL("")
    return sql.SQL("{} {}{} ON {} {} {}{}").format(
        sql.SQL(verb), sql.SQL(grant.privilege), columns, target,
        sql.SQL("TO" if verb == "GRANT" else "FROM"), _grantee(grant),
        sql.SQL(" WITH GRANT OPTION" if grant.grantable and verb == "GRANT" else ""),
    )  # fmt: skip


def _grantee(grant: Grant) -> sql.Composable:
    return _PUBLIC if grant.grantee is None else sql.Identifier(grant.grantee)


def _copy_comments(changes: Changes, view: sql.Identifier, table: TableFacts) -> None:
    if table.comment is not None:
        changes.add(sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(table.comment)))
    for column in table.columns:
        if column.comment is not None:
            changes.add(
                sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
                    view, sql.Identifier(column.name), sql.Literal(column.comment)
                )
            )
