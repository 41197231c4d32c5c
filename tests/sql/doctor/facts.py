"""Facts of a cluster in which all is fine. Tests change one of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from psp.doctor.facts import Clock, Facts, Health, Member, Primary, Server
from psp.sql_files import constant
from psp.whose import Kind

ROLE = {
    "superuser": False, "login": True, "pg_monitor": True, "pg_read_all_stats": True,
    "pg_signal_backend": True, "session_replication_role": True,
}  # fmt: skip
SETTINGS = {
    "archive_mode": "on", "autovacuum": "on", "autovacuum_freeze_max_age": "200000000",
    "default_transaction_isolation": "read committed", "fsync": "on", "full_page_writes": "on",
    "listen_addresses": "*", "max_prepared_transactions": "0", "ssl": "on", "statement_timeout": "0",
    "synchronous_commit": "on", "synchronous_standby_names": "standby", "track_counts": "on",
    "transaction_timeout": "0", "wal_sender_timeout": "60000",
}  # fmt: skip


def health(kind: Kind, **more: Any) -> Health:
    settings = SETTINGS | ({} if kind == "primary" else {"synchronous_commit": "off"})
    found = Health(
        version_num=150014, is_standby=False, clock_s=0, superuser=True,
        kind=kind, settings=settings, overrides=[], transactions=[], prepared=[],
        databases=[{"name": "shop", "xids": 1000, "multixacts": 10}], without_autovacuum=[], slots=[],
        senders=[{"name": "standby", "state": "streaming", "sync_state": "sync"}], database_bytes=2**20,
        archiving_fails=False, roles={"psp_primary" if kind == "primary" else "psp_semi_primary": ROLE},
        mighty=[], open_schemas=[],
    )  # fmt: skip
    return replace(found, **more)


def status(**more: Any) -> dict[str, Any]:
    found = {
        "is_served": True, "standstill": None, "standstill_s": None, "hands_over": False,
        "disk_free_bytes": 2**38, "disk_bytes": 2**40,
        "certified_by": "module",
        "mode": "native",
        "synchronous_standby_names": "standby", "synchronous_standbys": 1, "copies": 1, "log_bytes": 0,
        "waits_for_standbys_s": None, "semi_primaries": [row("lisbon"), row("tokyo")],
    }  # fmt: skip
    return found | more


def row(name: str, **more: Any) -> dict[str, Any]:
    seen_at = datetime(2026, 1, 2, tzinfo=UTC)
    return {"name": name, "is_connected": True, "seen_at": seen_at, "keeps_bytes": None} | more


def primary(
    server: dict[str, Any] | None = None, health_: dict[str, Any] | None = None, **more: Any
) -> Server:
    """`more`: of its status."""
    found = Server(
        "primary", health=health("primary", **(health_ or {})), clock=Clock(0, 0.01),
        schema_version=constant("PRIMARY_SCHEMA_VERSION"), primary=Primary("c1", status(**more)),
    )  # fmt: skip
    return replace(found, **(server or {}))


def member(
    name: str = "lisbon",
    server: dict[str, Any] | None = None,
    health_: dict[str, Any] | None = None,
    **more: Any,
) -> Server:
    """`more`: of what it tells of itself."""
    told = Member(
        name=name, cluster_id="c1", mode="native", capture="module", guarded=True, slots=64,
        catalog_version=3, hook_tls="disable", state="streaming", last_error=None, lag_ms=0.0,
        lag_transactions=0,
    )  # fmt: skip
    found = Server(
        name, health=health("semi-primary", **(health_ or {})), clock=Clock(0, 0.01),
        schema_version=constant("SEMI_PRIMARY_SCHEMA_VERSION"), member=replace(told, **more),
    )  # fmt: skip
    return replace(found, **(server or {}))


def facts(*servers: Server) -> Facts:
    """With those that are fine in place of those that are not given."""
    given = {server.name: server for server in servers}
    fine = {server.name: server for server in (primary(), member("lisbon"), member("tokyo"))}
    return Facts(tuple((fine | given).values()))
