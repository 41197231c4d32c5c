"""A cluster as its servers tell it at one moment. Plain values: what is shown and printed as JSON.

None: not known. A server tells what it knows, and the role of the connection may not see all of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

State = Literal["ok", "warn", "bad", "unknown"]
Kind = Literal["primary", "semi-primary"]


@dataclass(frozen=True)
class Server:
    """A server that was asked. `conninfo` has no secret; `error`: why it told nothing."""

    conninfo: str
    kind: Kind | None = None
    name: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Blocker:
    """A session that keeps a semi-primary from applying what others have committed."""

    pid: int
    role: str | None
    application: str | None
    age_s: float | None
    waits: bool


@dataclass(frozen=True)
class Zone:
    """A semi-primary. The first group is told by the primary, the second by the semi-primary itself."""

    name: str
    state: str
    can_commit: bool | None = None
    place: str | None = None
    is_connected: bool | None = None
    seen_at: datetime | None = None
    behind: int | None = None
    keeps_bytes: int | None = None

    answers: bool = False
    watermark: int | None = None
    closed_t: int | None = None
    lag_transactions: int | None = None
    lag_ms: float | None = None
    commits_per_s: float | None = None
    aborts_per_s: float | None = None
    losses_per_s: float | None = None
    commits_total: int | None = None
    aborts_total: int | None = None
    losses_total: int | None = None
    rtt_ms: float | None = None
    commit_ms: float | None = None
    commit_p99_ms: float | None = None
    check_ms: float | None = None
    network_ms: float | None = None
    parked_ms: float | None = None
    queue_ms: float | None = None
    certify_ms: float | None = None
    answer_ms: float | None = None
    waiting: int | None = None
    last_error: str | None = None
    warnings: str | None = None
    reserved: str | None = None
    postgres: str | None = None
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True)
class Primary:
    """What the primary's database tells of the cluster."""

    conninfo: str
    epoch: int
    state: str
    mode: str
    catalog_version: int
    newest_t: int | None
    log_begins_t: int
    log_bytes: int
    is_served: bool
    certified_by: str | None
    copies: int
    synchronous_standby_names: str
    synchronous_standbys: int
    waits_for_standbys_s: float | None
    standstill: str | None
    standstill_s: int | None
    hands_over: bool
    disk_free_bytes: int | None
    disk_bytes: int | None


@dataclass(frozen=True)
class Job:
    """A statement that runs outside of transactions, and its state at each semi-primary that has told."""

    change: int
    statement_n: int
    statement: str
    requested_at: str
    states: dict[str, str]
    last_error: str | None = None


@dataclass(frozen=True)
class HotKey:
    """A key on which transactions were lost within `within_s` seconds; who lost and who won, most first."""

    within_s: int
    table: str | None
    key: str | None
    kind: str
    losses: int
    losses_error: int
    waited_ms: int
    losers: dict[str, int]
    winners: dict[str, int]
    columns: str | None
    remedy: str | None
    statement: str | None = None


@dataclass(frozen=True)
class Headline:
    """Whether everybody can write: a sentence, and one more that tells why not."""

    state: State
    sentence: str
    detail: str = ""


@dataclass(frozen=True)
class Advice:
    """What to do: a title, a sentence, and the command to type if there is one."""

    title: str
    text: str
    command: str | None = None


@dataclass(frozen=True)
class View:
    """The cluster at one moment."""

    taken_at: datetime
    servers: tuple[Server, ...] = ()
    primary: Primary | None = None
    zones: tuple[Zone, ...] = ()
    hot_keys: tuple[HotKey, ...] = field(default=())
    jobs: tuple[Job, ...] = ()

    def hot_within(self, seconds: int) -> list[HotKey]:
        """The keys of one window of time, most losses first."""
        return [key for key in self.hot_keys if key.within_s == seconds]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
