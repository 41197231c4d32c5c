"""How a local cluster is: gathered from the servers and processes, shown as a table or as JSON."""

from typing import Any

import psycopg
from psycopg.rows import scalar_row
from rich.console import Group
from rich.table import Table
from rich.text import Text

from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, SpNode
from psp.output import table
from psp.primary import losses

# The daemon writes its status each second; older than this, it says nothing about now.
STATUS_AGE_MAX_S = 5

_PRIMARY_SQL = """
    SELECT jsonb_build_object(
        'epoch', c.epoch,
        'database_state', c.state,
        'catalog_version', c.catalog_version,
        'published_t', greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log)),
        'oldest_log_t', l.truncated_t)
    FROM psp.cluster c, psp.log_start l
"""

_SP_SQL = """
    SELECT status || jsonb_build_object(
        'age_s', extract(epoch FROM clock_timestamp() - updated_at),
        'watermark', (SELECT watermark FROM psp.watermark),
        'catalog_version', (SELECT catalog_version FROM psp.identity))
    FROM psp.daemon_status
"""


def gather(cluster: LocalCluster) -> dict[str, Any]:
    """Everything that `psp cluster status --json` prints. A part that is down is told, not raised."""
    sps = [_sp_status(cluster, sp) for sp in cluster.sps]
    closed = [sp["closed_t"] for sp in sps if sp["closed_t"] is not None]
    primary = _primary_status(cluster)
    return {
        "name": cluster.state.name,
        "directory": str(cluster.state.directory),
        "primary": {**primary, "closed_t": max(closed, default=primary["published_t"])},
        "sps": sps,
    }


def _primary_status(cluster: LocalCluster) -> dict[str, Any]:
    status: dict[str, Any] = {
        "dsn": cluster.primary_dsn,
        "daemon_pid": cluster.pid(PRIMARY, "daemon"),
        "postgres_pid": cluster.pid(PRIMARY, "postgres"),
        "epoch": None,
        "database_state": None,
        "catalog_version": None,
        "published_t": None,
        "oldest_log_t": None,
        "losses": None,
    }
    if status["postgres_pid"] is not None:
        status |= _query(cluster.primary_dsn, _PRIMARY_SQL) or {}
        status["losses"] = _query(cluster.primary_dsn, losses.SQL)
    status["state"] = _process_state(status)
    return status


def _process_state(status: dict[str, Any]) -> str:
    if status["postgres_pid"] is None:
        return "postgres down"
    return "running" if status["daemon_pid"] is not None else "daemon down"


def _sp_status(cluster: LocalCluster, sp: SpNode) -> dict[str, Any]:
    node = cluster.state.node(sp.name)
    status: dict[str, Any] = {
        "name": sp.name,
        "zone": sp.zone,
        "zone_rtt_ms": sp.rtt_ms,
        "dsn": sp.dsn,
        "port": str(node.pg_port),
        "daemon_pid": cluster.pid(sp.name, "daemon"),
        "postgres_pid": cluster.pid(sp.name, "postgres"),
        "relay_pid": cluster.pid(sp.name, "relay") if node.relay_port else None,
        **dict.fromkeys(_SP_FIELDS),
    }
    if status["postgres_pid"] is not None and node.adopted:
        status |= _query(sp.admin_dsn, _SP_SQL) or {}
    if not node.adopted:
        status["state"] = "plain" if status["postgres_pid"] is not None else "postgres down"
    elif _process_state(status) != "running":
        status["state"] = _process_state(status)
    elif status["state"] == "stopped":  # the last word of the daemon before this one
        status["state"] = "starting"
    elif status["age_s"] is None or status["age_s"] > STATUS_AGE_MAX_S:
        status["state"] = "silent"
    elif node.relay_port and status["relay_pid"] is None:
        status["state"] = "link cut"
    return status


_SP_FIELDS = (
    "state", "watermark", "closed_t", "lag_transactions", "lag_ms", "commits_total", "aborts_total",
    "commits_per_s", "aborts_per_s", "rtt_ms", "epoch", "waiting", "join_rows_done", "join_rows_total",
    "catalog_version", "last_error", "age_s",
    "losses_per_s", "losses_total", "reserved",
)  # fmt: skip


def _query(dsn: str, statement: str) -> dict[str, Any] | None:
    """One JSON value, or None where the server does not answer or knows nothing yet."""
    try:
        with psycopg.connect(dsn, connect_timeout=2, row_factory=scalar_row) as connection:
            value: dict[str, Any] | None = connection.execute(statement).fetchone()
            return value
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None


def render(status: dict[str, Any]) -> Group:
    """The same for people."""
    primary = status["primary"]
    line = (
        f"cluster {status['name']}   primary: {primary['state']}"
        f" (daemon pid {primary['daemon_pid'] or '-'}, epoch {primary['epoch']},"
        f" closed_t {primary['closed_t']}, catalog version {primary['catalog_version']})"
    )
    parts: list[Text | Table] = [Text(line), _sp_table(status["sps"])]
    failed = [sp for sp in status["sps"] if sp["last_error"]]
    parts += [Text(f"{sp['name']}: {sp['last_error']}", style="red") for sp in failed]
    return Group(*parts, *losses.tables(primary["losses"]))


def _sp_table(sps: list[dict[str, Any]]) -> Table:
    columns = (
        "SP", "state", "water-\nmark", "lag\ntx", "lag\nms", "commits\nper s", "aborts\nper s", "rtt\nms",
        "cata-\nlog", "port",
    )  # fmt: skip
    rows = [
        (
            sp["name"], sp["state"], sp["watermark"], sp["lag_transactions"],
            sp["lag_ms"], sp["commits_per_s"], sp["aborts_per_s"], sp["rtt_ms"],
            sp["catalog_version"], sp["port"],
        )
        for sp in sps
    ]  # fmt: skip
    return table(None, columns, rows)
