"""A view with what follows from it, as JSON has it: `psp top --json` and the console."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from psp.watch.advice import advice
from psp.watch.commit_parts import cause
from psp.watch.headline import headline
from psp.watch.model import View
from psp.watch.remedies import remedy_parts


def as_dict(view: View) -> dict[str, Any]:
    """The JSON form: the view, whether everybody can write, and what to do."""
    told = view.as_dict()
    for zone, shown in zip(view.zones, told["zones"], strict=True):
        shown["commit_cause"] = cause(zone)
    for key, shown in zip(view.hot_keys, told["hot_keys"], strict=True):
        shown["remedy_text"], shown["remedy_command"] = remedy_parts(key, view)
    return {
        **told,
        "headline": asdict(headline(view)),
        "advice": [asdict(one) for one in advice(view)],
    }
