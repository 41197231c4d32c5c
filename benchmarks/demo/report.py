"""What the demonstration shows: a table, results/demo.json and a plot."""

from pathlib import Path
from typing import Any

import matplotlib
from psp.output import console, table
from rich.text import Text

matplotlib.use("Agg")
from matplotlib import pyplot

COLUMNS = ("zone", "trip", "system", "tps", "p50 ms", "p95 ms", "aborts", "commit", "+ms")
SYSTEMS = {"postgres": "PostgreSQL", "views": "psp (views)", "psp": "psp"}


def show(result: dict[str, Any]) -> None:
    """Prints the table, the ratios and the verdicts."""
    rows = [
        _row(zone, system, _name(result, system)) for zone in result["zones"] for system in _systems(result)
    ]
    console.print(table("TPC-C in each zone; PostgreSQL stands at the primary's place", COLUMNS, rows))
    for line in _legend(result):
        console.print(f"[dim]{line}[/]")
    for zone in result["zones"]:
        postgres = zone["postgres"]
        for system in result["throughput_ratios"]:
            console.print(
                f"{zone['name']}, {_name(result, system)}: {_times(zone[system]['tps'], postgres['tps'])} the"
                f" throughput, p50 {_times(postgres['p50_ms'], zone[system]['p50_ms'])} shorter"
            )
    for system, ratio in result["throughput_ratios"].items():
        console.print(
            f"All zones, {_name(result, system)}: [bold]{_times(ratio, 1)}[/]"
            " the throughput of one far PostgreSQL"
        )
    found = [name for verification in result["verification"].values() for name in verification["differing"]]
    differing = ", ".join(found) or "the streams did not drain"
    _verdict(
        result["consistent"], "The primary and all zones hold the same rows.", f"Rows differ: {differing}"
    )
    _verdict(
        result["conditions_hold"],
        "TPC-C's consistency conditions hold in every zone.",
        f"Conditions violated: {result['violated_conditions']}",
    )
    if result["errors"]:
        console.print(
            Text(f"{result['errors']} transactions ended with an error: see errors_by_sqlstate", "yellow")
        )


def _legend(result: dict[str, Any]) -> list[str]:
    """What the columns are, under which isolation each system ran, and what captured rows."""
    isolation = result["load"]["isolation"]
    return [
        "trip: the zone's round trip to the primary; tps: committed transactions in a second",
        "aborts: lost to another transaction on the same row; each was run again, within its p50 and p95",
        "commit: p50 of COMMIT alone, in ms; +ms: what it takes over the round trip",
        "; ".join(f"{_name(result, system)}: {isolation[system]}" for system in _systems(result)),
        *(f"{_name(result, system)}: rows captured by {what}" for system, what in result["capture"].items()),
    ]


def _name(result: dict[str, Any], system: str) -> str:
    """What psp's usual mode is called where the other one stands beside it, too."""
    return "psp (native)" if system == "psp" and "views" in _systems(result) else SYSTEMS[system]


def _times(a: float | None, b: float | None) -> str:
    return f"{a / b:.1f} times" if a and b else "? times"  # nothing was committed: too short a load


def _systems(result: dict[str, Any]) -> list[str]:
    return [name for name in SYSTEMS if name in result["zones"][0]]


def _factors(result: dict[str, Any]) -> str:
    return ", ".join(
        f"{_name(result, name)} {_times(ratio, 1)}" for name, ratio in result["throughput_ratios"].items()
    )


def _row(zone: dict[str, Any], system: str, name: str) -> tuple[object, ...]:
    measured = zone[system]
    commit_ms, rtt_ms = measured["commit_p50_ms"], zone["rtt_ms"]
    return (
        zone["name"],
        f"{rtt_ms:g} ms",
        name,
        float(measured["tps"]),
        _rounded(measured["p50_ms"]),
        _rounded(measured["p95_ms"]),
        measured["aborts"],
        None if commit_ms is None else float(commit_ms),
        None if commit_ms is None else f"{commit_ms - rtt_ms:+.1f}",
    )


def _rounded(value_ms: float | None) -> int | None:
    return None if value_ms is None else round(value_ms)


def _verdict(good: bool, yes: str, no: str) -> None:
    console.print(Text(yes, "green") if good else Text(no, "bold red"))


def plot(result: dict[str, Any], path: Path) -> None:
    """Throughput and response time for each zone, side by side."""
    zones = result["zones"]
    labels = [f"{zone['name']}\n{zone['rtt_ms']:g} ms" for zone in zones]
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4))
    panels = (
        ("tps", "transactions/s"),
        ("p50_ms", "response time p50, ms"),
        ("p95_ms", "response time p95, ms"),
    )
    for axis, (field, title) in zip(axes, panels, strict=True):
        systems = _systems(result)
        width = 0.76 / len(systems)
        for i, system in enumerate(systems):
            places = [place + (i - (len(systems) - 1) / 2) * width for place in range(len(zones))]
            bars = axis.bar(
                places,
                [zone[system][field] or 0 for zone in zones],
                width * 0.95,
                label="one far PostgreSQL" if system == "postgres" else _name(result, system),
            )
            axis.bar_label(bars, fmt="%.0f", fontsize=8)
        axis.set_title(title)
        axis.set_xticks(range(len(zones)), labels)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.suptitle(f"TPC-C, throughput of one far PostgreSQL: {_factors(result)}")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
