"""Where quoted text begins and ends in lines of SQL: the body of a function may look like a dump."""

from __future__ import annotations

import re

_BEGIN = re.compile(
    rb"""--.*|(?P<block>/\*)|(?P<escaped>(?<!\w)[eE]')|(?P<text>')|(?P<name>")"""
    rb"""|(?<![\w$\x80-\xff])(?P<dollar>\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$)""",
    re.DOTALL,
)
_ENDS = {
    "block": re.compile(rb"\*/"),
    "escaped": re.compile(rb"\\.|'", re.DOTALL),
    "text": re.compile(rb"'"),
    "name": re.compile(rb'"'),
}


class Quoting:
    """Takes the lines of a file in their order. (Two quotes for one end a text, and begin the next.)"""

    def __init__(self) -> None:
        self._end: re.Pattern[bytes] | None = None

    @property
    def is_open(self) -> bool:
        """The next line begins inside of quoted text, or of a comment in /* */."""
        return self._end is not None

    def read(self, line: bytes) -> None:
        at = 0
        while True:
            found = (self._end or _BEGIN).search(line, at)
            if found is None:
                return
            at = found.end()
            if self._end is not None and found[0][:1] == b"\\":
                continue
            kind = None if self._end is not None else found.lastgroup
            self._end = None
            if kind == "dollar":
                self._end = re.compile(re.escape(found["dollar"]))
            elif kind is not None:
                self._end = _ENDS[kind]
