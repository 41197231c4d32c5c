"""--schema-role of adopt and join: who may change the schema afterwards, and who is told otherwise."""

from __future__ import annotations

import psycopg
import pytest
from psp.output import PspError
from psp.schema.changers import Owner, advice, read_owners
from psp.schema.cli import app
from psp.schema.join import prepare_join
from psp.servers.pgserver import PgServer
from typer.testing import CliRunner

from tests.sql.databases import APPLICATION, Pair, new_pair

TABLES = f"""
CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); ALTER TABLE t OWNER TO {APPLICATION}
"""
GRANT = f"GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {APPLICATION};"


def owner(pair: Pair) -> Owner:
    with pair.connect() as connection:
        found = {each.role: each for each in read_owners(connection)}
    return found[APPLICATION]


def run_adopt(pair: Pair, *more: str) -> str:
    done = CliRunner().invoke(
        app, ["adopt", pair.dsn, "--primary-dsn", pair.primary_dsn, "--name", "one", "--yes", *more]
    )
    assert done.exit_code == 0, done.stderr
    return " ".join(done.stderr.split())


def test_adopt_tells_the_grant(pair: Pair) -> None:
    pair.run(TABLES)
    told = run_adopt(pair)
    assert GRANT in told
    assert f"role {APPLICATION} owns public.t and may not" in told
    assert not owner(pair).may_change


def test_adopt_grants_it(pair: Pair) -> None:
    pair.run(TABLES)
    told = run_adopt(pair, "--schema-role", APPLICATION)
    assert APPLICATION not in told
    assert owner(pair).may_change


def test_the_owner_who_is_a_superuser_is_told_another_way(pair: Pair) -> None:
    pair.run(TABLES)
    assert "public.u and can never change the schema" in run_adopt(pair, "--schema-role", APPLICATION)


@pytest.mark.parametrize(("role", "told"), [("nobody", "no role nobody"), ("psp", "become a superuser")])
def test_a_role_that_cannot_have_it_leaves_the_database_as_it_was(pair: Pair, role: str, told: str) -> None:
    pair.run(TABLES)
    with pair.connect() as connection:
        me = connection.info.user if role == "psp" else role
    with pytest.raises(PspError, match=told):
        pair.adopt(schema_roles=[me])
    with pair.connect() as connection:
        assert connection.execute("SELECT to_regnamespace('psp')").fetchone() == (None,)


def test_views_mode_has_no_such_roles(pair: Pair) -> None:
    pair.run(TABLES)
    with pytest.raises(PspError, match="views mode"):
        pair.adopt(mode="views", schema_roles=[APPLICATION])


def test_a_server_that_joins_grants_it_for_itself(pair: Pair, server: PgServer) -> None:
    pair.run(TABLES)
    pair.adopt()
    joined = new_pair(server)
    prepare_join(joined.dsn, pair.primary_dsn, "two", schema_roles=[APPLICATION])
    assert owner(joined).may_change
    assert not owner(pair).may_change


def test_the_right_is_what_the_advice_says(pair: Pair) -> None:
    pair.run(TABLES)
    pair.adopt()
    pair.run(owner(pair).grant)
    assert advice([owner(pair)]) == []
    with psycopg.connect(pair.dsn) as connection:
        assert [each.tables for each in read_owners(connection)] == [1, 1]
