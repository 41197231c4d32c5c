"""Schema changes as a test makes them, and whether they are there."""

from psp.cluster.local import SpNode
from psycopg import sql

from tests.cluster.support import as_admin, connect, execute, wait_for_row


def allow_ddl(sp: SpNode) -> None:
    """What an administrator does for the role that changes the schema."""
    role = sql.Identifier(execute(sp, "SELECT current_user")[0][0])
    with connect(as_admin(sp)) as connection:
        connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {}").format(role))


def ddl(sp: SpNode, *statements: str) -> None:
    """One transaction of schema changes."""
    with connect(sp) as connection:
        for statement in statements:
            connection.execute("SELECT psp.ddl(%s)", [statement])


def exists(sp: SpNode, name: str) -> bool:
    """Whether the SP has a relation of that name."""
    return execute(sp, "SELECT to_regclass(%s) IS NOT NULL", [name])[0][0] is True


def wait_for_relation(sp: SpNode, name: str) -> None:
    wait_for_row(sp, "SELECT 1 WHERE to_regclass(%s) IS NOT NULL", [name])


def changes(sp: SpNode) -> int:
    """The number of the newest schema change there; 0: there is none."""
    return int(execute(as_admin(sp), "SELECT coalesce(max(change), 0) FROM psp.schema_history")[0][0])
