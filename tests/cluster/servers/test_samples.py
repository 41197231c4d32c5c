"""The sample configurations in deploy/local are the daemons' own."""

import subprocess

import pytest
from psp import paths
from psp.cluster import daemons


@pytest.mark.parametrize("binary", [daemons.PRIMARY_BINARY, daemons.SP_BINARY, daemons.MRV_BINARY])
def test_the_sample_is_what_the_daemon_prints(binary: str) -> None:
    """Remedy: `DAEMON --print-sample-config > deploy/local/DAEMON.yaml`."""
    printed = subprocess.run(
        [str(paths.binary(binary)), "--print-sample-config"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert (paths.home() / "deploy" / "local" / f"{binary}.yaml").read_text() == printed.stdout
