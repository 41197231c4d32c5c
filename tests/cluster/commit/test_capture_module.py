"""The server module: chosen on a running semi-primary, and what it can do that SQL cannot."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster, Options
from psp.schema.native.capture import CaptureChoice, use
from psp.waiting import wait_until

from tests.cluster.support import (
    WAIT_S,
    adopted_pair,
    as_admin,
    connect,
    execute,
    needs_module,
    raises,
    retry,
)
from tests.threads import running

SCHEMA = """
CREATE TABLE item (id int PRIMARY KEY, parent int REFERENCES item, name text UNIQUE, code text);
CREATE UNIQUE INDEX item_code ON item (lower(code)) WHERE code <> 'none';
CREATE TABLE chain (id int PRIMARY KEY);
CREATE FUNCTION extend() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.id < 5 THEN INSERT INTO chain VALUES (NEW.id + 1); END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER extend AFTER INSERT ON chain DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION extend();
CREATE FUNCTION take(n int) RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO item VALUES (n, NULL, 'taken ' || n, 'none'); RETURN n; END $$;
"""

pytestmark = needs_module()
CHOICES: list[CaptureChoice] = ["sql", "module", "sql", "module"]
OPTIONS = Options(pg_settings={"max_prepared_transactions": "2"})


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with adopted_pair([SCHEMA], OPTIONS) as cluster:
        for sp in cluster.sps:
            role = psycopg.conninfo.conninfo_to_dict(sp.dsn)["user"]
            with connect(as_admin(sp)) as connection:
                connection.execute(f'GRANT EXECUTE ON FUNCTION psp.ddl(text) TO "{role}"'.encode())
        yield cluster


def capture(cluster: LocalCluster, wanted: CaptureChoice) -> None:
    with connect(as_admin(cluster.sps[0])) as connection:
        assert use(connection, wanted) == wanted


def change(cluster: LocalCluster, statement: str) -> None:
    """A schema change at the first SP, tried again when a writer has been faster."""

    def attempt() -> None:
        with connect(cluster.sps[0]) as connection:
            connection.execute("SELECT psp.ddl(%s)", (statement,))

    retry(attempt)


def test_it_changes_while_a_client_writes(pair: LocalCluster) -> None:
    """No statement fails, and nothing is missing: rows of one transaction are captured by one of the two."""
    north = pair.sps[0]
    written: list[int] = []
    stop: list[bool] = []

    def write() -> None:
        with connect(north, autocommit=True) as connection:
            while not stop:
                n = len(written) + 1000
                with connection.transaction():
                    connection.execute("INSERT INTO item VALUES (%s, NULL, %s, %s)", (n, f"n{n}", f"C{n}"))
                    connection.execute(
                        "UPDATE item SET parent = %s, name = %s WHERE id = %s", (n, f"m{n}", n)
                    )
                written.append(n)

    with running(write):
        try:
            for place, wanted in enumerate(CHOICES):
                capture(pair, wanted)
                change(pair, f"CREATE TABLE new_{place} (id int PRIMARY KEY)")
                execute(north, f"INSERT INTO new_{place} VALUES (1)")
                enough = len(written) + 5
                wait_until("more commits", lambda: len(written) >= enough, WAIT_S)  # noqa: B023
        finally:
            stop.append(True)
    assert verify.verify(pair, WAIT_S).differing() == []
    assert execute(pair.sps[1], "SELECT count(*) FROM item WHERE id >= 1000 AND parent = id") == [
        (len(written),)
    ]


CONFLICTS = [
    (
        "INSERT INTO item VALUES (1, NULL, 'same', 'none')",
        "INSERT INTO item VALUES (2, NULL, 'same', 'none')",
    ),
    ("INSERT INTO item VALUES (1, NULL, 'a', 'Code')", "INSERT INTO item VALUES (2, NULL, 'b', 'cODE')"),
    ("INSERT INTO item VALUES (1, 9, 'a', 'none')", "DELETE FROM item WHERE id = 9"),
]


@pytest.mark.parametrize("wanted", ["sql", "module"])
def test_a_value_that_another_server_takes_is_refused(pair: LocalCluster, wanted: CaptureChoice) -> None:
    """Guards, of plain indexes and of those with expressions, and shared keys: both send them."""
    north, south = pair.sps
    capture(pair, wanted)
    for here, there in CONFLICTS:
        execute(south, "INSERT INTO item VALUES (9, NULL, 'nine', 'none')")
        wait_until("row 9", lambda: bool(execute(north, "SELECT 1 FROM item WHERE id = 9")), WAIT_S)
        with connect(north) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute(here.encode())
            with connect(south) as other:
                other.execute(there.encode())
            with pytest.raises(psycopg.errors.SerializationFailure):
                connection.commit()
        execute(south, "DELETE FROM item WHERE id IN (2, 9)")
    assert verify.verify(pair, WAIT_S).differing() == []


def test_deferred_triggers_and_cursors_that_outlive_the_transaction(pair: LocalCluster) -> None:
    """The module is called after both. SQL refuses the cursor."""
    north, south = pair.sps
    capture(pair, "module")
    with connect(north) as connection:
        connection.execute("INSERT INTO chain VALUES (1)")
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT take(n) FROM generate_series(1, 3) n")
        connection.commit()
        assert connection.execute("FETCH ALL FROM c").fetchall() == [(1,), (2,), (3,)]
    wait_until("the rows", lambda: execute(south, "SELECT count(*) FROM chain") == [(5,)], WAIT_S)
    assert execute(south, "SELECT count(*) FROM item WHERE id <= 3") == [(3,)]
    assert verify.verify(pair, WAIT_S).differing() == []


def test_what_was_captured_is_forgotten_with_a_prepared_transaction(pair: LocalCluster) -> None:
    """It has captured nothing in the end, and so may be prepared. Its memory is gone then."""
    north, south = pair.sps
    capture(pair, "module")
    with connect(north, autocommit=True) as connection:
        connection.execute(
            "BEGIN; SAVEPOINT s; INSERT INTO chain VALUES (20); ROLLBACK TO s; PREPARE TRANSACTION 'empty'"
        )
        connection.execute("BEGIN")
        for n in range(60):
            connection.execute(f"SAVEPOINT s{n}".encode())
        connection.execute("NOTIFY a; NOTIFY b; INSERT INTO chain VALUES (21); COMMIT")
        connection.execute("COMMIT PREPARED 'empty'")
    wait_until("the row", lambda: bool(execute(south, "SELECT 1 FROM chain WHERE id = 21")), WAIT_S)


def test_a_key_of_another_type_in_the_text_that_changes_it(pair: LocalCluster) -> None:
    """The trigger still has the words of the older definition: an error, and no crash."""
    north = pair.sps[0]
    capture(pair, "module")
    change(pair, "CREATE TABLE num (k numeric PRIMARY KEY)")
    with connect(north) as connection, pytest.raises(psycopg.DatabaseError) as error:
        connection.execute("SELECT psp.ddl('ALTER TABLE num ALTER k TYPE int; INSERT INTO num VALUES (5)')")
    assert not isinstance(error.value, psycopg.OperationalError)
    assert execute(north, "SELECT count(*) FROM num") == [(0,)]


def test_a_foreign_server_commits_nothing_of_a_refused_transaction(pair: LocalCluster) -> None:
    """Its callback is called before the module's if its first use comes after the first write."""
    north = as_admin(pair.sps[0])
    capture(pair, "module")
    place = psycopg.conninfo.conninfo_to_dict(north.dsn)
    with psycopg.connect(north.dsn, dbname="postgres", autocommit=True) as other:
        other.execute("CREATE TABLE public.remote (id int)")
        with connect(north, autocommit=True) as admin:
            admin.execute("CREATE EXTENSION postgres_fdw SCHEMA public")
            admin.execute(
                "CREATE SERVER away FOREIGN DATA WRAPPER postgres_fdw OPTIONS "
                f"(host '{place['host']}', port '{place['port']}', dbname 'postgres')".encode()
            )
            admin.execute(
                f"CREATE USER MAPPING FOR CURRENT_USER SERVER away OPTIONS (user '{place['user']}')".encode()
            )
            admin.execute("CREATE FOREIGN TABLE public.remote (id int) SERVER away")
        try:
            with connect(north) as connection:
                connection.execute("SAVEPOINT s; INSERT INTO public.chain VALUES (30); ROLLBACK TO s")
                connection.execute("INSERT INTO public.chain VALUES (30)")
                connection.execute("INSERT INTO public.remote VALUES (30)")
                with raises("0A000"):
                    connection.commit()
            assert other.execute("SELECT count(*) FROM public.remote").fetchall() == [(0,)]
        finally:
            with connect(north, autocommit=True) as admin:
                admin.execute("DROP EXTENSION postgres_fdw CASCADE")
