"""A view with what follows from it, as JSON has it: `psp top --json` and the console."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from psp.watch.advice import advice
from psp.watch.headline import headline
from psp.watch.model import View


def as_dict(view: View) -> dict[str, Any]:
    """The JSON form: the view, whether everybody can write, and what to do."""
    return {
        **view.as_dict(),
        "headline": asdict(headline(view)),
        "advice": [asdict(one) for one in advice(view)],
    }
