"""What COMMIT says is what happened: what can still fail does so before the transaction is decided."""

from collections.abc import Iterator
from typing import LiteralString
from uuid import UUID

import psycopg
import psycopg.sql
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options

from tests.cluster.support import (
    SERIALIZATION_FAILURE,
    WAIT_S,
    adopted_pair,
    as_admin,
    connect,
    execute,
    raises,
    wait_for_row,
)

SCHEMA = """
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
CREATE TABLE checked (id int PRIMARY KEY, v int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION fails(n int) RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN IF n > 2 THEN RAISE division_by_zero; END IF; RETURN n; END $$;
CREATE FUNCTION writes_t(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (n, n) RETURNING id';
CREATE FUNCTION writes_checked() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO checked VALUES (NEW.id, 1), (-NEW.id, 1); RETURN NULL; END $$;
CREATE TABLE trigger_writes (id int PRIMARY KEY);
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON trigger_writes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION writes_checked();
-- Each link of the chain is queued by a write that psp does not capture.
CREATE FUNCTION next_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_locks
                WHERE pid = pg_backend_pid() AND relation = 'psp.committing'::regclass) THEN
        RAISE EXCEPTION 'this session runs code of the application and could not be ended';
    END IF;
    IF NEW.n < 10 THEN
        INSERT INTO links VALUES (NEW.id, NEW.n + 1);
    ELSIF NEW.id > 0 THEN
        INSERT INTO t VALUES (NEW.id, NEW.n);
    ELSE
        RAISE EXCEPTION 'the last link breaks';
    END IF;
    RETURN NULL;
END $$;
CREATE PROCEDURE slow_commits() LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET v = v + 1 WHERE id = 1;
    COMMIT;
    UPDATE t SET v = v + 1 WHERE id = 1;
    COMMIT AND CHAIN;
    UPDATE t SET v = v + 1 WHERE id = 1;
END $$;
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], Options(pg_settings={"max_prepared_transactions": "5"})) as cluster:
        yield cluster


@pytest.fixture
def cluster(pair: LocalCluster) -> Iterator[LocalCluster]:
    """Tables are empty, and equal everywhere afterwards."""
    with connect(pair.sps[0]) as connection:
        for table in ("t", "checked", "trigger_writes"):
            connection.execute(f"DELETE FROM {table}".encode())
    yield pair
    assert verify.verify(pair, WAIT_S).consistent


def is_nowhere(cluster: LocalCluster, query: LiteralString) -> None:
    """No row at the SP that wrote, and none at the other one behind a later commit."""
    execute(cluster.sps[0], "INSERT INTO t VALUES (1000, 0)")
    wait_for_row(cluster.sps[1], "SELECT 1 FROM t WHERE id = 1000")
    for sp in cluster.sps:
        assert execute(sp, query) == []


def uses_module(cluster: LocalCluster) -> bool:
    """Whether the first SP captures by the server module, which is called after cursors WITH HOLD."""
    with connect(as_admin(cluster.sps[0])) as connection:
        return bool(connection.execute("SELECT psp.uses_module()").fetchall()[0][0])


def test_a_cursor_with_hold_fails_before_the_decision(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT fails(n) FROM generate_series(1, 5) n")
        with raises("22012" if uses_module(cluster) else "0A000") as errors:
            connection.commit()
        assert ("division" if uses_module(cluster) else "WITH HOLD") in str(errors[0])
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 1")


def test_a_cursor_with_hold_is_the_first_that_writes(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("DELETE FROM t WHERE id = 99")  # no row, but the hook waits for COMMIT
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT writes_t(7)")
        if uses_module(cluster):
            connection.commit()
            wait_for_row(cluster.sps[1], "SELECT 1 FROM t WHERE id = 7")
            return
        with raises("0A000"):
            connection.commit()
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 7")


def test_cursors_of_other_transactions_are_no_matter(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 5) n")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.commit()
        connection.execute("DECLARE d CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 5) n")
        connection.execute("UPDATE t SET v = 2")
        connection.execute("CLOSE d")
        connection.commit()
        assert connection.execute("FETCH 1 FROM c").fetchall() == [(1,)]


def test_a_deferred_trigger_that_writes_what_a_deferred_constraint_refuses(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("INSERT INTO trigger_writes VALUES (1)")
        with raises("23505"):
            connection.commit()
    is_nowhere(cluster, "SELECT 1 FROM trigger_writes")


@pytest.mark.parametrize("immediate", [False, True])
def test_chains_of_deferred_triggers_on_temporary_tables(cluster: LocalCluster, immediate: bool) -> None:
    """The hook waits for the last link, though psp captures no other one."""
    with connect(cluster.sps[0], autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE links (id int, n int)")
        connection.execute(
            "CREATE CONSTRAINT TRIGGER next_link AFTER INSERT ON links DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION next_link()"
        )
        for link, error in ((5, None), (-5, "P0001")):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (%s, 0)", (100 + link,))
            connection.execute("INSERT INTO links VALUES (%s, 1)", (link,))
            if error is None:
                if immediate:
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    connection.execute("UPDATE t SET v = 3 WHERE id = 105")
                connection.execute("COMMIT")
            else:
                with raises(error):
                    connection.execute("COMMIT")
    assert wait_for_row(cluster.sps[1], "SELECT v FROM t WHERE id = 5") == (10,)
    assert wait_for_row(cluster.sps[1], "SELECT v FROM t WHERE id = 105") == (3 if immediate else 0,)
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 95")


PREPARES = [
    "PREPARE TRANSACTION 'g'",
    "PREPARE TRANSACTION'g'",
    "PREPARE/**/TRANSACTION 'g'",
    "PREPARE /* a /* b */ ' */ TRANSACTION 'g'",
    "--x\rPREPARE TRANSACTION 'g'",
    "PREPARE -- '\n TRANSACTION 'g' --'",
    "SELECT $$ ' $$; PREPARE TRANSACTION 'g'; --'",
    "/* /* */ ' */ PREPARE TRANSACTION 'g' --'",
    "SELECT E'\\''; PREPARE TRANSACTION 'g'; --'",
    """SELECT 1 AS "'"; prepare\ttransaction 'g'; --'""",
]


@pytest.mark.parametrize("prepare", PREPARES)
def test_prepare_transaction_is_refused(cluster: LocalCluster, prepare: str) -> None:
    with connect(cluster.sps[0], autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        with raises("0A000") as errors:
            connection.execute(prepare.encode())
        assert "PREPARE" in str(errors[0])
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 1")


def test_words_about_prepare_are_no_prepare(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0], autocommit=True) as connection:
        connection.execute(
            "INSERT INTO t VALUES (length('prepare transaction ''x'''), 1) -- PREPARE TRANSACTION"
        )
        connection.execute('/* prepare transaction */ INSERT INTO t SELECT 2, 1 AS "prepare transaction"')
    assert execute(cluster.sps[0], "SELECT count(*) FROM t") == [(2,)]


def test_a_transaction_that_becomes_read_only(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute("SET TRANSACTION READ ONLY")
        with raises("25006"):
            connection.commit()
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 1")


def test_procedures_commit(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0], autocommit=True) as connection:
        connection.execute("INSERT INTO t VALUES (1, 0)")
        connection.execute("CALL slow_commits()")
    assert wait_for_row(cluster.sps[1], "SELECT v FROM t WHERE id = 1 AND v = 3") == (3,)


def test_the_id_is_known_before_the_commit(cluster: LocalCluster) -> None:
    sp = cluster.sps[0]
    notices: list[str] = []
    with connect(sp) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SET psp.show_transaction_id = on")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        row = connection.execute("SELECT psp.transaction_id()").fetchone()
        assert row is not None and isinstance(row[0], UUID)
        assert connection.execute("SELECT psp.transaction_id()").fetchone() == row
        connection.commit()
        assert notices == [f"psp: transaction {row[0]}"]
        assert connection.execute("SELECT psp.outcome(%s)", row).fetchone() == ("committed",)
        connection.commit()
        first = connection.execute("SELECT psp.transaction_id()").fetchone()
        connection.execute("UPDATE t SET v = 2")
        connection.rollback()
        assert connection.execute("SELECT psp.outcome(%s)", first).fetchone() == ("aborted",)


def test_the_id_is_the_same_after_a_rollback_to_a_savepoint(cluster: LocalCluster) -> None:
    with connect(cluster.sps[0]) as connection:
        connection.execute("SAVEPOINT s")
        first = connection.execute("SELECT psp.transaction_id()").fetchone()
        connection.execute("ROLLBACK TO s")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        assert connection.execute("SELECT psp.transaction_id()").fetchone() == first
        connection.commit()
        assert connection.execute("SELECT psp.outcome(%s)", first).fetchone() == ("committed",)
        connection.execute("UPDATE t SET v = 2")
        assert connection.execute("SELECT psp.transaction_id()").fetchone() != first


def test_the_replica_role_keeps_nothing_from_the_others(cluster: LocalCluster) -> None:
    """It is taken after a write, and before the transaction's first one."""
    with connect(as_admin(cluster.sps[0])) as connection:
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.commit()
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("SELECT psp.transaction_id()")
        connection.execute("SET LOCAL session_replication_role = origin")
        connection.execute("INSERT INTO t VALUES (2, 2)")
        connection.commit()
    for row in (1, 2):
        wait_for_row(cluster.sps[1], "SELECT 1 FROM t WHERE id = %s", (row,))


# What leaves postgres_fdw's transaction at the other server open, and nothing in pg_locks.
NO_LOCK_IS_LEFT: list[LiteralString] = [
    "SAVEPOINT s; SELECT * FROM public.far; ROLLBACK TO s",
    "IMPORT FOREIGN SCHEMA pg_catalog LIMIT TO (not_there) FROM SERVER there INTO public",
    "SELECT * FROM public.far; DROP FOREIGN TABLE public.far",
]


def test_foreign_tables_commit_too_late(cluster: LocalCluster) -> None:
    sp = as_admin(cluster.sps[0])
    place = psycopg.conninfo.conninfo_to_dict(sp.dsn)
    user = psycopg.sql.Literal(str(place["user"]))
    with connect(sp, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION postgres_fdw SCHEMA public")
        try:
            admin.execute(
                psycopg.sql.SQL(
                    "CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw"
                    " OPTIONS (host {}, port {}, dbname 'postgres')"
                ).format(str(place["host"]), str(place["port"]))
            )
            mapping = "CREATE USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (user {})"
            admin.execute(psycopg.sql.SQL(mapping).format(user))
            admin.execute(
                "CREATE FOREIGN TABLE public.far (datname text) SERVER there"
                " OPTIONS (schema_name 'pg_catalog', table_name 'pg_database')"
            )
            admin.execute("INSERT INTO t VALUES (1, 1)")
            admin.execute("BEGIN; INSERT INTO t VALUES (2, 1); SELECT * FROM public.far")
            with raises("0A000") as errors:
                admin.execute("COMMIT")
            assert "foreign tables" in str(errors[0])
            for reads in NO_LOCK_IS_LEFT:
                admin.execute("BEGIN; INSERT INTO t VALUES (2, 1)")
                admin.execute(reads)
                with raises("0A000"):
                    admin.execute("COMMIT")
            admin.execute("SELECT * FROM public.far")
            admin.execute("INSERT INTO t VALUES (3, 1)")  # its connection is open still, but not in use
        finally:
            admin.execute("DROP EXTENSION postgres_fdw CASCADE")
    is_nowhere(cluster, "SELECT 1 FROM t WHERE id = 2")


def test_a_lost_conflict_of_a_row_that_was_looked_up(cluster: LocalCluster) -> None:
    """The second look changes nothing about who wins."""
    execute(cluster.sps[0], "INSERT INTO t VALUES (1, 0)")
    wait_for_row(cluster.sps[1], "SELECT 1 FROM t WHERE id = 1")
    with connect(cluster.sps[0]) as first, connect(cluster.sps[1]) as second:
        for connection in (first, second):
            connection.execute("UPDATE t SET v = v + 1 WHERE id = 1")
            connection.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        first.commit()
        with raises(SERIALIZATION_FAILURE):
            second.commit()
    assert wait_for_row(cluster.sps[1], "SELECT v FROM t WHERE id = 1 AND v = 2") == (2,)
