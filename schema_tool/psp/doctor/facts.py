"""What the rules of `psp doctor` judge: facts that were read, and nothing that has to be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psp.cluster.obstacles import Server as Comparable
from psp.whose import Kind

Row = dict[str, Any]
"""Of a list that SQL gives as JSON; the SQL file has its names."""


@dataclass(frozen=True)
class Health:
    """A row of sql/catalog/server_health.sql."""

    version_num: int
    is_standby: bool
    clock_s: float
    superuser: bool
    settings: dict[str, str]
    overrides: list[str]
    transactions: list[Row]
    prepared: list[Row]
    databases: list[Row]
    without_autovacuum: list[str]
    slots: list[Row]
    senders: list[Row]
    database_bytes: int
    archiving_fails: bool
    roles: dict[str, Row]
    mighty: list[str]
    open_schemas: list[str]
    kind: Kind | None = None
    """Of sql/catalog/whose_psp.sql."""


@dataclass(frozen=True)
class Clock:
    """How far a server's clock is ahead of this machine's, and how wrong that can be."""

    ahead_s: float
    error_s: float


@dataclass(frozen=True)
class Primary:
    """What the primary's database tells of the cluster: as `psp primary status --json`."""

    cluster_id: str
    status: Row


@dataclass(frozen=True)
class Member:
    """A semi-primary: a row of sql/semi_primary/command/health.sql, and what its guard finds."""

    name: str
    cluster_id: str
    mode: str
    capture: str
    guarded: bool
    slots: int
    catalog_version: int
    hook_tls: str | None
    state: str
    last_error: str | None
    lag_ms: float | None
    lag_transactions: int | None
    guard_problems: Sequence[str] = ()
    owners_without_right: Sequence[str] = ()


@dataclass(frozen=True)
class Server:
    """One of the servers that were named. `trouble`: it could not be looked at, or not at all of it."""

    name: str
    trouble: str | None = None
    remedy: str = ""
    health: Health | None = None
    clock: Clock | None = None
    schema_version: int | None = None  # of psp's own tables
    open_doors: Sequence[str] = ()
    primary: Primary | None = None
    member: Member | None = None
    comparable: Comparable | None = None


@dataclass(frozen=True)
class Facts:
    """Of all servers that were named, in that order."""

    servers: Sequence[Server] = field(default_factory=tuple)

    @property
    def healths(self) -> list[tuple[str, Health]]:
        """Of those that could be looked at, with their names."""
        return [(server.name, server.health) for server in self.servers if server.health is not None]

    @property
    def primaries(self) -> list[tuple[Server, Health, Primary]]:
        """As a rule one."""
        return [
            (s, s.health, s.primary) for s in self.servers if s.primary is not None and s.health is not None
        ]

    @property
    def members(self) -> list[tuple[Server, Health, Member]]:
        """The semi-primaries."""
        return [
            (s, s.health, s.member) for s in self.servers if s.member is not None and s.health is not None
        ]
