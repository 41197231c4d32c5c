"""The part of the ring that a semi-primary prefers."""

import psycopg
import pytest
from psp.mrv.ring import part
from psp.schema.release import release
from psp.sql_files import constant

from tests.sql.databases import Pair, one
from tests.sql.mrv.columns import adjust, make

SETTINGS = """
SELECT coalesce(array_agg(c), '{}') FROM pg_db_role_setting, unnest(setconfig) c WHERE setdatabase = %s::oid
"""


@pytest.mark.parametrize("slots", [1, 2, 3, 64])
def test_parts_never_meet(slots: int) -> None:
    places = [
        place for sp in range(1, slots + 1) for place in range(part(sp, slots)[0], sum(part(sp, slots)))
    ]
    assert len(set(places)) == len(places)
    assert max(places) < constant("RING_PLACES")


def test_first_records_stand_in_the_first_parts(pair: Pair) -> None:
    with pair.connect() as connection:
        pair.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)")
        make(pair, "t.v", records=4)
        records = [r[0] for r in connection.execute("SELECT rk FROM psp_mrv.t_v").fetchall()]
    assert sorted(records) == sorted(part(sp, 64)[0] for sp in (1, 2, 3, 4))


def test_adopted_and_released(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)")
    make(pair, "t.v")
    before = pair.dump()
    pair.adopt(slots=4)
    with pair.connect() as connection:
        database = one(connection, "SELECT oid::int8 FROM pg_database WHERE datname = current_database()")
        assert set(one(connection, SETTINGS, database)) == {
            "psp_mrv.ring_first=0",
            "psp_mrv.ring_count=16384",
        }
    release(pair.dsn, pair.primary_dsn, drop_keys=False, force=False, lock_wait_s=5, say=print)
    with pair.connect() as connection:
        assert one(connection, SETTINGS, database) == []
    assert pair.dump() == before


def test_changed_records_are_passed_over_in_the_order_of_the_ring(pair: Pair) -> None:
    """Under REPEATABLE READ a semi-primary goes on behind its own part, and comes to the others' last."""
    pair.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)")
    make(pair, "t.v", records=8)
    first, count = part(2, 4)
    with pair.connect(autocommit=True) as neighbour, pair.connect() as mine:
        mine.execute(f"SET psp_mrv.ring_first = {first}; SET psp_mrv.ring_count = {count}")
        mine.commit()
        mine.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        mine.execute("SELECT 1")
        neighbour.execute("UPDATE psp_mrv.t_v SET v = 50 WHERE rk >= %s AND rk < %s", (first, first + count))
        mine.execute("UPDATE t SET v = v + 1000 WHERE id = 1")
        mine.commit()
        written = one(neighbour, "SELECT min(rk) FROM psp_mrv.t_v WHERE v > 1000")
        assert written == min(rk for rk in one(neighbour, "SELECT array_agg(rk) FROM psp_mrv.t_v")
                              if rk >= first + count)  # fmt: skip
        # Now all up to the end of the ring: it goes on at its beginning.
        mine.execute("SELECT 1")
        neighbour.execute("UPDATE psp_mrv.t_v SET v = v + 1 WHERE rk >= %s", (first,))
        mine.execute("UPDATE t SET v = v + 3000 WHERE id = 1")
        mine.commit()
        assert one(neighbour, "SELECT rk FROM psp_mrv.t_v WHERE v > 3000") == 0


def test_a_server_without_records_begins_with_empty_ones_that_others_fill(pair: Pair) -> None:
    """It never takes from the others' records, which change all the time; they give."""
    pair.run("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v >= 0)); INSERT INTO t VALUES (1, 100)")
    make(pair, "t.v")
    amounts = "SELECT array_agg(v ORDER BY rk) FROM psp_mrv.t_v"
    first, count = part(2, 2)
    with pair.connect(autocommit=True) as here, pair.connect(autocommit=True) as there:
        here.execute(f"SET psp_mrv.ring_count = {count}")
        there.execute(f"SET psp_mrv.ring_first = {first}; SET psp_mrv.ring_count = {count}")
        assert adjust(here, 1, ["1"], 1) == "split"
        base = "SELECT xmin::text FROM t_orig"
        before = one(here, base)
        assert adjust(there, 1, ["1"], 2) == "added"
        assert one(here, amounts) == [50, 50, 0, 0]
        assert one(here, base) != before  # a merge at another server conflicts with it
        assert adjust(there, 1, ["1"], 2) == "busy"  # more empty ones would not help
        assert one(there, "SELECT psp_mrv.balance(1, '{1}', 'minmax')") == 0  # nothing to give
        for _ in range(2):
            assert one(here, "SELECT psp_mrv.balance(1, '{1}', 'minmax')") == 2
        assert one(here, amounts) == [25, 25, 25, 25]
        assert adjust(there, 1, ["1"], -1) == "removed"
        assert one(here, amounts) == [25, 25, 50]
        assert adjust(there, 1, ["1"], -1) == "busy"  # the others' records are not its own to take away
        assert one(there, "SELECT v FROM t") == 100


def test_unbounded_values_need_no_filling(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)")
    make(pair, "t.v")
    first, count = part(2, 2)
    with pair.connect(autocommit=True) as here, pair.connect(autocommit=True) as there:
        here.execute(f"SET psp_mrv.ring_count = {count}")
        there.execute(f"SET psp_mrv.ring_first = {first}; SET psp_mrv.ring_count = {count}")
        assert adjust(here, 1, ["1"], 1) == "split"
        assert adjust(there, 1, ["1"], 1) == "added"
        assert adjust(there, 1, ["1"], 1) == "added"
        there.execute("UPDATE t SET v = v - 7")
        assert one(here, "SELECT min(v) FROM psp_mrv.t_v") == -7
        assert one(here, "SELECT v FROM t") == 93
