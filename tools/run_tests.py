"""`make test`: every suite, one after the other, and one line at the end that counts them all."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Result:
    """What one suite's JUnit report says. `broken`: it ended badly though no test of it failed."""

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
    result.broken = exit_code != 0 and result.failed == 0
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

NO_MODULE = {"PSP_MODULE_DIR": ""}
"""Servers do not find the server modules, so SQL captures and certifies."""


@dataclass
class Suite:
    """A command, the option that names its JUnit report, what is added to its environment."""

    command: list[str]
    report_option: str
    environment: dict[str, str] = field(default_factory=dict)


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
    found = {"unit": Suite(ctest, "--output-junit")}
    environment = NO_MODULE if options.without_module else {}
    for name, command in (
        ("client libraries", [*pytest, "client_libs"]),
        ("sql", [*sql_pytest, "tests/sql"]),
        ("cluster", [*cluster_pytest, "tests/cluster"]),
        ("fuzz", [*pytest, "tests/fuzz"]),
        ("benchmarks", [*pytest, "benchmarks"]),
    ):
        found[name] = Suite(command, "--junitxml", environment)
    if not options.without_module:
        found["capture by SQL"] = Suite(
            [*sql_pytest, "tests/sql/commit", "tests/sql/rights"], "--junitxml", NO_MODULE
        )
        found |= version_suites(pytest, build, quick=True)
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


def run_suite(command: list[str], environment: dict[str, str]) -> int:
    """The exit code. Ctrl-C reaches the suite by itself; it is waited for, since it has servers to stop."""
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}) as suite:
        try:
            return suite.wait()
        except KeyboardInterrupt:
            suite.wait()
            raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the CMake build folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="one suite only")
    parser.add_argument(
        "--without-module", action="store_true", help="SQL captures and certifies in all tests"
    )
    parser.add_argument(
        "--versions", action="store_true", help="on PostgreSQL 16, 17 and 18, and nothing else"
    )
    options = parser.parse_args()
    total = Result()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, suite in suites(options).items():
            if options.only not in (None, name):
                continue
            print(f"\n==== {name} tests", flush=True)
            report = Path(folder) / f"{name}.xml"
            began = time.monotonic()
            code = run_suite([*suite.command, suite.report_option, str(report)], suite.environment)
            result = read_report(report, code)
            total.passed += result.passed
            total.skipped += result.skipped
            total.failed += result.failed + result.broken
            broken = f"; the suite itself ended with code {code}" if result.broken else ""
            lines.append(
                f"{name}: {result.passed} passed, {result.failed} failed, {result.skipped.total()} skipped "
                f"in {time.monotonic() - began:.0f} s{broken}"
            )
            lines += [f"    {count} skipped: {reason}" for reason, count in result.skipped.items()]
    print("\n" + "\n".join(lines))
    print(f"total: {total.passed} passed, {total.failed} failed, {total.skipped.total()} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted; what the tests had started is stopped and removed.")
        sys.exit(130)
