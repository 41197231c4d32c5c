"""The Lua library's own tests run where the library runs: in sysbench."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).with_name("messages.lua")


def test_messages() -> None:
    done = subprocess.run(
        ["sysbench", str(SCRIPT), "check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "all is well" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
