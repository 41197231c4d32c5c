"""`psp cluster up` as a new user types it: the owner of the tables may go on making some."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from psp.cli import app
from psp.cluster.local import LocalCluster
from psp.servers.temporary import TemporaryFolder
from typer.testing import CliRunner

from tests.cluster.support import execute, wait_for_row


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["cluster", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a cluster: servers' own account reaches it."""
    temporary = TemporaryFolder()
    place = temporary.path / "first"
    yield place
    if place.exists():
        run("down", "--dir", str(place))
    temporary.remove()


def test_the_tables_owner_changes_the_schema_at_every_sp(folder: Path, tmp_path: Path) -> None:
    schema = tmp_path / "shop.sql"
    schema.write_text(  # as pg_dump writes it, for psql
        "\\restrict x1\nCREATE TABLE item (id bigserial PRIMARY KEY, name text UNIQUE);\n"
        "COPY item (name) FROM stdin;\nfirst\n\\.\n\n\\unrestrict x1\n"
    )
    run("up", "--sps", "2", "--schema", str(schema), "--dir", str(folder))
    cluster = LocalCluster.open(folder)
    assert wait_for_row(cluster.sp("sp2"), "SELECT name FROM item") == ("first",)
    execute(cluster.sp("sp2"), "CREATE TABLE parcel (id int PRIMARY KEY)")
    wait_for_row(cluster.sp("sp1"), "SELECT 1 FROM pg_class WHERE relname = 'parcel'")
    run("join", "sp3", "--dir", str(folder))
    execute(LocalCluster.open(folder).sp("sp3"), "ALTER TABLE parcel ADD COLUMN weight int")
    wait_for_row(cluster.sp("sp1"), "SELECT 1 FROM pg_attribute WHERE attname = 'weight'")


def test_a_schema_that_fails_says_why(folder: Path, tmp_path: Path) -> None:
    schema = tmp_path / "shop.sql"
    schema.write_text("CREATE TABLE item (id int PRIMARY KEY);\nCREATE TABLE item (id int PRIMARY KEY);\n")
    done = CliRunner().invoke(
        app, ["cluster", "up", "--sps", "1", "--schema", str(schema), "--dir", str(folder)]
    )
    assert done.exit_code != 0
    assert "shop.sql:2" in done.output
    assert "already exists" in done.output
