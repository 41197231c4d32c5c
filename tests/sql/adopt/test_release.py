"""psp schema release loses nothing without a word, and its database can be adopted again."""

from pathlib import Path

import psycopg
import pytest
from psp.cli import app
from psp.cluster.sums import primary_sums, read_sp
from psp.output import PspError
from psp.primary.database import daemon_lock
from psp.schema import reading
from psp.schema.catalog import read_database
from psp.schema.join import prepare_join
from typer.testing import CliRunner, Result

from tests.sql.databases import Pair


@pytest.fixture
def adopted(pair: Pair) -> Pair:
    pair.run("CREATE TABLE t (id serial PRIMARY KEY, s text UNIQUE); INSERT INTO t (s) VALUES ('a'), ('b')")
    pair.adopt()
    return pair


def release(pair: Pair, *options: str, answer: str | None = None, told: bool = True) -> Result:
    to_primary = ["--primary-dsn", pair.primary_dsn] if told else []
    return CliRunner().invoke(app, ["schema", "release", pair.dsn, *to_primary, *options], input=answer)


def commit_elsewhere(pair: Pair, global_t: int) -> None:
    """As if another semi-primary had."""
    with psycopg.connect(pair.primary_dsn) as connection:
        connection.execute(
            "INSERT INTO psp.replication_log VALUES (%s, gen_random_uuid(), 2, '')", (global_t,)
        )


def join(pair: Pair, name: str) -> None:
    pair.server.create_database(f"{pair.name}_{name}")
    prepare_join(pair.server.dsn(f"{pair.name}_{name}"), pair.primary_dsn, name)


def is_adopted(pair: Pair) -> bool:
    with pair.connect() as connection:
        return connection.execute("SELECT to_regnamespace('psp') IS NOT NULL").fetchone() == (True,)


def test_it_asks_first(adopted: Pair) -> None:
    asked = release(adopted, answer="n\n")
    assert asked.exit_code == 1
    assert is_adopted(adopted)
    done = release(adopted, answer="y\n")
    assert done.exit_code == 0, done.output
    assert not is_adopted(adopted)


def test_its_replication_origin_goes(adopted: Pair) -> None:
    with adopted.connect(autocommit=True) as connection:
        connection.execute("SELECT pg_replication_origin_create(psp.origin())")
        assert release(adopted, "--yes").exit_code == 0
        assert (
            connection.execute(
                "SELECT roname FROM pg_replication_origin WHERE starts_with(roname, 'psp_')"
            ).fetchall()
            == []
        )


def test_the_last_one_that_lacks_transactions_is_not_released(adopted: Pair) -> None:
    commit_elsewhere(adopted, 1)
    commit_elsewhere(adopted, 3)
    refused = release(adopted, "--yes")
    assert refused.exit_code == 1
    assert "one lacks 2 committed transactions: it has everything up to 0, the pr" in refused.stderr
    assert "--force" in refused.stderr
    assert is_adopted(adopted)
    forced = release(adopted, "--yes", "--force")
    assert forced.exit_code == 0, forced.output
    assert adopted.primary_rows("SELECT released_t FROM psp.semi_primaries") == [(None,)]


def test_own_commits_above_the_watermark_are_not_missing(adopted: Pair) -> None:
    commit_elsewhere(adopted, 1)
    adopted.run("INSERT INTO psp.applied VALUES (1, gen_random_uuid())")
    done = release(adopted, "--yes")
    assert done.exit_code == 0, done.output
    assert adopted.primary_rows("SELECT released_t FROM psp.semi_primaries") == [(1,)]


def test_it_tells_who_goes_on_and_what_is_missing(adopted: Pair) -> None:
    join(adopted, "two")
    commit_elsewhere(adopted, 1)
    done = release(adopted, "--yes")
    assert done.exit_code == 0, done.output
    assert "one lacks 1 committed transactions" in done.stderr
    assert "two may go on writing" in done.stderr


def test_without_the_primary_its_daemons_last_word_counts(adopted: Pair) -> None:
    adopted.run(
        "INSERT INTO psp.daemon_status VALUES (true, now() - interval '1 hour', "
        "jsonb_build_object('closed_t', 7))"
    )
    refused = release(adopted, "--yes", told=False)
    assert refused.exit_code == 1
    assert "one lacked up to 7 committed transactions" in refused.stderr
    forced = release(adopted, "--yes", "--force", told=False)
    assert forced.exit_code == 0, forced.output
    assert "without --primary-dsn" in forced.stderr


def test_the_wrong_primary_is_noticed_before_anything_is_done(adopted: Pair, server: object) -> None:
    with psycopg.connect(adopted.primary_dsn) as connection:
        connection.execute("UPDATE psp.cluster SET cluster_id = gen_random_uuid()")
    assert "another cluster" in release(adopted, "--yes").stderr
    assert is_adopted(adopted)


def test_a_schema_is_changed_by_release_and_another_adoption(adopted: Pair) -> None:
    join(adopted, "two")
    with pytest.raises(PspError, match="its semi-primaries are one, two") as refused:
        adopted.adopt()
    assert "release all of them" in str(refused.value.hint)
    assert release(adopted, "--yes").exit_code == 0
    two = Pair(f"{adopted.name}_two", adopted.server)
    to_primary = ["--primary-dsn", adopted.primary_dsn, "--yes", "--force"]
    assert CliRunner().invoke(app, ["schema", "release", two.dsn, *to_primary]).exit_code == 0

    before = adopted.primary_rows("SELECT cluster_id FROM psp.cluster")
    adopted.run("ALTER TABLE t ADD added int DEFAULT 7; CREATE TABLE u (id int PRIMARY KEY)")
    with psycopg.connect(adopted.primary_dsn) as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", daemon_lock())
        with pytest.raises(PspError, match="psp-primary is serving"):
            adopted.adopt()
    assert adopted.adopt() == 1
    assert adopted.primary_rows("SELECT cluster_id FROM psp.cluster") != before
    assert adopted.primary_rows("SELECT count(*) FROM psp.epochs") == [(0,)]
    join(adopted, "three")
    three = Pair(f"{adopted.name}_three", adopted.server)
    with three.connect() as connection:
        assert connection.execute("SELECT added FROM t").fetchall() == []
        assert connection.execute("SELECT count(*) FROM u").fetchone() == (0,)
    with adopted.connect() as connection:
        definitions, sums = read_sp(connection, adopted.primary_dsn)
    assert primary_sums(adopted.primary_dsn, definitions) == sums


def test_the_only_copy_of_rows_is_not_forgotten_without_a_word(adopted: Pair, tmp_path: Path) -> None:
    """The servers of all semi-primaries are lost: what the primary has is all there is."""
    removed = CliRunner().invoke(app, ["primary", "remove", adopted.primary_dsn, "one", "--yes"])
    assert removed.exit_code == 0, removed.output
    other = Pair(f"{adopted.name}_other", adopted.server)
    other.server.create_database(other.name)
    command = ["schema", "adopt", other.dsn, "--primary-dsn", adopted.primary_dsn, "--name", "new", "--yes"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "only copy" in refused.stderr
    assert "--replace" in refused.stderr
    done = CliRunner().invoke(app, [*command, "--replace"])
    assert done.exit_code == 0, done.output
    assert "there are no tables" in done.stderr


def test_the_release_of_a_copy_does_not_remove_its_original(
    adopted: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No daemon serves this database, and the primary has its semi-primary connected."""
    monkeypatch.setattr("psp.schema.farewell.GONE_AFTER_S", 0.1)
    with psycopg.connect(adopted.primary_dsn, autocommit=True) as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", daemon_lock())
        daemon.execute("UPDATE psp.semi_primaries SET is_connected = true")
        refused = release(adopted, "--yes")
        assert refused.exit_code == 1
        assert "one is connected to the primary from another database" in refused.stderr
        assert "release it without --primary-dsn" in refused.stderr
        assert is_adopted(adopted)
        warned = release(adopted, "--yes", told=False)
        assert warned.exit_code == 0, warned.output
        assert "unless this is a copy" in warned.stderr
    assert adopted.primary_rows("SELECT released_at FROM psp.semi_primaries") == [(None,)]


def test_nothing_to_compare_is_not_a_difference(pair: Pair) -> None:
    pair.adopt()
    done = CliRunner().invoke(app, ["primary", "verify", pair.primary_dsn, pair.dsn])
    assert done.exit_code == 0, done.output
    assert "There are no tables to compare" in done.stdout


def test_a_table_that_was_never_analysed_is_estimated_by_its_rows(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE empty (id int PRIMARY KEY, s text);"
        "CREATE TABLE full_ (id int PRIMARY KEY, s text) WITH (autovacuum_enabled = off);"
        "INSERT INTO full_ SELECT g, repeat('x', 60) FROM generate_series(1, 1000) g"
    )
    with pair.connect() as connection:
        about = {table.name: table.rows_about for table in read_database(connection).tables}
    assert about["empty"] == 0
    assert 500 < about["full_"] < 2000


BEYOND = """
CREATE DOMAIN inner_d AS int; CREATE DOMAIN outer_d AS inner_d;
CREATE SEQUENCE low MAXVALUE 1000; CREATE SEQUENCE odd; CREATE SEQUENCE nested;
CREATE SEQUENCE falls INCREMENT -1 MINVALUE -1000 MAXVALUE -1;
CREATE TABLE a (id int PRIMARY KEY DEFAULT nextval('low'), v int); INSERT INTO a VALUES (400), (5000);
CREATE TABLE b (id int PRIMARY KEY, n numeric DEFAULT nextval('odd'));
INSERT INTO b VALUES (1, 300), (2, 'NaN');
CREATE TABLE c (id outer_d PRIMARY KEY DEFAULT nextval('nested')); INSERT INTO c VALUES (200);
CREATE TABLE d (id int PRIMARY KEY DEFAULT nextval('falls')); INSERT INTO d VALUES (-70), (-9000);
"""


@pytest.mark.parametrize("is_copied", [False, True], ids=["SELECT", "COPY"])
def test_a_value_that_no_sequence_draws_hides_no_other(
    pair: Pair, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row beyond MAXVALUE, a NaN, a domain over a domain."""
    pair.run(BEYOND)
    pair.adopt()
    if is_copied:
        monkeypatch.setattr(reading, "tables_with_code", lambda _, tables: set(tables))
    result = release(pair, "--yes")
    assert result.exit_code == 0, result.output
    drawn = "SELECT nextval('low') > 400, nextval('odd') > 300, nextval('nested') > 200"
    with pair.connect() as connection:
        assert connection.execute(f"{drawn}, nextval('falls') < -70".encode()).fetchone() == (True,) * 4
