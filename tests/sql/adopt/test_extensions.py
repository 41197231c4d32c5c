"""Extensions keep their owner where a semi-primary joins: each server must let a role do the same."""

from psp.cluster import obstacles
from psp.schema.join import prepare_join

from tests.sql.databases import APPLICATION, Pair

ADOPTED = f"""
CREATE ROLE {{database}}_other;
GRANT CREATE ON DATABASE {{database}} TO {APPLICATION}, {{database}}_other;
GRANT CREATE ON SCHEMA public TO {APPLICATION}, {{database}}_other;
SET ROLE {APPLICATION};
CREATE SCHEMA "Own";
CREATE EXTENSION hstore SCHEMA "Own";
CREATE TABLE t (id int PRIMARY KEY, h "Own".hstore);
SET ROLE {{database}}_other;
CREATE EXTENSION cube;
CREATE EXTENSION seg;
RESET ROLE;
CREATE EXTENSION citext;
REVOKE CREATE ON DATABASE {{database}} FROM {{database}}_other;
REVOKE CREATE ON SCHEMA public FROM {{database}}_other;
"""


def owners(pair: Pair) -> dict[str, str]:
    with pair.connect() as connection:
        rows = connection.execute("SELECT extname::text, pg_get_userbyid(extowner)::text FROM pg_extension")
        return dict(rows.fetchall())


def empty(pair: Pair) -> Pair:
    name = f"{pair.name}_two"
    pair.server.create_database(name)
    return Pair(name, pair.server)


def differing(*pairs: Pair) -> dict[str, str]:
    servers = {}
    for pair in pairs:
        with pair.connect() as connection:
            servers[pair.name] = obstacles.read_server(connection, True)
    return {problem.object: f"{problem.problem} {problem.hint}" for problem in obstacles.compare(servers)}


def test_they_belong_to_the_same_role_after_a_join(pair: Pair) -> None:
    """Whose owner has lost the right to make them, too; its loss is the same at the new server."""
    pair.run(ADOPTED.format(database=pair.name))
    pair.adopt()
    two = empty(pair)
    prepare_join(two.dsn, pair.primary_dsn, "two")
    found = owners(pair)
    assert found["hstore"] == APPLICATION
    assert found["seg"] == f"{pair.name}_other"
    assert owners(two) == found
    two.run("SELECT psp.let_clients_in()")  # as at the end of the copy
    assert differing(pair, two) == {}
    with two.connect() as connection:
        assert connection.execute(
            "SELECT has_database_privilege(%s, current_database(), 'CREATE')", (f"{pair.name}_other",)
        ).fetchone() == (False,)
        assert connection.execute("SELECT current_user = session_user").fetchone() == (True,)


def test_one_that_was_there_with_another_owner_is_told(pair: Pair) -> None:
    pair.run(ADOPTED.format(database=pair.name))
    pair.adopt()
    two = empty(pair)
    two.run("CREATE SCHEMA made; CREATE EXTENSION cube; CREATE EXTENSION citext SCHEMA made")
    prepare_join(two.dsn, pair.primary_dsn, "two")
    told = differing(pair, two)
    assert {name for name in told if name.startswith("extension ")} == {"extension cube", "extension citext"}
    assert f"owner {pair.name}_other" in told["extension cube"]
    assert "a schema change by its owner stops" in told["extension cube"]
    assert "schema made" in told["extension citext"]


ALL_KINDS = """
SET psp.schema_changes = local; SET search_path = public;
CREATE FOREIGN DATA WRAPPER w; GRANT USAGE ON FOREIGN DATA WRAPPER w TO {owner};
CREATE SERVER s FOREIGN DATA WRAPPER w; ALTER SERVER s OWNER TO {owner};
CREATE PUBLICATION p; ALTER PUBLICATION p OWNER TO {owner};
CREATE TEXT SEARCH CONFIGURATION c (COPY = simple); ALTER TEXT SEARCH CONFIGURATION c OWNER TO {owner};
CREATE TEXT SEARCH DICTIONARY d (TEMPLATE = simple); ALTER TEXT SEARCH DICTIONARY d OWNER TO {owner};
CREATE COLLATION c (LOCALE = 'C'); ALTER COLLATION c OWNER TO {owner};
CREATE OPERATOR <<<< (LEFTARG = int, RIGHTARG = int, FUNCTION = int4lt);
ALTER OPERATOR <<<< (int, int) OWNER TO {owner};
CREATE OPERATOR FAMILY f USING btree; ALTER OPERATOR FAMILY f USING btree OWNER TO {owner};
CREATE CONVERSION v FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1; ALTER CONVERSION v OWNER TO {owner};
"""


def test_owners_of_what_a_statement_may_name_are_compared(pair: Pair) -> None:
    """Of objects that both servers have, and that no schema change has made."""
    pair.run(f"CREATE ROLE {pair.name}_owner SUPERUSER")
    pair.adopt()
    two = empty(pair)
    prepare_join(two.dsn, pair.primary_dsn, "two")
    pair.run(ALL_KINDS.format(owner=APPLICATION))
    two.run(ALL_KINDS.format(owner=f"{pair.name}_owner"))
    told = differing(pair, two)
    kinds = {"server", "publication", "text search configuration",
             "text search dictionary", "collation", "operator", "operator family", "conversion"}  # fmt: skip
    assert {kind for kind in kinds if any(name.startswith(f"{kind} ") for name in told)} == kinds
