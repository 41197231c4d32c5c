"""Transactions as applications write them: savepoints, procedures, deferred checks, triggers, isolation."""

import psycopg
import pytest
from psycopg import errors

from tests.cluster.sites import Sites, needs


@needs("CREATE TABLE savepoint_t (id int PRIMARY KEY, v int)")
def test_savepoints_roll_back_part(sites: Sites) -> None:
    with sites.connect("north") as db:
        db.execute("INSERT INTO savepoint_t VALUES (1, 1), (2, 1)")
        with pytest.raises(errors.UniqueViolation), db.transaction():
            db.execute("UPDATE savepoint_t SET v = 50")
            db.execute("INSERT INTO savepoint_t VALUES (1, 1)")
        with db.transaction():
            db.execute("UPDATE savepoint_t SET v = 2 WHERE id = 2")
        db.execute("SAVEPOINT a")
        db.execute("DELETE FROM savepoint_t")
        db.execute("ROLLBACK TO a")
    assert sites.rows("south", "SELECT * FROM savepoint_t ORDER BY id") == [(1, 1), (2, 2)]


@needs("CREATE TABLE block_t (id int PRIMARY KEY, v int)")
def test_exception_blocks_and_commits_inside(sites: Sites) -> None:
    with sites.connect("north", autocommit=True) as db:
        db.execute(
            """
            DO $$
            BEGIN
                INSERT INTO block_t VALUES (1, 1);
                BEGIN
                    INSERT INTO block_t VALUES (2, 2);
                    RAISE EXCEPTION 'undone';
                EXCEPTION WHEN raise_exception THEN
                    INSERT INTO block_t VALUES (3, 3);
                END;
                COMMIT;
                UPDATE block_t SET v = 0;
                ROLLBACK;
                FOR n IN 10..14 LOOP
                    INSERT INTO block_t VALUES (n, n);
                    COMMIT;
                END LOOP;
            END $$
            """
        )
    expected = [(1, 1), (3, 3), *((n, n) for n in range(10, 15))]
    assert sites.rows("south", "SELECT * FROM block_t ORDER BY id") == expected


@needs(
    "CREATE TABLE procedure_t (id int PRIMARY KEY, v int);"
    "CREATE PROCEDURE fill(count int) LANGUAGE plpgsql AS $$ BEGIN"
    "  FOR n IN 1..count LOOP INSERT INTO procedure_t VALUES (n, n); COMMIT; END LOOP; END $$"
)
def test_procedure_with_commits(sites: Sites) -> None:
    with sites.connect("south", autocommit=True) as db:
        before = sites.published()
        db.execute("CALL fill(7)")
    assert sites.rows("north", "SELECT count(*) FROM procedure_t") == [(7,)]
    assert sites.published() >= before + 7


@needs(
    "CREATE TABLE parent_t (id int PRIMARY KEY);"
    "CREATE TABLE child_t (id int PRIMARY KEY, parent int REFERENCES parent_t DEFERRABLE INITIALLY DEFERRED)"
)
def test_deferred_constraints(sites: Sites) -> None:
    sites.run("north", "INSERT INTO child_t VALUES (1, 1)", "INSERT INTO parent_t VALUES (1)")
    with sites.connect("north") as db:
        db.execute("INSERT INTO child_t VALUES (2, 77)")
        with pytest.raises(errors.ForeignKeyViolation):
            db.commit()
    with sites.connect("north") as db:
        db.execute("SET CONSTRAINTS ALL IMMEDIATE")
        db.execute("INSERT INTO parent_t VALUES (3)")
        db.execute("INSERT INTO child_t VALUES (3, 3)")
    assert sites.rows("south", "SELECT * FROM child_t ORDER BY id") == [(1, 1), (3, 3)]


@needs(
    "CREATE TABLE author (id int PRIMARY KEY);"
    "CREATE TABLE book (id int PRIMARY KEY,"
    "  author int REFERENCES author ON DELETE CASCADE ON UPDATE CASCADE);"
    "CREATE TABLE loan (id int PRIMARY KEY, book int REFERENCES book ON DELETE SET NULL)"
)
def test_foreign_keys_with_cascades(sites: Sites) -> None:
    sites.run(
        "north",
        "INSERT INTO author VALUES (1), (2), (3)",
        "INSERT INTO book VALUES (10, 1), (11, 1), (20, 2), (30, 3)",
        "INSERT INTO loan VALUES (100, 10), (101, 20), (102, 30)",
    )
    sites.run("north", "DELETE FROM author WHERE id = 1", "UPDATE author SET id = 22 WHERE id = 2")
    assert sites.rows("south", "SELECT * FROM book ORDER BY id") == [(20, 22), (30, 3)]
    assert sites.rows("south", "SELECT * FROM loan ORDER BY id") == [(100, None), (101, 20), (102, 30)]


@needs(
    """
    CREATE TABLE watched (id int PRIMARY KEY, v int, touched int DEFAULT 0, note text);
    CREATE TABLE watched_log (n bigserial PRIMARY KEY, id int, op text);
    CREATE FUNCTION watched_before() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.note := 'v is ' || NEW.v; RETURN NEW; END $$;
    CREATE FUNCTION watched_after() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO watched_log (id, op) VALUES (NEW.id, TG_OP);
        IF NEW.touched < 2 THEN
            UPDATE watched SET touched = touched + 1 WHERE id = NEW.id;
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON watched
        FOR EACH ROW EXECUTE FUNCTION watched_before();
    CREATE TRIGGER after_row AFTER INSERT OR UPDATE ON watched
        FOR EACH ROW EXECUTE FUNCTION watched_after();
    """
)
def test_users_triggers_that_update_the_same_row_again(sites: Sites) -> None:
    sites.run("north", "INSERT INTO watched VALUES (1, 5), (2, 6)", "UPDATE watched SET v = 7 WHERE id = 2")
    expected = [(1, 5, 2, "v is 5"), (2, 7, 2, "v is 7")]
    assert sites.rows("north", "SELECT * FROM watched ORDER BY id") == expected
    assert sites.rows("south", "SELECT * FROM watched ORDER BY id") == expected
    # The triggers ran at the origin only.
    assert sites.rows("south", "SELECT count(*) FROM watched_log") == [(7,)]


@needs(
    """
    CREATE TABLE late (id int PRIMARY KEY, v int);
    CREATE TABLE late_log (id int PRIMARY KEY, v int);
    CREATE FUNCTION late_check() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.v < 0 THEN RAISE EXCEPTION 'too late' USING ERRCODE = 'check_violation'; END IF;
        INSERT INTO late_log VALUES (NEW.id, NEW.v);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER late_check AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION late_check();
    """
)
def test_users_deferred_triggers_write_and_refuse_at_commit(sites: Sites) -> None:
    sites.run("north", "INSERT INTO late VALUES (1, 1)")
    with sites.connect("north") as db:
        db.execute("INSERT INTO late VALUES (2, -1)")
        with pytest.raises(errors.CheckViolation):
            db.commit()
    assert sites.rows("south", "TABLE late") == [(1, 1)]
    assert sites.rows("south", "TABLE late_log") == [(1, 1)]


@needs("CREATE TABLE levels_t (id int PRIMARY KEY, v int)")
def test_isolation_levels_inside_one_site(sites: Sites) -> None:
    sites.run("north", "INSERT INTO levels_t VALUES (1, 0)")
    repeatable, committed = sites.connect("north"), sites.connect("north")
    repeatable.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    committed.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    for db in (repeatable, committed):
        assert db.execute("SELECT v FROM levels_t").fetchall() == [(0,)]
    sites.run("north", "UPDATE levels_t SET v = 1")
    assert repeatable.execute("SELECT v FROM levels_t").fetchall() == [(0,)]
    assert committed.execute("SELECT v FROM levels_t").fetchall() == [(1,)]
    with pytest.raises(errors.SerializationFailure):
        repeatable.execute("UPDATE levels_t SET v = v + 1")
    committed.execute("UPDATE levels_t SET v = v + 1")
    committed.commit()
    assert sites.rows("south", "TABLE levels_t") == [(1, 2)]


@needs("CREATE TABLE serializable_t (id int PRIMARY KEY)")
def test_what_is_refused_is_refused_clearly(sites: Sites) -> None:
    sites.run("north", "INSERT INTO serializable_t VALUES (1)")
    with sites.connect("north") as db:
        db.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with pytest.raises(errors.FeatureNotSupported):
            db.execute("INSERT INTO serializable_t VALUES (2)")
            db.commit()
    for statement in ("TRUNCATE serializable_t", "ALTER TABLE serializable_t ADD COLUMN x int"):
        with sites.connect("north") as db, pytest.raises(psycopg.Error) as refused:
            db.execute(statement)
        assert refused.value.diag.message_hint, f"{statement}: no hint"
    assert sites.rows("south", "TABLE serializable_t") == [(1,)]


@needs("CREATE TABLE readonly_t (id int PRIMARY KEY)")
def test_reads_and_rollbacks_are_never_certified(sites: Sites) -> None:
    sites.run("north", "INSERT INTO readonly_t VALUES (1)")
    sites.rows("south", "TABLE readonly_t")
    before = sites.published()
    with sites.connect("south") as db:
        db.read_only = True
        db.execute("SELECT count(*) FROM readonly_t")
    with sites.connect("south") as db:
        db.execute("UPDATE readonly_t SET id = id WHERE false")
        db.execute("SELECT * FROM readonly_t FOR UPDATE")
    with sites.connect("south") as db:
        db.execute("INSERT INTO readonly_t VALUES (2)")
        db.rollback()
    with sites.connect("south") as db:
        db.execute("CREATE TEMP TABLE mine (id int) ON COMMIT DROP")
        db.execute("INSERT INTO mine VALUES (1)")
    assert sites.published() == before
    assert sites.rows("north", "TABLE readonly_t") == [(1,)]


@needs("CREATE TABLE auto_t (id int PRIMARY KEY, v int)")
def test_autocommit_reads_its_own_writes_at_once(sites: Sites) -> None:
    with sites.connect("north", autocommit=True) as db:
        for n in range(50):
            db.execute("INSERT INTO auto_t VALUES (%s, 0)", (n,))
            db.execute("UPDATE auto_t SET v = %s WHERE id = %s", (n, n))
            assert db.execute("SELECT v FROM auto_t WHERE id = %s", (n,)).fetchall() == [(n,)]
    assert sites.rows("south", "SELECT sum(v), count(*) FROM auto_t") == [(1225, 50)]
