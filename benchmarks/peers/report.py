"""What people see of the measurements: tables, and a plot of the cut."""

from pathlib import Path
from typing import Any

import matplotlib
from psp.output import console, table

matplotlib.use("Agg")
from matplotlib import pyplot

FORM_COLUMNS = ("system, statements", "zone", "tps", "p50 ms", "p95 ms", "p99 ms", "aborts", "%")
CPU_COLUMNS = ("system, statements", "tps", "CPU ms of all servers for a transaction", "of these")
CUT_COLUMNS = ("system", "zone", "tps before", "cut off", "after", "s without commits", "works again after s")


def show(result: dict[str, Any]) -> None:
    """Prints everything but the single seconds."""
    forms, cut = result["forms"], result["cut"]
    zone_lines = [
        (name, zone["zone"], f"{zone['tps']:.1f}", f"{zone['p50_ms']:.0f}", f"{zone['p95_ms']:.0f}",
         f"{zone['p99_ms']:.0f}", zone["aborts"], f"{100 * zone['abort_rate']:.1f}")
        for name, form in forms.items()
        for zone in form["zones"]
    ]  # fmt: skip
    for name, about in result["systems"].items():
        console.print(f"{name}: {about}", markup=False)
    console.print(table("TPC-C in each zone", FORM_COLUMNS, zone_lines))
    cpu_lines = [_cpu_line(name, form) for name, form in forms.items()]
    console.print(table("All zones", CPU_COLUMNS, cpu_lines))
    cut_lines = [
        (system, _cut_zone(zone), f"{zone['tps_before']:.1f}",
         f"{zone['tps_cut']:.1f}", f"{zone['tps_after']:.1f}", zone["seconds_without_commits"],
         _seconds(zone["works_again_s"]))
        for system, found in cut["systems"].items()
        for zone in found["zones"]
    ]  # fmt: skip
    console.print(table(f"{cut['zone']} is cut off for {cut['cut_s']} s", CUT_COLUMNS, cut_lines))
    target_lines = [
        (name, f"{found['measured']:.2f}", f"{found['kind']} {found['target']}", found["holds"])
        for name, found in result["targets"].items()
    ]
    console.print(table("Targets", ("name", "measured", "target", "holds"), target_lines))
    for line in result["wrong"] or ["All rows are right."]:
        console.print(line, markup=False)


def _cpu_line(name: str, form: dict[str, Any]) -> tuple[str, ...]:
    cpu_ms = dict(form["cpu_ms_per_transaction"])
    total = cpu_ms.pop("all")
    parts = ", ".join(f"{part} {spent:.2f}" for part, spent in cpu_ms.items())
    return (name, f"{form['tps']:.1f}", f"{total:.2f}", parts)


def _cut_zone(zone: dict[str, Any]) -> str:
    return f"{zone['zone']} (cut off)" if zone["cut_off"] else str(zone["zone"])


def _seconds(value: int | None) -> str:
    return "never" if value is None else str(value)


def plot(result: dict[str, Any], path: Path) -> None:
    """The throughput of each second: a picture for each system, a line for each zone."""
    cut = result["cut"]
    figure, all_axes = pyplot.subplots(len(cut["systems"]), 1, sharex=True, squeeze=False, figsize=(9, 6))
    for axes, (system, found) in zip(all_axes[:, 0], cut["systems"].items(), strict=True):
        axes.axvspan(cut["before_s"], cut["before_s"] + cut["cut_s"], color="0.9")
        for zone in found["zones"]:
            axes.plot(zone["by_second"], label=_cut_zone(zone))
        axes.set_title(system)
        axes.set_ylabel("transactions / s")
        axes.legend(loc="upper right")
    all_axes[-1, 0].set_xlabel("seconds")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
