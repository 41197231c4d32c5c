"""What stands in the way of a command, and how a command ends that cannot do what it was asked for.

Every rule of a command is checked before it gives up, so that people see all problems at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal

import psycopg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from psp.output import PspError, console, error_console, fail, print_json, table

Severity = Literal["error", "warning", "note"]

_COLORS: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True)
class Problem:
    """An error makes the command impossible or wrong; a warning is something that will behave otherwise than
    before; a note is worth knowing.
    """

    severity: Severity
    object: str
    problem: str
    hint: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def has_errors(problems: Iterable[Problem]) -> bool:
    """Warnings and notes stand in nobody's way."""
    return any(problem.severity == "error" for problem in problems)


def sort(problems: Iterable[Problem]) -> list[Problem]:
    """Errors first, then warnings."""
    return sorted(problems, key=lambda p: list(_COLORS).index(p.severity))


def _grouped(problems: Iterable[Problem]) -> Iterator[Problem]:
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for number, p in enumerate(problems):
        key = (p.problem, p.hint) if p.severity == "note" else (str(number),)
        groups.setdefault(key, []).append(p)
    for first, *others in groups.values():
        names = [first.object, *(p.object for p in others)]
        more = len(names) - NAMES_SHOWN
        label = ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        yield replace(first, object=label)


class RefusedError(PspError):
    """The command has changed nothing; `problems`, each of them once, say why."""

    def __init__(self, what: str, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        errors = sum(problem.severity == "error" for problem in self.problems)
        super().__init__(f"{what}: {errors} error{'s' * (errors != 1)}; nothing has changed")


NAMES_SHOWN = 3
"""Of the objects that share a note."""


def problem_table(problems: Iterable[Problem]) -> Table:
    """A table of them; notes that say the same of several objects are one row."""
    shown = table(None, ("severity", "object", "problem", "hint"), [])
    for p in _grouped(problems):
        shown.add_row(Text(p.severity, _COLORS[p.severity]), Text(p.object), Text(p.problem), Text(p.hint))
    return shown


def print_problems(problems: Iterable[Problem], to: Console = console) -> None:
    """As a table."""
    to.print(problem_table(problems))


@contextmanager
def errors_shown(json: bool = False) -> Iterator[None]:
    """Ends the command with code 1 and a message for errors that people can act on; 130: Ctrl-C.

    A bug keeps its traceback. The problems of a RefusedError are shown, too: as one document on stdout with
    `json`, else as a table on stderr.
    """
    try:
        yield
    except KeyboardInterrupt:  # what was begun has been taken back on the way here
        fail("interrupted", code=130)
    except RefusedError as error:
        if json:
            print_json({"error": str(error), "problems": [problem.as_dict() for problem in error.problems]})
        else:
            print_problems(error.problems, error_console)
        fail(str(error), error.hint)
    except PspError as error:
        fail(str(error).strip(), error.hint)
    except (psycopg.Error, OSError) as error:
        fail(str(error).strip(), _hint(error))


def _hint(error: Exception) -> str | None:
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # libpq could not read the DSN
        return 'a connection string looks like "host=db port=5432 dbname=shop user=me"'
    return None
