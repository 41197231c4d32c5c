"""Two semi-primaries as docs/workflows.md sets them up, and the programs that work there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

from psp.cluster.local import LocalCluster
from psycopg import sql

from tests.cluster.schema_changes.statements import changing_pair
from tests.cluster.support import as_admin, connect, execute
from tests.retrying.support import url_of

END_S = 240
SCHEMA = """
CREATE TABLE unit (name text PRIMARY KEY);
CREATE TABLE counter (id int PRIMARY KEY, value int NOT NULL);
INSERT INTO counter VALUES (1, 0);
"""
_PROGRAMS = Path(__file__).with_name("programs")
_ENGINES = Path(os.environ.get("PSP_ENGINES", "build/engines"))  # what `make test-engines` has installed


@contextmanager
def pair_for(settings: Sequence[LiteralString]) -> Iterator[LocalCluster]:
    """Whose application's role may make the engine's tables, with these statements about it."""
    with changing_pair(SCHEMA) as cluster:
        for sp in cluster.sps:
            role = sql.Identifier(execute(sp, "SELECT current_user")[0][0])
            with connect(as_admin(sp), autocommit=True) as admin:
                admin.execute("ALTER DATABASE app SET session_preload_libraries = 'psp_capture'")
                admin.execute(sql.SQL("GRANT CREATE ON DATABASE app TO {}").format(role))
                for statement in settings:
                    admin.execute(sql.SQL(statement).format(role=role))
        yield cluster


@contextmanager
def running(pair: LocalCluster, sp: int, program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The application beside a semi-primary. It is killed at the end."""
    line = [*_command(program), f"postgresql://{url_of(pair, sp)}", *map(str, arguments)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> str:
    """What it has printed when it ends by itself."""
    out, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0, errors[-4000:]
    return out


def run(pair: LocalCluster, sp: int, program: str, *arguments: object) -> str:
    """A command of the application, to its end."""
    with running(pair, sp, program, *arguments) as process:
        return end(process)


def _command(program: str) -> list[str]:
    """Node.js finds packages beside the program's own file. Go's are built by tools/install_engines.sh."""
    if program.endswith(".py"):
        return [str(_ENGINES / "bin/python"), str(_PROGRAMS / program)]
    if program.endswith(".mjs"):
        return ["node", str(shutil.copy(_PROGRAMS / program, _ENGINES))]
    return [str(_ENGINES / program)]
