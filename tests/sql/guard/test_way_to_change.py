"""A refused schema change says what to type, so that it would be one of the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.sql.databases import APPLICATION, Pair

GRANT = f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION}"
STATEMENT = "CREATE TABLE x (a int PRIMARY KEY)"


@pytest.fixture
def granted(app: Pair) -> Iterator[None]:
    app.run(GRANT)
    yield
    app.run(GRANT.replace("GRANT", "REVOKE", 1).replace(" TO ", " FROM "))


def hint_of(connection: psycopg.Connection[object], *statements: str) -> str:
    with pytest.raises(errors.FeatureNotSupported) as caught:
        for statement in statements:
            connection.execute(statement.encode())
    return caught.value.diag.message_hint or ""


def test_an_owner_is_told_the_grant(app: Pair) -> None:
    with app.connect_as_application() as connection:
        assert f"{GRANT};" in hint_of(connection, STATEMENT)


def test_the_role_is_the_one_that_was_set_and_is_quoted(app: Pair) -> None:
    with app.rolled_back() as connection:
        connection.execute('CREATE ROLE "a ""b"; GRANT CREATE ON SCHEMA public TO "a ""b"; SET ROLE "a ""b"')
        assert 'GRANT EXECUTE ON FUNCTION psp.ddl(text) TO "a ""b";' in hint_of(connection, STATEMENT)


def test_a_truncate_is_told_the_grant(app: Pair) -> None:
    with app.connect_as_application() as connection:
        assert f"{GRANT};" in hint_of(connection, "TRUNCATE t CASCADE")


def test_a_superuser_is_told_whom_to_grant_it_and_to_become(app: Pair) -> None:
    with app.rolled_back() as connection:
        assert f"{GRANT}; SET ROLE {APPLICATION};" in hint_of(connection, STATEMENT)


@pytest.mark.usefixtures("granted")
def test_a_superuser_is_told_whom_to_become(app: Pair) -> None:
    with app.rolled_back() as connection:
        hint = hint_of(connection, STATEMENT)
    assert f"SET ROLE {APPLICATION};" in hint
    assert "GRANT" not in hint


@pytest.mark.usefixtures("granted")
def test_a_session_whose_changes_stay_here_is_told_so(app: Pair) -> None:
    with app.connect_as_application() as connection:
        hint = hint_of(connection, "SET psp.schema_changes = local", STATEMENT)
    assert "RESET psp.schema_changes;" in hint


def test_a_role_that_could_become_a_superuser_is_told_another(app: Pair) -> None:
    with app.rolled_back() as connection:
        connection.execute("CREATE ROLE maker CREATEROLE; GRANT CREATE ON SCHEMA public TO maker")
        connection.execute("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO maker; SET ROLE maker")
        hint = hint_of(connection, STATEMENT)
    assert f"{GRANT};" in hint
