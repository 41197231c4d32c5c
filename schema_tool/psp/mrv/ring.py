"""A semi-primary's own part of the ring of records (sql/mrv/README.md): settings of its database."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from psp.mrv.facts import is_installed
from psp.sql_files import constant

_BITS = 16
_SETTINGS = ("psp_mrv.ring_first", "psp_mrv.ring_count")


def part(sp_id: int, slots: int) -> tuple[int, int]:
    """First place and number of places of SP sp_id (from 1).

    Parts are given out in the order of records, van der Corput's: with any number of slots, the first n
    records of a value stand in the parts of the first n semi-primaries.
    """
    parts = 1 << (slots - 1).bit_length()
    first = int(f"{sp_id - 1:0{_BITS}b}"[::-1], 2)
    return first, constant("RING_PLACES") // parts


def prefer_own_part(connection: psycopg.Connection[Any], sp_id: int, slots: int) -> None:
    """For sessions that begin later. Also without MRVs: they may be made in the running cluster."""
    values = zip(_SETTINGS, part(sp_id, slots), strict=True)
    _alter(connection, [(sql.SQL("SET {} = {}"), name, sql.Literal(value)) for name, value in values])


def forget_part(connection: psycopg.Connection[Any]) -> None:
    """A plain database again: all of the ring."""
    _alter(connection, [(sql.SQL("RESET {}"), name) for name in _SETTINGS])


def _alter(connection: psycopg.Connection[Any], changes: list[tuple[Any, ...]]) -> None:
    """Others than superusers may set only parameters that PostgreSQL knows. Without MRVs none is needed."""
    try:
        with connection.transaction():
            for change, name, *value in changes:
                connection.execute(
                    sql.SQL("ALTER DATABASE {} ").format(sql.Identifier(connection.info.dbname))
                    + change.format(sql.SQL(name), *value)
                )
    except psycopg.errors.InsufficientPrivilege:
        if is_installed(connection):
            raise
