"""What psp-semi-primary says of settings for TLS that do not fit together: the file, the line and the key."""

import subprocess
from pathlib import Path

import pytest
from psp import paths
from psp.cluster import daemons

from tests.cluster.elsewhere.clusters import make_certificates


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    """All that is needed, but no database is there."""
    make_certificates(tmp_path, "127.0.0.1")
    return {
        "name": "one",
        "database": "host=/nowhere",
        "primary": "tcp://127.0.0.1:1",
        "hook_listen": "tls://0.0.0.0:5640",
        "hook_certificate_file": str(tmp_path / "daemon.crt"),
        "hook_key_file": str(tmp_path / "daemon.key"),
        "hook_root_certificate": "/etc/root.crt",
        "hook_endpoint": "daemon.example:5640",
    }


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hook_listen", "192.0.2.1:5640", "for a database on another host tls://ADDRESS:PORT"),
        ("hook_listen", "tls://daemon.example:5640", "is no address"),
        ("hook_certificate_file", "/nowhere.crt", "No such file"),
        ("hook_key_file", "/nowhere.key", "No such file"),
        ("hook_key_file", "root.key", "key values mismatch"),
        ("hook_endpoint", "0.0.0.0:5640", "nobody can connect to 0.0.0.0"),
        ("hook_endpoint", None, "nobody can connect to 0.0.0.0"),
        ("hook_root_certificate", None, "is required with hook_listen: tls://"),
        ("hook_root_certificate", "root.crt", "must be a whole path"),
    ],
)
def test_it_is_refused(
    config: dict[str, object], tmp_path: Path, key: str, value: str | None, said: str
) -> None:
    if value is None:
        del config[key]
    elif key == "hook_key_file" and not value.startswith("/"):
        config[key] = str(tmp_path / value)
    else:
        config[key] = value
    file = tmp_path / "config.yaml"
    daemons.write_config(file, config)
    ended = subprocess.run(
        [str(paths.binary(daemons.SP_BINARY)), "--config", str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    place = f":{list(config).index(key) + 1}" if value is not None else ""
    assert f"config.yaml{place}: {key}: " in ended.stderr
    assert said in ended.stderr


def test_without_tls_they_have_no_meaning(config: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    daemons.write_config(file, {**config, "hook_listen": "127.0.0.1:5640"})
    ended = subprocess.run(
        [str(paths.binary(daemons.SP_BINARY)), "--config", str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "has a meaning only with hook_listen: tls://" in ended.stderr
