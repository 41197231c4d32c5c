"""Where things are: the SQL, the daemons' binaries, PostgreSQL's programs.

The package is used in the repository (tools/make_venv.sh) or in what `make install` has made
(tools/install.sh). Both have the SQL in a folder above this file; PSP_HOME and PSP_BIN override that.
"""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from psp.output import PspError

POSTGRES_MIN_VERSION = 15
POSTGRES_MAX_VERSION = 18


def home() -> Path:
    """The folder that holds sql/: the repository, or PREFIX/lib/psp. PspError if there is none."""
    configured = os.environ.get("PSP_HOME")
    candidates = [Path(configured)] if configured else [*Path(__file__).resolve().parents, Path.cwd()]
    for candidate in candidates:
        if (candidate / "sql" / "native" / "install").is_dir():
            return candidate.resolve()
    looked = ", ".join(str(c) for c in candidates)
    raise PspError(f"no folder with sql/native/install in {looked}", "set PSP_HOME to the repository's root")


def sql_dir(folder: str = "") -> Path:
    """sql/, or a folder in it such as `catalog` or `primary/install` (sql/README.md lists them)."""
    return home() / "sql" / folder


def binary(name: str) -> Path:
    """A daemon's executable: in PSP_BIN, or in the build folder, beside the installed psp or in PATH.

    PspError if it is missing.
    """
    configured = os.environ.get("PSP_BIN")
    # `make install` puts the daemons into PREFIX/bin and what home() finds into PREFIX/lib/psp.
    folders = [Path(configured)] if configured else [home() / "build" / "bin", home().parents[1] / "bin"]
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return folder / name
    found = None if configured else shutil.which(name)
    if found is None:
        raise PspError(
            f"{folders[0] / name} is not there", f"make build, or set PSP_BIN to the folder that has {name}"
        )
    return Path(found)


def postgres_program(name: str, exactly: int = 0) -> Path:
    """A program of a PostgreSQL that psp works with, or of `exactly` this major version. PspError if none.

    The first one: in the folders of PSP_PG_BIN (`:` between them), pg_config's, Debian's (the oldest) and on
    the PATH.
    """
    for program, version in _programs(name, os.environ.get("PSP_PG_BIN", "")):
        if version == exactly or (not exactly and version >= POSTGRES_MIN_VERSION):
            return program
    raise _not_found(name, str(exactly or f"{POSTGRES_MIN_VERSION} or later"))


def client_program(name: str, server: int) -> Path:
    """pg_dump or another client for a server of this major version: of the same one, or of the next there is.

    pg_dump refuses servers newer than itself, and writes what older ones do not know. PspError if none.
    """
    found = _programs(name, os.environ.get("PSP_PG_BIN", ""))
    usable = [(version, program) for program, version in found if version >= server]
    if not usable:
        raise _not_found(name, f"{server} or later")
    return min(usable, key=lambda each: each[0])[1]


@cache
def _programs(name: str, configured: str) -> list[tuple[Path, int]]:
    """All of that name, each with its major version."""
    candidates = []
    for folder in filter(None, configured.split(os.pathsep)):
        if not Path(folder).is_dir():
            raise PspError(f"--pg-bin or PSP_PG_BIN names the folder {folder}, which is not there")
        candidates.append(Path(folder).resolve() / name)  # servers' account may not reach a link to it
    pg_config = shutil.which("pg_config")
    if pg_config:
        shown = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True)
        candidates.append(Path(shown.stdout.strip()) / name)
    debian = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    candidates += sorted(debian, key=lambda path: _number(path.parent.parent.name))
    on_path = shutil.which(name)
    if on_path:
        candidates.append(Path(on_path))
    return [(path, _version(path)) for path in candidates if os.access(path, os.X_OK)]


def _not_found(name: str, wanted: str) -> PspError:
    return PspError(
        f"no {name} of PostgreSQL {wanted} found: neither in PSP_PG_BIN nor in pg_config's folder, "
        "/usr/lib/postgresql or the PATH",
        "sudo apt-get install -y postgresql postgresql-contrib; or psp --pg-bin FOLDER, which has it",
    )


def server_version() -> int:
    """The major version of throw-away servers for which none is chosen."""
    return _version(postgres_program("postgres"))


@cache
def module_dir(version: int) -> Path | None:
    """The folder with psp's server modules for this major version, where throw-away servers find them.

    PSP_MODULE_DIR overrides it; empty: none. Servers that are not ours have them in their own library folder.
    """
    configured = os.environ.get("PSP_MODULE_DIR")
    if configured is not None:
        folder = Path(configured)
    else:
        bin_dir = Path(os.environ.get("PSP_BIN", home() / "build" / "bin"))
        folder = bin_dir.parent / "lib" / "postgresql" / str(version)
    return folder if not without_modules() and (folder / "psp_capture.so").exists() else None


def without_modules() -> bool:
    """Whether throw-away servers are to do without psp's modules: PSP_MODULE_DIR is there and empty."""
    return os.environ.get("PSP_MODULE_DIR") == ""


@cache
def _version(program: Path) -> int:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"(\d+)", shown.stdout)
    return int(match.group(1)) if match else 0


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
