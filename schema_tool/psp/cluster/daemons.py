"""The daemons and relays of a local cluster: their configuration files, their start, their end."""

import json
from collections.abc import Mapping
from pathlib import Path

from psp import paths
from psp.servers import processes
from psp.servers.processes import ProcessName

READY_TIMEOUT_S = 30
DAEMON = "daemon"
RELAY = "relay"
MRV = "mrv"

PRIMARY_BINARY = "psp-primary"
SP_BINARY = "psp-semi-primary"
RELAY_BINARY = "psp-georelay"
MRV_BINARY = "psp-mrv"


def write_config(path: Path, options: Mapping[str, object]) -> None:
    """A flat YAML file; every scalar in JSON's notation, which YAML shares."""
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items()))


def start_daemon(cluster_dir: Path, node: str, binary: str, options: Mapping[str, object]) -> None:
    """Writes the daemon's configuration and starts it; returns when it says that it is ready."""
    folder = cluster_dir / node
    config = folder / f"{binary}.yaml"
    write_config(config, options)
    command = [str(paths.binary(binary)), "--config", str(config)]
    processes.start(daemon_name(cluster_dir, node), command, folder / f"{binary}.log", READY_TIMEOUT_S)


def start_relay(
    cluster_dir: Path, node: str, listen_port: int, target_port: int, one_way_ms: float, mbit: int = 0
) -> None:
    """Starts the relay that keeps each direction `one_way_ms` late, and with `mbit` also narrow."""
    command = [
        str(paths.binary(RELAY_BINARY)),
        "--listen", f"127.0.0.1:{listen_port}",
        "--target", f"127.0.0.1:{target_port}",
        "--one-way-ms", f"{one_way_ms:g}",
    ]  # fmt: skip
    if mbit:
        command += ["--mbit", str(mbit)]
    log = cluster_dir / node / f"{RELAY_BINARY}.log"
    processes.start(relay_name(cluster_dir, node), command, log, READY_TIMEOUT_S)


def start_mrv(cluster_dir: Path, node: str, options: Mapping[str, object]) -> None:
    """Starts a psp-mrv beside a node."""
    folder = cluster_dir / node
    config = folder / f"{MRV_BINARY}.yaml"
    write_config(config, options)
    command = [str(paths.binary(MRV_BINARY)), "--config", str(config)]
    processes.start(mrv_name(cluster_dir, node), command, folder / f"{MRV_BINARY}.log", READY_TIMEOUT_S)


def mrv_name(cluster_dir: Path, node: str) -> ProcessName:
    """The mark of the psp-mrv beside a node."""
    return ProcessName(cluster_dir, node, MRV)


def daemon_name(cluster_dir: Path, node: str) -> ProcessName:
    """The mark of a node's daemon."""
    return ProcessName(cluster_dir, node, DAEMON)


def relay_name(cluster_dir: Path, node: str) -> ProcessName:
    """The mark of the relay on a node's way to the primary."""
    return ProcessName(cluster_dir, node, RELAY)
