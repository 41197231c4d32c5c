"""Makes the SQL of native mode for a semi-primary."""

from __future__ import annotations

from collections.abc import Iterable

from psp.schema.generate import CAPTURE_TEMPLATE, GUARD_FILES, CapturedTable, capture_templates, guard_sql

FIRST_FILES = (
    "semi_primary.sql",
    "owners.sql",
    "apply_functions.sql",
    "sequences.sql",
    "schema.sql",
    "replica_role.sql",
    "foreign_servers.sql",
    "hook_daemon.sql.j2",
    "hook_refusals.sql",
    "hook.sql.j2",
    "functions.sql.j2",
)
LAST_FILES = (
    "function_owner.sql",
    *GUARD_FILES,
    "grants.sql.j2",
    "daemon_role.sql",
)  # after everything else: schema changes are refused then


def native_sql(tables: Iterable[CapturedTable], dblink_schema: str) -> list[str]:
    """All of psp's SQL for a semi-primary but that of `closing_sql`, in the order to run it.

    `dblink_schema`: quoted, the schema that has the dblink extension.
    """
    environment = capture_templates()
    capture = environment.get_template(CAPTURE_TEMPLATE)
    result = [environment.get_template(name).render(dblink=dblink_schema) for name in FIRST_FILES]
    for captured_table in tables:
        result.append(guard_sql(captured_table))
        result.append(capture.render(captured_table.context))
    result.append(environment.get_template("unique_checks.sql").render())
    return result


def closing_sql(dblink_schema: str) -> list[str]:
    """Who owns the functions; the event triggers that refuse schema changes; then who may do what.

    `dblink_schema`: as for `native_sql`.
    """
    environment = capture_templates()
    return [environment.get_template(name).render(dblink=dblink_schema) for name in LAST_FILES]
