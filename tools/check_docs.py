"""What the documents claim must exist: linked files, make targets, and every setting of the daemons.

The tables of settings in docs/operating.md are compared with what the daemons themselves say under
`--print-sample-config`, both ways: a setting without a row and a row without a setting both fail.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from source_files import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"(?:`|^\s{0,8}|&& )make ([a-z][a-z-]*)", re.MULTILINE)
SAMPLE_KEY = re.compile(r"^#? ?([a-z][a-z0-9_]*):", re.MULTILINE)
DAEMONS = ("psp-primary", "psp-semi-primary")


def documents() -> list[Path]:
    folders = ("docs", "proto", "deploy", "benchmarks", "schema_tool", "semi_primary", "primary", "sql")
    return sorted([*ROOT.glob("*.md"), *(p for folder in folders for p in (ROOT / folder).rglob("*.md"))])


def check_links() -> Iterator[str]:
    for document in documents():
        for target in LINK.findall(document.read_text(encoding="utf-8")):
            if "://" not in target and not (document.parent / target).exists():
                yield f"{document.relative_to(ROOT)}: links {target}, which is not there"


def check_make_targets() -> Iterator[str]:
    targets = set(re.findall(r"^([a-z%-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in documents():
        for name in MAKE.findall(document.read_text(encoding="utf-8")):
            known = name in targets or (
                name.startswith("bench-") and (ROOT / "benchmarks" / name[6:]).is_dir()
            )
            if not known:
                yield f"{document.relative_to(ROOT)}: `make {name}` is no target of the Makefile"


def documented_settings(text: str, daemon: str) -> set[str]:
    """The keys in the first column of the table below the heading that names the daemon."""
    section = re.search(rf"^#+ .*`{daemon}`.*?\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `([a-z0-9_]+)` \|", section[1], re.MULTILINE)) if section else set()


def check_settings(build: Path) -> Iterator[str]:
    text = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for daemon in DAEMONS:
        binary = build / "bin" / daemon
        if not binary.exists():
            yield f"{binary} is not there. Remedy: make build"
            continue
        sample = subprocess.run(
            [binary, "--print-sample-config"], capture_output=True, text=True, check=True
        ).stdout
        real, written = set(SAMPLE_KEY.findall(sample)), documented_settings(text, daemon)
        for key in sorted(real - written):
            yield f"docs/operating.md: {daemon} has the setting {key}, which its table lacks"
        for key in sorted(written - real):
            yield f"docs/operating.md: {daemon} has no setting {key}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the CMake build folder")
    options = parser.parse_args()
    problems = [*check_links(), *check_make_targets(), *check_settings(ROOT / options.build)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
