"""The configurations of the daemons of a local cluster, and the roles of its databases."""

from psp.cluster.state import ClusterState, NodeState
from psp.servers.pgserver import PgServer

APP_ROLE = "app"
"""The application's role. It owns the tables and is no superuser."""

PRIMARY_ROLE = "psp_primary"
SP_ROLE = "psp_semi_primary"
"""The daemons log in as these roles: daemon_role.sql of sql/primary/install and sql/semi_primary/install."""

PRIMARY = "primary"
PRIMARY_DATABASE = "psp"


def primary_config(state: ClusterState, server: PgServer) -> dict[str, object]:
    """The configuration of the primary's daemon."""
    return {
        "database": server.socket_dsn(PRIMARY_DATABASE, PRIMARY_ROLE),
        "listen": f"tcp://127.0.0.1:{state.node(PRIMARY).daemon_port}",
        **_metrics(state.node(PRIMARY)),
        **state.primary_options,
    }


def sp_config(state: ClusterState, node: NodeState, server: PgServer) -> dict[str, object]:
    """The configuration of an SP's daemon."""
    port = node.relay_port or state.node(PRIMARY).daemon_port
    return {
        "name": node.name,
        "database": server.socket_dsn(state.database, SP_ROLE),
        "primary": f"tcp://127.0.0.1:{port}",
        **_commits(state, node),
        **_metrics(node),
        **state.sp_options,
    }


def _metrics(node: NodeState) -> dict[str, object]:
    return {"metrics_listen": f"127.0.0.1:{node.metrics_port}"} if node.metrics_port else {}


def _commits(state: ClusterState, node: NodeState) -> dict[str, object]:
    """Where commits arrive: from PostgreSQL's hook, or from clients."""
    if state.mode == "views":
        return {"mode": "views", "client_listen": f"tcp://127.0.0.1:{node.client_port}"}
    return {"hook_listen": f"unix:{state.socket_dir}/.s.PGSQL.{node.daemon_port}"}
