"""REASSIGN OWNED, which PostgreSQL tells no trigger: at one server only, and as a schema change."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.schema.join import prepare_join
from psycopg import sql

from tests.cluster.schema_changes.statements import allow_ddl, changing_pair, settle_unchanged
from tests.cluster.support import as_admin, connect, execute, raises, settle, wait_for_row

SCHEMA = """
CREATE FUNCTION positive(x int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT x > 0';
CREATE SEQUENCE numbers;
CREATE TABLE item (id int PRIMARY KEY, x int CHECK (positive(x)));
CREATE TABLE other (id int PRIMARY KEY);
INSERT INTO item VALUES (1, 1);
"""
THINGS = ("TABLE item", "TABLE other", "SEQUENCE numbers", "FUNCTION positive")


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[LocalCluster]:
    with changing_pair(SCHEMA) as cluster:
        for sp in cluster.sps:
            create_owners(sp)
            allow_owners(sp)
        for thing in THINGS:
            execute(cluster.sps[0], f"ALTER {thing} OWNER TO author")
        yield cluster


@pytest.fixture
def pair(shared_pair: LocalCluster) -> Iterator[LocalCluster]:
    """Two SPs whose tables belong to the author."""
    yield shared_pair
    settle(shared_pair)
    reassign_everywhere(shared_pair.sps[0], "keeper", "author")
    settle_unchanged(shared_pair)
    assert [owners(sp) for sp in shared_pair.sps] == [{"author"}, {"author"}]


def create_owners(sp: SpNode) -> None:
    with connect(as_admin(sp)) as connection:
        connection.execute("CREATE ROLE author; CREATE ROLE keeper")
        role = sql.Identifier(execute(sp, "SELECT current_user")[0][0])
        connection.execute(sql.SQL("GRANT author, keeper TO {}").format(role))


def allow_owners(sp: SpNode) -> None:
    with connect(as_admin(sp)) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO author, keeper")
        connection.execute("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO author, keeper")


def reassign(sp: SpNode, before: str, after: str) -> None:
    execute(as_admin(sp), f"REASSIGN OWNED BY {before} TO {after}")


def reassign_everywhere(sp: SpNode, before: str, after: str) -> None:
    execute(as_admin(sp), "SELECT psp.reassign_owned(%s, %s)", [before, after])


def as_role(sp: SpNode, role: str, statement: str) -> None:
    with connect(sp) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        connection.execute(statement.encode())


def owners(sp: SpNode) -> set[str]:
    """Of the tables and of psp's functions that write them."""
    rows = execute(
        as_admin(sp),
        "SELECT relowner::regrole::text FROM pg_class WHERE relname IN ('item', 'other', 'numbers') "
        "UNION SELECT proowner::regrole::text FROM pg_proc WHERE proname ~ '^(apply_clear|look)_[0-9]+$' "
        "AND proname !~ '_(0|2147483646|2147483645)$'",
    )
    return {owner for (owner,) in rows}


def wait_for_column(sp: SpNode) -> None:
    wait_for_row(sp, "SELECT 1 FROM pg_attribute WHERE attrelid = 'item'::regclass AND attname = 'y'")


def test_at_one_server_only_it_is_told_and_stops_no_other(pair: LocalCluster) -> None:
    north, south = pair.sps
    reassign(north, "author", "keeper")
    problems = execute(as_admin(north), "SELECT psp.guard_problems()")
    assert sorted(problem for (problem,) in problems) == [
        f"the owner of public.{table} has changed, perhaps at this semi-primary only"
        for table in ("item", "other")
    ]
    result = verify.verify(pair, 30)
    assert ("owner", "public.item") in [(d.kind, d.name) for d in result.schema_differences]
    told = {problem.object for problem in result.obstacles}
    assert {"owner of sequence public.numbers", "owner of function public.positive(integer)"} <= told
    for statement in ("ALTER TABLE item ADD COLUMN y int", "TRUNCATE item", "CREATE INDEX ON item (x)"):
        with raises("0A000") as errors:
            as_role(north, "keeper", statement)
        assert "psp.reassign_owned('author', 'keeper')" in str(errors[0].diag.message_hint)
    as_role(south, "author", "CREATE VIEW aside AS SELECT 1 AS one")
    as_role(south, "author", "ALTER TABLE item ADD COLUMN y int")
    wait_for_column(north)
    assert owners(north) == {"keeper"}
    execute(south, "UPDATE item SET y = x")
    wait_for_row(north, "SELECT 1 FROM item WHERE y = 1")
    reassign_everywhere(south, "author", "keeper")
    settle_unchanged(pair)
    assert owners(north) == owners(south) == {"keeper"}
    as_role(north, "keeper", "ALTER TABLE item DROP COLUMN y")
    wait_for_row(south, "SELECT 1 WHERE (SELECT count(*) FROM pg_attribute "
                        "WHERE attrelid = 'item'::regclass AND attname = 'y') = 0")  # fmt: skip
    execute(south, "DROP VIEW aside")


def test_it_goes_to_all_servers(pair: LocalCluster) -> None:
    north, south = pair.sps
    reassign_everywhere(north, "author", "keeper")
    as_role(north, "keeper", "ALTER TABLE item ADD COLUMN y int")
    wait_for_column(south)
    assert owners(north) == owners(south) == {"keeper"}
    execute(south, "UPDATE item SET y = x")
    as_role(south, "keeper", "ALTER TABLE item DROP COLUMN y")


def test_a_server_joins_after_it() -> None:
    """It was run at every server, and the old role is gone."""
    with LocalCluster.temporary([Zone("a")]) as cluster:
        a = cluster.sps[0]
        create_owners(a)
        with psycopg.connect(a.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        allow_ddl(a)
        allow_owners(a)
        for thing in THINGS:
            execute(a, f"ALTER {thing} OWNER TO author")
        as_role(a, "author", "ALTER TABLE item ADD COLUMN z int")
        reassign(a, "author", "keeper")
        with connect(as_admin(a)) as connection:
            connection.execute("DROP OWNED BY author; DROP ROLE author")
        with raises("42704"):
            reassign_everywhere(a, "author", "keeper")
        execute(as_admin(a), "CREATE ROLE author")
        reassign_everywhere(a, "author", "keeper")
        execute(as_admin(a), "DROP ROLE author")
        as_role(a, "keeper", "ALTER TABLE item ADD COLUMN y int")
        execute(as_admin(a), "CREATE ROLE reader")
        as_role(a, "keeper", "/* by hand */ GRANT SELECT ON item TO reader")
        path = "CREATE TEMP TABLE gone (id int); SET search_path = public, pg_temp"
        as_role(a, "keeper", f"{path}; ALTER TABLE item ALTER y SET DEFAULT 8")
        execute(a, "UPDATE item SET y = 7")
        b = cluster.add_zone(Zone("b"), True)
        with pytest.raises(PspError, match=r"roles as which schema changes run .*: author, keeper$"):
            prepare_join(b.admin_dsn, cluster.primary_dsn, "b", "b")
        create_owners(b)
        with pytest.raises(PspError, match=r"roles that schema changes name do not exist here: reader$"):
            prepare_join(b.admin_dsn, cluster.primary_dsn, "b", "b")
        execute(as_admin(b), "CREATE ROLE reader")
        prepare_join(b.admin_dsn, cluster.primary_dsn, "b", "b")
        allow_owners(b)
        cluster.mark_adopted("b")
        growth.wait_joined(b)
        assert execute(b, "SELECT y FROM item") == [(7,)]
        assert owners(b) == {"keeper"}
        allow_ddl(b)
        as_role(b, "keeper", "ALTER TABLE item DROP COLUMN y")
        wait_for_row(a, "SELECT 1 WHERE (SELECT count(*) FROM pg_attribute "
                        "WHERE attrelid = 'item'::regclass AND attname = 'y') = 0")  # fmt: skip
        settle(cluster)


def test_psp_owns_functions_as_the_owner_of_tables(pair: LocalCluster) -> None:
    """So nobody but superusers can do it: the new owner may create no functions in psp's schema."""
    north, _ = pair.sps
    for statement in (
        "REASSIGN OWNED BY author TO keeper",
        "SELECT psp.ddl('REASSIGN OWNED BY author TO keeper')",
    ):
        with raises("42501"):
            execute(north, statement)
