"""Which role runs what in views mode (docs/security.md): clients' functions, and what the workers call."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psp.cluster.configs import SP_ROLE
from psycopg import errors

from tests.sql.databases import APPLICATION, Pair
from tests.sql.views.converted import begin

SCHEMA = f"""
GRANT CREATE ON SCHEMA public TO {APPLICATION};
SET ROLE {APPLICATION};
CREATE FUNCTION seen(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('test.armed', true) = 'on' THEN
        RAISE NOTICE '%', current_user;
    END IF;
    RETURN x;
END $$;
CREATE TABLE v (id serial PRIMARY KEY, n int, s text);
CREATE UNIQUE INDEX v_n ON v (seen(n));
CREATE INDEX v_s ON v (s) WHERE seen(1) = 1;
"""


@pytest.fixture
def app(pair: Pair) -> Pair:
    pair.run(SCHEMA)
    pair.adopt(mode="views")
    return pair


def daemon(app: Pair) -> tuple[psycopg.Connection[Any], list[str]]:
    """A session of the daemon's role, and the roles as which the owner's code has run in it."""
    roles: list[str] = []
    connection = psycopg.connect(app.dsn, user=SP_ROLE, autocommit=True)
    connection.add_notice_handler(lambda notice: roles.append(str(notice.message_primary)))
    connection.execute("SET test.armed = on; SET search_path = pg_catalog")
    return connection, roles


def test_functions_that_run_as_a_superuser(app: Pair) -> None:
    with app.connect() as connection:
        rows = connection.execute(
            "SELECT p.proname FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner "
            "WHERE p.pronamespace = 'psp'::regnamespace AND p.prosecdef AND r.rolsuper ORDER BY 1"
        ).fetchall()
    assert [name for (name,) in rows] == [
        "align_sequences", "forget_statistics", "guard_warnings", "move_sequence",
        "on_ddl", "on_ddl_start", "on_drop", "on_rewrite", "on_whole_copy", "refresh_guards",
        "sequence_stands_at", "take_origin", "this_database",
    ]  # fmt: skip


def test_an_owners_code_runs_as_the_owner_in_the_daemons_sessions(app: Pair) -> None:
    with app.connect_as_application() as connection:
        tx_id = begin(connection)
        connection.execute("INSERT INTO v (n, s) VALUES (1, 'one'), (2, 'two')")
    connection, roles = daemon(app)
    with connection:
        taken = connection.execute("SELECT * FROM psp.take_commit_request(%s)", (tx_id,)).fetchall()
        assert len(taken) == 1 + 2 + 2  # the transaction, rows, guards
        assert connection.execute("SELECT psp.apply(%s, 1)", (tx_id,)).fetchone() == (True,)
        assert connection.execute("SELECT psp.collect_garbage('0')").fetchone() == (2,)
        connection.execute("SELECT psp.advance_sequences(), psp.align_sequences(true), psp.make_pending()")
    assert set(roles) == {APPLICATION}
    with app.connect() as check:
        assert check.execute("SELECT id, n, s FROM v ORDER BY id").fetchall() != []


def test_the_daemons_role_has_no_right_on_the_tables(app: Pair) -> None:
    connection, _ = daemon(app)
    with connection:
        for statement in (
            "SELECT * FROM public.v",
            "DELETE FROM public.v_persistent",
            "TRUNCATE public.v_temp",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())


WORKERS = [
    "psp.gather_write_set('1'::xid8)",
    "psp.apply(gen_random_uuid(), 1)",
    "psp.collect_garbage('0')",
    "psp.gather_write_set_1('1'::xid8)",
    "psp.apply_written_1('1'::xid8, 1)",
    "psp.collect_1('1'::xid8, '{}', 1)",
    "psp.forget_statistics()",
]


@pytest.mark.parametrize("call", WORKERS)
def test_clients_cannot_call_what_the_workers_call(app: Pair, call: str) -> None:
    with app.connect_as_application() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(f"SELECT {call}".encode())
