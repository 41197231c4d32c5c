"""Indexes that one server has alone, beside those of schema changes."""

from typing import LiteralString

import pytest
from psp.cluster.local import LocalCluster, SpNode

from tests.cluster.schema_changes.statements import (
    ddl,
    wait_for_relation,
)
from tests.cluster.support import as_admin, connect, execute, raises, wait_for_row

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, v int);
INSERT INTO item VALUES (1, 1);
"""


def locally(sp: SpNode, *statements: str) -> None:
    with connect(sp, autocommit=True) as connection:
        connection.execute("SET psp.schema_changes = local")
        for statement in statements:
            connection.execute(statement.encode())


def indexes(sp: SpNode) -> list[str]:
    """The definitions of the table's indexes but its key, by their names."""
    rows = execute(
        sp,
        "SELECT indexdef FROM pg_indexes "
        "WHERE tablename = 'item' AND indexname <> 'item_pkey' ORDER BY indexname",
    )
    return [definition.replace(" public.", " ").replace(" USING btree", "") for (definition,) in rows]


def local_index(sp: SpNode) -> str:
    """The name of one that has made way."""
    (name,) = (definition.split()[2] for definition in indexes(sp) if " local_" in definition)
    return name


@pytest.mark.parametrize(
    "statement", ["CREATE INDEX ON item (v)", "create /* a */ unique\nindex -- name\n ON item (v);"]
)
def test_an_index_without_a_name_has_the_same_one_everywhere(pair: LocalCluster, statement: str) -> None:
    north, south = pair.sps
    locally(north, "CREATE INDEX ON item (v)")
    execute(north, statement)
    wait_for_relation(south, "item_v_idx")
    locally(north, f"DROP INDEX {local_index(north)}")
    assert indexes(north) == indexes(south)
    execute(south, "DROP INDEX item_v_idx")
    wait_for_row(north, "SELECT 1 WHERE to_regclass('item_v_idx') IS NULL")


@pytest.mark.parametrize(
    "statement", ["CREATE INDEX ON item (v)", "CREATE INDEX IF NOT EXISTS item_v_idx ON item (v)"]
)
def test_a_local_index_makes_way_for_one_of_that_name(pair: LocalCluster, statement: str) -> None:
    north, south = pair.sps
    locally(south, "CREATE INDEX item_v_idx ON item (v) WHERE (v > 7)")
    execute(north, statement)
    wait_for_row(
        south, "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('item_v_idx') AND indpred IS NULL"
    )
    everywhere, here = indexes(south)
    assert [everywhere] == indexes(north) == ["CREATE INDEX item_v_idx ON item (v)"]
    assert here.startswith("CREATE INDEX local_")
    assert here.endswith(" ON item (v) WHERE (v > 7)")
    name = local_index(south)
    with raises("0A000"):
        execute(south, f"DROP INDEX {name}")
    locally(south, f"DROP INDEX {name}")
    execute(north, "DROP INDEX item_v_idx")
    wait_for_row(south, "SELECT 1 WHERE to_regclass('item_v_idx') IS NULL")


@pytest.mark.parametrize("at", [0, 1])
def test_a_constraint_has_one_name_everywhere(pair: LocalCluster, at: int) -> None:
    """PostgreSQL chooses it, at the server with the local index or at the other one."""
    _, south = pair.sps
    changer, other = pair.sps[at], pair.sps[1 - at]
    locally(south, "CREATE INDEX item_v_key ON item (v)")
    execute(changer, "ALTER TABLE item ADD UNIQUE (v)")
    wait_for_row(other, "SELECT 1 FROM pg_constraint WHERE conname = 'item_v_key'")
    locally(south, f"DROP INDEX {local_index(south)}")
    execute(other, "ALTER TABLE item DROP CONSTRAINT item_v_key")
    wait_for_row(changer, "SELECT 1 WHERE to_regclass('item_v_key') IS NULL")


def test_drop_index_leaves_another_servers_local_index(pair: LocalCluster) -> None:
    north, south = pair.sps
    locally(south, "CREATE INDEX here ON item (v)")
    execute(north, "CREATE INDEX item_id_v ON item (id, v)")
    execute(north, "DROP INDEX IF EXISTS item_id_v, here")
    execute(north, "CREATE INDEX here ON item (id, v)")
    execute(north, "DROP INDEX here")
    execute(north, "CREATE TABLE afterwards (id int PRIMARY KEY)")
    wait_for_relation(south, "afterwards")
    locally(south, f"DROP INDEX {local_index(south)}")
    execute(south, "DROP TABLE afterwards")


def test_a_local_index_that_a_type_cannot_have_is_dropped(pair: LocalCluster) -> None:
    north, south = pair.sps
    locally(south, "CREATE INDEX here ON item (v) WHERE v > 7")
    execute(north, "ALTER TABLE item ALTER COLUMN v TYPE text")
    warning: LiteralString = "SELECT 1 FROM psp.guard_problems() p WHERE p LIKE 'index here of public.item%'"
    wait_for_row(as_admin(south), warning)
    locally(south, "CREATE INDEX here ON item (v)")
    assert execute(as_admin(south), "SELECT psp.guard_problems()") == []
    execute(north, "ALTER TABLE item ALTER COLUMN v TYPE int USING v::int")
    wait_for_row(
        south,
        "SELECT 1 FROM pg_attribute "
        "WHERE attrelid = 'item'::regclass AND atttypid = 'int'::regtype AND attname = 'v'",
    )
    locally(south, "DROP INDEX here")


@pytest.mark.parametrize("at_north", [True, False])
def test_a_local_index_stays_one_when_its_column_gets_another_type(
    pair: LocalCluster, at_north: bool
) -> None:
    """PostgreSQL makes it again, as another object."""
    north, south = pair.sps
    locally(south, "CREATE INDEX first ON item (v)", "ALTER INDEX first RENAME TO here")
    changer, other = (north, south) if at_north else (south, north)
    type_now = "bigint" if at_north else "int"
    execute(changer, f"ALTER TABLE item ALTER COLUMN v TYPE {type_now}")
    wait_for_row(
        other,
        "SELECT 1 FROM pg_attribute "
        "WHERE attrelid = 'item'::regclass AND attname = 'v' AND atttypid = %s::regtype",
        [type_now],
    )
    for statement in ("ALTER INDEX here RENAME TO there", "DROP INDEX here"):
        with raises("0A000"):
            execute(south, statement)
    locally(south, "DROP INDEX here")
    execute(north, "CREATE INDEX here ON item (v)")
    wait_for_relation(south, "here")
    execute(south, "DROP INDEX here")


def test_a_local_index_stays_one_when_it_is_made_again(pair: LocalCluster) -> None:
    north, _ = pair.sps
    locally(north, "CREATE INDEX here ON item (v)", "REINDEX INDEX CONCURRENTLY here")
    with raises("0A000"):
        execute(north, "ALTER INDEX here RENAME TO there")
    with raises("0A000"):
        ddl(north, "DROP INDEX here")
    locally(north, "DROP INDEX CONCURRENTLY here")
