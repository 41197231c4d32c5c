"""pg_upgrade of a semi-primary's server and of the primary's, as docs/operating.md tells it."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.paths import postgres_program
from psp.servers.pgserver import SUPERUSER, PgServer, server_identity

from tests.cluster.schema_changes.statements import allow_ddl, settle_unchanged
from tests.cluster.support import as_admin, connect, execute, retry, wait_for_row, wait_streaming
from tests.cluster.versions.test_mixed import OPTIONS, SCHEMA, version_of

OLD, NEW = 16, 18
VALUE = "SELECT value FROM counter WHERE name = 'all'"


def run(server: PgServer, program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(postgres_program(program, exactly=server.version)), *arguments],
        cwd=server.folder, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        **server_identity(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def upgrade(server: PgServer) -> None:
    """The server, stopped before, runs afterwards with its data as PostgreSQL NEW."""
    old_data = server.data_dir.rename(server.folder / "old")
    new = replace(server, version=NEW)
    new.create()
    run(new, "pg_checksums", "--disable", "-D", str(new.data_dir))  # as the old one
    programs = {
        option: str(postgres_program("postgres", exactly=version).parent)
        for option, version in (("-b", OLD), ("-B", NEW))
    }
    run(new, "pg_upgrade", *(word for pair in programs.items() for word in pair),
        "-d", str(old_data), "-D", str(new.data_dir), "-U", SUPERUSER)  # fmt: skip
    new.start()


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    options = Options(pg_settings=OPTIONS, primary_postgres=OLD)
    with LocalCluster.temporary([Zone("sp1", postgres=OLD), Zone("sp2", postgres=OLD)], options) as cluster:
        with connect(cluster.sps[0], autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        growth.adopt(cluster)
        for sp in cluster.sps:
            allow_ddl(sp)
        execute(cluster.sps[0], "CREATE INDEX CONCURRENTLY since ON customer (since)")
        execute(cluster.sps[0], "ALTER TABLE counter ADD COLUMN told text DEFAULT 'before'")
        settle_unchanged(cluster)
        yield cluster


def write(sp: SpNode, value: int) -> None:
    retry(lambda: execute(sp, "UPDATE counter SET value = %s, told = 'yes'", (value,)))


def works(cluster: LocalCluster, value: int) -> None:
    """Rows and schema changes go both ways, and who comes second loses."""
    one, two = cluster.sps
    write(one, value)
    wait_for_row(two, f"{VALUE} AND value = {value}")
    write(two, value + 1)
    wait_for_row(one, f"{VALUE} AND value = {value + 1}")
    with connect(two) as late:
        late.execute("UPDATE counter SET value = 0")
        write(one, value + 2)
        with pytest.raises(psycopg.errors.SerializationFailure):
            late.commit()
    for sp, name in ((one, f"made_{value}"), (two, f"made_{value}_too")):
        retry(lambda sp=sp, name=name: execute(sp, f"CREATE TABLE {name} (id int PRIMARY KEY)"))  # type: ignore[misc]
        retry(lambda sp=sp: execute(sp, "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'glad'"))  # type: ignore[misc]
    retry(lambda: execute(one, "INSERT INTO room VALUES (%s, '[2024-01-01,2024-01-02)')", (value,)))
    with pytest.raises(psycopg.errors.ExclusionViolation):
        retry(lambda: execute(two, "INSERT INTO room VALUES (%s, '[2024-01-01,2024-01-02)')", (value + 1,)))
    retry(lambda: execute(one, "DELETE FROM room"))
    settle_unchanged(cluster)
    result = verify.verify(cluster)
    assert result.consistent, result.as_dict()
    for sp in cluster.sps:
        assert execute(as_admin(sp), "SELECT psp.guard_problems()") == []


def test_a_semi_primary(pair: LocalCluster) -> None:
    one, two = pair.sps
    pair.stop(two.name)
    write(one, 7)
    upgrade(pair.server(two.name))
    pair.start(two.name, "daemon")
    wait_streaming(pair)
    assert version_of(two.dsn) == NEW
    wait_for_row(two, f"{VALUE} AND value = 7")
    works(pair, 10)


def test_the_primary(pair: LocalCluster) -> None:
    pair.stop("primary")
    upgrade(pair.server("primary"))
    pair.start("primary", "daemon")
    wait_streaming(pair)
    assert version_of(pair.primary_dsn) == NEW
    works(pair, 20)
