"""The Lua client library at a real cluster: the checks of checks.lua, in both modes."""

import subprocess
from pathlib import Path

from psp.cluster.local import LocalCluster

from tests.cluster.libraries.served import sysbench

SCRIPT = Path(__file__).with_name("checks.lua")
TESTS = (
    "commit", "abort", "read_only",
    "read_only_transaction", "commit_async", "conflict", "run_tries_again", "run_gives_up",
    "run_in_run", "begin_fails",
)  # fmt: skip


def test_library(items_cluster: LocalCluster) -> None:
    command = sysbench(items_cluster.sps[1], SCRIPT, f"--mode={items_cluster.state.mode}", "check")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line for line in done.stdout.splitlines() if line.startswith("passed")} == {
        f"passed: {name}" for name in TESTS
    }
