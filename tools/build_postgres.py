"""PostgreSQL 15 with assertions, under the address sanitizer, for the server module: FOLDER/15/bin/postgres.

It is built from Debian's source package, which apt-get fetches into a folder of its own. The installed
PostgreSQL is not touched. Nothing is built again that is there.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from fetch_postgres import make_folder

VERSION = 15
PACKAGE = f"postgresql-{VERSION}"
RELEASE = "bookworm"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Those of Debian that tests need.
FEATURES = ("--with-openssl", "--with-libxml", "--without-readline")

# In RollbackAndReleaseCurrentSubTransaction. It forgets that a deferred trigger may catch an error during
# COMMIT or PREPARE, for which BeginInternalSubTransaction allows.
ASSERTION = "s->blockState == TBLOCK_STARTED);\n}\n"
AMENDED = (
    "s->blockState == TBLOCK_STARTED || s->blockState == TBLOCK_END || s->blockState == TBLOCK_PREPARE);\n}\n"
)

CHECKED = Path(__file__).resolve().parent / "checked_postgres"
COMPILE = "-O1 -g1 -fsanitize=address -fno-omit-frame-pointer"


def recipe() -> str:
    """Changes whenever the same source would be built differently."""
    files = [Path(__file__), *sorted(path for path in CHECKED.rglob("*") if path.is_file())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def archive_of_packages() -> str:
    """From where this machine has its packages."""
    command = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)"]
    done = subprocess.run(
        [*command, "Created-By: Packages", "Component: main"], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        release, _, archive = line.partition(" ")
        if release == RELEASE:
            return archive
    raise SystemExit(f"apt-get knows no archive of Debian's release {RELEASE}")


def fetch_source(work: Path) -> Path:
    """Packed."""
    sources = work / "sources.list"
    sources.write_text(f"deb-src [signed-by={KEYS}] {archive_of_packages()} {RELEASE} main\n")
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "",
    }
    apt_get = ["apt-get", "-qq", *(f"--option={name}={value}" for name, value in options.items())]
    for command in (["update"], ["source", "--download-only", PACKAGE]):
        if subprocess.run([*apt_get, *command], cwd=work, check=False).returncode != 0:
            raise SystemExit(f"The source of {PACKAGE} cannot be fetched: apt-get {command[0]} has failed")
    (archive,) = work.glob("*.orig.tar.*")
    return archive


def amend(source: Path) -> None:
    file = source / "src/backend/access/transam/xact.c"
    text = file.read_text()
    if text.count(ASSERTION) != 1:
        raise SystemExit(f"{file} has another assertion than the one that is too narrow")
    file.write_text(text.replace(ASSERTION, AMENDED))


def build(source: Path, work: Path, prefix: Path, jobs: int) -> None:
    """What is installed is in `work`, under the whole path of `prefix`."""
    options = work / "options.o"
    configure = [
        str(source / "configure"),
        "--quiet",
        f"--prefix={prefix}",
        "--enable-cassert",
        *FEATURES,
        "CC=ccache gcc",
        f"CPPFLAGS=-I{CHECKED} -DUSE_VALGRIND",
        f"CFLAGS={COMPILE}",
        f"LDFLAGS_EX={options}",
    ]
    commands = (
        ["gcc", "-c", str(CHECKED / "options.c"), "-o", str(options)],
        configure,
        ["make", "--silent", f"--jobs={jobs}", "world-bin"],
        ["make", "--silent", f"DESTDIR={work}", "install-world-bin"],
    )
    # PostgreSQL's outermost make does more than those within, and must not take ours for that one. What
    # configure tries leaks.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment["ASAN_OPTIONS"] = "detect_leaks=0"
    log = work / "build.log"
    with log.open("wb") as stream:
        for command in commands:
            result = subprocess.run(
                command, cwd=work, env=environment, stdout=stream, stderr=stream, check=False, umask=0o022
            )
            if result.returncode != 0:
                raise SystemExit(f"PostgreSQL {VERSION} cannot be built: {command[0]} has failed, see {log}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    make_folder(options.folder, ".postgres-checked")
    folder = options.folder.resolve()
    place = folder / str(VERSION)
    stamp = place / "recipe"
    if stamp.exists() and stamp.read_text() == recipe():
        return
    print(f"Building PostgreSQL {VERSION} with assertions and the address sanitizer (minutes)", flush=True)
    work = folder / ".new"  # always the same, so that ccache knows the files again
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    with tarfile.open(fetch_source(work)) as archive:
        archive.extractall(work)
    (source,) = work.glob("postgresql-*/")
    amend(source)
    build(source, work, place, options.jobs)
    built = work / place.relative_to("/")
    (built / "recipe").write_text(recipe())
    shutil.rmtree(place, ignore_errors=True)
    built.rename(place)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
