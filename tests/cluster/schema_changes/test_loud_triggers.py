"""Triggers that a schema change lets fire for rows of other servers, too."""

from __future__ import annotations

from psp.cluster.local import SpNode

from tests.cluster.schema_changes.statements import changing_pair
from tests.cluster.support import as_admin, execute, settle, wait_for_row

SCHEMA = """
CREATE TABLE doc (id int PRIMARY KEY, v text);
CREATE TABLE trail (id serial PRIMARY KEY, v text);
CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.trail (v) VALUES (NEW.v); RETURN NULL; END $$;
CREATE TRIGGER log AFTER INSERT ON doc FOR EACH ROW EXECUTE FUNCTION log();
"""


def is_set_aside(sp: SpNode) -> bool:
    problems = execute(as_admin(sp), "SELECT psp.guard_problems()")
    return any("trigger log of public.doc is set aside" in problem for (problem,) in problems)


def test_what_a_trigger_writes_is_there_once() -> None:
    """And the stream goes on."""
    with changing_pair(SCHEMA) as cluster:
        north, south = cluster.sps
        execute(north, "ALTER TABLE doc ENABLE ALWAYS TRIGGER log")
        for n in range(5):
            execute(north, "INSERT INTO doc VALUES (%s, 'north')", [n])
        wait_for_row(south, "SELECT 1 FROM doc WHERE id = 4")
        settle(cluster)
        assert (is_set_aside(north), is_set_aside(south)) == (False, True)
        execute(south, "INSERT INTO doc VALUES (5, 'south')")
        wait_for_row(north, "SELECT 1 FROM doc WHERE id = 5")
        settle(cluster)
        for sp in (north, south):
            assert is_set_aside(sp)
            assert execute(sp, "SELECT v, count(*) FROM trail GROUP BY v ORDER BY v") == [
                ("north", 5),
                ("south", 1),
            ]
