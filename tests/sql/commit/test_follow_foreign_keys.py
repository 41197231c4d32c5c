"""psp.ddl adds, changes and drops foreign keys: what is captured then, and which tables count as changed.

Nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psp.servers.pgserver import PgServer

from tests.sql.databases import APPLICATION, Pair, changing_pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, v int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, code text, v int);
CREATE TABLE other (id int PRIMARY KEY, parent int);
CREATE TABLE waits (id int PRIMARY KEY, parent int);
ALTER TABLE waits ADD CONSTRAINT unproven FOREIGN KEY (parent) REFERENCES parent NOT VALID;
CREATE TABLE whole (id int PRIMARY KEY, parent int REFERENCES other) PARTITION BY RANGE (id);
CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10);
CREATE TABLE broken (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE broken_1 PARTITION OF broken FOR VALUES FROM (0) TO (10);
CREATE TABLE of_broken (id int PRIMARY KEY, broken int REFERENCES broken);
INSERT INTO parent VALUES (1, 'one', 1), (2, 'two', 2); INSERT INTO other VALUES (1, 1);
INSERT INTO broken VALUES (1);
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    return changing_pair(server, SCHEMA)


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


def ddl(connection: psycopg.Connection[Any], statement: str) -> set[str]:
    """The tables that count as changed. The guard has nothing to say then, and nothing more would change."""
    connection.execute("DELETE FROM psp.write_set")
    before = tables(connection)
    connection.execute(f"SET LOCAL ROLE {APPLICATION}".encode())
    connection.execute("SELECT psp.ddl(%s)", [statement])
    connection.execute("RESET ROLE")
    assert connection.execute("SELECT psp.guard_problems()").fetchall() == []
    assert one(connection, "SELECT psp.follow_references(ARRAY(SELECT table_id FROM psp.tables))") == []
    changed = connection.execute("SELECT table_id FROM psp.write_set WHERE op = 'c'").fetchall()
    names = {**before, **tables(connection)}
    return {names[number] for (number,) in changed}


def tables(connection: psycopg.Connection[Any]) -> dict[int, str]:
    return dict(connection.execute("SELECT table_id, table_name FROM psp.tables").fetchall())


def captures(connection: psycopg.Connection[Any], statement: str) -> list[tuple[str, str]]:
    """The tables and indexes that keys of the statement's rows belong to: s, k."""
    connection.execute("DELETE FROM psp.write_set")
    connection.execute(statement.encode())
    return connection.execute(
        """SELECT w.op::text, coalesce(t.table_name, g.value ->> 'index') FROM psp.write_set w
             LEFT JOIN psp.tables t USING (table_id)
             LEFT JOIN (psp.tables u CROSS JOIN jsonb_array_elements(u.guards) g)
                    ON (g.value ->> 'guard_id')::int = w.table_id
            WHERE w.op IN ('s', 'k') ORDER BY w.cmin::text::int, 1, 2"""
    ).fetchall()


NEW_CHILD = "INSERT INTO other VALUES (7, 1)"
END = "DELETE FROM parent WHERE id = 2"
ADDED = [
    "ALTER TABLE other ADD FOREIGN KEY (parent) REFERENCES parent",
    "ALTER TABLE other ADD FOREIGN KEY (parent) REFERENCES parent NOT VALID",
    "ALTER TABLE other ADD FOREIGN KEY (parent) REFERENCES parent ON DELETE CASCADE DEFERRABLE",
]


@pytest.mark.parametrize("statement", ADDED)
def test_a_new_foreign_key_of_two_tables(connection: psycopg.Connection[Any], statement: str) -> None:
    assert captures(connection, NEW_CHILD) == []
    assert ddl(connection, statement) == {"other", "parent"}
    assert captures(connection, "INSERT INTO other VALUES (8, 1)") == [("s", "parent")]
    assert captures(connection, "UPDATE other SET parent = 2 WHERE id = 8") == [("s", "parent")]


def test_the_first_foreign_key_to_a_table(connection: psycopg.Connection[Any]) -> None:
    assert captures(connection, "DELETE FROM child") == []
    changed = ddl(connection, "ALTER TABLE other ADD FOREIGN KEY (parent) REFERENCES waits NOT VALID")
    assert changed == {"other", "waits"}
    connection.execute("INSERT INTO waits VALUES (5, 1)")
    assert captures(connection, "DELETE FROM waits") == [("k", "waits")]


def test_tables_that_come_in_one_text(connection: psycopg.Connection[Any]) -> None:
    """Also where the child has its number before the parent."""
    changed = ddl(
        connection,
        "CREATE TABLE z_parent (id int PRIMARY KEY, u int UNIQUE);"
        "CREATE TABLE a_child (id int PRIMARY KEY, z int REFERENCES z_parent, u int REFERENCES z_parent (u),"
        " p int REFERENCES parent, self int REFERENCES a_child)",
    )
    assert changed == {"z_parent", "a_child", "parent"}
    connection.execute("INSERT INTO z_parent VALUES (1, 1)")
    shared = captures(connection, "INSERT INTO a_child VALUES (1, 1, 1, 1, 1)")
    assert sorted(shared) == [("s", "a_child"), ("s", "parent"), ("s", "z_parent"), ("s", "z_parent_u_key")]
    assert captures(connection, "DELETE FROM a_child") == [("k", "a_child")]
    assert captures(connection, "DELETE FROM z_parent") == [("k", "z_parent"), ("k", "z_parent_u_key")]


DROPPED = [
    "ALTER TABLE child DROP CONSTRAINT child_parent_fkey; ALTER TABLE waits DROP CONSTRAINT unproven",
    "ALTER TABLE child DROP COLUMN parent; ALTER TABLE waits DROP COLUMN parent",
    "DROP TABLE child; DROP TABLE waits",
]


@pytest.mark.parametrize("statement", DROPPED)
def test_the_last_foreign_key_goes(connection: psycopg.Connection[Any], statement: str) -> None:
    assert ddl(connection, statement) == {"child", "waits", "parent"}
    assert captures(connection, END) == []
    triggers = """SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
                   WHERE c.relname IN ('parent', 'child') AND t.tgname ~ '^(PSP|psp_capture_share)'"""
    assert one(connection, triggers) == 0
    functions = """SELECT count(*) FROM psp.own_functions o WHERE o.name ~ '_(ended|share)$'
                      AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.proname = o.name)"""
    assert one(connection, functions) == 0


def test_one_of_several_goes(connection: psycopg.Connection[Any]) -> None:
    assert ddl(connection, "ALTER TABLE waits DROP CONSTRAINT unproven") == {"waits", "parent"}
    assert captures(connection, END) == [("k", "parent")]
    assert captures(connection, "INSERT INTO waits VALUES (1, 1)") == []


def test_validation(connection: psycopg.Connection[Any]) -> None:
    """What refers to a parent was certified before, so no table counts as changed."""
    assert ddl(connection, "ALTER TABLE waits VALIDATE CONSTRAINT unproven") == set()
    assert captures(connection, "INSERT INTO waits VALUES (1, 1)") == [("s", "parent")]


def test_a_unique_constraint_is_referred_to_in_place_of_the_key(connection: psycopg.Connection[Any]) -> None:
    statement = "ALTER TABLE child ADD FOREIGN KEY (code) REFERENCES parent (code)"
    assert ddl(connection, statement) == {"child", "parent"}
    new = captures(connection, "INSERT INTO child VALUES (1, 1, 'one')")
    assert new == [("s", "parent"), ("s", "parent_code_key")] or new == [
        ("s", "parent_code_key"),
        ("s", "parent"),
    ]
    assert captures(connection, "UPDATE parent SET code = 'x' WHERE id = 2") == [("k", "parent_code_key")]
    assert ddl(connection, "ALTER TABLE parent DROP CONSTRAINT parent_code_key CASCADE") == {
        "child",
        "parent",
    }
    assert captures(connection, "UPDATE parent SET code = 'y' WHERE id = 2") == []
    assert captures(connection, "INSERT INTO child VALUES (2, 1, 'one')") == [("s", "parent")]


RENAMED = [
    ("ALTER TABLE child RENAME CONSTRAINT child_parent_fkey TO renamed", {"child"}),
    ("ALTER TABLE child RENAME parent TO renamed", {"child"}),
    ("ALTER TABLE parent RENAME id TO renamed", {"parent"}),
    ("ALTER INDEX parent_pkey RENAME TO renamed", {"parent"}),
]


@pytest.mark.parametrize(("statement", "at_least"), RENAMED)
def test_names(connection: psycopg.Connection[Any], statement: str, at_least: set[str]) -> None:
    assert at_least <= ddl(connection, statement)
    assert captures(connection, "INSERT INTO child VALUES (1, 1)") == [("s", "parent")]
    assert captures(connection, "DELETE FROM parent WHERE code = 'two'") == [("k", "parent")]


def test_tables_exchange_their_names(connection: psycopg.Connection[Any]) -> None:
    ddl(
        connection,
        "ALTER TABLE child RENAME TO x; ALTER TABLE parent RENAME TO child; ALTER TABLE x RENAME TO parent",
    )
    assert captures(connection, "INSERT INTO parent VALUES (1, 1)") == [("s", "child")]
    assert captures(connection, "DELETE FROM child WHERE id = 2") == [("k", "child")]


def test_a_parents_key_of_another_type(connection: psycopg.Connection[Any]) -> None:
    """The bytes of the two stay the same."""
    changed = ddl(
        connection,
        "ALTER TABLE child ADD FOREIGN KEY (v) REFERENCES waits; ALTER TABLE waits ALTER id TYPE numeric",
    )
    assert {"child", "waits"} <= changed
    connection.execute("INSERT INTO waits VALUES (3.00, 1)")
    assert ("s", "waits") in captures(connection, "INSERT INTO child VALUES (9, NULL, NULL, 3)")
    connection.execute("DELETE FROM child")
    connection.execute("DELETE FROM waits")
    query = "SELECT count(DISTINCT payload) FROM psp.write_set WHERE op IN ('s', 'k')"
    assert one(connection, query) == 1


def test_the_columns_of_foreign_keys_may_change(connection: psycopg.Connection[Any]) -> None:
    """PostgreSQL would not let them while a trigger names them."""
    assert "child" in ddl(connection, "ALTER TABLE child ALTER parent TYPE bigint")
    assert captures(connection, "INSERT INTO child VALUES (1, 1)") == [("s", "parent")]
    assert "parent" in ddl(connection, "ALTER TABLE parent DROP COLUMN code CASCADE")


def test_partitions_come_and_go(connection: psycopg.Connection[Any]) -> None:
    """Rows of a partition that comes refer to the parent's, which nobody may have ended."""
    statement = "CREATE TABLE more (id int PRIMARY KEY, parent int); INSERT INTO more VALUES (11, 1)"
    ddl(connection, statement)
    assert {"whole", "other"} <= ddl(
        connection, "ALTER TABLE whole ATTACH PARTITION more FOR VALUES FROM (10) TO (20)"
    )
    assert captures(connection, "INSERT INTO whole VALUES (12, 1)") == [("s", "other")]
    assert captures(connection, "UPDATE more SET parent = 1 WHERE id = 11") == []
    assert {"whole", "other", "more"} <= ddl(connection, "ALTER TABLE whole DETACH PARTITION more")
    assert captures(connection, "INSERT INTO more VALUES (13, 1)") == [("s", "other")]


def test_partitions_of_a_parent_come_and_go(connection: psycopg.Connection[Any]) -> None:
    changed = ddl(connection, "CREATE TABLE broken_2 PARTITION OF broken FOR VALUES FROM (10) TO (20)")
    assert {"broken", "of_broken"} <= changed
    connection.execute("INSERT INTO broken VALUES (11)")
    assert captures(connection, "DELETE FROM broken WHERE id = 11") == [("k", "broken")]
    assert {"broken", "of_broken"} <= ddl(connection, "ALTER TABLE broken DETACH PARTITION broken_2")
    connection.execute("INSERT INTO broken_2 VALUES (12)")
    assert captures(connection, "DELETE FROM broken_2") == []
    assert captures(connection, "DELETE FROM broken") == [("k", "broken")]


def test_nobody_takes_the_triggers_away(connection: psycopg.Connection[Any]) -> None:
    for statement in ('DROP TRIGGER "PSP_ended" ON parent', 'ALTER TABLE parent DISABLE TRIGGER "PSP_ended"',
                      "DROP TRIGGER psp_capture_share ON child"):  # fmt: skip
        with pytest.raises(psycopg.errors.FeatureNotSupported), connection.transaction():
            ddl(connection, statement)
