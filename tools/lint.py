"""`make lint` and `make format`: every quick check, each by name, all of them run even when one fails.

clang-tidy needs minutes for the whole tree on two cores, so it is a command of its own, `make tidy`, which
looks only at what has changed since it last passed (or at everything with --all).
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_files import PYTHON_FOLDERS, ROOT, cpp_files, is_test

CONFIG = "schema_tool/pyproject.toml"


def run(command: list[str]) -> bool:
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def python_folders() -> list[str]:
    return [folder for folder in PYTHON_FOLDERS if (ROOT / folder).is_dir()]


def clang_format(options: argparse.Namespace) -> bool:
    """Remedy: make format."""
    files = [str(path) for path in cpp_files()]
    mode = ["-i"] if options.fix else ["--dry-run", "-Werror"]
    return not files or run(["clang-format", *mode, *files])


def ruff_format(options: argparse.Namespace) -> bool:
    """Remedy: make format."""
    mode = [] if options.fix else ["--check"]
    return run(["ruff", "format", *mode, "--quiet", "--config", CONFIG, *python_folders()])


def ruff(options: argparse.Namespace) -> bool:
    """Remedy: `ruff rule NAME` explains the rule; make format fixes the simple ones."""
    mode = ["--fix"] if options.fix else []
    return run(["ruff", "check", *mode, "--quiet", "--config", CONFIG, *python_folders()])


def mypy(_: argparse.Namespace) -> bool:
    """Remedy: give the value the type it has; no Any without a reason beside it."""
    environment = os.environ | {"MYPYPATH": f"{ROOT / 'schema_tool'}:{ROOT / 'client_libs/python'}"}
    passed = True
    for folder in [
        "schema_tool/psp",
        "client_libs/python/psp_client",
        "client_libs/python/tests",
        "tools",
        "benchmarks",
        "tests",
    ]:
        if any((ROOT / folder).rglob("*.py")):
            command = [sys.executable, "-m", "mypy", "--config-file", CONFIG, folder]
            passed &= subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
    return passed


def includes(_: argparse.Namespace) -> bool:
    """Remedy: in each message."""
    return run([sys.executable, "tools/check_includes.py"])


def sql_in_cpp(_: argparse.Namespace) -> bool:
    """Remedy: in each message."""
    return run([sys.executable, "tools/check_sql.py"])


def documents(options: argparse.Namespace) -> bool:
    """Remedy: in each message."""
    mode = ["--fix"] if options.fix else []
    return run([sys.executable, "tools/check_docs.py", "--build", options.build, *mode])


def plain_words(_: argparse.Namespace) -> bool:
    """Remedy: in each message."""
    return run([sys.executable, "tools/check_words.py"])


def licences(_: argparse.Namespace) -> bool:
    """Remedy: in each message."""
    return run([sys.executable, "tools/check_licences.py"])


def fingerprint(path: Path, common: bytes) -> str:
    return hashlib.sha256(common + (ROOT / path).read_bytes()).hexdigest()


def tidy(options: argparse.Namespace) -> bool:
    """Remedy: the check's name in brackets is documented under clang.llvm.org/extra/clang-tidy/checks."""
    build = ROOT / options.build
    compiled = {entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())}
    # A file passes again only if neither it, nor any header, nor the rules have changed since it last passed.
    headers = b"".join((ROOT / p).read_bytes() for p in cpp_files() if p.suffix == ".h")
    common = (ROOT / ".clang-tidy").read_bytes() + headers
    stamp = build / "tidy-passed.json"
    passed: dict[str, str] = json.loads(stamp.read_text()) if stamp.exists() and not options.all else {}
    files = [p for p in cpp_files() if p.suffix == ".cc" and not is_test(p) and str(ROOT / p) in compiled]
    waiting = [p for p in files if passed.get(str(p)) != fingerprint(p, common)]
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        commands = (["clang-tidy", "--quiet", "-p", str(build), str(path)] for path in waiting)
        for path, ok in zip(waiting, pool.map(run, commands), strict=True):
            results.append(ok)
            if ok:  # noted at once, so that an interrupted run continues here
                passed[str(path)] = fingerprint(path, common)
                stamp.write_text(json.dumps(passed))
    return all(results)


CHECKS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "clang-format": clang_format,
    "includes": includes,
    "sql-in-c++": sql_in_cpp,
    "ruff": ruff,
    "ruff-format": ruff_format,
    "mypy": mypy,
    "documents": documents,
    "plain-words": plain_words,
    "licences": licences,
    "tidy": tidy,
}
SLOW = ("tidy",)
FIXERS = ("clang-format", "ruff", "ruff-format", "documents")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the CMake build folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=CHECKS, help="one check only")
    parser.add_argument("--all", action="store_true", help="clang-tidy: every file")
    parser.add_argument("--fix", action="store_true", help="format instead of checking the format")
    options = parser.parse_args()
    quick = tuple(name for name in CHECKS if name not in SLOW)
    names = FIXERS if options.fix else (options.only,) if options.only else quick
    failed = []
    for name in names:
        print(f"-- {name}", flush=True)
        if not CHECKS[name](options):
            failed.append(name)
            print(f"{name}: failed. {(CHECKS[name].__doc__ or '').strip()}", flush=True)
    print(f"lint: {len(names) - len(failed)} checks passed, {len(failed)} failed {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
