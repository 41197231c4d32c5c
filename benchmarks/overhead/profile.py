"""Where the time goes: perf over the client backends of one server while a load runs."""

import subprocess
import tempfile
from pathlib import Path

from psp.waiting import wait_until

from benchmarks.overhead import cpu
from benchmarks.tpcc.runner import Client, Load, LoadError

SAMPLES_PER_S = 199
CALLERS = "dwarf,16384"  # Debian's PostgreSQL has no frame pointers
LINES = 120
START_TIMEOUT_S = 10


def profile(dsn: str, load: Load, postmaster: int, output: Path) -> None:
    """Runs the load once more and writes perf's report (functions by their own time) to `output`."""
    idle = set(cpu.children(postmaster))
    with tempfile.TemporaryDirectory(prefix="psp-perf-") as folder, Client(dsn, load) as client:
        data = Path(folder) / "perf.data"

        def backends() -> list[int] | None:
            found = sorted(set(cpu.children(postmaster)) - idle)
            return found if len(found) >= load.threads else None

        pids = ",".join(str(pid) for pid in wait_until("the backends", backends, START_TIMEOUT_S))
        _perf("record", "-q", "-F", str(SAMPLES_PER_S), "--call-graph", CALLERS, "-p", pids, "-o", str(data))
        client.report()
        flat = _perf("report", "--stdio", "--no-children", "-g", "none", "-i", str(data))
        nested = _perf("report", "--stdio", "--children", "-g", "none", "-i", str(data))
    head = [*flat.splitlines()[:LINES], "", "Including what they call:", *nested.splitlines()[:LINES]]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(head) + "\n")


def _perf(*arguments: str) -> str:
    try:
        done = subprocess.run(["perf", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LoadError("perf is not installed (Debian: apt-get install linux-perf)") from None
    if done.returncode != 0:
        raise LoadError(f"perf {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
