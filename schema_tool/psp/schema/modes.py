"""The two capture modes, for adoption and joining: what stands in their way, their locks, their installation.

Native mode adds triggers to the tables (sql/native/install); views mode makes views of them (sql/views).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from psp.problems import Problem, sort
from psp.schema import rules
from psp.schema.generate import CapturedTable
from psp.schema.install import Identity
from psp.schema.model import Database, Mode, Stride
from psp.schema.native import install as native
from psp.schema.native import rules as native_rules
from psp.schema.native.capture import Capture, CaptureChoice, choose
from psp.schema.rights import missing_rights
from psp.schema.server import ServerFacts, read_facts
from psp.schema.views import convert as views

# The locks that installation takes: in native mode writers wait, in views mode readers too.
LOCK_MODES: dict[Mode, str] = {"native": "SHARE ROW EXCLUSIVE", "views": views.LOCK_MODE}


def check_rights(connection: psycopg.Connection[Any], mode: Mode) -> list[Problem]:
    """What the role lacks. With an error among it, nothing else may be readable."""
    if mode == "native":
        return missing_rights(connection)
    facts = read_facts(connection)
    return [] if facts.superuser else [rules.not_superuser(facts)]


def check(
    connection: psycopg.Connection[Any], database: Database, mode: Mode, slots: int, *,
    add_keys: bool = False, drop_foreign_keys: bool = False,
) -> list[Problem]:  # fmt: skip
    """All that stands in the way of adoption in that mode, errors first."""
    facts = read_facts(connection)
    lacking = check_rights(connection, mode)
    if mode == "native":
        return sort([*lacking, *native_rules.check(database, facts, slots, add_keys)])
    found = views.check(connection, database, drop_foreign_keys=drop_foreign_keys, add_keys=add_keys)
    return sort([*lacking, *rules.check_cluster(database, facts, slots), *found])


def check_empty(
    connection: psycopg.Connection[Any], database: Database, facts: ServerFacts, mode: Mode
) -> list[Problem]:
    """What is wrong with the server of an empty database that is to join."""
    lacking = check_rights(connection, mode)
    if mode == "native":
        return sort([*lacking, *native_rules.check(database, facts, slots=1, add_keys=False)])
    return [*lacking, *rules.check_cluster(database, facts, slots=1)]


def choose_capture(connection: psycopg.Connection[Any], mode: Mode, wanted: CaptureChoice) -> Capture:
    """What captures rows in that mode. PspError: the module is wanted and cannot be had."""
    return choose(connection, wanted) if mode == "native" else "sql"


def begin(connection: psycopg.Connection[Any], mode: Mode) -> None:
    """psp's schema, up to where psp.tables can be filled; in the caller's transaction, with its locks."""
    (native if mode == "native" else views).begin(connection)


def install(
    connection: psycopg.Connection[Any], mode: Mode, identity: Identity, tables: Iterable[CapturedTable],
    strides: Iterable[Stride],
) -> None:  # fmt: skip
    """The capture of the tables in psp.tables, after `begin`."""
    if mode == "native":
        native.install(connection, identity, tables, strides)
    else:
        views.install(connection, list(tables), identity, strides)
