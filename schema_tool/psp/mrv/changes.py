"""The statements of one change: under psp, a schema change of the cluster (docs/schema-changes.md)."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from psp.mrv.facts import is_installed
from psp.output import PspError

CLUSTER_RECORDS_MAX = 20_000
"""Records that one change writes: others wait meanwhile, and all are one transaction of the stream."""

DAEMON_RIGHTS = """
GRANT USAGE ON SCHEMA psp_mrv TO psp_semi_primary;
GRANT SELECT ON psp_mrv.columns TO psp_semi_primary;
GRANT INSERT ON psp_mrv.outcomes TO psp_semi_primary
"""


class Changes:
    """Gathers statements, and runs them in one go: as they are, or at all servers by psp.ddl."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.in_cluster = is_adopted(connection)
        self._texts: list[str] = []

    def add(self, *statements: str | bytes | sql.Composable) -> None:
        for statement in statements:
            text = (
                statement.as_string(self.connection) if isinstance(statement, sql.Composable) else statement
            )
            text = text.decode() if isinstance(text, bytes) else text
            self._texts.append(text.strip().removesuffix(";"))

    def run(self) -> None:
        """What is read from the catalog, or written as rows, comes after it."""
        text = "\n;\n".join(self._texts)
        self._texts.clear()
        if not text:
            return
        if self.in_cluster:
            self.connection.execute("SELECT psp.ddl(%s)", (text,))
        else:
            self.connection.execute(sql.SQL(text))

    def hold(self, *columns: tuple[sql.Identifier, str]) -> None:
        """Of tables whose rows this change writes: writers at other servers wait from here on.

        A statement that changes nothing, by which psp.ddl knows the tables, and locks them.
        """
        if not self.in_cluster:
            return
        for table, column in columns:
            statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET NOT NULL")
            self.add(statement.format(table, sql.Identifier(column)))
        self.run()


def is_adopted(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass('psp.identity') IS NOT NULL").fetchone()
    return bool(row and row[0])


def become_owner(connection: psycopg.Connection[Any], oid: int) -> None:
    """Under psp: no schema change runs as a superuser, so this one runs as the table's owner.

    Whose code runs then could take back a superuser's role, so superusers are refused.
    """
    row = connection.execute(
        "SELECT pg_get_userbyid(relowner), has_function_privilege(relowner, 'psp.ddl(text)', 'EXECUTE'), "
        "has_database_privilege(relowner, current_database(), 'CREATE'), current_database(), "
        "(SELECT rolsuper FROM pg_roles WHERE rolname = session_user) FROM pg_class WHERE oid = %s::oid",
        (oid,),
    ).fetchone()
    if row is None:
        raise PspError("the table has vanished meanwhile")
    owner, may_change, may_create, database, is_superuser = row
    name = sql.Identifier(owner).as_string(connection)
    if is_superuser:
        raise PspError(
            f"code of the table's owner {owner} would run with a superuser's rights here",
            f"connect as {owner}, or as a member of that role which is no superuser",
        )
    if not may_change:
        raise PspError(
            f"the table's owner {owner} may not change the schema of the cluster",
            f"as a superuser: GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {name}",
        )
    if is_installed(connection):
        _refuse_without_rights(connection, owner, name)
    elif not may_create:
        place = sql.Identifier(database).as_string(connection)
        raise PspError(
            f"the table's owner {owner} may not create the schema psp_mrv",
            f"as a superuser, at each server: GRANT CREATE ON DATABASE {place} TO {name}",
        )
    connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))


def _refuse_without_rights(connection: psycopg.Connection[Any], owner: str, name: str) -> None:
    """What was made before adoption, or for another owner, belongs to who made it."""
    row = connection.execute(
        "SELECT bool_and(has_schema_privilege(%(owner)s, s, 'CREATE') "
        "AND has_schema_privilege(%(owner)s, s, 'USAGE')) "
        "AND has_table_privilege(%(owner)s, 'psp_mrv.columns', 'INSERT') "
        "AND has_table_privilege(%(owner)s, 'psp_mrv.columns', 'UPDATE') "
        "AND has_table_privilege(%(owner)s, 'psp_mrv.columns', 'DELETE') "
        "FROM unnest('{psp_mrv,psp_mrv_view}'::text[]) s",
        {"owner": owner},
    ).fetchone()
    if not (row and row[0]):
        raise PspError(
            f"the table's owner {owner} may not change psp_mrv, which another role has made",
            "as a superuser, at each server: GRANT ALL ON SCHEMA psp_mrv, psp_mrv_view "
            f"TO {name} WITH GRANT OPTION; "
            f"GRANT INSERT, UPDATE, DELETE ON psp_mrv.columns TO {name}",
        )


def refuse_many(connection: psycopg.Connection[Any], table: sql.Identifier, records: int) -> None:
    """Under psp: --records N splits all values at once, in one transaction."""
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchone()
    if row and row[0] * records > CLUSTER_RECORDS_MAX:
        raise PspError(
            f"--records {records} would write {row[0] * records} records in one transaction of the cluster, "
            f"more than {CLUSTER_RECORDS_MAX}",
            "leave --records out: psp-mrv splits the values that are hot; or psp_mrv.adjust does, one by one",
        )
