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


def test_no_row_goes_into_another_table(pair: LocalCluster) -> None:
    """A superuser's view has the name at one server only; a comment in a comment hides the statement's."""
    north, south = pair.sps
    admin = as_admin(south)
    locally(admin, "CREATE VIEW public.second AS SELECT 1 AS id")
    execute(
        north,
        "SELECT psp.ddl('CREATE TABLE first (id int PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS /* /* */ */ second (id int PRIMARY KEY)')",
    )
    execute(north, "INSERT INTO second VALUES (5)")
    told = "SELECT 1 FROM psp.status WHERE last_error ~ 'leaves other tables here' AND last_error ~ 'RENAME'"
    wait_for_row(admin, told)
    locally(admin, "ALTER VIEW public.second RENAME TO mine")
    wait_streaming(pair)
    verify.wait_drained(pair)
    for sp in pair.sps:
        assert execute(sp, "SELECT (SELECT count(*) FROM first), (SELECT id FROM second)") == [(0, 5)]
    locally(admin, "DROP VIEW public.mine")
