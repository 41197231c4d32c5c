"""PostgreSQL 14: each command says in words that it is too old, before any error of SQL."""

from collections.abc import Iterator

import psycopg
import pytest
from psp import output
from psp.cli import app
from psp.servers.pgserver import PgServer
from psp.servers.temporary import temporary_server
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """A database with a table, on a server of version 14."""
    server: PgServer
    with temporary_server({"fsync": "off", "shared_buffers": "32MB"}, version=14) as server:
        with psycopg.connect(server.dsn("postgres")) as connection:
            connection.execute("CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL)")
        yield server.dsn("postgres")


@pytest.mark.parametrize(
    "command",
    [
        "schema check {dsn}",
        "schema check {dsn} --mode views",
        "schema adopt {dsn} --primary-dsn {dsn} --name one --yes",
        "schema join {dsn} --primary-dsn {dsn} --name two",
        "schema convert {dsn}",
        "schema release {dsn} --yes",
        "schema history {dsn}",
        "primary init {dsn}",
        "mrv create item.stock {dsn}",
    ],
)
def test_it_is_told(dsn: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.console, "width", 200)  # a table's cells stay lines
    arguments = [dsn if part == "{dsn}" else part for part in command.split()]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 1
    assert "PostgreSQL 14 is too old" in told.output
    assert "psp needs PostgreSQL 15 or later" in told.output
