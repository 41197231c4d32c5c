"""SQL that applications write, unchanged, through psp: done at one SP, the same everywhere afterwards."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors

from tests.cluster.sites import Sites, needs
from tests.threads import running

# ---- statements -----------------------------------------------------------------------------------


@needs("CREATE TABLE returning_t (id int PRIMARY KEY, v int)")
def test_returning(sites: Sites) -> None:
    with sites.connect("north") as db:
        inserted = db.execute(
            "INSERT INTO returning_t VALUES (1, 10), (2, 20) RETURNING id, v + 1"
        ).fetchall()
        updated = db.execute("UPDATE returning_t SET v = v * 2 WHERE id = 2 RETURNING v").fetchall()
        deleted = db.execute("DELETE FROM returning_t WHERE id = 1 RETURNING *").fetchall()
    assert (inserted, updated, deleted) == ([(1, 11), (2, 21)], [(40,)], [(1, 10)])
    assert sites.rows("south", "TABLE returning_t") == [(2, 40)]


@needs("CREATE TABLE upsert_t (id int PRIMARY KEY, email text UNIQUE, n int DEFAULT 0)")
def test_on_conflict(sites: Sites) -> None:
    with sites.connect("north") as db:
        db.execute("INSERT INTO upsert_t VALUES (1, 'a'), (2, 'b')")
        ignored = db.execute("INSERT INTO upsert_t VALUES (1, 'z'), (3, 'c') ON CONFLICT DO NOTHING")
        merged = db.execute(
            "INSERT INTO upsert_t VALUES (9, 'b', 5), (4, 'd', 6)"
            " ON CONFLICT (email) DO UPDATE SET n = upsert_t.n + excluded.n"
        )
    assert (ignored.rowcount, merged.rowcount) == (1, 2)
    expected = [(1, "a", 0), (2, "b", 5), (3, "c", 0), (4, "d", 6)]
    assert sites.rows("south", "SELECT * FROM upsert_t ORDER BY id") == expected


@needs("CREATE TABLE merge_t (id int PRIMARY KEY, v text)")
def test_merge(sites: Sites) -> None:
    sites.run("north", "INSERT INTO merge_t VALUES (1, 'old'), (2, 'goes')")
    assert len(sites.rows("south", "TABLE merge_t")) == 2
    sites.run(
        "south",
        "MERGE INTO merge_t t USING (VALUES (1, 'new'), (2, NULL), (3, 'came')) s(id, v) ON t.id = s.id"
        " WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)",
    )
    assert sites.rows("north", "SELECT * FROM merge_t ORDER BY id") == [(1, "new"), (3, "came")]


@needs("CREATE TABLE copy_t (id int PRIMARY KEY, v text, at timestamptz)")
@pytest.mark.parametrize("binary", [False, True])
def test_copy_from(sites: Sites, binary: bool) -> None:
    base = 1_000_000 if binary else 0
    statement = "COPY copy_t (id, v) FROM STDIN" + (" (FORMAT binary)" if binary else "")
    with sites.connect("north") as db, db.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["int4", "text"])
        for n in range(5000):
            copy.write_row((base + n, f"line {n}\twith\\tabs"))
    query = f"SELECT count(*), min(v), max(v) FROM copy_t WHERE id >= {base} AND id < {base + 5000}"
    assert sites.rows("south", query) == sites.rows("north", query)
    assert sites.rows("south", query)[0][0] == 5000


@needs("CREATE TABLE cte_from (id int PRIMARY KEY, v int); CREATE TABLE cte_to (id int PRIMARY KEY, v int)")
def test_data_modifying_cte(sites: Sites) -> None:
    sites.run("north", "INSERT INTO cte_from SELECT n, n FROM generate_series(1, 10) n")
    sites.run(
        "north",
        "WITH gone AS (DELETE FROM cte_from WHERE id > 5 RETURNING *),"
        " came AS (INSERT INTO cte_to SELECT id, v * 2 FROM gone RETURNING id)"
        " UPDATE cte_from SET v = (SELECT count(*) FROM came) WHERE id = 1",
    )
    assert sites.rows("south", "SELECT count(*), sum(v) FROM cte_to") == [(5, 80)]
    assert sites.rows("south", "SELECT v FROM cte_from WHERE id = 1") == [(5,)]


@needs("CREATE TABLE joined_t (id int PRIMARY KEY, v int); CREATE TABLE joined_u (id int PRIMARY KEY, v int)")
def test_update_from_and_delete_using(sites: Sites) -> None:
    sites.run(
        "south",
        "INSERT INTO joined_t SELECT n, 0 FROM generate_series(1, 6) n",
        "INSERT INTO joined_u SELECT id, id * 10 FROM joined_t WHERE id > 2",
        "UPDATE joined_t t SET v = u.v FROM joined_u u WHERE u.id = t.id",
        "DELETE FROM joined_t t USING joined_u u WHERE u.id = t.id AND u.v > 50",
    )
    assert sites.rows("north", "SELECT sum(v), count(*) FROM joined_t") == [(120, 5)]


@needs("CREATE TABLE cursor_t (id int PRIMARY KEY, v int)")
def test_where_current_of(sites: Sites) -> None:
    sites.run("north", "INSERT INTO cursor_t SELECT n, n FROM generate_series(1, 3) n")
    sites.run(
        "north",
        "DECLARE c CURSOR FOR SELECT * FROM cursor_t WHERE id = 2 FOR UPDATE",
        "FETCH c",
        "UPDATE cursor_t SET v = 99 WHERE CURRENT OF c",
    )
    assert sites.rows("south", "SELECT v FROM cursor_t WHERE id = 2") == [(99,)]


@needs("CREATE TABLE viewed_t (id int PRIMARY KEY, v int); CREATE VIEW viewed AS SELECT id, v FROM viewed_t")
def test_writes_through_a_view(sites: Sites) -> None:
    sites.run("north", "INSERT INTO viewed VALUES (1, 1)", "UPDATE viewed SET v = 2")
    assert sites.rows("south", "TABLE viewed") == [(1, 2)]


# ---- keys and unique values -----------------------------------------------------------------------


@needs("CREATE TABLE rekey_t (a int, b text, v int, PRIMARY KEY (a, b))")
def test_key_updates(sites: Sites) -> None:
    sites.run("north", "INSERT INTO rekey_t SELECT n, 'k', n FROM generate_series(1, 5) n")
    sites.run(
        "north",
        "UPDATE rekey_t SET a = a + 100, b = b || 'x' WHERE a <= 2",
        "DELETE FROM rekey_t WHERE a = 101",
    )
    expected = [(3, "k", 3), (4, "k", 4), (5, "k", 5), (102, "kx", 2)]
    assert sites.rows("south", "SELECT * FROM rekey_t ORDER BY a") == expected


@needs("CREATE TABLE reborn_t (id int PRIMARY KEY, v int)")
def test_same_key_many_times_in_one_transaction(sites: Sites) -> None:
    sites.run(
        "north",
        "INSERT INTO reborn_t VALUES (1, 1), (2, 1), (3, 1)",
        "UPDATE reborn_t SET v = 2",
        "DELETE FROM reborn_t WHERE id IN (1, 2)",
        "INSERT INTO reborn_t VALUES (1, 3)",
    )
    assert sites.rows("south", "SELECT * FROM reborn_t ORDER BY id") == [(1, 3), (3, 2)]
    sites.run("south", "DELETE FROM reborn_t", "INSERT INTO reborn_t VALUES (3, 4)")
    assert sites.rows("north", "TABLE reborn_t") == [(3, 4)]


@needs(
    "CREATE TABLE swap_t (id int PRIMARY KEY, place int UNIQUE);"
    "CREATE TABLE swap_deferred_t (id int PRIMARY KEY, place int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
)
def test_swaps_of_unique_values(sites: Sites) -> None:
    for table in ("swap_t", "swap_deferred_t"):
        sites.run("north", f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    sites.run(
        "north",
        "UPDATE swap_t SET place = -1 WHERE id = 1",
        "UPDATE swap_t SET place = 1 WHERE id = 2",
        "UPDATE swap_t SET place = 2 WHERE id = 1",
    )
    sites.run("north", "UPDATE swap_deferred_t SET place = place % 3 + 1")
    assert sites.rows("south", "SELECT place FROM swap_t ORDER BY id") == [(2,), (1,), (3,)]
    assert sites.rows("south", "SELECT place FROM swap_deferred_t ORDER BY id") == [(2,), (3,), (1,)]


@needs(
    "CREATE TABLE nulls_t (id int PRIMARY KEY, a int, b int, UNIQUE (a, b));"
    "CREATE TABLE one_null_t (id int PRIMARY KEY, a int UNIQUE NULLS NOT DISTINCT)"
)
def test_nulls_in_unique_indexes(sites: Sites) -> None:
    sites.run("north", "INSERT INTO nulls_t VALUES (1, NULL, 1), (2, NULL, 1), (3, 1, NULL), (4, 1, 1)")
    sites.run("south", "INSERT INTO nulls_t VALUES (5, NULL, 1), (6, 1, NULL)")
    assert sites.rows("north", "SELECT count(*) FROM nulls_t") == [(6,)]
    north, south = sites.connect("north"), sites.connect("south")
    north.execute("INSERT INTO one_null_t VALUES (1, NULL)")
    south.execute("INSERT INTO one_null_t VALUES (2, NULL)")
    north.commit()
    with pytest.raises(psycopg.Error) as refused:
        south.commit()
    assert refused.value.sqlstate == "40001"


@needs(
    "CREATE TABLE partial_t (id int PRIMARY KEY, email text, active boolean);"
    "CREATE UNIQUE INDEX ON partial_t (lower(email)) WHERE active"
)
def test_partial_expression_index_on_two_sites(sites: Sites) -> None:
    sites.run("north", "INSERT INTO partial_t VALUES (1, 'Ann', false), (2, 'ANN', false), (3, 'ann', true)")
    north, south = sites.connect("north"), sites.connect("south")
    north.execute("INSERT INTO partial_t VALUES (10, 'Bob', true)")
    south.execute("INSERT INTO partial_t VALUES (11, 'BOB', true)")
    north.commit()
    with pytest.raises(errors.SerializationFailure):
        south.commit()
    south.rollback()
    # Outside the index's predicate the same value meets nobody.
    sites.rows("south", "SELECT 1")
    sites.run("south", "INSERT INTO partial_t VALUES (12, 'bob', false)")
    assert sites.rows("north", "SELECT id FROM partial_t ORDER BY id") == [(1,), (2,), (3,), (10,), (12,)]


@needs("CREATE TABLE serial_t (id bigserial PRIMARY KEY, at_site text)")
def test_serial_on_two_sites_at_once(sites: Sites) -> None:
    def insert(name: str) -> None:
        with psycopg.connect(sites.cluster.sp(name).dsn, autocommit=True) as db:
            for _ in range(100):
                db.execute("INSERT INTO serial_t (at_site) VALUES (%s)", (name,))

    in_parallel(lambda: insert("north"), lambda: insert("south"), lambda: insert("north"))
    query = "SELECT at_site, count(*) FROM serial_t GROUP BY 1 ORDER BY 1"
    assert sites.rows("north", query) == [("north", 200), ("south", 100)]


@needs(
    "CREATE TABLE columns_t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int,"
    " doubled int GENERATED ALWAYS AS (a * 2) STORED, made timestamptz DEFAULT now(), v text DEFAULT 'none')"
)
def test_generated_and_identity_columns(sites: Sites) -> None:
    sites.run("north", "INSERT INTO columns_t (a) VALUES (1), (2)")
    sites.run("south", "INSERT INTO columns_t (a) VALUES (3)", "UPDATE columns_t SET a = a + 10")
    assert sites.rows("north", "SELECT a, doubled, v FROM columns_t ORDER BY a")[0][1] % 2 == 0
    assert sites.rows("north", "SELECT * FROM columns_t ORDER BY id") == sites.rows(
        "south", "SELECT * FROM columns_t ORDER BY id"
    )


# ---- two sites ------------------------------------------------------------------------------------


@needs("CREATE TABLE account (id int PRIMARY KEY, owner text UNIQUE, balance int)")
def test_same_row_on_two_sites_one_commits(sites: Sites) -> None:
    sites.run("north", "INSERT INTO account VALUES (1, 'ann', 100)")
    sites.rows("south", "SELECT 1")
    north, south = sites.connect("north"), sites.connect("south")
    north.execute("UPDATE account SET balance = balance - 10")
    south.execute("UPDATE account SET balance = balance - 20")
    north.commit()
    with pytest.raises(errors.SerializationFailure) as lost:
        south.commit()
    detail = lost.value.diag.message_detail or ""
    assert "account" in detail and "1" in detail and "north" in detail, detail
    assert sites.rows("south", "SELECT balance FROM account WHERE id = 1") == [(90,)]


def test_same_unique_value_on_two_sites_one_commits(sites: Sites) -> None:
    north, south = sites.connect("north"), sites.connect("south")
    north.execute("INSERT INTO account VALUES (50, 'eve', 1)")
    south.execute("INSERT INTO account VALUES (51, 'eve', 2)")
    south.commit()
    with pytest.raises(errors.SerializationFailure):
        north.commit()
    assert sites.rows("north", "SELECT id FROM account WHERE owner = 'eve'") == [(51,)]


@needs("CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 0), (2, 0)")
def test_no_increment_is_lost(sites: Sites) -> None:
    rounds = 150

    def count(name: str, counter: int) -> None:
        with psycopg.connect(sites.cluster.sp(name).dsn) as db:
            done = 0
            while done < rounds:
                try:
                    db.execute("UPDATE counter SET n = n + 1 WHERE id = %s", (counter,))
                    db.commit()
                    done += 1
                except errors.SerializationFailure:
                    db.rollback()

    in_parallel(*(lambda s=s, c=c: count(s, c) for s in ("north", "south") for c in (1, 2)))
    assert sites.rows("south", "SELECT * FROM counter ORDER BY id") == [(1, 2 * rounds), (2, 2 * rounds)]


def in_parallel(*works: Callable[[], object]) -> None:
    """Runs them all at once; the first error of any of them is raised."""
    with running(*works):
        pass
