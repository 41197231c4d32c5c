"""What stands in the way of making a column an MRV, all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from psp.mrv.facts import Check, Column, TableFacts
from psp.mrv.generate import INTEGERS, NUMERIC_TYPES
from psp.problems import Problem

_CASTS = re.compile(r"::[a-z ]+(\(\d+(,-?\d+)?\))?")
_BOUND = re.compile(
    r"""\(*("(?:[^"]|"")+"|\w+)\)* *(?P<operator>>=?) *[('"]*(?P<number>-?\d+(\.\d+)?)[)']*"""
)


@dataclass(frozen=True)
class Bound:
    """A lower bound that a CHECK constraint states."""

    value: Decimal
    constraint: str
    oid: int


def bounds_in_checks(facts: TableFacts, column: Column) -> list[Bound]:
    """The CHECK constraints of the form column >= number; for integers also column > number."""
    found = [_bound(check, column) for check in facts.checks if check.columns == [column.number]]
    return [bound for bound in found if bound is not None]


def _bound(check: Check, column: Column) -> Bound | None:
    match = _BOUND.fullmatch(_CASTS.sub("", check.expression))
    if match is None or not check.valid:
        return None
    value = Decimal(match["number"])
    if match["operator"] == ">":
        if column.base_type not in INTEGERS or value != int(value):
            return None
        value += 1
    return Bound(value, check.name, check.oid)


def _error(where: str, problem: str, hint: str) -> Problem:
    return Problem("error", where, problem, hint)


def check_table(facts: TableFacts) -> Iterator[Problem]:
    """Of the table as a whole."""
    where = f"table {facts.label}"
    if facts.kind != "r" or facts.inherits:
        yield _error(where, "it is partitioned, foreign, a view, or part of an inheritance",
                      "MRVs are for ordinary tables")  # fmt: skip
    if facts.persistence != "p":
        yield _error(where, "it is temporary or unlogged", "ALTER TABLE … SET LOGGED")
    if not facts.key:
        yield _error(where, "it has no primary key, or a deferrable one", "ALTER TABLE … ADD PRIMARY KEY")
    if facts.row_security:
        yield _error(where, "it has row level security, which a view does not inherit",
                      "drop its policies, or keep the column in a table of its own")  # fmt: skip
    if facts.published:
        yield _error(where, "it is published: subscribers would miss what stands in records",
                      "take it out of the publication")  # fmt: skip
    for dependent in facts.dependents:
        if dependent.class_ == "pg_rewrite":
            yield _error(dependent.view or dependent.text, f"it would read the renamed {facts.name}",
                          "drop it, and create it again afterwards")  # fmt: skip
        elif dependent.class_ in ("pg_proc", "pg_class", "pg_constraint") and dependent.column == 0:
            yield _error(dependent.text, f"it uses the table {facts.name} or its row type",
                          "drop it, and create it again afterwards")  # fmt: skip


def check_column(facts: TableFacts, column: Column, bound: Bound | None) -> Iterator[Problem]:
    """Of the column; `bound` is the constraint that becomes its lower bound."""
    where = f"column {facts.label}.{column.name}"
    if column.base_type not in NUMERIC_TYPES:
        yield _error(where, f"its type {column.type} is not a number",
                      "smallint, integer, bigint, numeric, real or double precision")  # fmt: skip
    if column.generated or column.identity:
        yield _error(where, "it is a generated or an identity column", "choose another column")
    if column.number in {key.number for key in facts.key}:
        yield _error(where, "it is part of the primary key", "choose another column")
    for dependent in facts.dependents:
        if dependent.column != column.number or dependent.own_default or dependent.class_ == "pg_rewrite":
            continue
        if bound is not None and dependent.class_ == "pg_constraint" and dependent.oid == bound.oid:
            continue
        yield _error(dependent.text, f"it depends on {column.name}, which will not stand in one place",
                      "drop it; a constraint column >= number becomes the lower bound")  # fmt: skip
    for trigger in facts.triggers:
        if trigger.on_update and (not trigger.columns or column.number in trigger.columns):
            yield _error(f"trigger {trigger.name}", f"it would not fire for {column.name} in records",
                          "name other columns: UPDATE OF …, or drop it")  # fmt: skip
