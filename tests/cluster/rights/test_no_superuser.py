"""A role that is no superuser adopts, lets join, commits and releases. docs/adopting.md lists its rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.check import compare_with
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.schema.adopt import adopt_database
from psp.schema.join import prepare_join
from psp.schema.locks import Say
from psp.schema.release import release
from psp.schema.rights import missing_rights
from psp.schema.server import read_facts
from psp.sql_files import read_sql
from psycopg.conninfo import make_conninfo

from tests.cluster.support import WAIT_S, as_admin, connect, execute, retry, wait_for_row

PAGE = Path(__file__).parents[3] / "docs" / "adopting.md"
SCHEMA = """
CREATE TABLE place (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE item
    (id serial PRIMARY KEY, place int REFERENCES place, amount numeric CHECK (amount >= 0), told text);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN NEW.told := 'by ' || current_user; RETURN NEW; END$$;
CREATE TRIGGER tell BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO place VALUES (1, 'here'), (2, 'there');
INSERT INTO item (place, amount) VALUES (1, 10), (2, 20);
"""
quiet: Say = lambda _text: None  # noqa: E731


def grants() -> str:
    found = re.search(
        r"^### Without a superuser\n.*?^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def without_roles(script: str) -> str:
    """Roles belong to the server, and two of them are there."""
    return re.sub(r"CREATE ROLE psp_(functions|semi_primary) .*;\n", "", script)


def keeper_dsn(sp: SpNode) -> str:
    return make_conninfo(sp.admin_dsn, user="psp_keeper")


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    """`north` is adopted and `south` joins, each by its psp_keeper."""
    with LocalCluster.temporary([Zone("north"), Zone("south")]) as cluster:
        north, south = cluster.sps
        for sp in cluster.sps:
            with psycopg.connect(sp.admin_dsn) as connection:
                connection.execute(grants().encode())
        execute(as_admin(south), "GRANT CREATE ON SCHEMA public TO psp_keeper")
        with psycopg.connect(north.dsn) as connection:
            connection.execute(SCHEMA.encode())
        adopt_database(keeper_dsn(north), cluster.primary_dsn, name="north")
        cluster.mark_adopted("north")
        growth.wait_joined(north)
        prepare_join(keeper_dsn(south), cluster.primary_dsn, name="south")
        cluster.mark_adopted("south")
        growth.wait_joined(south)
        yield cluster


def test_rows_go_both_ways(pair: LocalCluster) -> None:
    north, south = pair.sps
    execute(south, "INSERT INTO item (place, amount) VALUES (1, 5)")
    wait_for_row(north, "SELECT 1 FROM item WHERE amount = 5 AND told = 'by app'")
    retry(lambda: execute(north, "UPDATE item SET amount = amount + 1 WHERE amount = 5"))
    wait_for_row(south, "SELECT 1 FROM item WHERE amount = 6")
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(south, "INSERT INTO place VALUES (3, 'here')")
    assert execute(as_admin(north), "SELECT psp.guard_problems()") == []


def test_who_comes_second_fails_and_a_row_in_the_way_is_waited_for(pair: LocalCluster) -> None:
    north, south = pair.sps
    with connect(north) as late:
        late.execute("UPDATE place SET name = 'late' WHERE id = 2")
        execute(south, "UPDATE place SET name = 'early' WHERE id = 2")
        with pytest.raises(psycopg.errors.SerializationFailure):
            late.commit()
    wait_for_row(north, "SELECT 1 FROM place WHERE name = 'early'")


def test_reads_of_the_owners_rows_are_certified(pair: LocalCluster) -> None:
    with connect(pair.sps[0]) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT psp.certify_read_referrers('item', 'item_place_fkey', 1)")
        connection.execute("INSERT INTO place VALUES (4, 'certified')")


def test_schema_changes_are_refused_in_words(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with psycopg.connect(keeper_dsn(north)) as connection:
        with pytest.raises(
            psycopg.errors.FeatureNotSupported, match="takes part in no schema change"
        ) as refused:
            connection.execute("SELECT psp.ddl('ALTER TABLE place ADD COLUMN x int')")
        assert refused.value.diag.message_detail and "no superuser" in refused.value.diag.message_detail
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        execute(north, "TRUNCATE item")


def test_rows_of_a_changed_table_stay_out(pair: LocalCluster) -> None:
    """Nobody could refuse the change. Elsewhere a row's bytes would be read as what the table was."""
    north = pair.sps[0]
    execute(north, "ALTER TABLE item ALTER told TYPE varchar(50)")
    try:
        problems = execute(as_admin(north), "SELECT psp.guard_problems()")
        assert any("item" in problem for (problem,) in problems)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="is not what was adopted"):
            execute(north, "INSERT INTO item (place, amount) VALUES (1, 8)")
        retry(lambda: execute(north, "UPDATE place SET name = 'another table' WHERE id = 1"))
    finally:
        execute(north, "ALTER TABLE item ALTER told TYPE text")
    retry(lambda: execute(north, "INSERT INTO item (place, amount) VALUES (1, 8)"))


def test_nothing_belongs_to_a_superuser_and_nobody_may_create_in_psp(pair: LocalCluster) -> None:
    for sp in pair.sps:
        owners = execute(
            as_admin(sp),
            "SELECT DISTINCT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'psp'::regnamespace",
        )
        assert {name for (name,) in owners} == {"psp_keeper", "psp_functions", "app"}
        for role in ("psp_functions", "app", "psp_semi_primary"):
            assert execute(as_admin(sp), "SELECT has_schema_privilege(%s, 'psp', 'CREATE')", (role,)) == [
                (False,)
            ]


def test_servers_of_which_one_has_no_schema_changes_are_told_apart(pair: LocalCluster) -> None:
    north, south = pair.sps
    with psycopg.connect(north.admin_dsn) as connection:
        alike = compare_with(connection, read_facts(connection), [south.admin_dsn])
        connection.execute("UPDATE psp.identity SET guarded = true")
        told = compare_with(connection, read_facts(connection), [south.admin_dsn])
        connection.rollback()
    (problem,) = [problem for problem in told if problem not in alike]
    assert "stops south for good" in problem.problem


def test_the_role_that_adopted_need_not_be_elsewhere(pair: LocalCluster) -> None:
    with psycopg.connect(pair.sps[0].admin_dsn) as connection:
        seen = connection.execute(read_sql("catalog/surroundings.sql")).fetchall()
    assert ("role", "app") in {(kind, name) for kind, name, _ in seen}
    assert "psp_keeper" not in str(seen)


def test_what_is_missing_is_named(pair: LocalCluster) -> None:
    north = pair.sps[0]
    with psycopg.connect(keeper_dsn(north)) as connection:
        found = {problem.problem.split(":")[0]: problem.hint for problem in missing_rights(connection)}
    assert "it may not set deadlock_timeout" in found
    assert not any("member" in problem for problem in found)
    revoked = {
        "REVOKE app FROM psp_keeper": "GRANT app TO psp_keeper",
        "REVOKE psp_functions FROM psp_keeper": "GRANT psp_functions TO psp_keeper",
        "REVOKE pg_monitor FROM psp_semi_primary": "GRANT pg_monitor TO psp_semi_primary",
        "REVOKE pg_signal_backend FROM psp_semi_primary": "GRANT pg_signal_backend TO psp_semi_primary",
    }
    for revoke, grant in revoked.items():
        with psycopg.connect(north.admin_dsn) as connection:
            connection.execute(revoke.encode())
            connection.execute("SET LOCAL SESSION AUTHORIZATION psp_keeper")
            assert grant in [problem.hint for problem in missing_rights(connection)]
            connection.rollback()


def test_release_leaves_a_plain_database(pair: LocalCluster) -> None:
    """The last test of the pair: all servers hold the same rows, and are plain again."""
    assert verify.verify(pair, WAIT_S).consistent
    for sp in reversed(pair.sps):
        pair.stop(sp.name, "daemon")
        release(keeper_dsn(sp), pair.primary_dsn, drop_keys=False, force=True, lock_wait_s=WAIT_S, say=quiet)
        assert execute(sp, "SELECT to_regnamespace('psp')") == [(None,)]
        assert execute(sp, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'psp%%'") == [(0,)]
        execute(sp, "INSERT INTO item (place, amount) VALUES (1, 7)")


def second_database(cluster: LocalCluster) -> str:
    """An empty database on north's server, for its keeper."""
    cluster.server("north").create_database("second")
    second = make_conninfo(cluster.sp("north").admin_dsn, dbname="second")
    with psycopg.connect(second) as connection:
        script = without_roles(grants()).replace("DATABASE app", "DATABASE second")
        connection.execute(script.encode())
        connection.execute("GRANT CREATE ON SCHEMA public TO psp_keeper, app")
    return make_conninfo(second, user="psp_keeper")


def test_a_cluster_with_schema_changes_is_not_joined() -> None:
    with LocalCluster.temporary([Zone("north")]) as cluster:
        (north,) = cluster.sps
        with psycopg.connect(north.dsn) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        execute(as_admin(north), "GRANT EXECUTE ON FUNCTION psp.ddl(text) TO app")
        execute(north, "ALTER TABLE place ADD COLUMN more int")
        second = second_database(cluster)
        with pytest.raises(PspError, match="has had schema changes"):
            prepare_join(second, cluster.primary_dsn, name="second")


def test_who_joins_may_not_set_the_search_path_of_an_owner() -> None:
    """The error says which statement of an administrator is missing: of the database, and of the role."""
    with LocalCluster.temporary([Zone("north")]) as cluster:
        (north,) = cluster.sps
        with psycopg.connect(north.dsn) as connection:
            connection.execute(SCHEMA.encode())
        execute(as_admin(north), "ALTER DATABASE app SET search_path = 'the shop', public")
        execute(as_admin(north), 'ALTER ROLE app IN DATABASE app SET search_path = public, "$user"')
        growth.adopt(cluster)
        second = second_database(cluster)
        for told in ("DATABASE", "ROLE app IN DATABASE"):
            with pytest.raises(PspError, match="has another search_path than in the cluster") as refused:
                prepare_join(second, cluster.primary_dsn, name="second")
            remedy = refused.value.hint or ""
            assert remedy.startswith(f"ALTER {told} second SET search_path = ")
            execute(as_admin(north), remedy)
        prepare_join(second, cluster.primary_dsn, name="second")
