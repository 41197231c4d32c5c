"""A database's schema as SQL without some of its objects, which are known by their OIDs, not by names.

pg_dump's plain text tells what an object is in a comment above it. The body of a function may have the same
lines: who cuts there may turn what a role has written into statements of the one who restores. So pg_dump
writes an archive, and pg_restore makes the text from a list of its entries, which have OIDs.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from psp.output import PspError

Number = tuple[int, int]
"""classid, objid: what pg_depend has."""

_ENTRY = re.compile(r"^(\d+); (\d+) (\d+) (.*)$")
_DEPENDS = re.compile(r"^;\tdepends on: ([\d ]+)$")
_LONG_KINDS = (
    "ACCESS METHOD", "CHECK CONSTRAINT", "EVENT TRIGGER", "FK CONSTRAINT", "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE", "INDEX ATTACH", "MATERIALIZED VIEW", "OPERATOR CLASS", "OPERATOR FAMILY",
    "PROCEDURAL LANGUAGE", "ROW SECURITY", "SECURITY LABEL", "SEQUENCE OWNED BY", "SHELL TYPE",
    "TABLE ATTACH", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY", "TEXT SEARCH PARSER",
    "TEXT SEARCH TEMPLATE", "USER MAPPING",
)  # fmt: skip
_WITH_NAME_OF_OBJECT = ("SEQUENCE OWNED BY", "ROW SECURITY", "TABLE ATTACH", "INDEX ATTACH")
_ABOUT_OBJECT = ("ACL", "COMMENT", "SECURITY LABEL")


@dataclass(frozen=True)
class _Entry:
    """`name`: schema (or -), name and owner, with blanks between them."""

    dump_id: str
    number: Number
    kind: str
    name: str
    depends_on: frozenset[str]

    @property
    def schema(self) -> str:
        return self.name.partition(" ")[0]


def sql_without(
    pg_dump: list[str], pg_restore: list[str], environment: dict[str, str], objects: Collection[Number],
    schemas: Collection[str],
) -> str:  # fmt: skip
    """What pg_dump says, without these objects, and without rights and comments in these schemas.

    `pg_restore`: the program and options for the text.

    Indexes, triggers and the like of a relation are objects of their own. What has no OID (rights, comments)
    goes with its object. PspError: pg_dump or pg_restore has failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive, chosen = Path(folder) / "archive", Path(folder) / "list"
        run_program([*pg_dump, "--format=custom", f"--file={archive}"], environment)
        listed = run_program([pg_restore[0], "--list", "--verbose", str(archive)], environment).splitlines()
        kept = entries_without(listed, set(objects), set(schemas))
        chosen.write_text("\n".join(kept) + "\n", encoding="utf-8")
        return run_program([*pg_restore, f"--use-list={chosen}", "--file=-", str(archive)], environment)


def run_program(command: list[str], environment: dict[str, str]) -> str:
    """What it prints. PspError: it has failed."""
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )
    if done.returncode != 0:
        raise PspError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
    return done.stdout


def entries_without(listed: list[str], objects: set[Number], schemas: set[str]) -> Iterator[str]:
    """Of the lines of pg_restore --list --verbose the entries that stay."""
    entries = [_read(*pair) for pair in pairwise([*listed, ""])]
    left = [entry for entry in entries if entry is not None and entry.number in objects]
    numbers, names = {entry.dump_id for entry in left}, {entry.name for entry in left}
    for line, entry in zip(listed, entries, strict=True):
        if entry is None or entry.number in objects:
            continue
        if entry.kind in _ABOUT_OBJECT:
            goes_too = entry.schema in schemas or bool(numbers & entry.depends_on)
        elif entry.kind == "USER MAPPING":
            goes_too = f"- {entry.name.rpartition(' SERVER ')[2]}" in names
        else:
            goes_too = entry.kind in _WITH_NAME_OF_OBJECT and entry.name in names
        if not goes_too:
            yield line


def _read(line: str, next_line: str) -> _Entry | None:
    found = _ENTRY.match(line)
    if found is None:
        return None
    dump_id, classid, objid, described = found.groups()
    kind = next((k for k in _LONG_KINDS if described.startswith(f"{k} ")), described.partition(" ")[0])
    depends = _DEPENDS.match(next_line)
    return _Entry(
        dump_id, (int(classid), int(objid)), kind, described[len(kind) + 1 :],
        frozenset(depends[1].split()) if depends else frozenset(),
    )  # fmt: skip
