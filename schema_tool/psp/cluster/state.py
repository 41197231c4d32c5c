"""What a local cluster is made of, in a file, so that every shell can find, extend and remove it.

The file is written before anything is made, and says nothing about running processes: those are found by
their marks (processes.py, pgserver.py). So `down` finds everything, also after an interruption.
"""

import dataclasses
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from psp.output import PspError
from psp.schema.model import Mode
from psp.servers.folders import base_directory

STATE_FILE = "cluster.json"
FORMAT = 1

Role = Literal["primary", "sp"]


@dataclass
class NodeState:
    """One node: a PostgreSQL server, its daemon, and for a far SP the relay on the way to the primary."""

    name: str
    role: Role
    pg_port: int
    zone: str = ""
    rtt_ms: float = 0.0
    daemon_port: int = 0  # primary: where the daemon listens; SP: the number in the hook socket's name
    relay_port: int = 0  # 0: no relay
    client_port: int = 0  # SP in views mode: where the daemon takes clients' requests
    metrics_port: int = 0  # where the daemon answers GET /metrics and /health; 0: nowhere
    adopted: bool = False  # SP: its database is under psp, so its daemon belongs to it
    postgres: int = 0  # PostgreSQL's major version; 0: of the programs that are found first

    def ports(self) -> tuple[int, ...]:
        """Every port of its, 0 among them for what it does not have."""
        return (self.pg_port, self.daemon_port, self.relay_port, self.client_port, self.metrics_port)


@dataclass
class ClusterState:
    """A local cluster. `complete` is false while `up` is at work: what it left is then to be removed."""

    name: str
    directory: Path
    socket_dir: Path
    database: str
    pg_settings: dict[str, str] = field(default_factory=dict)
    primary_options: dict[str, Any] = field(default_factory=dict)
    sp_options: dict[str, Any] = field(default_factory=dict)
    relay_mbit: int = 0
    mode: Mode = "native"
    complete: bool = False
    nodes: list[NodeState] = field(default_factory=list)

    def save(self) -> None:
        """Writes the file; a reader sees the old one or the new one, never half of it."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        path = self.directory / STATE_FILE
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(document, indent=2, default=str) + "\n")
        temporary.replace(path)

    def node(self, name: str) -> NodeState:
        """The node of that name; PspError names those there are."""
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise PspError(f"cluster {self.name} has no node {name!r}", f"its nodes: {known}")

    def ports(self) -> set[int]:
        """Every port that belongs to the cluster, running or not."""
        return {p for node in self.nodes for p in node.ports() if p}


def load(directory: Path) -> ClusterState | None:
    """The cluster in that folder, or None if there is none."""
    try:
        document: dict[str, Any] = json.loads((directory / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise PspError(f"{directory / STATE_FILE} cannot be read: {error}") from None
    if document.pop("format", None) != FORMAT:
        raise PspError(f"{directory / STATE_FILE} was written by another version of psp")
    nodes = [NodeState(**node) for node in document.pop("nodes")]
    document["directory"] = Path(document["directory"])
    document["socket_dir"] = Path(document["socket_dir"])
    return ClusterState(**document, nodes=nodes)


def default_directory(name: str) -> Path:
    """The folder of the cluster of that name. PspError if that cannot be a folder's name."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) is None:
        raise PspError(f"{name!r} cannot be a cluster's name", "letters, digits, _, - and . can")
    return base_directory() / name


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One command at a time works on a cluster; the second is told so at once."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    path = directory.parent / f".{directory.name}.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            mine = False
        if not mine:
            raise PspError(f"another psp command is at work on the cluster in {directory}")
        try:
            yield
        finally:
            if not directory.exists():  # the lock's file goes with the cluster
                path.unlink()
