"""Installs psp in native mode, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from psp.mrv.ring import prefer_own_part
from psp.schema.generate import CapturedTable
from psp.schema.install import Identity, create_apply_functions, identify, run_script, store_tables
from psp.schema.model import Stride
from psp.schema.native.generate import closing_sql, native_sql


def install(
    connection: psycopg.Connection[Any],
    identity: Identity,
    tables: Iterable[CapturedTable],
    strides: Iterable[Stride],
    dblink_schema: str | None,
) -> None:
    """Creates psp and puts capture on the tables. `dblink_schema`: quoted, where the extension is already."""
    tables = list(tables)
    connection.execute("SET LOCAL client_min_messages = warning")
    connection.execute("SET LOCAL search_path = ''")  # so that nothing of the user's is found by a bare name
    connection.execute("CREATE SCHEMA psp")
    if dblink_schema is None:
        dblink_schema = "psp"
        connection.execute("CREATE EXTENSION dblink SCHEMA psp")
    for script in native_sql(tables, dblink_schema):
        run_script(connection, script)
    identify(connection, identity, strides)
    store_tables(connection, tables)
    create_apply_functions(connection)
    prefer_own_part(connection, identity.sp_id, identity.slots)
    for script in closing_sql(dblink_schema):
        run_script(connection, script)
