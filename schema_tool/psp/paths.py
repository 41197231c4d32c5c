"""Where things are: the SQL and the daemons' binaries.

The package is used in the repository (tools/make_venv.sh) or in what `make install` has made
(tools/install.sh). Both have the SQL in a folder above this file; PSP_HOME and PSP_BIN override that.
"""

import os
import shutil
from pathlib import Path

from psp.output import PspError


def home() -> Path:
    """The folder that holds sql/native: the repository, or PREFIX/lib/psp. PspError if there is none."""
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
    """A daemon's executable: in PSP_BIN, or in the build folder or PATH. PspError if it is missing."""
    configured = os.environ.get("PSP_BIN")
    folder = Path(configured) if configured else home() / "build" / "bin"
    found = shutil.which(name, path=str(folder)) or (None if configured else shutil.which(name))
    if found is None:
        raise PspError(
            f"{folder / name} is not there", f"make build, or set PSP_BIN to the folder that has {name}"
        )
    return Path(found)
