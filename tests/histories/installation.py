"""An application in a folder of its own, and its commands there."""

import os
import subprocess
import sys
from pathlib import Path

from psp.cluster.local import SpNode
from psycopg.conninfo import conninfo_to_dict

from tests.histories.applications import Application

STAMP = "installed"
COMMAND_S = 3600


class CommandFailed(AssertionError):
    """A command of the application failed: its last words."""


class Installation:
    """What pip has put below `folder`. Made once; made again when the packages or the edits are others."""

    def __init__(self, application: Application, folder: Path) -> None:
        self._application = application
        self._folder = folder / application.name
        wanted = repr((application.packages, application.edits, sys.version))
        stamp = self._folder / STAMP
        if stamp.exists() and stamp.read_text() == wanted:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        if application.packages:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(self._folder)], check=True)
            pip = [str(self._folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *application.packages], check=True)
            self._edit()
        stamp.write_text(wanted)

    @property
    def _packages(self) -> Path:
        return self._folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    def _edit(self) -> None:
        for edit in self._application.edits:
            found = [file for file in self._packages.glob(edit.files) if edit.before in file.read_text()]
            assert found, f"nothing to edit in {edit.files}"
            for file in found:
                file.write_text(file.read_text().replace(edit.before, edit.after))

    def up(self, sp: SpNode, log: Path) -> None:
        """All migrations that are not done yet."""
        self._run(self._application.up, sp, log)

    def down(self, sp: SpNode, log: Path) -> None:
        """Backwards, if the application can."""
        self._run(self._application.down, sp, log)

    def _run(self, command: tuple[str, ...], sp: SpNode, log: Path) -> None:
        place = {name: str(value) for name, value in conninfo_to_dict(sp.dsn).items()}
        words = {**place, "folder": str(self._folder), "packages": str(self._packages)}
        own = {name: value.format_map(words) for name, value in self._application.environment.items()}
        libpq = {
            "PGHOST": place["host"],
            "PGPORT": place["port"],
            "PGDATABASE": place["dbname"],
            "PGUSER": place["user"],
        }
        program, *arguments = (word.format_map(words) if "{" in word else word for word in command)
        path = self._folder / program if program.startswith("bin/") else Path(program)
        with log.open("a") as output:
            done = subprocess.run(
                [str(path), *arguments], cwd=self._folder, env={**os.environ, **libpq, **own}, stdout=output,
                stderr=subprocess.STDOUT, check=False, timeout=COMMAND_S,
            )  # fmt: skip
        if done.returncode != 0:
            raise CommandFailed(f"{command}: {log.read_text()[-4000:]}")
