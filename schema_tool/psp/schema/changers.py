"""Which roles may change the schema of the cluster: those that may call psp.ddl, at each server by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from psp.output import PspError
from psp.schema.model import Mode
from psp.sql_files import read_sql


@dataclass(frozen=True)
class Owner:
    """A role that owns captured tables."""

    role: str
    tables: int
    first_table: str
    may_change: bool
    can_be_granted: bool  # it could become no superuser
    grant: str  # the statement


def grant(connection: psycopg.Connection[Any], mode: Mode, roles: Sequence[str]) -> None:
    """Lets them change the schema; in the caller's transaction, when psp is installed.

    PspError: psp refuses one.
    """
    if roles and mode == "views":
        raise PspError("in views mode no role may change the schema", "leave out --schema-role")
    for role in roles:
        allowed = connection.execute("SELECT psp.may_change_schema(%s)", (role,)).fetchone()
        if allowed is None or allowed[0] is None:
            raise PspError(f"there is no role {role}, which --schema-role names", "CREATE ROLE it before")
        if not allowed[0]:
            raise PspError(
                f"role {role} could become a superuser: no schema change of the cluster runs as such a role",
                "name the role that owns the tables",
            )
        statement = "GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {}"
        connection.execute(sql.SQL(statement).format(sql.Identifier(role)))


def read_owners(connection: psycopg.Connection[Any]) -> list[Owner]:
    """Of a semi-primary in native mode, by their names."""
    with connection.cursor(row_factory=class_row(Owner)) as cursor:
        return cursor.execute(read_sql("semi_primary/command/owners_of_tables.sql")).fetchall()


def advice(owners: Sequence[Owner]) -> list[str]:
    """What adopt and join say of owners that may not change their own tables any more; a line for each."""
    return [
        f"{_owns(owner)} and may not change the schema any more. To let the role change it at all "
        f"semi-primaries, run at each of them: {owner.grant};"
        if owner.can_be_granted
        else f"{_owns(owner)} and can never change the schema: the role could become a superuser. "
        "ALTER TABLE … OWNER TO an ordinary role before adoption"
        for owner in owners
        if not owner.may_change
    ]


def _owns(owner: Owner) -> str:
    more = f" and {owner.tables - 1} more tables" if owner.tables > 1 else ""
    return f"role {owner.role} owns {owner.first_table}{more}"
