"""The golden vectors of write-sets (writeset/vectors.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "writeset" / "vectors.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text())


def script() -> str:
    """The tables, and the rows that they have at adoption."""
    return "\n".join(VECTORS["schema"])


def cases() -> list[Any]:
    found: list[Any] = VECTORS["transactions"]
    return found
