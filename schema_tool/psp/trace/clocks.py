"""How far the clocks of two servers are apart, as far as messages between them tell.

A message arrives after it was sent. So a request that the primary has received at P, by its own clock, and
that a semi-primary has sent at S, says: the primary's clock is at most P - S ahead. Its answer bounds the
other side. This holds for each transaction, and the narrowest bounds of all of them count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """By how many seconds a clock is ahead of another one: between the two."""

    least: float = -math.inf
    most: float = math.inf

    @property
    def is_known(self) -> bool:
        """Whether both sides are bounded."""
        return math.isfinite(self.least) and math.isfinite(self.most)

    @property
    def middle(self) -> float:
        """The best guess: 0, clocks that agree, unless the bounds tell otherwise."""
        return (self.least + self.most) / 2 if self.is_known else min(max(0.0, self.least), self.most)

    @property
    def uncertainty(self) -> float:
        """By how much the middle may be wrong."""
        return (self.most - self.least) / 2 if self.is_known else math.inf

    def plus(self, other: Bounds) -> Bounds:
        """A clock ahead of another one, which is ahead of a third one."""
        return Bounds(self.least + other.least, self.most + other.most)

    def reversed(self) -> Bounds:
        """The other clock's, ahead of this one."""
        return Bounds(-self.most, -self.least)


def narrowest(bounds: Iterable[Bounds]) -> Bounds | None:
    """What all of them say together; None: they cannot all be true, so a clock was set meanwhile."""
    result = Bounds()
    for one in bounds:
        result = Bounds(max(result.least, one.least), min(result.most, one.most))
    return result if result.least <= result.most else None
