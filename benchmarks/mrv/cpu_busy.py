"""How busy the machine's processors are, everybody's work counted."""

from pathlib import Path


def read() -> tuple[float, float]:
    """Ticks since the start of the machine: (busy, all)."""
    # user nice system idle iowait irq softirq steal; guests are part of user.
    ticks = [float(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def share(before: tuple[float, float], after: tuple[float, float]) -> float:
    """0 to 1, of all processors together."""
    elapsed = after[1] - before[1]
    return (after[0] - before[0]) / elapsed if elapsed else 0.0
