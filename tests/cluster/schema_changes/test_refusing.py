"""What one server accepted is applied everywhere: nothing that comes meanwhile may refuse its rows."""

from typing import LiteralString

import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster

from tests.cluster.schema_changes.statements import ddl
from tests.cluster.support import SERIALIZATION_FAILURE, connect, execute, raises, retry, wait_streaming

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, v int, s text);
INSERT INTO item VALUES (1, 1, 'one');
"""
LONG: LiteralString = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"
"""More than an index or a page can take, also compressed."""


@pytest.mark.parametrize(
    ("change", "write", "undo"),
    [
        ("CREATE INDEX item_s ON item (s)", f"UPDATE item SET s = {LONG} WHERE id = 1", "DROP INDEX item_s"),
        (
            "CREATE INDEX item_s ON item USING gin (string_to_array(s, ' '))",
            f"INSERT INTO item VALUES (2, 2, {LONG})",
            "DROP INDEX item_s",
        ),
        (
            "ALTER TABLE item ALTER s SET STORAGE PLAIN",
            f"INSERT INTO item VALUES (2, 2, {LONG})",
            "ALTER TABLE item ALTER s SET STORAGE EXTENDED",
        ),
        (
            "CREATE PUBLICATION published FOR TABLE item WHERE (v > 0)",
            "UPDATE item SET v = 3 WHERE id = 1",
            "DROP PUBLICATION published",
        ),
        (
            "CREATE PUBLICATION published FOR TABLE item; ALTER TABLE item REPLICA IDENTITY NOTHING",
            "UPDATE item SET v = 3 WHERE id = 1",
            "DROP PUBLICATION published; ALTER TABLE item REPLICA IDENTITY DEFAULT",
        ),
    ],
)
def test_writers_under_the_older_definition_lose(
    pair: LocalCluster, change: LiteralString, write: LiteralString, undo: LiteralString
) -> None:
    """Elsewhere their rows would come behind the change, which refuses them."""
    north, south = pair.sps
    with connect(south) as writer:
        writer.execute(write)
        ddl(north, change)
        with raises(SERIALIZATION_FAILURE, "57P01"):
            writer.commit()
    wait_streaming(pair)
    verify.wait_drained(pair)
    retry(lambda: ddl(north, undo))


def test_writers_lose_nothing_to_an_index_that_takes_every_row(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(south) as writer:
        writer.execute("INSERT INTO item VALUES (3, 3)")
        execute(north, "CREATE INDEX item_v ON item (v)")
        writer.commit()
