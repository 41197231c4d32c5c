"""Which roles a schema change names: a server that joins runs it, and must have them (join.py).

What names roles stands at a statement's begin or end, so no parser is needed. A text that is not understood
names none: then the semi-primary stops at the statement, and says which role is missing.
"""

from __future__ import annotations

import re

_UNREAD = re.compile(
    r"--[^\n\r]*|/\*.*?\*/|\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$([A-Za-z_]\w*)?\$.*?\$\1\$", re.DOTALL
)
"""Comments and literals. (A group that took no part matches nothing.)"""
_UNTAGGED = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_NAME = r'(?:"(?:[^"]|"")+"|[^\W\d][\w$]*)'
_LIST = rf"((?:group\s+)?{_NAME}(?:\s*,\s*(?:group\s+)?{_NAME})*)"
_END = rf"\s*(?:with\s+grant\s+option\s*)?(?:granted\s+by\s+{_NAME}\s*)?(?:cascade|restrict)?\s*$"
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"^grant\b.*\bto\s+{_LIST}{_END}",
        rf"^revoke\b.*\bfrom\s+{_LIST}{_END}",
        rf"^alter\s+default\s+privileges\b.*?\bfor\s+(?:role|user)\s+{_LIST}\s+(?:in|grant|revoke)\b",
        rf"^alter\s+default\s+privileges\b.*\b(?:to|from)\s+{_LIST}{_END}",
        rf"^alter\b(?!.*\brename\s+(?:column\s+)?owner\b).*\bowner\s+to\s+({_NAME})",
        rf"^create\s+schema\b.*?\bauthorization\s+({_NAME})",
        rf"^create\s+policy\b.*?\bto\s+{_LIST}\s*(?:$|using\b|with\b)",
        rf"^alter\s+policy\b(?!.*\brename\b).*?\bto\s+{_LIST}\s*(?:$|using\b|with\b)",
        rf"^(?:create|alter|drop)\s+user\s+mapping\b.*\bfor\s+({_NAME})\s+server\b",
        rf"^drop\s+owned\s+by\s+{_LIST}{_END}",
    )
]
_NO_ROLES = {"public", "current_user", "current_role", "session_user", "user"}


def roles_named(text: str) -> set[str]:
    """By a text of one or several statements."""
    bare = _UNREAD.sub(" ", _UNTAGGED.sub(" ", text))
    found: set[str] = set()
    for statement in bare.split(";"):
        for pattern in _PATTERNS:
            if match := pattern.search(statement.strip()):
                found.update(_names(match[1]))
    return found


def _names(text: str) -> set[str]:
    names = set()
    for name in re.findall(_NAME, re.sub(r"(?i)\bgroup\s+(?=\S)", "", text)):
        if name.startswith('"'):
            names.add(name[1:-1].replace('""', '"'))
        elif name.lower() not in _NO_ROLES:
            names.add(name.lower())
    return names
