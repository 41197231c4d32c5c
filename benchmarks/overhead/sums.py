"""What the rounds of one system add up to. Pure."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.tpcc.runner import LoadError


@dataclass
class Sum:
    """Add rounds, then read what they come to."""

    transactions: int = 0
    seconds: float = 0.0
    aborts: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)
    p50_ms: list[float] = field(default_factory=list)
    p95_ms: list[float] = field(default_factory=list)
    commit_p50_ms: list[float | None] = field(default_factory=list)
    round_tps: list[float] = field(default_factory=list)

    def add(self, report: dict[str, Any], cpu_s: dict[str, float]) -> None:
        """One round."""
        if report["errors"]:
            raise LoadError(f"{report['errors']} transactions failed: {report['errors_by_sqlstate']}")
        self.transactions += report["transactions"]
        self.seconds += report["duration_s"]
        self.aborts += report["aborts"]
        for part, seconds in cpu_s.items():
            self.cpu_s[part] = self.cpu_s.get(part, 0.0) + seconds
        self.p50_ms.append(report["p50_ms"])
        self.p95_ms.append(report["p95_ms"])
        self.commit_p50_ms.append(report["commit_p50_ms"])
        self.round_tps.append(report["tps"])

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds

    def cpu_ms_per_transaction(self) -> dict[str, float]:
        """For each part."""
        return {part: 1000 * seconds / self.transactions for part, seconds in self.cpu_s.items()}
