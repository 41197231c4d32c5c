"""etcd and Patroni, as `make test-failover` has fetched them, and how a node's programs are started."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psp.output import PspError
from psp.servers.pgserver import server_account

FETCHED = Path(os.environ.get("FAILOVER_PROGRAMS", "build/failover"))


@dataclass(frozen=True)
class Programs:
    """Copies: PostgreSQL's account may not reach the build folder."""

    etcd: Path
    patroni: Path  # a folder of packages for this Python, whose program that account reaches

    @classmethod
    def copied_to(cls, folder: Path) -> "Programs":
        """PspError if there is nothing to copy."""
        etcd, patroni = FETCHED / "usr" / "bin" / "etcd", FETCHED / "patroni"
        for needed in (etcd, patroni):
            if not needed.exists():
                raise PspError(f"{needed} is not there", "make test-failover fetches it")
        folder.mkdir()
        folder.chmod(0o755)
        shutil.copy(etcd, folder / "etcd")
        shutil.copytree(patroni, folder / "patroni")
        return cls(folder / "etcd", folder / "patroni")

    def patroni_command(self, config: Path) -> list[str]:
        return [str(Path(sys.executable).resolve()), "-m", "patroni", str(config)]

    def patroni_environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self.patroni), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def start(
    command: Sequence[str], log: Path, *, as_server: bool, environment: Mapping[str, str] | None = None,
    out: Path | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """In a session of its own. It ends with the thread that starts it, so that a killed test leaves nothing.

    `as_server`: by the account that PostgreSQL runs as. What it prints goes to `log`, or its stdout to `out`.
    """
    with log.open("ab") as errors, (out or log).open("wb" if out else "ab") as output:
        return subprocess.Popen(
            ["setpriv", *_account(as_server), "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd="/",
            env=dict(environment or os.environ), start_new_session=True,
        )  # fmt: skip


def _account(as_server: bool) -> list[str]:
    account = server_account() if as_server else None
    if account is None:
        return []
    return [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def children(pid: int) -> list[int]:
    """The processes that this one has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == pid:
                found.append(int(entry.name))
    return found


def send(pids: Sequence[int], number: signal.Signals) -> None:
    """To those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
