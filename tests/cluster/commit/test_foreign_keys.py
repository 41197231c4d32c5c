"""Foreign keys between semi-primaries: of who takes a row away and who refers to it exactly one commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.cluster.verify import verify, wait_drained

from tests.cluster.schema_changes.statements import allow_ddl, ddl
from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    as_admin,
    connect,
    execute,
    raises,
    wait_for_row,
)

SCHEMA = b"""
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, v int DEFAULT 0);
CREATE TABLE child (id serial PRIMARY KEY, parent int REFERENCES parent);
CREATE TABLE by_code (id serial PRIMARY KEY,
                      code text REFERENCES parent (code) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE cascaded (id serial PRIMARY KEY,
                       parent bigint REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE emptied (id serial PRIMARY KEY,
                      parent int REFERENCES parent ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE coarse_parent (id float8 PRIMARY KEY);
CREATE TABLE coarse (id serial PRIMARY KEY, parent int REFERENCES coarse_parent);
CREATE TABLE parts (id int, d int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE lines (id serial, d int, part int, PRIMARY KEY (id, d),
                    FOREIGN KEY (part, d) REFERENCES parts) PARTITION BY RANGE (d);
CREATE TABLE lines_1 PARTITION OF lines FOR VALUES FROM (0) TO (10);
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree);
CREATE TABLE later (id serial PRIMARY KEY, parent int);
CREATE TABLE given (id int PRIMARY KEY, code text UNIQUE);
CREATE TABLE gets (id serial PRIMARY KEY, parent int REFERENCES given, code text REFERENCES given (code));
"""
TABLES = ("child", "by_code", "cascaded", "emptied", "coarse", "lines", "tree", "later", "gets")
ROWS = b"""
INSERT INTO given VALUES (1, 'code 1'), (2, 'code 2');
INSERT INTO parent SELECT n, 'code ' || n FROM generate_series(1, 9) n;
INSERT INTO coarse_parent VALUES (1), (2);
INSERT INTO parts VALUES (1, 1), (2, 1); INSERT INTO tree VALUES (1, NULL), (2, NULL);
"""
FOREIGN_KEY_VIOLATION = "23503"
PAIRS = [
    # who takes a row away, who refers to it
    ("DELETE FROM parent WHERE id = 1", "INSERT INTO child (parent) VALUES (1)"),
    ("UPDATE parent SET id = 100 WHERE id = 1", "INSERT INTO child (parent) VALUES (1)"),
    ("DELETE FROM parent WHERE id = 1", "UPDATE child SET parent = 1"),
    ("DELETE FROM parent WHERE id = 1", "INSERT INTO by_code (code) VALUES ('code 1')"),
    ("UPDATE parent SET code = 'other' WHERE id = 1", "INSERT INTO by_code (code) VALUES ('code 1')"),
    ("DELETE FROM parent WHERE id = 1", "INSERT INTO cascaded (parent) VALUES (1)"),
    ("UPDATE parent SET id = 100 WHERE id = 1", "INSERT INTO cascaded (parent) VALUES (1)"),
    ("DELETE FROM parent WHERE id = 1", "INSERT INTO emptied (parent) VALUES (1)"),
    ("DELETE FROM coarse_parent WHERE id = 1", "INSERT INTO coarse (parent) VALUES (1)"),
    ("DELETE FROM parts WHERE id = 1", "INSERT INTO lines (d, part) VALUES (1, 1)"),
    ("DELETE FROM tree WHERE id = 1", "UPDATE tree SET up = 1 WHERE id = 2"),
]


@pytest.fixture(scope="module")
def zones() -> Iterator[LocalCluster]:
    with LocalCluster.temporary([Zone("one"), Zone("two"), Zone("three")]) as cluster:
        with psycopg.connect(cluster.sps[0].dsn, autocommit=True) as connection:
            connection.execute(SCHEMA)
        growth.adopt(cluster)
        for sp in cluster.sps:
            allow_ddl(sp)
        yield cluster


@pytest.fixture
def sps(zones: LocalCluster) -> Iterator[list[SpNode]]:
    """With rows in the parents, and one in child that refers to row 9."""
    with connect(zones.sps[0]) as connection:
        connection.execute(b"".join(b"DELETE FROM %s;" % name.encode() for name in TABLES))
        connection.execute(
            "DELETE FROM parent; DELETE FROM coarse_parent; DELETE FROM parts; DELETE FROM given"
        )
        connection.execute(ROWS)
        connection.execute("INSERT INTO child (parent) VALUES (9)")
    wait_drained(zones)
    yield zones.sps
    result = verify(zones)
    assert result.consistent, result.as_dict()
    for name in TABLES:
        assert execute(as_admin(zones.sps[2]), VALIDATED[name]) == []


# Rows that refer to none.
VALIDATED: dict[str, Any] = {
    "child": "SELECT 1 FROM child c WHERE c.parent IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM parent p WHERE p.id = c.parent)",
    "by_code": "SELECT 1 FROM by_code c WHERE NOT EXISTS (SELECT FROM parent p WHERE p.code = c.code)",
    "cascaded": "SELECT 1 FROM cascaded c WHERE NOT EXISTS (SELECT FROM parent p WHERE p.id = c.parent)",
    "emptied": "SELECT 1 FROM emptied c WHERE c.parent IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM parent p WHERE p.id = c.parent)",
    "coarse": "SELECT 1 FROM coarse c WHERE NOT EXISTS (SELECT FROM coarse_parent p WHERE p.id = c.parent)",
    "lines": "SELECT 1 FROM lines c WHERE NOT EXISTS (SELECT FROM parts p WHERE (p.id, p.d) = (c.part, c.d))",
    "tree": "SELECT 1 FROM tree c WHERE c.up IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM tree p WHERE p.id = c.up)",
    "gets": "SELECT 1 FROM gets c WHERE c.parent IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM given p WHERE p.id = c.parent)"
    " OR c.code IS NOT NULL AND NOT EXISTS (SELECT FROM given p WHERE p.code = c.code)",
    "later": "SELECT 1 FROM later c WHERE NOT EXISTS (SELECT FROM parent p WHERE p.id = c.parent)",
}


def lost(connection: psycopg.Connection[Any]) -> psycopg.Error | None:
    """What COMMIT says, if it fails. A deferred check may have seen the other transaction already."""
    try:
        connection.commit()
    except psycopg.Error as error:
        assert error.sqlstate in (SERIALIZATION_FAILURE, FOREIGN_KEY_VIOLATION), error
        return error
    return None


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("parent_first", [True, False], ids=["parent-first", "child-first"])
@pytest.mark.parametrize("pair", PAIRS, ids=[" / ".join(pair) for pair in PAIRS])
def test_one_of_two_commits(sps: list[SpNode], pair: tuple[str, str], parent_first: bool, level: str) -> None:
    with connect(sps[0]) as first, connect(sps[1]) as second:
        for connection, statement in ((first, pair[0]), (second, pair[1])):
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
            connection.execute(statement.encode())
        order = [first, second] if parent_first else [second, first]
        outcomes = [lost(connection) for connection in order]
    assert outcomes[0] is None and outcomes[1] is not None, outcomes


@pytest.mark.parametrize(
    "statement", ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 100 WHERE id = 1"]
)
def test_a_child_that_arrives_after_postgresql_has_looked(sps: list[SpNode], statement: str) -> None:
    """Under READ COMMITTED the snapshot of COMMIT has it, that of the check has not."""
    with connect(sps[0]) as deleter:
        deleter.execute(statement.encode())
        execute(sps[1], "INSERT INTO child (id, parent) VALUES (-1, 1)")
        wait_for_row(sps[0], "SELECT 1 FROM child WHERE id = -1")
        assert lost(deleter) is not None


def test_nobody_who_refers_to_one_row_waits_or_fails(sps: list[SpNode]) -> None:
    """Nor those who update it."""
    for _ in range(5):
        connections = [connect(sp) for sp in sps for _ in range(2)]
        updater = connect(sps[0])
        for connection in connections:
            connection.execute("INSERT INTO child (parent) VALUES (5)")
            connection.execute("INSERT INTO by_code (code) VALUES ('code 5')")
        updater.execute("UPDATE parent SET v = v + 1, code = code WHERE id = 5")
        for connection in [*connections[:3], updater, *connections[3:]]:
            assert lost(connection) is None
            connection.close()


@pytest.mark.parametrize(
    "others",
    [
        "",  # rows of the same batch
        "INSERT INTO parent VALUES (10, 'code 10')",
        "UPDATE parent SET code = 'other' WHERE id = 6; INSERT INTO parent VALUES (10, 'code 6')",
        "UPDATE parent SET code = NULL WHERE id = 6",
    ],
)
def test_an_update_that_leaves_the_keys_waits_for_nobody_who_refers(sps: list[SpNode], others: str) -> None:
    """Where it is applied, too: they would be ended for it."""
    with connect(sps[1]) as child:
        child.execute("INSERT INTO child (parent) VALUES (5)")
        with connect(sps[0]) as updater:
            updater.execute(f"UPDATE parent SET v = 7, code = code WHERE id = 5; {others}".encode())
        wait_for_row(sps[1], "SELECT 1 FROM parent WHERE (id, v) = (5, 7)")
        assert lost(child) is None


def test_other_rows_are_not_concerned(sps: list[SpNode]) -> None:
    with connect(sps[0]) as first, connect(sps[1]) as second:
        first.execute("DELETE FROM parent WHERE id = 1")
        second.execute("INSERT INTO child (parent) VALUES (2), (NULL)")
        assert (lost(first), lost(second)) == (None, None)


def test_a_key_that_comes_again_in_the_same_transaction(sps: list[SpNode]) -> None:
    with connect(sps[0]) as first, connect(sps[1]) as second:
        first.execute("DELETE FROM parts WHERE id = 1")
        first.execute("INSERT INTO parts VALUES (1, 1)")
        second.execute("INSERT INTO lines (d, part) VALUES (1, 1)")
        assert (lost(first), lost(second)) == (None, None)


def test_a_foreign_key_that_is_added_to_tables_in_use(zones: LocalCluster, sps: list[SpNode]) -> None:
    """Who has written either of the two under the older definition has lost."""
    with connect(sps[1]) as child, connect(sps[2]) as parent:
        child.execute("INSERT INTO later (parent) VALUES (1)")
        parent.execute("DELETE FROM parent WHERE id = 1")
        ddl(sps[0], "ALTER TABLE later ADD CONSTRAINT late FOREIGN KEY (parent) REFERENCES parent")
        assert lost(child) is not None and lost(parent) is not None
    wait_drained(zones)
    with connect(sps[1]) as child, connect(sps[2]) as parent:
        child.execute("INSERT INTO later (parent) VALUES (1)")
        parent.execute("DELETE FROM parent WHERE id = 1")
        assert lost(child) is None and lost(parent) is not None


def test_a_key_to_which_rows_refer_gets_another_type(zones: LocalCluster, sps: list[SpNode]) -> None:
    """The other servers run the statement among the rows: PostgreSQL checks the foreign keys again."""
    execute(sps[0], "INSERT INTO gets (parent) VALUES (2)")
    ddl(sps[0], "ALTER TABLE given ALTER id TYPE bigint")
    wait_drained(zones)
    assert verify(zones).consistent
    with raises("0A000") as errors:
        ddl(sps[0], "ALTER TABLE given ALTER id TYPE int USING id + 10")
    assert "drop the foreign key" in (errors[0].diag.message_hint or "")
    with connect(sps[0]) as changer, raises("0A000") as errors:
        changer.execute("INSERT INTO given VALUES (3, 'code 3')")
        changer.execute("INSERT INTO gets (parent) VALUES (3)")
        changer.execute("ALTER TABLE given ALTER id TYPE int")
    assert "of its own" in (errors[0].diag.message_hint or "")
    with connect(sps[0]) as changer:
        changer.execute("ALTER TABLE gets DROP CONSTRAINT gets_parent_fkey")
        changer.execute("UPDATE gets SET parent = parent + 10")
        changer.execute("ALTER TABLE given ALTER id TYPE int USING id + 10")
        changer.execute("ALTER TABLE gets ADD FOREIGN KEY (parent) REFERENCES given")
        changer.commit()
    wait_drained(zones)
    assert verify(zones).consistent
    assert execute(sps[1], "SELECT id FROM given ORDER BY id") == [(11,), (12,)]
    execute(sps[1], "UPDATE gets SET parent = NULL")


REWRITTEN = [
    # a schema change that gives rows other values, what another semi-primary writes meanwhile
    (
        "ALTER TABLE given ALTER id TYPE int USING id + 100",
        "INSERT INTO gets (parent) VALUES (1)",
    ),
    ("ALTER TABLE given ALTER code TYPE text USING code || 'x'", "INSERT INTO gets (code) VALUES ('code 1')"),
    ("ALTER TABLE gets ALTER parent TYPE int USING 1", "DELETE FROM given WHERE id = 1"),
]


@pytest.mark.parametrize("change_first", [True, False], ids=["change-first", "row-first"])
@pytest.mark.parametrize("pair", REWRITTEN, ids=[" / ".join(pair) for pair in REWRITTEN])
def test_a_schema_change_that_gives_rows_other_keys(
    sps: list[SpNode], pair: tuple[str, str], change_first: bool
) -> None:
    """No trigger sees them. PostgreSQL checks all rows again, and would fail where the other's row is."""
    change, row = pair
    with connect(sps[0]) as changer, connect(sps[1]) as writer:
        writer.execute(row.encode())
        changer.execute("SET psp.hold_timeout = 0")
        changer.execute("SELECT psp.ddl(%s)", [change])
        outcomes = [lost(one) for one in ([changer, writer] if change_first else [writer, changer])]
    assert outcomes[0] is None and outcomes[1] is not None, outcomes
