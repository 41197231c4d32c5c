"""Where things are: the repository (for its SQL) and the daemons' binaries.

The package is used in place (tools/make_venv.sh), so the repository is found from this file; PSP_HOME
and PSP_BIN override for unusual layouts.
"""

import os
from pathlib import Path

from psp.output import PspError


def home() -> Path:
    """The repository's root: the folder that holds sql/native. PspError if there is none."""
    configured = os.environ.get("PSP_HOME")
    candidates = [Path(configured)] if configured else [*Path(__file__).resolve().parents, Path.cwd()]
    for candidate in candidates:
        if (candidate / "sql" / "native").is_dir():
            return candidate.resolve()
    looked = ", ".join(str(c) for c in candidates)
    raise PspError(f"no folder with sql/native in {looked}", "set PSP_HOME to the repository's root")


def sql_dir(part: str) -> Path:
    """The folder of one part's SQL: `common`, `catalog`, `primary`, `native`, `views`, `mrv`."""
    return home() / "sql" / part


def binary(name: str) -> Path:
    """A daemon's executable: from PSP_BIN, else from the build folder. PspError if it is not there."""
    configured = os.environ.get("PSP_BIN")
    folder = Path(configured) if configured else home() / "build" / "bin"
    path = folder / name
    if not os.access(path, os.X_OK):
        raise PspError(f"{path} is not there", f"make build, or set PSP_BIN to the folder that has {name}")
    return path
