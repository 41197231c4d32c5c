"""Reads what the logs of daemons tell of single transactions; every other line is passed over.

Both formats have the same fields (`log_format`). What stands before a line, such as the journal's own time
and host, is passed over, too.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

COMMIT_RECEIVED = "commit_received"
COMMIT_SENT = "commit_sent"
COMMIT_ANSWERED = "commit_answered"
REQUEST_RECEIVED = "request_received"
REQUEST_PARKED = "request_parked"
REQUEST_REFUSED = "request_refused"
BATCH_SENT = "batch_sent"
DECIDED = "decided"
OUTCOME_TOLD = "outcome_told"
APPLIED = "applied"
EVENTS = frozenset((
    COMMIT_RECEIVED, COMMIT_SENT, COMMIT_ANSWERED, REQUEST_RECEIVED, REQUEST_PARKED, REQUEST_REFUSED,
    BATCH_SENT, DECIDED, OUTCOME_TOLD, APPLIED,
))  # fmt: skip

_TEXT = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}[+-]\d{4}) psp-[a-z-]+ [a-z]+: "
    r"(?P<event>[a-z_]+) (?P<fields>.*)"
)
_FIELD = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?: |$)')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""What a terminal would obey."""
_JSON_BEGINS = '{"time":'


@dataclass(frozen=True)
class Event:
    """One line of a log that tells of a transaction."""

    file: str
    time: datetime  # by the clock of the daemon's server
    name: str
    tx: str
    fields: dict[str, str]

    def number(self, field: str) -> float | None:
        """None if the line does not have it, or has no number there."""
        try:
            return float(self.fields[field])
        except (KeyError, ValueError):
            return None


def events(file: str, lines: Iterable[str]) -> Iterator[Event]:
    """In the order of the lines."""
    for line in lines:
        if "tx" in line and (event := parse(file, line)):
            yield event


def parse(file: str, line: str) -> Event | None:
    """The event that a line tells of; None: of none, or it is broken."""
    line = line.rstrip("\r\n")
    begins = line.find(_JSON_BEGINS)
    text = None if begins >= 0 else _TEXT.search(line)
    if begins >= 0:
        fields, time = _json_fields(line[begins:])
        name = fields.pop("event", "")
    elif text:
        fields, time = _text_fields(text["fields"]), text["time"]
        name = text["event"]
    else:
        return None
    moment, tx = _moment(time), _canonical(fields.pop("tx", ""))
    if moment is None or tx is None or name not in EVENTS:
        return None
    return Event(
        file, moment, name, tx, {key: _CONTROL.sub("\ufffd", value) for key, value in fields.items()}
    )


def _json_fields(text: str) -> tuple[dict[str, str], str]:
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        return {}, ""
    if not isinstance(members, dict):
        return {}, ""
    fields = {name: str(value) for name, value in members.items() if isinstance(value, str | int | float)}
    return fields, fields.pop("time", "")


def _text_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(text):
        field = _FIELD.match(text, position)
        if not field:
            return {}
        value = field[2]
        try:
            fields[field[1]] = str(json.loads(value)) if value.startswith('"') else value
        except ValueError:
            return {}
        position = field.end()
    return fields


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _canonical(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
