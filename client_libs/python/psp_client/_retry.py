# SPDX-License-Identifier: PostgreSQL
"""The pauses between attempts: exponential, with full jitter, bounded."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """How `run` tries again. attempts: at most, the first included; times in seconds."""

    attempts: int = 100
    first_s: float = 0.002
    longest_s: float = 0.25

    def pause_s(self, failures: int) -> float:
        """The pause after so many failures (from 1): anything up to a bound that doubles each time."""
        return random.uniform(0, min(self.longest_s, self.first_s * 2 ** min(failures, 30)))
