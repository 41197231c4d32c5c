"""psp mrv create and drop: finished, or as it was; on a database in use; all else of the table kept."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest
from psp.cli import app
from psp.mrv import rights
from psp.output import PspError
from psp.problems import RefusedError
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, one
from tests.sql.mrv.columns import adjust, make, unmake

SCHEMA = """
CREATE TABLE kind (id int PRIMARY KEY);
INSERT INTO kind VALUES (1), (2);
CREATE TABLE item (id serial PRIMARY KEY, kind int DEFAULT 1 REFERENCES kind ON DELETE CASCADE,
                   name text UNIQUE, stock int NOT NULL DEFAULT 5 CONSTRAINT enough CHECK (stock >= 2),
                   price numeric(8,2) CHECK (price > 0.5));
COMMENT ON TABLE item IS 'what we sell'; COMMENT ON COLUMN item.stock IS 'pieces';
CREATE INDEX item_kind ON item (kind, price);
CREATE INDEX item_name_lower ON item (lower(name)) WHERE kind > 1;
CREATE TABLE line (item int REFERENCES item ON DELETE CASCADE, n int);
INSERT INTO item (kind, name, stock) SELECT 1 + i % 2, 'n' || i, 100 FROM generate_series(1, 50) i;
CREATE ROLE {pair}_reader; CREATE ROLE {pair}_clerk;
GRANT SELECT ON item TO {pair}_reader;
GRANT UPDATE (stock, price), SELECT ON item TO {pair}_clerk WITH GRANT OPTION;
ALTER TABLE item OWNER TO application; GRANT REFERENCES ON kind TO application;
"""


def fill(pair: Pair) -> str:
    """The dump of the plain database."""
    pair.run(SCHEMA.format(pair=pair.name))
    return pair.dump()


def test_drop_gives_back(pair: Pair) -> None:
    before = fill(pair)
    make(pair, "item.stock", records=4)
    with pair.connect() as connection:
        connection.execute("UPDATE item SET stock = stock + 7 WHERE id <= 10")
        connection.execute("UPDATE item SET stock = stock - 7 WHERE id <= 10")
    unmake(pair, "item.stock")
    assert pair.dump() == before


def test_second_column_and_back(pair: Pair) -> None:
    pair.run(
        SCHEMA.format(pair=pair.name)
        + "ALTER TABLE item DROP CONSTRAINT item_price_check; DROP INDEX item_kind"
    )
    before = pair.dump()
    make(pair, "item.stock", records=4)
    make(pair, "item.price", lower_bound="0.5", records=2)
    with pair.connect() as connection:
        connection.execute("UPDATE item SET price = 3.5 WHERE id = 1")
        assert adjust(connection, 2, ["1"], 4) == "split"
        with pytest.raises(psycopg.errors.CheckViolation) as error, connection.transaction():
            connection.execute("UPDATE item SET price = price - 3.01 WHERE id = 1")
        assert error.value.diag.constraint_name == "item_price_lower_bound"
        connection.execute("UPDATE item SET price = NULL")
    unmake(pair, "item.stock")
    with pair.connect() as connection:
        assert (
            one(connection, "UPDATE item SET stock = stock - 1, price = 2 WHERE id = 1 RETURNING stock") == 99
        )
        connection.execute("UPDATE item SET stock = stock + 1, price = NULL WHERE id = 1")
    unmake(pair, "item.price")
    assert sorted(pair.dump().splitlines()) == sorted(before.splitlines())  # rows may stand elsewhere


def test_failure_leaves_everything(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill(pair)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rights, "give", fail)
        with pytest.raises(KeyboardInterrupt):
            make(pair, "item.stock", records=4)
    assert pair.dump() == before
    make(pair, "item.stock")
    between = pair.dump()
    with monkeypatch.context() as patched:
        patched.setattr(rights, "copy_grants", fail)
        with pytest.raises(KeyboardInterrupt):
            unmake(pair, "item.stock")
    assert pair.dump() == between


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("CREATE VIEW cheap AS SELECT id, name FROM item", "cheap"),
        ("CREATE INDEX item_stock ON item (stock)", "item_stock"),
        ("CREATE INDEX item_whole ON item (hash_record(item))", "item_whole"),
        ("ALTER TABLE item ADD CHECK (stock < 1000)", "item_stock_check"),
        ("ALTER TABLE item ADD CONSTRAINT whole CHECK (hash_record(item) IS NOT NULL)", "whole"),
        ("ALTER TABLE item ADD twice int GENERATED ALWAYS AS (stock * 2) STORED", "twice"),
        ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
         "CREATE TRIGGER watch AFTER UPDATE ON item FOR EACH ROW EXECUTE FUNCTION f()", "watch"),
        ("ALTER TABLE item ENABLE ROW LEVEL SECURITY", "row level"),
        ("CREATE TABLE child () INHERITS (item)", "inherit"),
        ("CREATE FUNCTION g(item) RETURNS int LANGUAGE sql AS 'SELECT 1'", "public.g"),
        ("ALTER TABLE item DROP CONSTRAINT item_pkey CASCADE", "primary key"),
        ("CREATE PUBLICATION p FOR TABLE item", "published"),
        ("CREATE PUBLICATION p FOR ALL TABLES", "published"),
    ],
)  # fmt: skip
def test_refused_with_reasons(pair: Pair, ddl: str, told: str) -> None:
    pair.run(SCHEMA.format(pair=pair.name) + ddl)
    before = pair.dump()
    with pytest.raises(RefusedError) as error:
        make(pair, "item.stock")
    told_of = [str(vars(problem)) for problem in error.value.problems]
    assert told in str(told_of) and len(told_of) == len(set(told_of))
    assert pair.dump() == before


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("item.nothing", {}, "no column"), ("nothing.stock", {}, "no table"), ("stock", {}, "TABLE.COLUMN"),
        ("item.stock", {"lower_bound": "7"}, "at least 2"), ("item.stock", {"lower_bound": "much"}, "number"),
        ("item.stock", {"records": 9, "max": 8}, "ascend"), ("item.name", {}, "cannot"),
        ("item.id", {}, "cannot"), ("line.n", {}, "cannot"),
    ],
)  # fmt: skip
def test_bad_input(pair: Pair, name: str, options: dict[str, Any], told: str) -> None:
    before = fill(pair)
    with pytest.raises(PspError) as error:
        make(pair, name, **options)
    assert told in str(error.value) + str(error.value.hint)
    assert pair.dump() == before


def test_a_value_below_the_bound_is_told(pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, -1)")
    with pytest.raises(psycopg.errors.CheckViolation):
        make(pair, "t.v", lower_bound="0")
    make(pair, "t.v", lower_bound="-1")
    with pytest.raises(PspError, match="already"):
        make(pair, "t.v")


def test_views_on_the_view_hold_up_drop(pair: Pair) -> None:
    fill(pair)
    make(pair, "item.stock")
    pair.run("CREATE VIEW cheap AS SELECT id FROM item")
    with pytest.raises(RefusedError):
        unmake(pair, "item.stock")
    pair.run("DROP VIEW cheap")
    unmake(pair, "item.stock")


def test_rights_are_kept(pair: Pair) -> None:
    fill(pair)
    make(pair, "item.stock", records=3)
    allowed = {
        "reader": ["SELECT stock FROM item", "SELECT psp_mrv.item_stock_gte(1, 5)"],
        "clerk": ["UPDATE item SET stock = stock + 1 WHERE id = 1", "SELECT psp_mrv.item_stock_add(1, 5)"],
    }
    refused = {
        "reader": ["UPDATE item SET stock = 3", "SELECT psp_mrv.item_stock_add(1, 5)",
                   "SELECT * FROM psp_mrv.item_stock",
                   "SELECT psp_mrv_view.item_stock_sum(1, 5)", "SELECT psp_mrv.item_stock_one(1, 5)",
                   "SELECT psp_mrv.adjust(1, '{1}', 1)", "SELECT * FROM psp_mrv.outcomes"],
        "clerk": ["UPDATE item SET name = 'x'", "DELETE FROM item", "SELECT psp_mrv.item_stock_set(1, 5)"],
    }  # fmt: skip
    for role in allowed:
        for statement in allowed[role]:
            with pair.connect() as connection:
                connection.execute(f"SET ROLE {pair.name}_{role}".encode())
                assert connection.execute(statement.encode()).rowcount > 0
        for statement in refused[role]:
            with pair.connect() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SET ROLE {pair.name}_{role}".encode())
                connection.execute(statement.encode())
    with pair.application() as connection:  # the owner
        connection.execute("UPDATE item SET stock = stock + 1")
        assert adjust(connection, 1, ["1"], 1) == "added"
    with pair.connect() as connection:
        owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'item'"
        assert one(connection, owner) == APPLICATION


def test_keys_and_indexes_go_on(pair: Pair) -> None:
    fill(pair)
    make(pair, "item.stock", records=8)
    with pair.connect(autocommit=True) as connection:
        for statement, state in (
            ("INSERT INTO item (name) VALUES ('n1')", "23505"), ("INSERT INTO line VALUES (999, 1)", "23503"),
            ("UPDATE item SET kind = 7", "23503"), ("INSERT INTO item (stock) VALUES (1)", "23514"),
            ("UPDATE item SET price = 0", "23514"), ("UPDATE item SET stock = NULL", "23502"),
        ):  # fmt: skip
            with pytest.raises(psycopg.Error) as error:
                connection.execute(statement.encode())
            assert error.value.sqlstate == state
        connection.execute("DELETE FROM kind WHERE id = 1")
        assert one(connection, "SELECT count(*) FROM item") == 25
        assert one(connection, "SELECT count(DISTINCT id) FROM psp_mrv.item_stock") == 25
        with connection.cursor() as cursor, cursor.copy("COPY item (name, stock) FROM STDIN") as copy:
            pass
        del copy
        connection.execute("INSERT INTO kind VALUES (1)")
        with connection.cursor() as cursor, cursor.copy("COPY item (name, stock) FROM STDIN") as copy:
            copy.write("copied\t9\n")
        assert one(connection, "SELECT stock FROM item WHERE name = 'copied'") == 9
        plan = "\n".join(
            r[0] for r in connection.execute("EXPLAIN UPDATE item SET stock = stock - 1 WHERE id = 3")
        )
    assert "Seq Scan" not in plan


def test_triggers_find_what_they_name(pair: Pair) -> None:
    """Triggers of the table name the application's tables without a schema."""
    pair.run(
        SCHEMA.format(pair=pair.name) + "CREATE TABLE audit (at serial, what text);"
        "GRANT INSERT ON audit TO application; GRANT USAGE ON audit_at_seq TO application;"
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        "  INSERT INTO audit (what) VALUES (concat_ws(' ', TG_WHEN, TG_OP, coalesce(NEW.name, OLD.name)));"
        "  RETURN coalesce(NEW, OLD); END $$;"
        "CREATE TRIGGER before BEFORE INSERT OR DELETE OR UPDATE OF name ON item "
        "  FOR EACH ROW EXECUTE FUNCTION note();"
        "CREATE TRIGGER after AFTER INSERT OR DELETE OR UPDATE OF name ON item "
        "  FOR EACH ROW EXECUTE FUNCTION note();"
    )
    statements = (
        "INSERT INTO item (name) VALUES ('x') RETURNING stock",
        "UPDATE item SET stock = stock + 1 WHERE name = 'x' RETURNING stock",
        "UPDATE item SET name = 'y', stock = stock + 1 WHERE name = 'x' RETURNING stock",
        "DELETE FROM item WHERE name = 'y' RETURNING stock",
    )

    def seen() -> list[Any]:
        with pair.connect() as connection:
            rows = [connection.execute(statement.encode()).fetchall() for statement in statements]
            rows.append(connection.execute("SELECT what FROM audit ORDER BY at").fetchall())
            connection.rollback()
            return rows

    plain = seen()
    make(pair, "item.stock", records=4)
    assert seen() == plain
    assert len(plain[-1]) == 6


def test_while_in_use(pair: Pair) -> None:
    """Clients go on through create, adjustments and drop; nothing is lost, and they see no error."""
    pair.run("CREATE TABLE item (id int PRIMARY KEY, stock int); INSERT INTO item VALUES (1, 0)")
    ready, stop = threading.Semaphore(0), threading.Event()
    done: list[int] = []
    errors: list[psycopg.Error] = []

    def client() -> None:
        count = 0
        with pair.connect(autocommit=True) as connection:
            while not stop.is_set():
                try:
                    assert connection.execute("UPDATE item SET stock = stock + 1 WHERE id = 1").rowcount == 1
                    assert connection.execute("SELECT stock FROM item WHERE id = 1").fetchone() is not None
                    count += 1
                    ready.release()
                except psycopg.Error as error:
                    errors.append(error)
                    break
        done.append(count)

    def wait(steps: int) -> None:
        for _ in range(steps):
            assert ready.acquire(timeout=60)

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            wait(30)
            make(pair, "item.stock")
            wait(30)
            with pair.connect(autocommit=True) as connection:
                assert adjust(connection, 1, ["1"], 3) == "split"
                wait(30)
                assert adjust(connection, 1, ["1"], -3) == "merged"
                wait(30)
                assert adjust(connection, 1, ["1"], 2) == "split"
            unmake(pair, "item.stock")
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert errors == []
    with pair.connect() as connection:
        assert one(connection, "SELECT stock FROM item") == sum(done)


def test_waits_for_others_within_bounds(pair: Pair) -> None:
    fill(pair)
    with pair.connect() as writer:
        writer.execute("UPDATE item SET stock = 9")
        with pytest.raises(PspError, match="held by pid"):
            make(pair, "item.stock", lock_wait_s=0.1)


def test_command(pair: Pair) -> None:
    fill(pair)
    run = CliRunner()
    made = run.invoke(
        app, ["mrv", "create", "item.stock", pair.dsn, "--max", "8", "--strategy", "quadratic", "--json"]
    )
    assert made.exit_code == 0, made.output
    assert json.loads(made.output)["bound_name"] == "enough"
    assert "item.stock" in run.invoke(app, ["mrv", "list", pair.dsn]).output
    listed = json.loads(run.invoke(app, ["mrv", "list", pair.dsn, "--json"]).output)
    assert [(m["nr_max"], m["strategy"], m["ar_goal"]) for m in listed] == [(8, "quadratic", 0.05)]
    with pair.connect() as connection:
        adjust(connection, 1, ["3"], 4)
        connection.execute("SELECT psp_mrv.report('item.stock', '{3}', 10, 2, 30.5)")
        connection.execute("INSERT INTO psp_mrv.workers (worker, runner, pid) VALUES ('adjust', 1, 77)")
    status = json.loads(run.invoke(app, ["mrv", "status", pair.dsn, "--json"]).output)
    assert status["mrvs"][0] | {"lower_bound": 0} == {
        "mrv": "public.item.stock", "lower_bound": 0, "values": 50, "split": 1, "records": 5,
        "most_records": 5,
    }  # fmt: skip
    assert run.invoke(app, ["mrv", "status", pair.dsn]).exit_code == 0
    refused = run.invoke(app, ["mrv", "create", "item.kind", pair.dsn])
    assert refused.exit_code == 1 and "item_kind" in refused.output
    dropped = run.invoke(app, ["mrv", "drop", "item.stock", pair.dsn])
    assert dropped.exit_code == 0, dropped.output
    assert json.loads(run.invoke(app, ["mrv", "list", pair.dsn, "--json"]).output) == []


def test_operators_of_the_caller_are_not_used(pair: Pair) -> None:
    """Functions that run with the owner's rights do not set the search path: they name what they mean."""
    pair.run(
        SCHEMA.format(pair=pair.name)
        + "ALTER TABLE item DROP CONSTRAINT item_price_check; DROP INDEX item_kind"
    )
    make(pair, "item.stock", records=2)
    make(pair, "item.price", lower_bound="none")
    types = ("smallint", "integer", "bigint", "numeric", "text", "boolean")
    operators = "".join(
        f"CREATE FUNCTION evil.f{n}_{m}({left}, {left}) RETURNS {result} LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE 'evil operator {sign} of {left}'; END $$;"
        f"CREATE OPERATOR evil.{sign} (FUNCTION = evil.f{n}_{m}, LEFTARG = {left}, RIGHTARG = {left});"
        for n, left in enumerate(types)
        for m, (sign, result) in enumerate(
            [("=", "boolean"), ("<>", "boolean"), (">=", "boolean"), ("<=", "boolean"), (">", "boolean"),
             ("<", "boolean"), ("+", left), ("-", left), ("*", left)]
        )
    )  # fmt: skip
    pair.run(
        "CREATE SCHEMA evil; "
        + operators
        + "CREATE FUNCTION evil.format(text, text) RETURNS text LANGUAGE sql "
        "AS $$ SELECT 'evil' $$; CREATE FUNCTION evil.record_image_eq(record, record) RETURNS boolean "
        "LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil function'; END $$"
    )
    with pair.connect() as connection:
        connection.execute("SET search_path = evil, pg_catalog, public")
        for statement in (
            "UPDATE item SET stock = 9", "UPDATE item SET price = 7, stock = 8",
            "UPDATE item SET price = NULL", "UPDATE item SET price = 3", "UPDATE item SET price = 4",
            "UPDATE item SET name = NULL, price = 5",
            "SELECT psp_mrv.item_stock_add(1, 3)", "SELECT psp_mrv.item_price_sub(1, 3)",
            "SELECT psp_mrv.item_stock_try_sub(1, 300)", "SELECT psp_mrv.item_price_write(1, 3)",
            "SELECT psp_mrv.item_stock_gte(1, 3), psp_mrv.item_stock_total(1), psp_mrv.item_price_gt(1, 3)",
            "SELECT * FROM item", "INSERT INTO item (id) VALUES (99)", "DELETE FROM item",
        ):  # fmt: skip
            connection.execute(statement.encode())
        with pytest.raises(psycopg.errors.RaiseException, match="evil"):
            connection.execute("SELECT 1 + 1")
