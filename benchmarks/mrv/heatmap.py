"""The thesis's heat maps (figures 27 to 38): clients by rows that they share, the ratio of MRV to plain."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.colors import LogNorm

METRICS = ("throughput", "aborts", "response_time")
LEAST, MOST = 1 / 32, 32


def draw(grid: Sequence[Mapping[str, Any]], path: Path, size: str, size_label: str) -> None:
    """A line for each isolation level and form, a column for each metric. `size`: the key of the y axis."""
    isolations = list(dict.fromkeys(found["isolation"] for found in grid))
    lines = [(isolation, form) for isolation in isolations for form in grid[0]["ratios"]]
    figure, axes = pyplot.subplots(len(lines), len(METRICS), figsize=(12, 3.2 * len(lines)), squeeze=False)
    for (isolation, form), line in zip(lines, axes, strict=True):
        points = [found for found in grid if found["isolation"] == isolation]
        for metric, axis in zip(METRICS, line, strict=True):
            axis.set_title(f"{metric.replace('_', ' ')}, {form}, {isolation}", fontsize=9)
            axis.set(xlabel="clients", ylabel=size_label)
            _map(axis, points, size, form, metric)
    delay_ms = grid[0]["commit_delay_ms"]
    figure.suptitle(
        f"MRV over plain; commit delay {delay_ms:g} ms; an empty field: the plain table had no aborts"
    )
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _map(axis: Axes, points: Sequence[Mapping[str, Any]], size: str, form: str, metric: str) -> None:
    clients = sorted({found["clients"] for found in points})
    sizes = sorted({found[size] for found in points})
    ratios = {(found[size], found["clients"]): found["ratios"][form][metric] for found in points}
    values = [[_shown(ratios.get((each, count))) for count in clients] for each in sizes]
    # Green is better: more throughput, fewer aborts, shorter response times.
    colours = "RdYlGn" if metric == "throughput" else "RdYlGn_r"
    axis.imshow(values, cmap=colours, norm=LogNorm(LEAST, MOST, clip=True), origin="lower", aspect="auto")
    axis.set_xticks(range(len(clients)), [str(count) for count in clients])
    axis.set_yticks(range(len(sizes)), [str(each) for each in sizes])
    for y, each in enumerate(sizes):
        for x, count in enumerate(clients):
            ratio = ratios.get((each, count))
            axis.text(x, y, "" if ratio is None else f"{ratio:.2f}", ha="center", va="center")


def _shown(ratio: float | None) -> float:
    return float("nan") if ratio is None else max(ratio, LEAST)
