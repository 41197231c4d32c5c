"""Makes the SQL of native mode for a semi-primary."""

from __future__ import annotations

from psp.schema.generate import EVENT_TRIGGER_FILES, FACT_FILES, GUARD_FILES
from psp.schema.templates import sql_templates
from psp.sql_files import fact_views

OWN_FILES = ("roles.sql", "semi_primary.sql", "clients_out.sql", "conflicts.sql")
FIRST_FILES = (
    *FACT_FILES,
    "schema.sql",
    "module.sql",
    "replica_role.sql",
    "triggers_aside.sql",
    "foreign_servers.sql",
    "hook_daemon.sql.j2",
    "hook_refusals.sql",
    "hook.sql.j2",
    "functions.sql.j2",
    "tokens.sql.j2",
    "advisory_locks.sql",
    "certified_reads.sql",
    "capture.sql",
    "foreign_keys.sql",
    "create_capture.sql",
    "tables_in_doubt.sql",
    "changed_tables.sql",
    "rows_of_changes.sql",
    "follow_changes.sql",
    "tables_left.sql",
    "before_changes.sql",
    "hold_tables.sql",
    "truncate.sql",
    "queries.sql",
    "own_commands.sql",
    "strangers.sql",
    "temporary.sql",
    "reassigned.sql",
    "statement_settings.sql",
    "schema_history.sql",
    "requests.sql",
    "notify.sql",
    "jobs.sql",
    "leftovers.sql",
    "local_indexes.sql",
    "copied_indexes.sql",
    "set_aside.sql",
    "obstacles.sql",
    "own_names.sql",
    "meanings.sql",
    "plain_ddl.sql",
    "statement_text.sql",
)
RIGHTS_FILES = ("grants.sql.j2", "daemon_role.sql")


def first_sql(dblink_schema: str) -> list[str]:
    """What is there before the captured tables are known.

    `dblink_schema`: quoted, the schema that has the dblink extension.
    """
    return [*_rendered(OWN_FILES, dblink_schema), fact_views(), *_rendered(FIRST_FILES, dblink_schema)]


def closing_sql(dblink_schema: str, guarded: bool) -> list[str]:
    """Who owns the functions; the event triggers that refuse schema changes; then who may do what.

    `dblink_schema`: as for `first_sql`. `guarded`: with event triggers, which only a superuser can make.
    """
    event_triggers = ("plain_ddl_start.sql", *EVENT_TRIGGER_FILES) if guarded else ()
    return _rendered(("function_owner.sql", *GUARD_FILES, *event_triggers, *RIGHTS_FILES), dblink_schema)


def _rendered(files: tuple[str, ...], dblink_schema: str) -> list[str]:
    environment = sql_templates("native/install", "semi_primary/install")
    return [environment.get_template(name).render(dblink=dblink_schema) for name in files]
