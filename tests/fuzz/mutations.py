"""`make fuzz-mutations`: known defects are put back one by one, and the fuzzer must find each of them.

Each runs in a copy of the tree, so nothing here is changed. Those of C++ are compiled there. README.md has
the results.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = shutil.ignore_patterns("build", "build-*", ".venv", ".git", "results", "__pycache__", ".*_cache")
CAPTURE = "sql/native/install/capture.sql"
GUARD = "sql/semi_primary/install/ddl_checks.sql"
REPLICA = "sql/native/install/replica_role.sql"
CHANGED = "sql/native/install/changed_tables.sql"
ROWS = "sql/native/install/rows_of_changes.sql"
TEXT = "sql/native/install/statement_text.sql"
HISTORY = "sql/native/install/schema_history.sql"
STATE = "sql/semi_primary/install/guarded_state.sql"
HOOK = "sql/native/install/hook.sql.j2"
REFUSALS = "sql/native/install/hook_refusals.sql"
ASSEMBLE = "writeset/assemble.cc"
MESSAGES = "semi_primary/hook_server/message_statements.cc"
SCHEMA_CHANGES, WIRE = "tests.fuzz.changes", "tests.fuzz.wire"


@dataclass(frozen=True)
class Mutation:
    """`changes`: in that file, this text becomes that one. `fuzzer`: which one finds it."""

    name: str
    changes: tuple[tuple[str, str, str], ...]
    fuzzer: str = "tests.fuzz"

    @property
    def compiled(self) -> bool:
        return any(file.endswith(".cc") for file, _, _ in self.changes)


TOKEN_END = 'text.find_last_not_of(" \\t\\n\\r\\f\\v", next - 1) + 1'
DOUBT = "rows_[known->second].kind = Kind::kDoubt;"

MUTATIONS = (
    Mutation(
        "the image that was captured last counts", ((ASSEMBLE, DOUBT, "rows_[known->second] = entry;"),)
    ),
    Mutation("the image that was captured first counts", ((ASSEMBLE, DOUBT, "static_cast<void>(known);"),)),
    Mutation(
        "a changed key leaves the old one behind",
        ((CAPTURE, "IF {old_key} OPERATOR(pg_catalog.<>) {new_key} THEN", "IF false THEN"),),
    ),
    Mutation(
        "a key that a trigger changes is not seen",
        ((CAPTURE, "CASE WHEN (facts ->> 'key_may_change')::boolean", "CASE WHEN false"),),
    ),
    Mutation(
        "partitioned tables have statement triggers",
        (
            (CAPTURE, "CONSTANT boolean := facts ->> 'partitioned'", "CONSTANT boolean := false"),
            (CAPTURE, "CASE WHEN (facts ->> 'partitioned')::boolean", "CASE WHEN false"),
        ),
    ),
    Mutation(
        "the hook does not wait for the deferred triggers of deferred triggers",
        ((HOOK, "RETURNING cmin::text::bigint = queued + 1 AS last", "RETURNING true AS last"),),
    ),
    Mutation(
        "a cursor WITH HOLD may fail later",
        ((REFUSALS, "ELSIF cursors IS NOT NULL THEN", "ELSIF false THEN"),),
    ),
    Mutation(
        "a temporary table may fail later",
        ((GUARD, "k.conrelid = relation AND k.contype = 'f') THEN", "false) THEN"),),
    ),
    Mutation(
        "SET CONSTRAINTS ALL IMMEDIATE commits",
        (
            (HOOK, "IF NEW.step = 0 AND pg_trigger_depth() = 1", "IF NEW.step = 0"),
            (HOOK, "OR NEW.filler OR pg_trigger_depth() > 1 THEN", "OR NEW.filler THEN"),
        ),
    ),
    Mutation(
        "text is captured in the client's encoding",
        ((CAPTURE, "IF psp_scope.client_encoding OPERATOR(pg_catalog.<>) 'UTF8' THEN", "IF false THEN"),),
    ),
    Mutation(
        "values as text depend on the session's settings",
        ((CAPTURE, "CASE WHEN has_text THEN ' SET xmloption", "CASE WHEN false THEN ' SET xmloption"),),
    ),
    Mutation(
        "a name with escapes is cut off",
        ((MESSAGES, TOKEN_END, "static_cast<std::size_t>(token.end)"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "triggers write captured tables for rows of others",
        ((REPLICA, "IF is_nested THEN", "IF false THEN"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "rules change rows of others",
        ((CHANGED, "AND w.ev_enabled IN ('A', 'R')", "AND false"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "strings are read under another setting",
        ((TEXT, "ELSIF position(E'\\\\' IN message) > 0", "ELSIF false"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "a text means something else at each server",
        ((HISTORY, ", psp.check_meaning(NEW.statement, zone)", ""),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "a text may write what nothing captures",
        ((ROWS, "AND before IS NOT NULL THEN", "AND false THEN"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "a joining server forgets that a table waits for its key",
        ((GUARD, " OR (SELECT i.joining FROM psp.identity i))", ")"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "writers do not know of an index that refuses their rows",
        ((GUARD, "WHERE command = 'CREATE INDEX' AND psp.may_refuse_rows(object)", "WHERE false"),),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "writers do not know of a publication that refuses their rows",
        (
            (
                GUARD,
                "'stricter' FROM psp.strictly_published(class, object)",
                "'stricter' FROM psp.strictly_published(NULL, NULL)",
            ),
        ),
        SCHEMA_CHANGES,
    ),
    Mutation(
        "writers do not know of a storage that refuses their rows",
        ((STATE, "CASE WHEN a.attstorage = 'p' AND a.attlen = -1 THEN 'PLAIN' END", "NULL"),),
        SCHEMA_CHANGES,
    ),
)


def apply(mutation: Mutation, tree: Path) -> None:
    """A text that is no longer there is an error: the list must follow the code."""
    for file, old, new in mutation.changes:
        path = tree / file
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{mutation.name}: {file} has no {old!r} any more")
        path.write_text(text.replace(old, new))


def find(mutation: Mutation | None, seeds: str) -> tuple[bool, float, str]:
    """Whether the fuzzer finds it, the seconds of that, and what it says."""
    with tempfile.TemporaryDirectory(prefix="mutation-", dir=ROOT / "build") as folder:
        tree = Path(folder) / "psp"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        environment = {
            "PSP_BIN": str(ROOT / "build" / "bin"),
            **os.environ,
            "PSP_HOME": str(tree),
            "PYTHONPATH": str(tree / "schema_tool"),
        }
        if mutation is not None:
            apply(mutation, tree)
            if mutation.compiled:
                environment["PSP_BIN"] = str(_compiled(tree))
        began = time.monotonic()
        fuzzer = "tests.fuzz" if mutation is None else mutation.fuzzer
        command = [sys.executable, "-m", fuzzer, "--seeds", seeds, "--no-shrink", "--short"]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        return done.returncode == 1, time.monotonic() - began, done.stdout + done.stderr


def _compiled(tree: Path) -> Path:
    (tree / "build").mkdir()
    command = ["tools/build.sh", "build", "off", "2", "psp-primary", "psp-semi-primary", "psp-georelay"]
    subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree / "build" / "bin"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-60")
    parser.add_argument("--only", help="those with this text in their name")
    options = parser.parse_args(arguments)
    missed = []
    for mutation in MUTATIONS:
        if options.only and options.only not in mutation.name:
            continue
        found, seconds, said = find(mutation, options.seeds)
        failing = [line for line in said.splitlines() if " fails after " in line]
        seed = failing[0].split()[1] if failing else ""
        print(
            f"| {mutation.name} | {'seed ' + seed if found else 'not found'} | {seconds:.0f} s |", flush=True
        )
        if not (found and failing):
            missed.append(mutation.name)
            print(said[-2000:], file=sys.stderr)
    print(f"not found: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
