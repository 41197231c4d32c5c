"""Converts a schema file: PostgreSQL itself parses it, in a scratch database on a throw-away server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from psp.output import PspError
from psp.paths import client_program, server_version
from psp.problems import Problem
from psp.schema import locks
from psp.schema.dump import portable
from psp.schema.views.convert import Options, convert
from psp.servers.pgserver import SUPERUSER, PgServer
from psp.servers.temporary import temporary_server

DATABASE = "scratch"
SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "10", "autovacuum": "off"}
ROLES_MAX = 1000
_NO_ROLE = re.compile(r'ERROR:  role "(.*)" does not exist')
_OWNER = re.compile(
    rf"^ALTER .* OWNER TO {SUPERUSER};\n", re.MULTILINE
)  # the scratch server's, nobody else's


def convert_file(path: Path, options: Options, say: locks.Say) -> tuple[str, list[Problem]]:
    """The script, for an empty database; and warnings. Roles that the file names must exist there."""
    with temporary_server(SETTINGS) as server:
        _load(server, path.read_text(encoding="utf-8"))
        problems = convert(server.dsn(DATABASE), options, say)
        return _dump(server), problems


def _load(server: PgServer, script: str) -> None:
    """Runs the script in a fresh database; roles that it names and does not make are made, one each round."""
    made: set[str] = set()
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        while True:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(DATABASE)))
            server.create_database(DATABASE)
            done = _run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.dsn(DATABASE), input=script)
            if done.returncode == 0:
                return
            missing = _NO_ROLE.search(done.stderr)
            if missing is None or missing[1] in made or len(made) == ROLES_MAX:
                raise PspError(f"the schema does not load: {done.stderr.strip()}")
            made.add(missing[1])
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(missing[1])))


def _dump(server: PgServer) -> str:
    """Rows as INSERT: the script is plain SQL, which any client can run."""
    done = _run("pg_dump", "--no-tablespaces", "--rows-per-insert=500", "-d", server.dsn(DATABASE))
    if done.returncode != 0:
        raise PspError(f"pg_dump failed: {done.stderr.strip()}")
    return _OWNER.sub("", portable(done.stdout))


def _run(program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(client_program(program, server_version())), *arguments],
        capture_output=True, encoding="utf-8", check=False, **more,
    )  # fmt: skip
