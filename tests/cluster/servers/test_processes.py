"""Our processes are found by their marks and ended, and nobody else's ever is."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from psp.output import PspError
from psp.servers import processes
from psp.servers.processes import ProcessName

READY_THEN_WAIT = "import signal; print('ready', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY_THEN_WAIT


@pytest.fixture
def name(tmp_path: Path) -> Iterator[ProcessName]:
    name = ProcessName(tmp_path / uuid.uuid4().hex, "node", "daemon")
    yield name
    processes.end(name, force=True)


def start(name: ProcessName, log: Path, code: str, timeout_s: float = 20) -> int:
    return processes.start(name, [sys.executable, "-c", code], log, timeout_s)


def test_a_process_is_found_by_its_mark_and_ended(name: ProcessName, tmp_path: Path) -> None:
    pid = start(name, tmp_path / "log", READY_THEN_WAIT)
    assert processes.find(name) == pid
    assert processes.find_all(name.cluster_dir) == {name: pid}
    assert processes.end(name)
    assert processes.find(name) is None
    assert not processes.end(name)


def test_a_process_that_ignores_sigterm_is_killed(name: ProcessName, tmp_path: Path) -> None:
    start(name, tmp_path / "log", DEAF)
    assert processes.end(name, timeout_s=0.2)
    assert processes.find(name) is None


def test_a_process_that_ends_at_once_is_reported_with_its_log(name: ProcessName, tmp_path: Path) -> None:
    with pytest.raises(PspError, match=r"exit code 2(.|\n)*no such key"):
        start(name, tmp_path / "log", "import sys; sys.stderr.write('no such key'); sys.exit(2)")


def test_a_process_that_is_never_ready_is_ended(name: ProcessName, tmp_path: Path) -> None:
    with pytest.raises(PspError, match="not ready within"):
        start(name, tmp_path / "log", "import signal; signal.pause()", timeout_s=0.5)
    assert processes.find(name) is None


def test_a_second_start_is_refused(name: ProcessName, tmp_path: Path) -> None:
    start(name, tmp_path / "log", READY_THEN_WAIT)
    with pytest.raises(PspError, match="running already"):
        start(name, tmp_path / "log", READY_THEN_WAIT)


def test_processes_without_the_mark_are_not_ours(name: ProcessName, tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", READY_THEN_WAIT, str(name.cluster_dir)])
    try:
        start(name, tmp_path / "log", READY_THEN_WAIT)
        processes.end(name)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
