"""What benchmarks write, and the targets in it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).resolve().parents[1] / "results"


def write_json(result: Mapping[str, Any], path: Path) -> None:
    """The whole result. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")


@dataclass(frozen=True)
class Target:
    """What something measured has to be."""

    limit: float
    kind: Literal["at most", "at least"]

    def holds(self, measured: float) -> bool:
        """Whether it is."""
        return measured <= self.limit if self.kind == "at most" else measured >= self.limit

    def against(self, measured: float) -> dict[str, Any]:
        """What a result has of it."""
        return {
            "measured": measured,
            "target": self.limit,
            "kind": self.kind,
            "holds": self.holds(measured),
        }
