"""Schema changes as a test makes them, and whether they are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

from psp.cluster.local import LocalCluster, Options, SpNode
from psycopg import sql

from tests.cluster.support import adopted_pair, as_admin, connect, execute, raises, settle, wait_for_row
from tests.threads import running


@contextmanager
def changing_pair(script: str, options: Options | None = None) -> Iterator[LocalCluster]:
    """Two SPs with the script's schema, whose application may change it."""
    with adopted_pair([script], options) as cluster:
        for sp in cluster.sps:
            allow_ddl(sp)
        yield cluster


def settle_unchanged(cluster: LocalCluster) -> None:
    """As `settle`; and nothing was changed at one SP only."""
    settle(cluster)
    for sp in cluster.sps:
        problems = execute(as_admin(sp), "SELECT psp.guard_problems()")
        assert problems == [], problems


def check_a_second_change_waits(
    sp: SpNode, first_statement: LiteralString, second_statement: LiteralString
) -> None:
    """Two sessions at one SP: the second one waits for the first, and no longer than its lock_timeout."""
    with connect(sp) as first, connect(sp) as second:
        first.execute(first_statement)
        second.execute("SET lock_timeout = '50ms'")
        second.commit()
        with raises("55P03"):
            second.execute(second_statement)
        second.rollback()
        second.execute("RESET lock_timeout")
        with running(lambda: second.execute(second_statement)):
            wait_for_row(sp, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            first.commit()
        second.commit()


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
