"""What the psp command says when it cannot do what it was asked for: what is wrong, and what to do."""

from pathlib import Path

import pytest
from psp.cli import app
from psp.problems import Problem, RefusedError, errors_shown
from typer import Exit
from typer.testing import CliRunner

NOBODY = "host=127.0.0.1 port=1 dbname=x connect_timeout=5"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cluster", "up", "--name", "a/b"], "cannot be a cluster's name"),
        (["cluster", "status", "--name", ".."], "cannot be a cluster's name"),
        (["cluster", "up", "--zone", "tokyo=far"], "NAME=ROUND_TRIP_MS"),
        (["schema", "convert", "missing.sql"], "there is no file missing.sql"),
        (["schema", "check", "shop"], "a connection string looks like"),
        (["schema", "release", NOBODY], "Connection refused"),
        (["primary", "init", NOBODY], "Connection refused"),
        (["mrv", "list", NOBODY], "Connection refused"),
        (["mrv", "create", "stock", NOBODY], "TABLE.COLUMN"),
        (["primary", "key", "missing/cluster.key"], "No such file or directory"),
    ],
)
def test_an_error_says_what_to_do(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert told in result.stderr
    assert not result.stdout


def test_an_interrupted_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as ended, errors_shown():
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_refusal_shows_its_problems(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr: stdout may be a file that a script is being written to."""
    problem = Problem("error", "table t", "it has no primary key", "add one")
    with pytest.raises(Exit) as ended, errors_shown():
        raise RefusedError("the database cannot be adopted", [problem, problem])
    shown = capsys.readouterr()
    assert ended.value.exit_code == 1
    assert shown.err.count("no primary key") == 1
    assert "1 error; nothing has changed" in shown.err
    assert not shown.out


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "cluster.key"
    assert CliRunner().invoke(app, ["primary", "key", str(file)]).exit_code == 0
    key = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(app, ["primary", "key", str(file)])
    assert again.exit_code == 1
    assert "must not be lost" in again.stderr
    assert file.read_text() == key
