"""The points of the microbenchmark, and its targets. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.mrv.comparison import target

SUB = "sub"  # the fast function
HOT_CLIENTS = 32


@dataclass(frozen=True)
class Point:
    """Where on the grid: what is done, with how many clients, products and records of each value."""

    work: str
    isolation: str
    clients: int
    items: int
    records: int
    commit_delay_ms: float


def targets(
    grid: Sequence[Mapping[str, Any]], cold: Sequence[Mapping[str, Any]], read_64: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Hot is one product and 32 clients, if the grid has that point. Cold values whose commits wait have a
    target of their own, since a commit that takes next to no time shows the processor's work alone.
    """
    result = {}
    for found in grid:
        if (found["clients"], found["items"]) == (HOT_CLIENTS, 1):
            result[f"hot_item_{found['isolation'].replace(' ', '_')}"] = target(found, 10)
    for found in cold:
        name = "cold_ratio_commits_wait" if found["commit_delay_ms"] else "cold_ratio"
        result[name] = target(found, 0.95)
    result["read_ratio_64"] = target(read_64, 0.75)
    return result
