"""`psp doctor`: reads, judges, and tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from psp.doctor.points import EXIT_CODES, Finding, Verdict, worst
from psp.doctor.read import read_cluster
from psp.doctor.rules import judge
from psp.output import Json, console, print_json, table
from psp.problems import Problem, print_problems, sort

_SHOWN: dict[Verdict, tuple[str, str]] = {
    "fine": ("fine", "green"),
    "unknown": ("not seen", "yellow"),
    "look": ("look at this", "yellow"),
    "wrong": ("wrong", "bold red"),
}


def doctor(
    dsns: Annotated[
        list[str],
        typer.Argument(
            metavar="DSN...", help="The primary's database and those of the semi-primaries, as a superuser."
        ),
    ],
    json: Json = False,
    notes: Annotated[bool, typer.Option("--notes", help="Also tell what is only worth knowing.")] = False,
) -> None:
    """Looks at a cluster for all that the documentation asks an operator to check.

    Changes nothing. Ends with code 0 if all is fine, 1 if there is something to look at, 2 if something
    is wrong.

    [bold]Example[/]

        psp doctor "host=primary dbname=psp" "host=db dbname=shop" \\
            "host=db2 dbname=shop"
    """
    findings = judge(read_cluster(dsns))
    if json:
        print_json({"verdict": worst(findings), "points": [finding.as_dict() for finding in findings]})
    else:
        _show(findings, notes)
    raise typer.Exit(EXIT_CODES[worst(findings)])


def _show(findings: Sequence[Finding], notes: bool) -> None:
    console.print(_overview(findings))
    problems = _with_pages(findings, notes)
    if problems:
        console.print()
        print_problems(problems)
    hidden = sum(problem.severity == "note" for finding in findings for problem in finding.problems)
    if hidden and not notes:
        console.print(f"\n{hidden} more worth knowing: --notes")


def _overview(findings: Sequence[Finding]) -> Table:
    shown = table(None, ("verdict", "point", "page"), [])
    shown.columns[2].overflow = "fold"
    for finding in findings:
        text, style = _SHOWN[finding.verdict]
        shown.add_row(Text(text, style), Text(finding.point), Text(finding.page, "dim"))
    return shown


def _with_pages(findings: Sequence[Finding], notes: bool) -> list[Problem]:
    return sort(
        replace(problem, hint=f"{problem.hint} ({finding.page})".strip())
        for finding in findings
        for problem in finding.problems
        if notes or problem.severity != "note"
    )
