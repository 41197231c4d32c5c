"""`make install`: the commands work without the tree that they were made in."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from psp import paths

from tests.sql.databases import Pair

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tools" / "install.sh"
DAEMONS = ("psp-primary", "psp-semi-primary", "psp-mrv", "psp-georelay")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("prefix")
    build = paths.binary("psp-primary").parent.parent
    environment = {
        **os.environ,
        "DESTDIR": str(folder / "root"),
    }  # or the server's own library folder would have the module
    subprocess.run([SCRIPT, folder, build], cwd=ROOT, env=environment, check=True, timeout=300)
    yield folder
    subprocess.run([SCRIPT, "--remove", folder], cwd=ROOT, env=environment, check=True)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def run(prefix: Path, *command: str) -> str:
    """Runs an installed command elsewhere; returns its stdout."""
    kept = (name for name in os.environ if not name.startswith("PSP_") or name == "PSP_PG_BIN")
    environment = {name: os.environ[name] for name in kept}
    environment["PATH"] = f"{prefix / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_daemons_and_their_units(prefix: Path) -> None:
    for daemon in DAEMONS:
        assert "--" in run(prefix, daemon, "--help")
    for unit in (prefix / "lib" / "systemd" / "system").iterdir():
        assert f"ExecStart={prefix}/bin/{unit.stem} --config" in unit.read_text()


@pytest.mark.parametrize("module", ["psp_capture", "psp_certify"])
def test_the_server_modules(prefix: Path, module: str) -> None:
    """They are where each of Debian's servers looks for them, below DESTDIR."""
    built = paths.binary("psp-primary").parent.parent / "lib" / "postgresql"
    versions = [path.parent.parent.name for path in Path("/usr/lib/postgresql").glob("*/bin/pg_config")]
    modules = [built / version / f"{module}.so" for version in versions]
    installed = sorted(path.read_bytes() for path in (prefix / "root").rglob(f"{module}.so"))
    assert installed == sorted(path.read_bytes() for path in modules if path.exists())


def test_alert_rules_and_dashboard(prefix: Path) -> None:
    for path in ("prometheus/psp.rules.yml", "grafana/psp.json"):
        assert (prefix / "lib" / "psp" / path).read_bytes() == (paths.home() / "deploy" / path).read_bytes()


def test_one_version(prefix: Path) -> None:
    command = run(prefix, "psp", "--version").split()
    assert {run(prefix, daemon, "--version").split()[-1] for daemon in DAEMONS[:3]} == {command[-1]}


def test_the_command_finds_the_daemons_beside_it(prefix: Path) -> None:
    """Where PREFIX/bin is not in PATH."""
    where = "import sys; from psp import paths; sys.stdout.write(str(paths.binary('psp-semi-primary')))"
    environment = {"PATH": "/usr/bin:/bin"}
    python = prefix / "lib" / "psp" / "venv" / "bin" / "python"
    shown = subprocess.run(
        [python, "-c", where],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout == str(prefix / "bin" / "psp-semi-primary")


def test_the_command_has_its_sql(prefix: Path, pair: Pair) -> None:
    pair.run("CREATE TABLE t (id int PRIMARY KEY)")
    run(prefix, "psp", "schema", "adopt", pair.dsn, "--primary-dsn", pair.primary_dsn, "--name", "a", "--yes")
    with pair.connect() as connection:
        row = connection.execute("SELECT name FROM psp.identity").fetchone()
    assert row == ("a",)
