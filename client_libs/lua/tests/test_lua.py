# SPDX-License-Identifier: PostgreSQL
"""The Lua library's own tests run where the library runs: in sysbench."""

import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["messages", "requests"])
def test_library(name: str) -> None:
    script = Path(__file__).with_name(f"{name}.lua")
    done = subprocess.run(
        ["sysbench", str(script), "check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "all is well" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
