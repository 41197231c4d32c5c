"""Which of several PostgreSQL installations a command takes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from psp.cli import app
from psp.cluster import cli as cluster_cli
from psp.output import PspError
from psp.paths import client_program, postgres_program
from typer.testing import CliRunner


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of versions 997, 14 and 998 only, in PSP_PG_BIN in this order."""
    for version in ("997", "14", "998"):
        for name in ("postgres_of_test", "pg_dump_of_test"):
            program = tmp_path / version / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}.3 (of the test)'\n")
            program.chmod(0o755)
    monkeypatch.setenv("PSP_PG_BIN", os.pathsep.join(f"{tmp_path}/{v}" for v in ("997", "14", "998")))
    return tmp_path


def test_the_first_one_that_is_not_too_old(versions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert postgres_program("postgres_of_test") == versions / "997" / "postgres_of_test"
    monkeypatch.setenv("PSP_PG_BIN", f"{versions}/14:{versions}/998")
    assert postgres_program("postgres_of_test") == versions / "998" / "postgres_of_test"


def test_a_version_that_was_asked_for(versions: Path) -> None:
    assert postgres_program("postgres_of_test", exactly=998) == versions / "998" / "postgres_of_test"
    with pytest.raises(PspError, match="no postgres_of_test of PostgreSQL 996 found"):
        postgres_program("postgres_of_test", exactly=996)


def test_a_client_is_of_the_servers_version_or_the_next(versions: Path) -> None:
    assert client_program("pg_dump_of_test", 998) == versions / "998" / "pg_dump_of_test"
    assert client_program("pg_dump_of_test", 16) == versions / "997" / "pg_dump_of_test"
    with pytest.raises(PspError, match="no pg_dump_of_test of PostgreSQL 999 or later found"):
        client_program("pg_dump_of_test", 999)


def test_a_folder_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PSP_PG_BIN", str(tmp_path / "none"))
    with pytest.raises(PspError, match=r"PSP_PG_BIN names the folder .*none, which is not there"):
        postgres_program("postgres")


def test_an_option_of_the_command(versions: Path) -> None:
    """It goes before what the environment says."""
    CliRunner().invoke(app, ["--pg-bin", str(versions / "998"), "schema", "check", "host=/nowhere"])
    assert postgres_program("postgres_of_test") == versions / "998" / "postgres_of_test"


def test_psqls_own_options_win_over_the_nodes_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """-U psp connects as psp; a connection string would silently stay with its own user."""

    class Cluster:
        def sp(self, name: str) -> SimpleNamespace:
            return SimpleNamespace(dsn=f"host=127.0.0.1 port=6 dbname={name} user=app", admin_dsn="")

    @contextmanager
    def opened(*_: object) -> Iterator[Cluster]:
        yield Cluster()

    run: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(cluster_cli, "_opened", opened)
    monkeypatch.setattr(os, "execve", lambda _, arguments, environment: run.append((arguments, environment)))
    done = CliRunner().invoke(app, ["cluster", "psql", "sp1", "-U", "psp", "-c", "SELECT 1"])
    assert done.exit_code == 0, done.output
    [(arguments, environment)] = run
    assert arguments[1:] == ["-U", "psp", "-c", "SELECT 1"]
    told = {name: environment[name] for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER")}
    assert told == {"PGHOST": "127.0.0.1", "PGPORT": "6", "PGDATABASE": "sp1", "PGUSER": "app"}
