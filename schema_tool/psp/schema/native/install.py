"""Installs psp in native mode, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from psp.mrv.ring import prefer_own_part
from psp.schema.generate import CapturedTable
from psp.schema.install import Identity, identify, run_script
from psp.schema.model import Stride
from psp.schema.native.generate import closing_sql, first_sql
from psp.schema.server import read_facts


def begin(connection: psycopg.Connection[Any]) -> None:
    """Creates psp: what it must have before psp.tables can be filled."""
    dblink_schema = read_facts(connection).dblink_schema
    connection.execute("SET LOCAL client_min_messages = warning")
    connection.execute("SET LOCAL search_path = ''")  # so that nothing of the user's is found by a bare name
    connection.execute("CREATE SCHEMA psp")
    if dblink_schema is None:
        dblink_schema = "psp"
        connection.execute("CREATE EXTENSION dblink SCHEMA psp")
    for script in first_sql(dblink_schema):
        run_script(connection, script)


def install(
    connection: psycopg.Connection[Any], identity: Identity, tables: Iterable[CapturedTable],
    strides: Iterable[Stride],
) -> None:  # fmt: skip
    """Puts capture on the tables in psp.tables, and the guard on the database."""
    facts = read_facts(connection)
    assert facts.dblink_schema is not None, "begin was not called"
    identify(connection, identity, strides)
    connection.execute("SELECT psp.install_commit(), psp.capture_requests(), psp.capture_notifications()")
    captured = [Jsonb(table.facts) for table in tables]
    connection.execute("SELECT psp.install_capture(%s::jsonb[])", (captured,))
    prefer_own_part(connection, identity.sp_id, identity.slots)
    for script in closing_sql(facts.dblink_schema, facts.superuser):
        run_script(connection, script)
