"""psp mrv alter: more records than the column was made for, on a live database."""

from __future__ import annotations

import pytest
from psp.cli import app
from psp.mrv.alter import alter
from psp.output import PspError
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, one
from tests.sql.mrv.columns import adjust, make

LARGEST = 2**31 - 1
SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL CHECK (stock >= 0));
INSERT INTO item VALUES (1, 100), (2, {LARGEST // 8});
GRANT SELECT, UPDATE ON item TO {APPLICATION};
"""


def most(pair: Pair, nr_max: int | None, nr_min: int | None = None) -> None:
    alter(pair.dsn, "item.stock", nr_min, nr_max, 10, print)


def test_more_records_than_at_creation(pair: Pair) -> None:
    """A record that holds more than it now may is merged; the sum never leaves the type."""
    pair.run(SCHEMA)
    make(pair, "item.stock", max=4, records=4)
    with pair.connect(autocommit=True) as connection:
        assert one(connection, "SELECT count(*) FROM psp_mrv.item_stock") == 8
        most(pair, 64)
        rows = connection.execute("SELECT id, count(*) FROM psp_mrv.item_stock GROUP BY id").fetchall()
        assert rows == [(1, 4)]
        assert connection.execute("SELECT * FROM item ORDER BY id").fetchall() == [
            (1, 100),
            (2, LARGEST // 8),
        ]
        assert adjust(connection, 1, ["2"], 99) == "split"
        for item in (1, 2):
            adjust(connection, 1, [str(item)], 99)
        assert one(connection, "SELECT count(*) FROM psp_mrv.item_stock") == 128
        limit = one(connection, "SELECT record_max FROM psp_mrv.columns")
        assert limit == LARGEST // 64
        connection.execute("UPDATE item SET stock = stock + %s WHERE id = 1", (limit,))
        assert one(connection, "SELECT max(v) FROM psp_mrv.item_stock") <= limit
        assert one(connection, "SELECT stock FROM item WHERE id = 1") == 100 + limit
    with pair.connect_as_application(autocommit=True) as connection:  # its rights are what they were
        connection.execute("SELECT psp_mrv.item_stock_sub(1, 1)")
        assert one(connection, "SELECT stock FROM item WHERE id = 1") == 99 + limit


def test_fewer_records(pair: Pair) -> None:
    """Adjust takes them away when it comes to the value."""
    pair.run(SCHEMA)
    make(pair, "item.stock", max=8, records=8)
    most(pair, 2)
    with pair.connect(autocommit=True) as connection:
        assert adjust(connection, 1, ["1"], 0) == "removed"
        connection.execute("INSERT INTO item VALUES (3, 10)")
        assert one(connection, "SELECT count(*) FROM psp_mrv.item_stock WHERE id <> 2") == 4
        assert one(connection, "SELECT record_limit FROM psp_mrv.columns") == 8
        assert one(connection, "SELECT stock FROM item WHERE id = 1") == 100


def test_refused(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock", max=8)
    for nr_max, nr_min in ((2000, None), (None, 9), (4, 5), (None, 0)):
        with pytest.raises(PspError, match="ascend"):
            most(pair, nr_max, nr_min)
    with pytest.raises(PspError, match="no MRV"):
        alter(pair.dsn, "item.id", None, 9, 10, print)


def test_command(pair: Pair) -> None:
    pair.run(SCHEMA)
    make(pair, "item.stock")
    done = CliRunner().invoke(app, ["mrv", "alter", "item.stock", pair.dsn, "--min", "2", "--max", "128"])
    assert (done.exit_code, done.output.strip()) == (0, "public.item.stock has 2 to 128 records.")


def test_a_new_column_is_shown(pair: Pair) -> None:
    """ALTER TABLE on what is a view now is refused; on the table itself, and then alter without limits."""
    pair.run(SCHEMA + "ALTER TABLE item ADD price numeric DEFAULT 5;")
    make(pair, "item.stock", records=4)
    pair.run("ALTER VIEW item ALTER COLUMN price SET DEFAULT 6")
    pair.run("ALTER TABLE item_orig ADD weight int NOT NULL DEFAULT 3")
    with pair.connect_as_application(autocommit=True) as connection:
        connection.execute("UPDATE item SET stock = stock - 1")
    assert CliRunner().invoke(app, ["mrv", "alter", "item.stock", pair.dsn]).exit_code == 0
    make(pair, "item.price", records=2)
    with pair.connect(autocommit=True) as connection:
        connection.execute("INSERT INTO item (id, stock) VALUES (3, 7)")
        connection.execute("UPDATE item SET weight = weight + 1, stock = stock - 1 WHERE id = 3")
        rows = connection.execute("SELECT * FROM item WHERE id <> 2 ORDER BY id").fetchall()
        assert rows == [(1, 99, 5, 3), (3, 6, 6, 4)]
