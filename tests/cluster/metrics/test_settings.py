"""What is no address, or has another program, is refused as metrics_listen: with file, line and key."""

import socket
import subprocess
from pathlib import Path

import pytest
from psp import paths
from psp.cluster import daemons
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster

CONFIGS: dict[str, dict[str, object]] = {
    daemons.PRIMARY_BINARY: {"database": "host=/nowhere", "listen": "tcp://127.0.0.1:1"},
    daemons.SP_BINARY: {
        "name": "one",
        "database": "host=/nowhere",
        "primary": "tcp://127.0.0.1:1",
        "hook_listen": "127.0.0.1:5640",
    },
    daemons.MRV_BINARY: {"database": "host=/nowhere"},
}


def run(binary: str, file: Path, config: dict[str, object]) -> subprocess.CompletedProcess[str]:
    daemons.write_config(file, config)
    command = [str(paths.binary(binary)), "--config", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("binary", list(CONFIGS))
@pytest.mark.parametrize("value", ["9610", "localhost:9610", "127.0.0.1:0", "tcp://127.0.0.1:9610", "*:9610"])
def test_it_is_refused(tmp_path: Path, binary: str, value: str) -> None:
    config = {**CONFIGS[binary], "metrics_listen": value}
    ended = run(binary, tmp_path / "config.yaml", config)
    assert ended.returncode == 2
    assert f"config.yaml:{len(config)}: metrics_listen: '{value}' is not ADDRESS:PORT" in ended.stderr


def test_the_address_is_taken(cluster: LocalCluster, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster.stop(PRIMARY, "daemon")
        address = f"127.0.0.1:{other.getsockname()[1]}"
        config = {**cluster.primary_config(), "metrics_listen": address}
        ended = run(daemons.PRIMARY_BINARY, tmp_path / "config.yaml", config)
    assert ended.returncode == 2
    assert f"metrics_listen: cannot listen on {address}: Address already in use" in ended.stderr
