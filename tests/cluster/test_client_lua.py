"""The Lua client library at a real cluster: client_lua.lua's checks, in both modes."""

import subprocess
from pathlib import Path

from psp.cluster.local import LocalCluster
from psycopg.conninfo import conninfo_to_dict

SCRIPT = Path(__file__).with_name("client_lua.lua")
TESTS = ("commit", "abort", "read_only", "commit_async", "conflict", "run_tries_again", "run_gives_up")


def test_library(items_cluster: LocalCluster) -> None:
    found = conninfo_to_dict(items_cluster.sps[1].dsn)
    names = {"host": "host", "port": "port", "user": "user", "dbname": "db"}
    options = [f"--pgsql-{option}={found[name]}" for name, option in names.items()]
    command = [
        "sysbench",
        str(SCRIPT),
        "--db-driver=pgsql",
        *options,
        f"--mode={items_cluster.state.mode}",
        "check",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line for line in done.stdout.splitlines() if line.startswith("passed")} == {
        f"passed: {name}" for name in TESTS
    }
