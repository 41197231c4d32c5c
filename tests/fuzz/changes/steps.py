"""What the fuzzer of schema changes sends: steps of sessions, and how their texts are spelled."""

from dataclasses import dataclass
from random import Random
from typing import Literal

Role = Literal["app", "ann", "ben", "cid"]
CHANGERS: tuple[Role, ...] = ("app", "ann", "ben")
"""May call psp.ddl. `app` owns the schemas and is a member of all; `cid` only owns objects."""

ROLES: tuple[Role, ...] = (*CHANGERS, "cid")
HERE, THERE = "here", "Over there"
SCHEMAS = (HERE, THERE)
COLUMNS = "a int, b text, at timestamptz, d date"
LONG = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n)"
"""12,800 bytes that PostgreSQL cannot compress: no index takes them."""


@dataclass(frozen=True)
class Step:
    """Messages of one session, one after the other. An error rolls back and ends the step.

    `open`: its transaction goes on in the next step of the same session.
    """

    sp: int
    role: Role
    messages: tuple[str, ...]
    open: bool = False
    session: int = 0

    def __str__(self) -> str:
        label = f"-- at sp{self.sp + 1} as {self.role}" + (
            f", session {self.session}" if self.session else ""
        )
        return "\n".join((label, *self.messages))


@dataclass(frozen=True)
class Name:
    """An identifier, and how it may be written."""

    text: str

    @property
    def quoted(self) -> str:
        return '"' + self.text.replace('"', '""') + '"'

    def spelled(self, random: Random) -> str:
        ways = [self.quoted] * 3
        if self.text in BARE:
            ways += [self.text, self.text.upper()]
        if '"' not in self.text:
            first = f"\\{ord(self.text[0]):04x}"
            ways.append(f'U&"{first}{self.text[1:]}"')
        return random.choice(ways)


BARE = ("box", "event", "system", "role", "value", "temp_1", "data", "ü")
ODD = (
    "Odd Name",
    "select",
    "table",
    'a"b',
    "semi;colon",
    "--dash",
    "/*",
    "it's",
    "$1",
    "x.y",
    "user",
    "C:\\dir",
    "concurrently",
)
NAMES = tuple(Name(text) for text in (*BARE, *ODD))
COMMENTS = (
    "/* ; */",
    "/* it's */",
    "-- one's\n",
    "/* a /* nested */ one */",
    "/**/",
    "-- ;\n",
    "/* $$ */",
    "\n\t",
)


def commented(random: Random, text: str) -> str:
    """A comment, or a space, at each ~."""
    parts = text.split("~")
    gaps = [random.choice(COMMENTS) if random.random() < 0.15 else " " for _ in parts[1:]]
    return parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))


def dollar_quoted(text: str) -> str:
    return f"$psp${text}$psp$"


@dataclass(frozen=True)
class Table:
    """A table that was made, or should have been: columns id, a, b, at and d."""

    name: Name
    schema: str
    owner: Role

    @property
    def sql(self) -> str:
        return f'"{self.schema}".{self.name.quoted}'
