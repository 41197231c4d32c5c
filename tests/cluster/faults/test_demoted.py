"""The primary's PostgreSQL becomes a standby under a psp-primary that serves it."""

import psycopg
from psp.cluster.configs import PRIMARY
from psp.cluster.local import Options
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, adopted_pair, execute, settle

SCHEMA = "CREATE TABLE item (id int PRIMARY KEY)"


def test_a_daemon_ends_where_its_server_has_become_a_standby() -> None:
    """The next one waits there; once the server is promoted it serves."""
    with adopted_pair([SCHEMA], Options(pg_settings={"shared_buffers": "32MB"})) as cluster:
        north, _ = cluster.sps
        server = cluster.server(PRIMARY)
        server.stop("immediate")
        (server.data_dir / "standby.signal").touch()
        server.start()
        wait_until("psp-primary to end", lambda: not cluster.is_running(PRIMARY, "daemon"), WAIT_S)
        with psycopg.connect(cluster.primary_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        settle(cluster)
        execute(north, "INSERT INTO item VALUES (1)")
        settle(cluster)
