"""What a point of `psp doctor` is: a question, the page that tells more, and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from psp.doctor.facts import Facts
from psp.problems import Problem, has_errors, sort

Verdict = Literal["fine", "unknown", "look", "wrong"]
EXIT_CODES: dict[Verdict, int] = {"fine": 0, "unknown": 1, "look": 1, "wrong": 2}
"""Of the command, as monitoring tools have them."""


@dataclass(frozen=True)
class Point:
    """A rule: pure, over facts."""

    name: str
    page: str
    find: Callable[[Facts], Iterable[Problem]]
    of: Callable[[Facts], Sequence[object]]  # the servers that it judges

    def judge(self, facts: Facts) -> Finding:
        return Finding(self.name, self.page, sort(self.find(facts)), is_seen=bool(self.of(facts)))


@dataclass(frozen=True)
class Finding:
    """What a rule found."""

    point: str
    page: str
    problems: Sequence[Problem]
    is_seen: bool = True

    @property
    def verdict(self) -> Verdict:
        """An error is wrong, a warning to be looked at, and a note is only worth knowing.

        Unknown: no server could be read that could have told.
        """
        if has_errors(self.problems):
            return "wrong"
        if any(problem.severity == "warning" for problem in self.problems):
            return "look"
        return "fine" if self.is_seen else "unknown"

    def as_dict(self) -> dict[str, Any]:
        return {
            "point": self.point,
            "verdict": self.verdict,
            "page": self.page,
            "problems": [problem.as_dict() for problem in self.problems],
        }


def worst(findings: Iterable[Finding]) -> Verdict:
    """Of all of them."""
    return max((finding.verdict for finding in findings), key=list(EXIT_CODES).index, default="fine")
