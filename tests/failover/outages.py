"""How long each semi-primary was without commits, as a table and as results/failover.json."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cluster.support import SERIALIZATION_FAILURE
from tests.failover.load import DEADLOCK, UNIQUE_VIOLATION, Notes

CONFLICTS = {SERIALIZATION_FAILURE, DEADLOCK, UNIQUE_VIOLATION}
"""Two clients wanted the same."""


@dataclass(frozen=True)
class Outage:
    """One fault. `without_commits_s`: at each semi-primary, the longest time between two commits."""

    fault: str
    seed: int
    without_commits_s: dict[str, float]
    new_leader_s: float | None  # from the fault until another node leads and its psp-primary is ready
    commits: int
    errors: dict[str, int]  # SQLSTATE and number, since the fault


def measure(fault: str, seed: int, notes: Notes, struck: float, led: float | None) -> Outage:
    """Of what the clients were told; `struck`, `led`: when."""
    sps = sorted({told.sp for told in notes.told})
    later = [told for told in notes.told if told.ended >= struck and told.outcome != "committed"]
    return Outage(
        fault, seed, {sp: round(_longest_pause(notes, sp, struck), 2) for sp in sps},
        None if led is None else round(led - struck, 2), len(notes.rows("committed")),
        dict(Counter(f"{told.sqlstate}" for told in later)),
    )  # fmt: skip


def _longest_pause(notes: Notes, sp: str, struck: float) -> float:
    ends = [told.ended for told in notes.commits(sp)]
    pauses = [after - before for before, after in pairwise(ends) if after > struck]
    return max(pauses, default=float("nan"))


def show(outages: Sequence[Outage]) -> str:
    """A row for each fault."""
    sps = sorted(outages[0].without_commits_s)
    lines = ["", f"{'seconds without commits at':<30}" + "".join(f"{sp:>10}" for sp in sps) + "   errors"]
    for outage in outages:
        cells = "".join(f"{outage.without_commits_s[sp]:>10.1f}" for sp in sps)
        errors = {state: n for state, n in outage.errors.items() if state not in CONFLICTS}
        lines.append(f"{outage.fault:<30}{cells}   {errors or ''}")
    return "\n".join(lines)


def write(outages: Sequence[Outage], folder: Path) -> None:
    """The seeds that were run take the place of what was measured of them before."""
    path = folder / "failover.json"
    before: list[dict[str, Any]] = json.loads(path.read_text())["outages"] if path.exists() else []
    seeds = {outage.seed for outage in outages}
    kept = [outage for outage in before if outage["seed"] not in seeds]
    folder.mkdir(parents=True, exist_ok=True)
    new = [vars(outage) for outage in outages]
    path.write_text(json.dumps({"outages": [*kept, *new]}, indent=2) + "\n")
