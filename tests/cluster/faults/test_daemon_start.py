"""Daemons that start before their PostgreSQL, and databases with settings that are not psp's."""

import threading

import psycopg
import pytest
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.output import PspError
from psp.paths import server_version
from psp.servers.processes import ProcessName
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, connect, execute, start_second, wait_for_row, wait_streaming

# Each of these would end or spoil what psp does, if its sessions took them over.
SPOILT = {
    "lock_timeout": "1ms",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "repeatable read",
    "bytea_output": "escape",
    "statement_timeout": "1ms",  # from the first statement on
    "idle_session_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
}
if server_version() >= 17:
    SPOILT["transaction_timeout"] = "1ms"
MENDED = "-c default_transaction_read_only=off" + "".join(
    f" -c {setting}=0" for setting in SPOILT if setting.endswith("_timeout")
)


@pytest.mark.parametrize("name", [PRIMARY, "sp1"])
def test_a_daemon_waits_for_its_postgresql(cluster: LocalCluster, name: str) -> None:
    cluster.stop(name)
    starter = threading.Thread(target=cluster.start, args=(name, "daemon"))
    starter.start()  # until the daemon is ready
    wait_until("the daemon", lambda: cluster.is_running(name, "daemon"), WAIT_S)
    assert starter.is_alive()
    cluster.start(name, "postgres")
    starter.join(WAIT_S)
    assert not starter.is_alive()
    wait_streaming(cluster)
    execute(cluster.sps[0], "INSERT INTO counter VALUES (%s)", (f"waited for {name}",))


def test_a_wrong_database_is_final(cluster: LocalCluster, second_daemon: ProcessName) -> None:
    config = cluster.sp_config("sp1")
    config = {**config, "database": str(config["database"]).replace("dbname=app", "dbname=nowhere")}
    with pytest.raises(PspError, match=r"exit code 2(.|\n)*nowhere"):
        start_second(cluster, second_daemon, config)


def set_all(dsn: str, *, spoilt: bool) -> None:
    with psycopg.connect(dsn, autocommit=True, options=MENDED) as admin:
        row = admin.execute("SELECT format('%I', current_database())").fetchone()
        assert row is not None
        for setting, value in SPOILT.items():
            change = (
                f"SET {setting} = '{value}'" if setting != "search_path" else f"SET search_path = {value}"
            )
            admin.execute(f"ALTER DATABASE {row[0]} {change if spoilt else f'RESET {setting}'}".encode())


def test_settings_of_the_database_do_not_reach_the_daemons(cluster: LocalCluster) -> None:
    sp, other = cluster.sps[:2]
    dsns = [sp.admin_dsn, cluster.primary_dsn]
    try:
        for dsn in dsns:
            set_all(dsn, spoilt=True)
        for name in (PRIMARY, sp.name):
            cluster.stop(name, "daemon")
            cluster.start(name, "daemon")
        execute(other, "INSERT INTO account VALUES (70, 'from elsewhere', NULL)")
        with connect(sp, options=MENDED, autocommit=True) as connection:
            wait_until(
                "the row from elsewhere",
                lambda: connection.execute("SELECT FROM account WHERE id = 70").fetchall(),
                WAIT_S,
            )
            connection.execute("INSERT INTO account VALUES (71, 'from here', NULL)")
        wait_for_row(other, "SELECT 1 FROM account WHERE id = 71")
    finally:
        for dsn in dsns:
            set_all(dsn, spoilt=False)
        for name in (PRIMARY, sp.name):
            cluster.stop(name, "daemon")
        cluster.resume()
    wait_streaming(cluster)
