"""The client libraries of C++ and Lua as objects of tests: a small program of each does what it is told.

client_libs/cpp/client_fixture.cc has the commands. Errors are psycopg's, by SQLSTATE, as those of the Python
library, so that one test drives all three.
"""

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

import psp_client
import psycopg
from psp import paths
from psp.cluster.local import SpNode
from psp_client import Committed, Settings
from psycopg.conninfo import conninfo_to_dict

from tests.cluster.support import WAIT_S

SERVED_LUA = Path(__file__).with_name("served.lua")


class AnyClient(Protocol):
    """What a test needs of a client in any language. Closed as a context manager."""

    def begin(self) -> UUID: ...
    def execute(self, query: str, /) -> object: ...
    def commit(self, tx_id: UUID | None = None, /) -> Committed: ...
    def commit_async(self) -> UUID: ...
    def get(self, tx_id: UUID, /) -> Committed: ...
    def outcome(self, tx_id: UUID, /) -> str: ...
    def abort(self) -> None: ...


class ServedClient:
    """A program with a client in it. Ends it when it is closed; what its client had open is rolled back."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=WAIT_S)
        finally:
            self._process.kill()

    def begin(self, *, read_only: bool = False) -> UUID:
        return UUID(self._ask("begin", "read_only" if read_only else None))

    def execute(self, query: str, /) -> None:
        self._ask("execute", query)

    def commit(self, tx_id: UUID | None = None, /) -> Committed:
        return _committed(self._ask("commit", tx_id))

    def commit_async(self) -> UUID:
        return UUID(self._ask("commit_async"))

    def get(self, tx_id: UUID, /) -> Committed:
        return _committed(self._ask("get", tx_id))

    def outcome(self, tx_id: UUID, /) -> str:
        return self._ask("outcome", tx_id)

    def abort(self) -> None:
        self._ask("abort")

    def run_in_run(self, query: str, /) -> None:
        """C++ only: see client_fixture.cc."""
        self._ask("run_in_run", query)

    def _ask(self, command: str, argument: object = None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command if argument is None else f"{command} {argument}")
        self._process.stdin.write("\n")
        while line := self._process.stdout.readline():
            word, _, rest = line.strip().partition(" ")
            if word == "ok":
                return rest
            if word == "error":  # everything else is sysbench's own chatter
                sqlstate, _, message = rest.partition(" ")
                raise psycopg.errors.lookup(sqlstate)(message)
        raise AssertionError(f"the client has ended at {command}")


def _committed(answer: str) -> Committed:
    tx_id, global_t = answer.split()
    return Committed(UUID(tx_id), int(global_t))


def sysbench(sp: SpNode, script: Path, *arguments: str) -> list[str]:
    """The command that runs a Lua script with connections to an SP."""
    found = conninfo_to_dict(sp.dsn)
    names = {"host": "host", "port": "port", "user": "user", "dbname": "db"}
    options = [f"--pgsql-{option}={found[name]}" for name, option in names.items()]
    return ["sysbench", str(script), "--db-driver=pgsql", *options, *arguments]


def python_client(sp: SpNode) -> psp_client.Client:
    return psp_client.connect(sp.dsn, Settings(retry_interval_s=0.2, timeout_s=WAIT_S))


def cpp_client(sp: SpNode) -> ServedClient:
    return ServedClient([str(paths.binary("tests/client_fixture")), sp.dsn])


def lua_client(sp: SpNode) -> ServedClient:
    return ServedClient(sysbench(sp, SERVED_LUA, "serve"))


MakeClient = Callable[[SpNode], AbstractContextManager[AnyClient]]
LIBRARIES: dict[str, MakeClient] = {"python": python_client, "c++": cpp_client, "lua": lua_client}


def one_of_each(stack: ExitStack, sp: SpNode) -> dict[str, AnyClient]:
    """A client of each library, closed with the stack."""
    return {name: stack.enter_context(make(sp)) for name, make in LIBRARIES.items()}
