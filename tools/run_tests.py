"""`make test`: every suite, two side by side, and one line at the end that counts them all.

What a suite prints is shown when it has ended. Until then a line each minute tells how far each one is.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Result:
    """What one suite's JUnit report says. `broken`: it has none, or it ended badly though no test failed."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # by the reason
    broken: bool = False


def read_report(report: Path, exit_code: int) -> Result:
    result = Result()
    if report.exists():
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                result.failed += 1
            elif (skipped := case.find("skipped")) is not None:
                result.skipped[skipped.get("message", "")] += 1
            else:
                result.passed += 1
    result.broken = not report.exists() or (exit_code != 0 and result.failed == 0)
    return result


VERSIONS = (16, 17, 18)
QUICK_TESTS = (
    "tests/sql/commit/test_vectors.py",
    "tests/sql/commit/test_capture.py",
    "tests/sql/certify",
)
VERSION_TESTS = {
    "sql": ("tests/sql",),
    "cluster": (
        "tests/cluster/commit",
        "tests/cluster/join",
        "tests/cluster/rights/test_no_superuser.py",
        "tests/cluster/schema_changes",
        "tests/cluster/servers",
    ),
}

TURNS = 3
BY_TURN = {
    "cluster": (
        "clients",
        "doctor",
        "elsewhere",
        "faults",
        "join",
        "libraries",
        "metrics",
        "moving",
        "mrv",
        "schema_changes",
        "servers",
        "versions",
        "views",
    ),
    "sql": ("adopt", "command", "doctor", "guard", "mrv", "views"),
    "capture by SQL": ("commit", "rights"),
}
"""Folders whose test files take turns: a run has a third of them, three commits have all."""

NO_MODULE = {"PSP_MODULE_DIR": ""}
"""Servers do not find the server modules, so SQL captures and certifies."""


SIDE_BY_SIDE = 2
"""A suite waits for processes and links as much as it computes, so another one uses what it leaves."""

TELL_INTERVAL_S = 60


@dataclass
class Suite:
    """A command, the option that names its JUnit report, what is added to its environment."""

    command: list[str]
    report_option: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Running:
    """A suite that has been started; what it prints goes to a file."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    report: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.began)

    def how_far(self) -> str:
        """The last share that pytest or ctest has printed."""
        found = re.findall(rb"(\d+)%", self.output.read_bytes()[-4000:])
        return f"{self.name} {found[-1].decode()} %" if found else self.name


def turn_of_commit() -> int:
    """Which third is run: it changes with each commit. 0 where there is no repository."""
    count = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return int(count.stdout or 0) % TURNS


def left_out(suite: str, turn: int) -> list[str]:
    """The test files of a suite whose turn it is not."""
    top = ROOT / "tests" / ("cluster" if suite == "cluster" else "sql")
    files = sorted(file for folder in BY_TURN.get(suite, ()) for file in (top / folder).glob("test_*.py"))
    return [str(file.relative_to(ROOT)) for n, file in enumerate(files) if n % TURNS != turn]


def take_turns(found: dict[str, Suite], turn: int) -> None:
    """Leaves out files whose turn it is not, and the PostgreSQL versions but one."""
    for name, suite in found.items():
        suite.command += [f"--ignore={file}" for file in left_out(name, turn)]
    for n, version in enumerate(VERSIONS):
        if n != turn:
            del found[f"PostgreSQL {version}"]


def suites(options: argparse.Namespace) -> dict[str, Suite]:
    """By name."""
    build = str(Path(options.build).resolve())
    ctest = ["ctest", "--test-dir", build, "--output-on-failure", "-j", str(options.jobs), "--no-tests=error"]
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "schema_tool/pyproject.toml",
        "--rootdir",
        str(ROOT),
    ]
    # Files run side by side: each process has servers and clusters of its own.
    sql_pytest = [*pytest, "-n", str(min(options.jobs, 4)), "--dist", "loadfile"]
    cluster_pytest = [*pytest, "-n", str(min(options.jobs, 2)), "--dist", "loadfile"]
    if options.versions:
        return version_suites(pytest, build, quick=False)
    environment = NO_MODULE if options.without_module else {}
    found = {"unit": Suite(ctest, "--output-junit")}
    # The longest first, so that none is left to run alone at the end.
    commands = {
        "cluster": [*cluster_pytest, "tests/cluster"],
        "sql": [*sql_pytest, "tests/sql"],
        "benchmarks": [*pytest, "benchmarks"],
        "fuzz": [*pytest, "tests/fuzz"],
        "client libraries": [*pytest, "client_libs"],
        **{name: [*pytest, f"tests/{name}"] for name in options.also},
    }
    found |= {name: Suite(command, "--junitxml", environment) for name, command in commands.items()}
    if not options.without_module:
        found["capture by SQL"] = Suite(
            [*sql_pytest, "tests/sql/commit", "tests/sql/rights"], "--junitxml", NO_MODULE
        )
        found |= version_suites(pytest, build, quick=True)
    if options.turn is not None:
        take_turns(found, options.turn)
    return found


def version_suites(pytest: list[str], build: str, quick: bool) -> dict[str, Suite]:
    """On servers that `make versions` has fetched. Clusters of several versions are cluster tests, too."""
    found = {}
    for version in VERSIONS:
        servers = {"PSP_PG_BIN": f"{build}/postgres/{version}/bin"}
        if quick:
            found[f"PostgreSQL {version}"] = Suite([*pytest, *QUICK_TESTS], "--junitxml", servers)
        else:
            for name, tests in VERSION_TESTS.items():
                found[f"{name}, PostgreSQL {version}"] = Suite([*pytest, *tests], "--junitxml", servers)
            found[f"capture by SQL, PostgreSQL {version}"] = Suite(
                [*pytest, "tests/sql/commit", "tests/sql/rights"], "--junitxml", servers | NO_MODULE
            )
    return found


def start(name: str, suite: Suite, folder: Path) -> Running:
    output, report = folder / f"{name}.out", folder / f"{name}.xml"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [*suite.command, suite.report_option, str(report)],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd=ROOT,
            env={**os.environ, **suite.environment},
        )  # fmt: skip
    return Running(name, process, output, report)


def show(ended: Running) -> int:
    """Waits for a suite and shows what it has printed; its exit code."""
    code = ended.process.wait()
    print(f"\n==== {ended.name} tests", flush=True)
    sys.stdout.buffer.write(ended.output.read_bytes())
    sys.stdout.flush()
    return code


def finish(ended: Running, total: Result) -> list[str]:
    """Shows what an ended suite has printed and counts it; the lines that tell its result."""
    code = show(ended)
    result = read_report(ended.report, code)
    total.passed += result.passed
    total.skipped += result.skipped
    total.failed += result.failed + result.broken
    broken = f"; the suite itself is broken: it ended with code {code}" if result.broken else ""
    lines = [
        f"{ended.name}: {result.passed} passed, {result.failed} failed, {result.skipped.total()} skipped "
        f"in {ended.seconds} s{broken}"
    ]
    lines += [f"    {count} skipped: {reason}" for reason, count in result.skipped.items()]
    print(f"==== {lines[0]}", flush=True)
    return lines


def run(waiting: deque[tuple[str, Suite]], folder: Path, total: Result) -> list[str]:
    """Runs the suites, and returns what is to be told at the end.

    Ctrl-C reaches the suites by themselves; they are waited for, since they have servers to stop.
    """
    running: list[Running] = []
    lines = []
    told = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < SIDE_BY_SIDE:
                running.append(start(*waiting.popleft(), folder))
                print(f"==== {running[-1].name} tests begin", flush=True)
            for each in [each for each in running if each.process.poll() is not None]:
                running.remove(each)
                lines += finish(each, total)
            if running and time.monotonic() - told >= TELL_INTERVAL_S:
                told = time.monotonic()
                print("     " + ", ".join(f"{e.how_far()} after {e.seconds} s" for e in running), flush=True)
            time.sleep(0.1)
    except KeyboardInterrupt:
        for each in running:
            show(each)
        raise
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the CMake build folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="one suite only")
    parser.add_argument(
        "--also", nargs="*", default=[], help="folders of tests/ that have targets of their own"
    )
    parser.add_argument(
        "--without-module", action="store_true", help="SQL captures and certifies in all tests"
    )
    parser.add_argument(
        "--turn", type=int, nargs="?", const=turn_of_commit(), choices=range(TURNS),
        help="a third of what takes turns, and not all of it; without a number the commit chooses",
    )  # fmt: skip
    parser.add_argument(
        "--versions", action="store_true", help="on PostgreSQL 16, 17 and 18, and nothing else"
    )
    options = parser.parse_args()
    began = time.monotonic()
    total = Result()
    chosen = deque((n, suite) for n, suite in suites(options).items() if options.only in (None, n))
    with tempfile.TemporaryDirectory() as folder:
        lines = run(chosen, Path(folder), total)
    print("\n" + "\n".join(lines))
    if options.turn is not None:
        print(f"third {options.turn + 1} of {TURNS} of what takes turns (make test-all runs all)")
    print(
        f"total: {total.passed} passed, {total.failed} failed, {total.skipped.total()} skipped "
        f"in {time.monotonic() - began:.0f} s"
    )
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted; what the tests had started is stopped and removed.")
        sys.exit(130)
