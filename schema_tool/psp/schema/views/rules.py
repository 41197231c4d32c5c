"""What stands in the way of views mode. Every rule is run, so that people see everything at once."""

from __future__ import annotations

from collections.abc import Iterator

from psp.problems import Problem
from psp.schema.model import Table
from psp.schema.rules import certification
from psp.schema.views.catalog import Details

RESERVED = frozenset({"tx_id", "deleted", "global_t"})
"""Names of the columns that T_persistent and T_temp get. psp_… names are those of psp's functions."""


def check_table(table: Table, details: Details, drop_foreign_keys: bool, add_keys: bool) -> list[Problem]:
    """All problems of a captured table; warnings do not stand in the way."""
    return [
        *certification(table, add_keys),
        *_shape(table, details),
        *_behaviour(table, details),
        *_foreign_keys(details, table, drop_foreign_keys),
    ]


def _shape(table: Table, details: Details) -> Iterator[Problem]:
    where = f"table {table.label}"
    if table.kind == "p":
        yield Problem("error", where, "it is partitioned", "use native mode for this database")
    for name in sorted(c.name for c in table.columns if c.name in RESERVED or c.name.startswith("psp_")):
        yield Problem("error", f"column {table.label}.{name}", "psp needs the name itself", "rename it")
    for name in details.bad_names:
        yield Problem(
            "error", where, f"{name} is too long for a name, or there already", "rename one of them"
        )
    for index in table.indexes:
        if index.exclusion:
            yield Problem("error", f"constraint {index.name} on {table.label}",
                          "it would exclude deleted rows, too", "drop it, or use native mode")  # fmt: skip
    key = table.primary_key
    if key is None:
        return
    if key.deferrable:
        yield Problem("error", where, "its primary key is deferrable", "make it NOT DEFERRABLE")
    if any(table.column(member.number).generated for member in key.columns):
        yield Problem("error", where, "a column of its primary key is generated", "use native mode")


def _behaviour(table: Table, details: Details) -> Iterator[Problem]:
    for trigger in table.triggers:
        yield Problem("error", f"trigger {trigger.name} on {table.label}",
                      "triggers do not fire in views mode", "drop it, or use native mode")  # fmt: skip
    for rule in details.rules:
        yield Problem("error", f"rule {rule} on {table.label}", "rules of the table would be lost", "drop it")
    if details.row_security:
        yield Problem("error", f"table {table.label}", "row-level security does not reach through the views",
                      "ALTER TABLE … DISABLE ROW LEVEL SECURITY, or use native mode")  # fmt: skip
    for check in details.checks:
        if any(number <= 0 for number in check.columns):
            yield Problem("error", f"constraint {check.name} on {table.label}",
                          "it names the whole row, or one of PostgreSQL's own columns",
                          "name the table's columns")  # fmt: skip
    for name in details.dependents:
        yield Problem("error", name, f"it would go on reading {table.label}_persistent, with deleted rows",
                      "drop it, and create it again after conversion")  # fmt: skip
    for name in details.row_columns:
        yield Problem("error", f"column {name}", f"its type is made of rows of {table.label}",
                      "give it a composite type of its own (CREATE TYPE … AS)")  # fmt: skip
    for name in details.publications:
        yield Problem("error", f"publication {name}",
                      f"it would publish {table.label}_persistent, with deleted rows",
                      "take the table out of the publication, or use native mode")  # fmt: skip


def _foreign_keys(details: Details, table: Table, drop: bool) -> Iterator[Problem]:
    hint = "release brings it back" if drop else "convert with --drop-foreign-keys, or use native mode"
    for key in details.foreign_keys:
        yield Problem("warning" if drop else "error", f"foreign key {key.name} on {table.label}",
                      "foreign keys are not checked in views mode", hint)  # fmt: skip
    for name in details.local_keys:
        yield Problem("error", f"foreign key {name}",
                      f"it would look at {table.label}_persistent: at deleted rows, not at own ones",
                      "drop it, or use native mode")  # fmt: skip
