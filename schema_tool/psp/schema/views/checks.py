"""NOT NULL and CHECK in views mode: asked by the triggers' functions, with PostgreSQL's messages about T.

On T_temp itself they would name T_temp, and show the whole row to each role that writes.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from psp.schema.install import run_script
from psp.schema.keys import quote
from psp.schema.model import Table
from psp.schema.templates import dollar_quote
from psp.schema.views.catalog import Check, Details

_CONDITION = re.compile(r" SELECT (.*) AS psp_ok\s+FROM \(", re.DOTALL)


def may_be_broken(table: Table, check: Check) -> bool:
    """Whether rows of the table may break it: they must become tombstones all the same."""
    return not check.valid or check.name in table.unsteady_checks


def constraints(connection: psycopg.Connection[Any], table: Table, details: Details) -> dict[str, Any]:
    """What sql/views/install/table.sql.j2 needs to know. T must have its columns only, and be called T.

    Of generated columns the triggers' functions know the values after the write.
    """
    generated = {column.number for column in table.columns if column.generated}
    nulls = [column for column in table.columns if column.not_null]
    late = [check for check in details.checks if generated & set(check.columns)]
    return {
        "before": {
            "not_null": [column.name for column in nulls if not column.generated],
            "checks": [_condition(connection, table, check) for check in details.checks if check not in late],
        },
        "after": {
            "not_null": [column.name for column in nulls if column.generated],
            "checks": [_condition(connection, table, check) for check in late],
        },
    }


def spare_tombstones(persistent: str, check: Check) -> str:
    """SQL: T_persistent's CHECK lets tombstones break it."""
    name = quote(check.name)
    return (
        f"ALTER TABLE {persistent} DROP CONSTRAINT {name}, "
        f"ADD CONSTRAINT {name} CHECK (deleted OR ({check.expression})) NOT VALID"
    )


def bring_back(original: str, check: Check) -> str:
    """SQL: the CHECK as it was, on the table again. NOT VALID if rows break it by now."""
    add = f"ALTER TABLE {original} ADD CONSTRAINT {quote(check.name)} {check.definition}"
    if not check.valid:
        return add
    block = f"BEGIN {add}; EXCEPTION WHEN check_violation THEN {add} NOT VALID; END"
    return f"DO {dollar_quote(block)} {block} {dollar_quote(block)}"


def _condition(connection: psycopg.Connection[Any], table: Table, check: Check) -> dict[str, str]:
    """Of two tables PostgreSQL names the columns by their table: psp_row, as the triggers call NEW."""
    target = f"{quote(table.schema)}.{quote(table.name)}"
    run_script(
        connection,
        f"CREATE TEMPORARY VIEW psp_check AS SELECT ({check.expression}) AS psp_ok "
        f"FROM {target} AS psp_row CROSS JOIN (SELECT) AS psp_nothing",
    )
    row = connection.execute("SELECT pg_get_viewdef('pg_temp.psp_check'::regclass)").fetchone()
    run_script(connection, "DROP VIEW pg_temp.psp_check")
    found = _CONDITION.match(row[0]) if row else None
    assert found is not None, row
    return {"name": check.name, "condition": found[1]}
