"""A hot key's remedy, as psp.conflicts has it, in a sentence and the command to type: pure."""

from __future__ import annotations

import re
import shlex

from psp.watch.model import HotKey, View

_WITH_COMMAND = re.compile(
    r"(?P<text>.*): (?P<command>psp mrv create .+ DSN)(?P<page> \(docs/[^)]+\))?", re.DOTALL
)


def remedy_parts(key: HotKey, view: View) -> tuple[str, str | None]:
    """The sentence, and the command, which names a semi-primary where one was asked."""
    remedy = key.remedy or ""
    found = _WITH_COMMAND.fullmatch(remedy)
    text, command = (found["text"] + (found["page"] or ""), found["command"]) if found else (remedy, None)
    asked = next((server.conninfo for server in view.servers if server.kind == "semi-primary"), None)
    if command is not None and asked is not None:
        dsn = f" {shlex.quote(asked)}"
        command = re.sub(r" DSN(?=; psp mrv create |$)", lambda _: dsn, command)
    return text[:1].upper() + text[1:], command
