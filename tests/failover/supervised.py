"""What systemd does for psp-primary: Restart=always, RestartSec=1."""

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from psp.servers.processes import READY_LINE

from tests.failover import programs

RESTART_S = 1.0


class Supervised:
    """A daemon that is started again whenever it ends, until it is stopped. Any thread may use it."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._out = log.with_suffix(".out")
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name=f"supervisor of {log}", daemon=True)
        self.ends: list[int] = []  # the exit codes so far
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            process = programs.start(self._command, self._log, as_server=False, out=self._out)
            with self._lock:
                self._process = process
                if self._stop.is_set():
                    process.kill()
            self.ends.append(process.wait())
            self._stop.wait(RESTART_S)

    @property
    def pid(self) -> int | None:
        """Of the daemon, while it runs."""
        with self._lock:
            running = self._process is not None and self._process.poll() is None
            return self._process.pid if self._process is not None and running else None

    def is_ready(self) -> bool:
        """Whether the daemon that runs now has said so."""
        return self.pid is not None and READY_LINE in self._out.read_bytes().splitlines()

    def kill(self) -> None:
        """SIGKILL; it is started again."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """SIGKILL, and it stays away."""
        self._stop.set()
        self.kill()
        self._thread.join(10)
        assert not self._thread.is_alive(), f"{self._command[0]} survives SIGKILL"
