"""What a role without rights in psp does at one server stops no schema change there."""

from typing import LiteralString

import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.support import as_admin, connect, execute, wait_for_row, wait_streaming

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, v int, w int);
INSERT INTO item VALUES (1, 1, 1);
CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 > 0; END';
"""


def locally(sp: SpNode, *statements: LiteralString) -> None:
    with connect(sp, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("here", "change", "write", "told", "undo"),
    [
        (
            "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC, CURRENT_USER",
            "ALTER TABLE item ADD CONSTRAINT positive CHECK (f(v))",
            "INSERT INTO item VALUES (2, 2)",
            "GRANT EXECUTE ON ROUTINE public.f(integer)",
            "GRANT EXECUTE ON FUNCTION f TO PUBLIC",
        ),
        (
            "CREATE VIEW made AS SELECT 1 AS a",
            "CREATE TABLE made (id serial PRIMARY KEY)",
            "INSERT INTO made VALUES (2)",
            "view public.made, which is at this semi-primary only",
            "SELECT 1",
        ),
    ],
)
def test_what_is_at_one_server_only_makes_way(
    pair: LocalCluster,
    here: LiteralString,
    change: LiteralString,
    write: LiteralString,
    told: str,
    undo: LiteralString,
) -> None:
    north, south = pair.sps
    locally(south, here)
    execute(north, change)
    execute(north, write)
    wait_streaming(pair)
    verify.wait_drained(pair)
    wait_for_row(south, "SELECT 1 FROM psp.status WHERE position(%s IN warnings) > 0", (told,))
    locally(south, undo)
    execute(as_admin(south), "DELETE FROM psp.set_aside_objects")
